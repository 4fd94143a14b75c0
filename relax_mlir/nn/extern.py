"""Calls of external functions: registered by name, or from object and source files."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm_ffi
from tvm_ffi import libinfo

from relax_mlir.errors import CompileError
from relax_mlir.nn.tensor import Tensor, wrap_nested
from relax_mlir.objects import prim
from relax_mlir.objects.expr import Expr, PrimValue, StringImm, Tuple
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.runtime.registry import register_func
from relax_mlir.tvm.relax import op

__all__ = [
    "ExternModule",
    "ObjectModule",
    "SourceModule",
    "call_extern",
    "extern_value",
]

_FLAGS = ("-c", "-O3", "-std=c++17", "-fPIC")


def extern_value(value: Any, float_type: str = "float64") -> Expr:
    """A tensor, number, string or tuple of these as the argument expression of a call.

    Args:
        value: the value; integers become int64.
        float_type: the type of Python floats.

    Raises:
        TypeError: the value is of another type.
    """
    if isinstance(value, Tensor):
        return value.as_expr()
    if isinstance(value, int):
        return PrimValue(prim.IntImm("int64", value))
    if isinstance(value, float):
        return PrimValue(prim.FloatImm(float_type, value))
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, PrimExpr):
        return PrimValue(value)
    if isinstance(value, (tuple, list)):
        return Tuple([extern_value(v, float_type) for v in value])
    raise TypeError(f"Unsupported input type: {type(value)}")


def call_extern(name: str, args: Any, out: Any) -> Any:  # Any: as ``out``
    """Call a registered function in destination-passing style.

    Args:
        name: the function's name.
        args: tensors, numbers and strings.
        out: placeholders of the results: a tensor, or several.
    """
    called = op.call_dps_packed(name, extern_value(args), extern_value(out).struct_info)
    return wrap_nested(called, name)


class ExternModule:
    """External module: registered functions that a network calls, as ``module["name"](x, 2)``.

    Args:
        symbols: by function name, a function that maps arguments to placeholders of the
            results (shape inference).
    """

    def __init__(self, symbols: Mapping[str, Callable[..., Any]]) -> None:
        self.symbols = dict(symbols)

    def __getitem__(self, func_name: str) -> Callable[..., Any]:
        infer = self.symbols[func_name]

        def call(*args: Any) -> Any:
            return call_extern(func_name, args, infer(*args))

        return call

    def load(self) -> None:
        """Register the functions of a module that contains code; nothing to do here."""


class ObjectModule(ExternModule):
    """External module of an object file or a shared library.

    Args:
        symbols: shape inference by function name; see :class:`ExternModule`. The file
            exports the functions as tvm-ffi's ``TVM_FFI_DLL_EXPORT_TYPED_FUNC`` does.
        filepath: the file.

    Raises:
        ValueError: the file does not exist.
    """

    def __init__(
        self,
        symbols: Mapping[str, Callable[..., Any]],
        filepath: str | os.PathLike[str],
    ) -> None:
        self.filepath = Path(filepath)
        if not self.filepath.is_file():
            raise ValueError(f"Not a file: {self.filepath}")
        super().__init__(symbols)

    def load(self) -> None:
        """Register the functions, overriding those of the same names.

        Raises:
            CompileError: the object cannot be linked.
            ValueError: the file does not export one of the functions.
        """
        if self.filepath.suffix != ".o":
            self._register(self.filepath)
            return
        with tempfile.TemporaryDirectory() as folder:
            self._register(_linked(self.filepath, Path(folder), "c++"))

    def _register(self, library: Path) -> None:
        _register(library, self.symbols)


class SourceModule(ExternModule):
    """External module of C++ source code.

    Args:
        symbols: shape inference by function name; see :class:`ExternModule`. The source
            exports the functions with tvm-ffi's ``TVM_FFI_DLL_EXPORT_TYPED_FUNC``.
        source_code: the source, or its file.
        source_format: ``cpp``.
        compile_options: compiler flags; by default those of :meth:`get_compile_options`.
        compiler: the compiler; ``c++`` by default.
        output_format: ``obj``.

    Raises:
        ValueError: a format is not supported, or the file does not exist.
    """

    def __init__(
        self,
        symbols: Mapping[str, Callable[..., Any]],
        source_code: str | Path,
        source_format: str,
        compile_options: Sequence[str] | None = None,
        compiler: str | None = None,
        output_format: str = "obj",
    ) -> None:
        if output_format != "obj":
            raise ValueError(f"Invalid output format: {output_format}: expected `obj`")
        known = self.get_compile_options(source_format)
        self.compile_options = known if compile_options is None else [*compile_options]
        self.compiler = compiler or "c++"
        self.source_code = _source(source_code)
        super().__init__(symbols)

    @staticmethod
    def get_includes(tvm_pkg: Sequence[str] | None = None) -> list[Path]:
        """Include folders: those of tvm-ffi.

        Args:
            tvm_pkg: ignored, as no other packages are bundled.
        """
        found = (libinfo.find_include_path(), libinfo.find_dlpack_include_path())
        return list(dict.fromkeys(map(Path, found)))

    @staticmethod
    def get_compile_options(
        source_format: str, tvm_pkg: Sequence[str] | None = None
    ) -> list[str]:
        """The default compiler flags.

        Raises:
            ValueError: the format is not supported.
        """
        if source_format != "cpp":
            raise ValueError(f"Invalid source format: {source_format}: expected `cpp`")
        includes = SourceModule.get_includes(tvm_pkg)
        return [*(f"-I{folder}" for folder in includes), *_FLAGS]

    def compile(self, output_path: str | os.PathLike[str]) -> None:
        """Compile the source to an object file.

        Raises:
            CompileError: the compiler is missing, or reports errors.
        """
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "main.cpp"
            source.write_text(self.source_code, encoding="utf-8")
            options = [*self.compile_options, str(source), "-o", str(output_path)]
            _run([self.compiler, *options])

    def load(self) -> None:
        """Compile and register the functions, overriding those of the same names.

        Raises:
            CompileError: the compiler is missing, or reports errors.
            ValueError: the library does not export one of the functions.
        """
        with tempfile.TemporaryDirectory() as folder:
            compiled = Path(folder) / "main.o"
            self.compile(compiled)
            library = _linked(compiled, Path(folder), self.compiler)
            _register(library, self.symbols)


def _source(given: str | Path) -> str:
    """The source text, given itself or as a file."""
    if isinstance(given, Path):
        if not given.is_file():
            raise ValueError(f"Not a file: {given}")
        return given.read_text(encoding="utf-8")
    is_line = "\n" not in given and len(given) < 4096
    if is_line and Path(given).is_file():
        return Path(given).read_text(encoding="utf-8")
    return given


def _linked(compiled: Path, folder: Path, compiler: str) -> Path:
    library = folder / "library.so"
    _run([compiler, "-shared", str(compiled), "-o", str(library)])
    return library


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CompileError(
            f"compiler `{command[0]}` cannot be run: {error}. Install it, or pass "
            "another one as `compiler`."
        ) from error
    if done.returncode:
        raise CompileError(f"`{' '.join(command)}` failed:\n{done.stderr}")


def _register(library: Path, names: Mapping[str, object]) -> None:
    try:
        module = tvm_ffi.load_module(str(library))
    except RuntimeError as error:
        raise CompileError(f"{library}: not a library that can be loaded") from error
    for name in names:
        try:
            function = module.get_function(name)
        except AttributeError as error:
            raise ValueError(f"library exports no function `{name}`") from error
        register_func(name, function, override=True)

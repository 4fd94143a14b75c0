"""Loading of models from files: .onnx, .mlir or .rxm by suffix."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from relax_mlir.compiler.compile import compile
from relax_mlir.errors import ModelError, RelaxError
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.ir.module import IRModule
from relax_mlir.pipeline import Progress
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.loading import load
from relax_mlir.tools.arguments import flag_of

__all__ = ["CallError", "call_model", "compile_model", "open_model", "read_module"]

Shapes = Mapping[str, Sequence[int | str]]


class CallError(RelaxError):
    """A model rejects its inputs."""


def read_module(path: str, shapes: Shapes, progress: Progress) -> IRModule:
    """Read an ONNX model, or the text of a module with its file of constants.

    Raises:
        RelaxError: it cannot be read, or ``shapes`` do not match it.
        OSError: the file cannot be read.
    """
    progress("import", 0, 1)
    if Path(path).suffix == ".rxm":
        raise ModelError(f"{path}: compiled already: expected .onnx or .mlir")
    if Path(path).suffix != ".mlir":
        return import_onnx(path, shapes=shapes)
    if shapes:
        raise ModelError(f"{path}: `--shape` is for .onnx; the module has its shapes")
    module = IRModule.load(path)
    if any(f.name.value == "main" and f.is_external for f in module.func_ops()):
        raise ModelError(f"{path}: `main` is declared only: expected its body")
    return module


def open_model(
    path: str,
    *,
    progress: Progress,
    public_key: str | None = None,
    **options: Any,  # Any: those of relax_mlir.compile
) -> CompiledModel:
    """Compile a .onnx or .mlir file, or load a .rxm file.

    Args:
        path: the file; its suffix determines the format.
        progress: the progress callback of the compilation.
        public_key: the key that must have signed a .rxm.
        options: those given of :func:`relax_mlir.compile`; of a .rxm, ``threads`` replaces
            the number it was compiled for, and ``cache`` has no effect.

    Raises:
        RelaxError: it cannot be read, compiled or loaded.
        OSError: the file cannot be read.
    """
    if Path(path).suffix == ".rxm":
        threads = options.pop("threads", None)
        for option in options:
            if option != "cache":
                raise ModelError(
                    f"{path}: compiled already: `{flag_of(option)}` is for .onnx and .mlir"
                )
        return _checked(path, load(path, threads=threads, public_key=public_key))
    if public_key is not None:
        raise ModelError(f"{path}: not compiled yet: `--public-key` is for .rxm")
    is_module = Path(path).suffix == ".mlir"
    source = read_module(path, {}, progress) if is_module else path
    return compile_model(path, source, progress=progress, **options)


def compile_model(
    path: str,
    source: IRModule | str,
    **options: Any,  # Any: those of relax_mlir.compile
) -> CompiledModel:
    """Compile a module of :func:`read_module`, or an ONNX file.

    Raises:
        RelaxError: it cannot be compiled, or is not a model.
    """
    return _checked(path, compile(source, **options))


def _checked(path: str, value: object) -> CompiledModel:
    if not isinstance(value, CompiledModel):
        raise ModelError(
            f"{path}: expected a model, whose one public function is `main`, got {value!r}"
        )
    return value


def call_model(
    model: CompiledModel, inputs: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """Run a model.

    Raises:
        CallError: the inputs do not match the model's signature.
    """
    try:
        return model(*inputs)
    except (TypeError, ValueError) as error:
        raise CallError(str(error)) from error

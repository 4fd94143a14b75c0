"""A compiled model: its machine code, its weights, and what it takes and returns."""

import json
import os
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi

from relax_mlir.dialects import shapes
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.errors import RelaxError
from relax_mlir.runtime import cpu, objects

__all__ = ["Executable", "Parameter", "Signature", "load"]

_FORMAT = 1


@dataclass(frozen=True)
class Parameter:
    """An input or output: its name, element type and dimensions, symbolic ones as text."""

    name: str
    dtype: str
    shape: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(self.shape)}]"


@dataclass(frozen=True)
class Signature:
    """What a compiled model takes and returns.

    Attributes:
        symbols: names of the symbolic sizes, in the order of the sizes array.
        derived: the expressions that the shape function appends to them.
        arena: bytes of scratch memory, as an expression.
        constants: keys of the weights, in the order of the code's arguments.
    """

    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    symbols: tuple[str, ...]
    derived: tuple[str, ...]
    arena: str
    constants: tuple[str, ...]

    def __str__(self) -> str:
        inputs, outputs = (", ".join(map(str, p)) for p in (self.inputs, self.outputs))
        return f"({inputs}) -> ({outputs})"

    @staticmethod
    def from_fields(fields: Mapping[str, Any]) -> "Signature":  # Any: JSON
        """A signature from its fields, as JSON holds them."""
        roles = {
            role: tuple(
                Parameter(p["name"], p["dtype"], tuple(p["shape"]))
                for p in fields[role]
            )
            for role in ("inputs", "outputs")
        }
        lists = {k: tuple(fields[k]) for k in ("symbols", "derived", "constants")}
        return Signature(**roles, **lists, arena=fields["arena"])

    def size(self, text: str) -> tuple[int, int]:
        """How the native runtime finds a size: constant, symbol or derived."""
        dim = shapes.parse(text)
        if isinstance(dim, int):
            return cpu.STATIC, dim
        if text in self.symbols:
            return cpu.SYMBOL, self.symbols.index(text)
        return cpu.DERIVED, len(self.symbols) + self.derived.index(text)

    def native(
        self, parameters: Sequence[Parameter]
    ) -> list[tuple[str, str, list[int]]]:
        """Parameters as the native runtime takes them."""
        return [
            (p.name, p.dtype, [n for text in p.shape for n in self.size(text)])
            for p in parameters
        ]


class Executable:
    """A compiled model; call it with arrays.

    Any numpy or DLPack array goes in; a tuple of numpy arrays comes out. Threads may
    call one executable at once.

    Args:
        code: object files that define ``main`` and ``main_shapes``.
        signature: what it takes and returns.
        constants: the weights by key.
        threads: how many may work on one call.

    Raises:
        CompileError: the code cannot be loaded on this machine.
    """

    def __init__(
        self,
        code: Sequence[bytes],
        signature: Signature,
        constants: Mapping[str, np.ndarray],
        *,
        threads: int = 1,
    ) -> None:
        self.code = tuple(code)
        self.signature = signature
        self.threads = threads
        self.constants = {
            k: np.ascontiguousarray(constants[k]) for k in signature.constants
        }
        library, address = objects.load_objects(self.code, ["main", "main_shapes"])
        self._function = make_function(
            signature, self.constants, address, threads, library
        )

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return tuple(p.name for p in self.signature.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, in order."""
        return tuple(p.name for p in self.signature.outputs)

    def __getitem__(self, name: str) -> tvm_ffi.Function:
        """The tvm-ffi function ``main``: tensors in, an array of tensors out.

        Raises:
            KeyError: another name.
        """
        if name != "main":
            raise KeyError(f"executable has one function, `main`, got `{name}`")
        return self._function

    def __call__(
        self, *arrays: Any, out: Sequence[Any] | None = None, **named: Any
    ) -> tuple[np.ndarray, ...]:  # Any: whatever has DLPack
        """Run the model.

        Args:
            *arrays: inputs in order; or by name.
            out: arrays to write the outputs to, instead of new ones.

        Raises:
            TypeError: a wrong number of inputs, name, element type or device.
            ValueError: a wrong rank or size; the message names input and dimension.
        """
        if named:
            arrays = self._in_order(arrays, named)
        arguments = [as_tensor(a) for a in arrays]
        if out is not None:
            self._function(*arguments, *map(as_tensor, out))
            return tuple(out)
        return tuple(map(cpu.array_of, self._function(*arguments)))

    def _in_order(
        self, arrays: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        names = self.input_names[len(arrays) :]
        if set(names) != set(named):
            expected = ", ".join(f"`{n}`" for n in names) or "none"
            raise TypeError(
                f"`main`: expected inputs {expected} by name, got {sorted(named)}"
            )
        return (*arrays, *(named[n] for n in names))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write code and weights to one file, whole or not at all."""
        target = Path(path)
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
            try:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                    self._write(archive)
                file.flush()
                os.replace(file.name, target)
            except BaseException:
                os.unlink(file.name)
                raise

    def _write(self, archive: zipfile.ZipFile) -> None:
        names = {k: f"constants/{i}" for i, k in enumerate(self.constants)}
        manifest = {
            "format": _FORMAT,
            "signature": asdict(self.signature),
            "threads": self.threads,
            "objects": len(self.code),
            "constants": {
                k: [names[k], a.dtype.name, list(a.shape)]
                for k, a in self.constants.items()
            },
        }
        archive.writestr("manifest.json", json.dumps(manifest))
        for number, code in enumerate(self.code):
            archive.writestr(f"objects/{number}.o", code)
        for key, array in self.constants.items():
            archive.writestr(names[key], array.tobytes())


def make_function(
    signature: Signature,
    constants: Mapping[str, np.ndarray],
    address: Mapping[str, int],
    threads: int,
    library: object,
) -> tvm_ffi.Function:
    """The function of tensors around loaded code."""
    arrays = [constants[k] for k in signature.constants]
    return cpu.make_executable(
        address["main"],
        address["main_shapes"],
        "main",
        signature.native(signature.inputs),
        signature.native(signature.outputs),
        signature.symbols,
        len(signature.symbols) + len(signature.derived),
        signature.size(signature.arena),
        [a.ctypes.data for a in arrays],
        threads,
        (library, arrays),
    )


def as_tensor(array: Any) -> Any:  # Any: whatever has DLPack
    """What the native runtime takes: DLPack arrays as they are, others through numpy."""
    if isinstance(array, np.ndarray):
        if array.flags.writeable and array.dtype.kind in "fiub":
            return array
        return cpu.tensor_of(array)
    return array if hasattr(array, "__dlpack__") else cpu.tensor_of(np.asarray(array))


def load(path: str | os.PathLike[str], *, threads: int | None = None) -> Executable:
    """Read what :meth:`Executable.save` wrote.

    Raises:
        RelaxError: the file is damaged, or of another version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read("manifest.json"))
            if manifest["format"] != _FORMAT:
                raise RelaxError(
                    f"`{path}`: expected format {_FORMAT}, got {manifest['format']}"
                )
            code = [archive.read(f"objects/{i}.o") for i in range(manifest["objects"])]
            constants = {
                key: np.frombuffer(archive.read(name), dtype(kind).numpy).reshape(shape)
                for key, (name, kind, shape) in manifest["constants"].items()
            }
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise RelaxError(
            f"`{path}`: not a compiled model, or damaged: {error}"
        ) from error
    signature = Signature.from_fields(manifest["signature"])
    return Executable(
        code, signature, constants, threads=threads or manifest["threads"]
    )

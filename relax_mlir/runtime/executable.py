"""A compiled model: its machine code, its weights, and what it takes and returns."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import numpy as np
import tvm_ffi

from relax_mlir.dialects import shapes
from relax_mlir.dialects.constraints import Constraint
from relax_mlir.errors import CompileError
from relax_mlir.runtime import cpu, objects, registry
from relax_mlir.runtime.archive import Contents, opened, read_archive, write_archive
from relax_mlir.runtime.machine import Machine
from relax_mlir.runtime.ndarray import NDArray, as_numpy

__all__ = ["Executable", "Parameter", "Signature", "load"]

_MAX_THREADS = 1024


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
        constraints: what must hold of the sizes of a call, as text.
        arena: bytes of scratch memory, as an expression.
        constants: keys of the weights, in the order of the code's arguments.
    """

    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    symbols: tuple[str, ...]
    derived: tuple[str, ...]
    constraints: tuple[str, ...]
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
        names = ("symbols", "derived", "constraints", "constants")
        lists = {name: tuple(fields[name]) for name in names}
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

    def binders(self) -> list[int]:
        """Where each symbol gets its value, as the native runtime takes it.

        Raises:
            CompileError: no dimension of an input tells it.
        """
        found: dict[str, tuple[int, int, int, int]] = {}
        for number, parameter in enumerate(self.inputs):
            for axis, text in enumerate(parameter.shape):
                for symbol, factor, offset in _linear(text):
                    known = found.get(symbol)
                    if known is None or (factor, offset) == (1, 0) != known[2:]:
                        found[symbol] = (number, axis, factor, offset)
        missing = [name for name in self.symbols if name not in found]
        if missing:
            raise CompileError(
                f"`main`: size `{missing[0]}`: expected a dimension of an input to be it, or "
                f"a multiple plus a number, got {self}"
            )
        return [n for name in self.symbols for n in found[name]]

    def checks(self) -> list[int]:
        """The constraints, as the native runtime takes them."""
        numbers: list[int] = []
        for text in self.constraints:
            found = Constraint.parse(text)
            relation = cpu.EQUAL if found.relation == "==" else cpu.AT_LEAST
            lhs, rhs = self.size(str(found.lhs)), self.size(str(found.rhs))
            numbers += [*lhs, relation, *rhs]
        return numbers


def _linear(text: str) -> list[tuple[str, int, int]]:
    """``(n, 2, 1)`` of ``2*n + 1``; nothing of any other form."""
    dim = shapes.parse(text)
    names = shapes.symbols_of(dim)
    if len(names) != 1:
        return []
    factor, offset = shapes.divide(dim, shapes.symbol(names[0]))
    if not isinstance(factor, int) or not isinstance(offset, int) or factor < 1:
        return []
    return [(names[0], factor, offset)]


class Executable:
    """A compiled model; call it with arrays.

    Any numpy or DLPack array goes in; a tuple of numpy arrays comes out. Threads may
    call one executable at once.

    Code for another machine can be saved, but not called.

    Args:
        code: object files that define ``main`` and ``main_shapes``.
        signature: what it takes and returns.
        constants: the weights by key.
        machine: what the code is for.
        threads: how many may work on one call.

    Raises:
        CompileError: the code cannot be loaded, or a weight is not there.
        ValueError: ``threads`` is not a number of threads.
    """

    def __init__(
        self,
        code: Sequence[bytes],
        signature: Signature,
        constants: Mapping[str, np.ndarray],
        machine: Machine,
        *,
        threads: int = 1,
    ) -> None:
        if not 1 <= threads <= _MAX_THREADS:
            raise ValueError(f"threads: expected 1 to {_MAX_THREADS}, got {threads}")
        self.code = tuple(code)
        self.signature = signature
        self.machine = machine
        self.threads = threads
        self.constants = _needed(constants, signature.constants)
        self._obstacle = machine.obstacle()
        self._function = self._load() if self._obstacle is None else self._refuse

    def _load(self) -> tvm_ffi.Function:
        library, address = objects.load_objects(self.code, ["main", "main_shapes"])
        return make_function(
            self.signature, self.constants, address, self.threads, library
        )

    def _refuse(self, *arguments: object) -> Any:  # Any: never returns
        raise CompileError(f"`main`: {self._obstacle}")

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return tuple(p.name for p in self.signature.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, in order."""
        return tuple(p.name for p in self.signature.outputs)

    def __repr__(self) -> str:
        """What it takes and returns."""
        return f"<Executable {self.signature}>"

    def __getitem__(self, name: str) -> Callable[..., Any]:
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
            self._write(arguments, out)
            return tuple(out)
        return tuple(map(cpu.array_of, self._call(arguments)))

    def _call(self, arguments: Sequence[Any]) -> Any:  # Any: an array of tensors
        try:
            return self._function(*arguments)
        except BufferError:  # what DLPack does not know, such as strides in bytes
            return self._function(*map(_through_numpy, arguments))
        except ValueError as error:
            raise registry.with_near_misses(error) from None

    def _write(self, arguments: Sequence[Any], out: Sequence[Any]) -> None:
        """Call, and let the outputs be written to ``out``."""
        parameters = self.signature.outputs
        if len(out) != len(parameters):
            raise TypeError(
                f"`main`: expected {len(parameters)} arrays in `out`, got {len(out)}"
            )
        if all(map(_is_plain, out)):
            try:
                self._function(*arguments, *out)
                return
            except BufferError:
                pass
        checked = [
            _as_output(a, f"`main`: output {n} `{p.name}`")
            for n, (a, p) in enumerate(zip(out, parameters, strict=True))
        ]
        self._function(*map(_through_numpy, arguments), *checked)

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
        """Write code and weights to one file, whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        write_archive(path, self.contents())

    def contents(self) -> Contents:
        """What a file of it holds."""
        fields = asdict(self.signature)
        return Contents(self.code, fields, self.machine, self.constants, self.threads)

    @staticmethod
    def of_contents(
        contents: Contents, where: str, threads: int | None = None
    ) -> "Executable":
        """What a file holds.

        Raises:
            CompileError: its code is for another machine, or cannot be loaded.
        """
        obstacle = contents.machine.obstacle()
        if obstacle is not None:
            raise CompileError(f"{where}: {obstacle}")
        return Executable(
            contents.code,
            Signature.from_fields(contents.signature),
            contents.constants,
            contents.machine,
            threads=contents.threads if threads is None else threads,
        )


def _needed(
    constants: Mapping[str, np.ndarray], keys: Sequence[str]
) -> dict[str, np.ndarray]:
    missing = [f"`{key}`" for key in keys if key not in constants]
    if missing:
        names = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise CompileError(f"the module's constants lack {names}")
    return {key: np.asarray(constants[key], order="C") for key in keys}


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
        [*signature.symbols, *signature.derived],
        signature.binders(),
        signature.checks(),
        signature.size(signature.arena),
        [a.ctypes.data for a in arrays],
        threads,
        (library, arrays),
    )


def as_tensor(array: Any) -> Any:  # Any: whatever has DLPack
    """What the native runtime takes: DLPack arrays as they are, others through numpy."""
    if isinstance(array, NDArray):
        array = as_numpy(array)
    if _is_plain(array):
        return array
    if isinstance(array, np.ndarray):
        return cpu.tensor_of(array)
    return array if hasattr(array, "__dlpack__") else cpu.tensor_of(np.asarray(array))


def _is_plain(array: object) -> bool:
    """Whether it is an array that most likely crosses DLPack as it is."""
    is_array = isinstance(array, np.ndarray)
    return is_array and array.flags.writeable and array.dtype.kind in "fiub"


def _through_numpy(array: Any) -> Any:  # Any: whatever has DLPack
    found = as_numpy(array) if isinstance(array, NDArray) else array
    return cpu.tensor_of(found) if isinstance(found, np.ndarray) else found


def _as_output(array: Any, where: str) -> Any:  # Any: whatever has DLPack
    """What the native runtime writes to: the memory itself, never a copy.

    Raises:
        TypeError: it is no array.
        ValueError: it cannot be written to.
    """
    if not isinstance(array, np.ndarray):
        if hasattr(array, "__dlpack__"):
            return array
        raise TypeError(f"{where}: expected an array, got {type(array).__name__}")
    if not array.flags.writeable:
        raise ValueError(f"{where}: expected an array to write to, got a read-only one")
    if any(stride % array.itemsize for stride in array.strides):
        raise ValueError(
            f"{where}: expected strides of whole elements, got {array.strides} bytes"
        )
    return cpu.tensor_of(array)


# Modules that read files of other kinds, by the name of a member that only they have.
_LOADERS = {"vm.json": "relax_mlir.relax.vm.archive"}


def load(path: str | os.PathLike[str], *, threads: int | None = None) -> Any:
    """Read what :meth:`Executable.save` wrote, or ``export_library``.

    Args:
        path: of the file.
        threads: how many may work on one call; as many as when it was written.

    Returns:
        What was written.

    Raises:
        ModelError: the file is damaged, or of another version.
        CompileError: its code is for another machine, or cannot be loaded.
    """
    with opened(path) as archive:
        members = archive.namelist()
    for member, module in _LOADERS.items():
        if member in members:
            return import_module(module).load(path, threads)
    return Executable.of_contents(read_archive(path), str(path), threads)

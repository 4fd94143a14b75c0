"""Models parts of which are compiled, or decided, when they run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.errors import OutOfMemoryError, UnknownNameError, UnsupportedError
from relax_mlir.module import IRModule
from relax_mlir.relax.vm.executable import VMExecutable
from relax_mlir.relax.vm.host_values import to_value
from relax_mlir.runtime.executable import CompiledModel
from relax_mlir.runtime.gpu_array import GPUArray, borrowed, described
from relax_mlir.runtime.ndarray import (
    NDArray,
    cuda,
    empty,
    is_array,
    is_on_gpu,
    shared,
)
from relax_mlir.runtime.profile import Profile
from relax_mlir.runtime.signature import Parameter, Signature
from relax_mlir.size_constraints import constraints_of

__all__ = ["StagedModel", "staged_signature"]


class StagedModel(CompiledModel):
    """A compiled model parts of which are compiled when it runs; call it with arrays.

    The first call with other types, or other values that have to be known, such as axes,
    takes as long as compiling. Threads may call one model at once.

    Args:
        executable: its function ``main``, and what that calls.
        signature: what it takes and returns; of outputs, what is known before it runs.
    """

    def __init__(self, executable: VMExecutable, signature: Signature) -> None:
        self.executable = executable
        self.signature = signature
        self.threads = executable.options.threads
        self._main = executable.function("main").call

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function ``main``: arrays in, one array or a list of several out.

        Raises:
            KeyError: another name.
        """
        if name != "main":
            raise UnknownNameError(f"model has one function, `main`, got `{name}`")
        return self.executable[name]

    def __call__(
        self, *arrays: Any, out: Sequence[Any] | None = None, **named: Any
    ) -> tuple[Any, ...]:
        for name in {"stream", "graph"}.intersection(named).difference(
            self.input_names
        ):
            raise TypeError(
                f"`main`: `{name}` is for models that are one piece of machine code: parts "
                "of this one are compiled when it runs, and use the stream that all "
                "libraries share"
            )
        if named:
            arrays = self._in_order(arrays, named)
        if len(arrays) != len(self.signature.inputs):
            raise TypeError(
                f"`main`: expected {len(self.signature.inputs)} inputs, got {len(arrays)}"
            )
        try:
            return self._outputs(arrays, out)
        except OutOfMemoryError:
            raise
        except MemoryError as error:
            raise OutOfMemoryError(str(error)) from error
        except ValueError as error:
            return self._broadcast(arrays, out, error)

    def _outputs(
        self, arrays: Sequence[Any], out: Sequence[Any] | None
    ) -> tuple[Any, ...]:
        given = [
            to_value(_argument(a, p))
            for a, p in zip(arrays, self.signature.inputs, strict=True)
        ]
        made = self._main(*given)
        several = made if len(self.signature.outputs) > 1 else [made]
        if out is not None:
            self._write(several, out)
            return tuple(out)
        return tuple(_Results(_arrays_in(given)).result(value) for value in several)

    def _write(self, made: Sequence[Any], out: Sequence[Any]) -> None:
        """Write outputs to arrays of the caller, or to none of them."""
        self._check_count(out)
        targets: list[NDArray] = []
        for number, (name, value, array) in enumerate(
            zip(self.output_names, made, out, strict=True)
        ):
            where = f"`main`: output {number} `{name}`"
            target = _target(value, array, where)
            for other, earlier in enumerate(targets):
                if target.shares_memory(earlier):
                    raise ValueError(f"{where}: shares memory with output {other}")
            targets.append(target)
        # An output may be an input, into which another one is to be written.
        values = [v.copied() if any(map(v.shares_memory, targets)) else v for v in made]
        for target, value in zip(targets, values, strict=True):
            target.copyfrom(value)

    def on(self, ordinal: int) -> StagedModel:
        """The same model on another GPU of this machine.

        Raises:
            CompileError: it is compiled for the CPU.
        """
        return StagedModel(self.executable.on(cuda(ordinal)), self.signature)

    def profile(self, *arrays: Any, calls: int = 20, **named: Any) -> Profile:
        raise UnsupportedError(
            "`main`: parts of the model are compiled when it runs, and have no fixed order "
            "of kernels to measure. Hint: `relax-mlir bench` measures the model as a whole."
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        from relax_mlir.relax.vm.archive import save

        save(path, self)


class _Results:
    """Outputs as a caller may keep and change them, on the GPU if an input is there.

    Args:
        given: the inputs.
    """

    def __init__(self, given: Sequence[NDArray]) -> None:
        self._theirs = [a for a in given if isinstance(a, GPUArray)]
        self._device = self._theirs[0].device if self._theirs else None

    def result(self, value: Any) -> Any:  # Any: of a program
        """An output, in memory that no input and no other output has."""
        if isinstance(value, list):
            return list(map(self.result, value))
        if not isinstance(value, NDArray):
            return value
        if self._device is None or value.element_type.kind in "OSU":
            return value.numpy()
        made = value if value.device == self._device else None
        if made is None or any(map(value.shares_memory, self._theirs)):
            made = empty(value.shape, value.dtype, self._device).copyfrom(value)
        assert isinstance(made, GPUArray)
        self._theirs.append(made)
        return made.data


def _argument(value: Any, parameter: Parameter) -> Any:  # Any: whatever is an array
    """An input as an array; of an input that is no tensor, lists and nothing stay."""
    if is_array(value):
        return value
    if not parameter.dtype and value is None:
        return value
    is_sequence = isinstance(value, (list, tuple)) and not parameter.dtype
    if is_sequence and not any(isinstance(part, str) for part in value):
        return [_argument(part, parameter) for part in value]
    return np.asarray(value)


def _arrays_in(values: Sequence[Any]) -> list[NDArray]:
    """The arrays of values, which may be lists."""
    found: list[NDArray] = []
    for value in values:
        if isinstance(value, list):
            found += _arrays_in(value)
        elif isinstance(value, NDArray):
            found.append(value)
    return found


def _target(value: Any, array: Any, where: str) -> NDArray:  # Any: of callers
    """An array of the caller that an output can be written to.

    Raises:
        TypeError, ValueError: it cannot.
    """
    if not (isinstance(array, (np.ndarray, NDArray)) or is_on_gpu(array)):
        raise TypeError(f"{where}: expected an array, got {type(array).__name__}")
    if not isinstance(value, NDArray):
        raise TypeError(f"{where}: is no tensor, and cannot be written to an array")
    target = borrowed(array) if is_on_gpu(array) else shared(array)
    if target is None:
        raise ValueError(
            f"{where}: expected an array to write to, row after row from a multiple of 16 "
            f"bytes on, got {described(array)}"
        )
    if target.dtype != value.dtype:
        raise TypeError(f"{where}: expected dtype {value.dtype}, got {target.dtype}")
    if target.shape != value.shape:
        raise ValueError(f"{where}: expected shape {value.shape}, got {target.shape}")
    if target.is_read_only:
        raise ValueError(f"{where}: expected an array to write to, got a read-only one")
    return target


def staged_signature(module: IRModule) -> Signature | None:
    """What ``main`` takes and returns, where a model names it; None of other modules."""
    (main,) = (f for f in module.func_ops() if f.name.value == "main")
    listed = [
        [ir.StringAttr(n).value for n in ir.ArrayAttr(main.attributes[role])]
        for role in ("relax.input_names", "relax.output_names")
        if role in main.attributes
    ]
    if len(listed) != 2:
        return None
    inputs = tuple(map(_parameter, listed[0], main.type.inputs))
    outputs = tuple(map(_parameter, listed[1], main.type.results))
    told = [name for p in inputs for dim in p.shape for name in _symbols(dim)]
    constraints = tuple(map(str, constraints_of(module)))
    symbols = tuple(dict.fromkeys(told))
    return Signature(inputs, outputs, symbols, (), constraints, "0", ())


def _parameter(name: str, type_: ir.Type) -> Parameter:
    if not isinstance(type_, ir.RankedTensorType):
        return Parameter(name, "", ())
    shape = tuple(map(str, tensors.shape_of(type_)))
    return Parameter(name, tensors.dtype_of(type_).name, shape)


def _symbols(dim: str) -> Sequence[str]:
    return shapes.symbols_of(shapes.parse(dim))

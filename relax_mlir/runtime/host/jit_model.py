"""Models with JIT-compiled subgraphs, or data-dependent nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import numpy as np

from relax_mlir.errors import OutOfMemoryError, UnknownNameError, UnsupportedError
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.cuda.gpu_array import GPUArray, borrow, describe_layout
from relax_mlir.runtime.host.instructions import to_value
from relax_mlir.runtime.host.vm_executable import VMExecutable
from relax_mlir.runtime.jit_statistics import JITStatistics
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

__all__ = ["JITModel"]


class JITModel(CompiledModel):
    """A compiled model with JIT-compiled subgraphs; call it with arrays.

    A call with new element types, or new values of static inputs such as axes, compiles.
    Concurrent calls are allowed.

    Args:
        executable: the function ``main`` and its callees.
        signature: of ``main``; outputs may be unknown at compile time.
    """

    def __init__(self, executable: VMExecutable, signature: Signature) -> None:
        self.executable = executable
        self.signature = signature
        self.threads = executable.options.threads
        self._main = executable.function("main").call

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function ``main``: arrays in, one array or a list of several out.

        Raises:
            KeyError: the name is not ``main``.
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
                f"`main`: `{name}` needs a model that is compiled ahead of time as a "
                "whole: this one has JIT-compiled subgraphs, which use the default stream"
            )
        arrays, out = self._bound(arrays, out, named)
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
        arguments = [
            to_value(_argument(a, p))
            for a, p in zip(arrays, self.signature.inputs, strict=True)
        ]
        result = self._main(*arguments)
        values = result if len(self.signature.outputs) > 1 else [result]
        if out is not None:
            self._write(values, out)
            return tuple(out)
        results = _OwnedResults(_arrays_in(arguments))
        return tuple(map(results.result, values))

    def _write(self, values: Sequence[Any], out: Sequence[Any]) -> None:
        """Copy outputs into the caller's arrays, after all of them are validated."""
        self._check_count(out)
        targets: list[NDArray] = []
        for number, (name, value, array) in enumerate(
            zip(self.output_names, values, out, strict=True)
        ):
            where = f"`main`: output {number} `{name}`"
            target = _target(value, array, where)
            for other, earlier in enumerate(targets):
                if target.shares_memory(earlier):
                    raise ValueError(f"{where}: shares memory with output {other}")
            targets.append(target)
        # An output may alias an input that is the target of another output.
        unaliased = [
            v.copied() if any(map(v.shares_memory, targets)) else v for v in values
        ]
        for target, value in zip(targets, unaliased, strict=True):
            target.copyfrom(value)

    def on(self, ordinal: int) -> JITModel:
        """The same model on another GPU of this machine.

        Raises:
            CompileError: the model is compiled for the CPU.
        """
        return JITModel(self.executable.on(cuda(ordinal)), self.signature)

    def statistics(self) -> JITStatistics:
        return self.executable.options.counters.statistics

    def profile(self, *arrays: Any, calls: int = 20, **named: Any) -> Profile:
        raise UnsupportedError(
            "`main`: subgraphs of the model are JIT-compiled, so it has no fixed sequence "
            "of kernels to measure. Hint: `relax-mlir bench` measures the model as a whole."
        )

    def save(self, path: str | os.PathLike[str] | BinaryIO) -> None:
        from relax_mlir.runtime.host.archive import save

        save(path, self)


class _OwnedResults:
    """Outputs that the caller owns: on the GPU if an input is there.

    Args:
        inputs: of the call.
    """

    def __init__(self, inputs: Sequence[NDArray]) -> None:
        self._occupied = [a for a in inputs if isinstance(a, GPUArray)]
        self._device = self._occupied[0].device if self._occupied else None

    def result(self, value: Any) -> Any:  # Any: any value of a program
        """An output whose memory aliases no input and no other output."""
        if isinstance(value, list):
            return list(map(self.result, value))
        if not isinstance(value, NDArray):
            return value
        if self._device is None or value.element_type.kind in "OSU":
            return value.numpy()
        array = value if value.device == self._device else None
        if array is None or any(map(value.shares_memory, self._occupied)):
            array = empty(value.shape, value.dtype, self._device).copyfrom(value)
        assert isinstance(array, GPUArray)
        self._occupied.append(array)
        return array.data


def _argument(value: Any, parameter: Parameter) -> Any:  # Any: array-likes
    """An input as an array; sequences and optionals keep lists and None."""
    if is_array(value):
        return value
    if not parameter.dtype and value is None:
        return value
    is_sequence = isinstance(value, (list, tuple)) and not parameter.dtype
    if is_sequence and not any(isinstance(part, str) for part in value):
        return [_argument(part, parameter) for part in value]
    return np.asarray(value)


def _arrays_in(values: Sequence[Any]) -> list[NDArray]:
    """The arrays in nested lists of values."""
    arrays: list[NDArray] = []
    for value in values:
        if isinstance(value, list):
            arrays += _arrays_in(value)
        elif isinstance(value, NDArray):
            arrays.append(value)
    return arrays


def _target(value: Any, array: Any, where: str) -> NDArray:  # Any: of the caller
    """An array of the caller as the destination of an output.

    Raises:
        TypeError, ValueError: the output cannot be written to it.
    """
    if not (isinstance(array, (np.ndarray, NDArray)) or is_on_gpu(array)):
        raise TypeError(f"{where}: expected an array, got {type(array).__name__}")
    if not isinstance(value, NDArray):
        raise TypeError(f"{where}: is not a tensor, and cannot be written to an array")
    target = borrow(array) if is_on_gpu(array) else shared(array)
    if target is None:
        raise ValueError(
            f"{where}: expected a writable C-contiguous array, aligned to 16 bytes, got "
            f"{describe_layout(array)}"
        )
    if target.dtype != value.dtype:
        raise TypeError(f"{where}: expected dtype {value.dtype}, got {target.dtype}")
    if target.shape != value.shape:
        raise ValueError(f"{where}: expected shape {value.shape}, got {target.shape}")
    if target.is_read_only:
        raise ValueError(f"{where}: expected an array to write to, got a read-only one")
    return target

"""ONNX source of a compiled model, to respecialise it for other broadcasting.

A broadcast of [n] and [m] is compiled on the assumption n == m, which is free and what most
models mean. If one of them is 1 in a call, the compiled code rejects the call, and the
source is compiled for its sizes. Does not import the compiler.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from relax_mlir.runtime.jit_statistics import JITCounters
from relax_mlir.runtime.ndarray import NDArray, as_numpy
from relax_mlir.runtime.onnx_source import DeclaredInput, OnnxSource
from relax_mlir.support.hooks import Hook
from relax_mlir.symbolic import symbols

__all__ = ["RESPECIALIZE", "SourceModel"]

_KEY = "relax.source"  # among the constants of a model file
_HEADER_BYTES = 8


@dataclass(frozen=True, eq=False)
class SourceModel:
    """An ONNX model to compile for the sizes of individual calls.

    Attributes:
        source: the model.
        options: compile options, as ``CompileOptions.to_fields`` has them.
        counters: of compilations for other sizes.
    """

    source: OnnxSource
    options: Mapping[str, Any]  # Any: JSON
    counters: JITCounters = field(default_factory=JITCounters)

    def results(self, arrays: Sequence[Any], refusal: ValueError) -> list[np.ndarray]:
        """The outputs of a call that the compiled code rejected.

        Args:
            arrays: inputs in order.
            refusal: the error, raised again if the model does not accept the inputs.
        """
        inputs = [
            a if isinstance(a, NDArray) else NDArray(_as_array(a)) for a in arrays
        ]
        if not self._accepts(inputs):
            raise refusal
        outputs = RESPECIALIZE.get()(self, inputs, refusal)
        return [as_numpy(value).copy() for value in outputs]

    def _accepts(self, arrays: Sequence[NDArray]) -> bool:
        """Whether arrays match the declared types of the inputs."""
        if len(arrays) != len(self.source.inputs):
            return False
        values: dict[str, int] = {}
        sized: list[tuple[Any, int]] = []  # Any: sizes
        for array, parameter in zip(arrays, self.source.inputs, strict=True):
            is_same = str(array.element_type) == parameter.dtype
            if not is_same or array.ndim != len(parameter.shape):
                return False
            for text, size in zip(parameter.shape, array.shape, strict=True):
                if text.isidentifier() and values.setdefault(text, size) != size:
                    return False
                sized.append((symbols.parse(text), size))
        for dim, size in sized:
            is_known = set(symbols.symbols_of(dim)) <= set(values)
            if is_known and symbols.evaluate(dim, values) != size:
                return False
        return True

    def write(self, outputs: Sequence[np.ndarray], out: Sequence[Any]) -> None:
        """Copy outputs into the caller's arrays.

        Raises:
            TypeError, ValueError: the type or shape of an array is wrong.
        """
        for number, (output, target) in enumerate(zip(outputs, out, strict=True)):
            array = _as_array(target)
            where = f"`main`: output {number}"
            if array.dtype != output.dtype:
                raise TypeError(
                    f"{where}: expected dtype {output.dtype}, got {array.dtype}"
                )
            if array.shape != output.shape:
                raise ValueError(
                    f"{where}: expected shape {output.shape}, got {array.shape}"
                )
        for output, target in zip(outputs, out, strict=True):
            np.copyto(_as_array(target), output)

    def constants(self) -> dict[str, np.ndarray]:
        """The serialised form among the constants of a model file."""
        header = {
            "inputs": [asdict(p) for p in self.source.inputs],
            "options": dict(self.options),
        }
        text = json.dumps(header).encode()
        data = len(text).to_bytes(_HEADER_BYTES, "little") + text + self.source.model
        return {_KEY: np.frombuffer(data, np.uint8)}

    @staticmethod
    def of_constants(constants: Mapping[str, np.ndarray]) -> SourceModel | None:
        """The source among the constants of a model file; None if there is none.

        Raises:
            ValueError: the serialised form is damaged.
        """
        if _KEY not in constants:
            return None
        data = np.asarray(constants[_KEY]).tobytes()
        end = _HEADER_BYTES + int.from_bytes(data[:_HEADER_BYTES], "little")
        header = json.loads(data[_HEADER_BYTES:end])
        inputs = tuple(
            DeclaredInput(p["name"], p["dtype"], tuple(p["shape"]))
            for p in header["inputs"]
        )
        return SourceModel(OnnxSource(data[end:], inputs), header["options"])


# Runs a model, compiled for the shapes of inputs that its code rejected; needs the compiler.
RESPECIALIZE: Hook[
    Callable[[SourceModel, Sequence[NDArray], ValueError], Sequence[Any]]
] = Hook("runtime.respecialize")


def _as_array(value: Any) -> np.ndarray:  # Any: DLPack arrays
    if isinstance(value, np.ndarray):
        return value
    with suppress(TypeError, BufferError, RuntimeError):
        return np.from_dlpack(value)
    return np.asarray(value)

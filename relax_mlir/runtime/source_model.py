"""The ONNX source of a compiled model, for calls whose sizes broadcast otherwise.

A broadcast of [n] and [m] is compiled as if n and m were equal, which costs nothing and
is what most models mean. Where one of them is 1 in a call, that code refuses the call, and
the source is compiled for its sizes. Imports nothing that compiles.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import numpy as np

from relax_mlir.dialects import symbols
from relax_mlir.onnx_source import DeclaredInput, OnnxSource
from relax_mlir.runtime.ndarray import NDArray, as_numpy

__all__ = ["SourceModel"]

_KEY = "relax.source"  # among the constants of a file
_HEADER_BYTES = 8


@dataclass(frozen=True, eq=False)
class SourceModel:
    """An ONNX model that is compiled again for the sizes of a call.

    Attributes:
        source: the model.
        options: how it is compiled: those of ``StageOptions`` that are plain values.
    """

    source: OnnxSource
    options: Mapping[str, Any]  # Any: JSON

    def results(self, arrays: Sequence[Any], refusal: ValueError) -> list[np.ndarray]:
        """The outputs for a call that the compiled code has refused.

        Args:
            arrays: inputs in order.
            refusal: why; it is raised again where the model cannot take the inputs.
        """
        given = [a if isinstance(a, NDArray) else NDArray(_as_array(a)) for a in arrays]
        if not self._declares(given):
            raise refusal
        # It compiles, so it is loaded when it is needed.
        found = import_module("relax_mlir.stages.broadcast").run(self, given, refusal)
        return [as_numpy(value).copy() for value in found]

    def _declares(self, arrays: Sequence[NDArray]) -> bool:
        """Whether arrays have the types that the inputs are declared with."""
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
        """Write outputs to arrays of a caller.

        Raises:
            TypeError, ValueError: an array has another type or shape.
        """
        for number, (made, target) in enumerate(zip(outputs, out, strict=True)):
            array = _as_array(target)
            where = f"`main`: output {number}"
            if array.dtype != made.dtype:
                raise TypeError(
                    f"{where}: expected dtype {made.dtype}, got {array.dtype}"
                )
            if array.shape != made.shape:
                raise ValueError(
                    f"{where}: expected shape {made.shape}, got {array.shape}"
                )
        for made, target in zip(outputs, out, strict=True):
            np.copyto(_as_array(target), made)

    def constants(self) -> dict[str, np.ndarray]:
        """What a file of the compiled model holds of it."""
        header = {
            "inputs": [asdict(p) for p in self.source.inputs],
            "options": dict(self.options),
        }
        text = json.dumps(header).encode()
        data = len(text).to_bytes(_HEADER_BYTES, "little") + text + self.source.model
        return {_KEY: np.frombuffer(data, np.uint8)}

    @staticmethod
    def of_constants(constants: Mapping[str, np.ndarray]) -> SourceModel | None:
        """The source that a file holds, if it does.

        Raises:
            ValueError: it is damaged.
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


def _as_array(value: Any) -> np.ndarray:  # Any: whatever has DLPack
    if isinstance(value, np.ndarray):
        return value
    with suppress(TypeError, BufferError, RuntimeError):
        return np.from_dlpack(value)
    return np.asarray(value)

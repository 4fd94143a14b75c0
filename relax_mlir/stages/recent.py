"""What was used last is kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np
import onnx

from relax_mlir.runtime.ndarray import NDArray, as_numpy

__all__ = ["ByModel", "Recent"]

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """The values that were used last, by key; threads may share it.

    Args:
        count: how many are kept.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()
        self._making = threading.Lock()

    def get(self, key: Key) -> Value | None:
        """The value, if it is still there."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

    def set(self, key: Key, value: Value) -> Value:
        """Keep a value."""
        with self._lock:
            self._values[key] = value
            if len(self._values) > self._count:
                self._values.popitem(last=False)
        return value

    def get_or_make(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value; one thread makes it where it is not there, which must not take long."""
        found = self.get(key)
        if found is None:
            with self._making:
                found = self.get(key)
                if found is None:
                    found = self.set(key, make())
        return found


class ByModel(Generic[Value]):
    """What is made of the bytes of models, which are constants of modules.

    Args:
        make: makes it of a model.
    """

    def __init__(self, make: Callable[[onnx.ModelProto], Value]) -> None:
        self._make = make
        self._made: Recent[tuple[int, int], tuple[np.ndarray, Value]] = Recent(256)

    def of(self, model: NDArray) -> Value:
        """What was made of the model, or is made now."""
        data = as_numpy(model)
        key = (data.ctypes.data, data.nbytes)

        def make() -> tuple[np.ndarray, Value]:
            return data, self._make(onnx.ModelProto.FromString(data.tobytes()))

        # The array is kept, so no other takes its place in memory.
        return self._made.get_or_make(key, make)[1]

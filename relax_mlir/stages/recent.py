"""What was used last is kept."""

from __future__ import annotations

import threading
import weakref
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
        # Models may go, and their values with them, wherever garbage is collected.
        self._lock = threading.RLock()
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
            replaced = self._values.get(key)
            self._values[key] = value
            is_full = len(self._values) > self._count
            oldest = self._values.popitem(last=False) if is_full else None
        del replaced, oldest  # now, when no thread has to wait for what goes with them
        return value

    def drop(self, is_gone: Callable[[Key], bool]) -> None:
        """Keep the values of some keys no longer."""
        with self._lock:
            # Meanwhile garbage may be collected, and more be dropped.
            keys = [key for key in list(self._values) if is_gone(key)]
            dropped = [self._values.pop(key, None) for key in keys]
        del dropped  # as above

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

    It is kept for as long as the module's array is.

    Args:
        make: makes it of a model.
    """

    def __init__(self, make: Callable[[onnx.ModelProto], Value]) -> None:
        self._make = make
        self._made: Recent[tuple[int, int], tuple[object, Value]] = Recent(256)

    def of(self, model: NDArray) -> Value:
        """What was made of the model, or is made now."""
        data = as_numpy(model)
        key = (data.ctypes.data, data.nbytes)

        def make() -> tuple[object, Value]:
            made = self._make(onnx.ModelProto.FromString(data.tobytes()))
            return self._noted(data, key), made

        return self._made.get_or_make(key, make)[1]

    def _noted(self, data: np.ndarray, key: tuple[int, int]) -> object:
        """What has to be kept so that nothing else takes the array's place in memory.

        That is nothing where numpy has taken the memory, and tells when it gives it back.
        """
        owner = data
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if owner.base is not None:
            return data
        weakref.finalize(owner, self._made.drop, key.__eq__).atexit = False
        return None

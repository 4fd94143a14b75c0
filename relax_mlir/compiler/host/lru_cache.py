"""Thread-safe LRU caches."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np
import onnx

from relax_mlir.runtime.ndarray import NDArray, as_numpy

__all__ = ["LRUCache", "PerModelCache"]

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LRUCache(Generic[Key, Value]):
    """A thread-safe cache that evicts the least recently used value.

    Args:
        count: capacity.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._values: OrderedDict[Key, Value] = OrderedDict()
        # Reentrant: a garbage collection inside may finalise models and drop entries.
        self._lock = threading.RLock()
        self._creating = threading.Lock()

    def get(self, key: Key) -> Value | None:
        """The value of a key; None if it is missing."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def set(self, key: Key, value: Value) -> Value:
        """Insert a value, and evict the oldest above the capacity; returns the value."""
        with self._lock:
            replaced = self._values.get(key)
            self._values[key] = value
            is_full = len(self._values) > self._count
            oldest = self._values.popitem(last=False) if is_full else None
        del replaced, oldest  # destructors run outside of the lock
        return value

    def drop(self, is_stale: Callable[[Key], bool]) -> None:
        """Remove the entries of stale keys."""
        with self._lock:
            # A garbage collection in between may drop further entries.
            keys = [key for key in list(self._values) if is_stale(key)]
            dropped = [self._values.pop(key, None) for key in keys]
        del dropped  # as above

    def get_or_create(self, key: Key, create: Callable[[], Value]) -> Value:
        """The value of a key, created if missing.

        Creation holds a lock that all keys share, so it should be fast.
        """
        value = self.get(key)
        if value is None:
            with self._creating:
                value = self.get(key)
                if value is None:
                    value = self.set(key, create())
        return value


class PerModelCache(Generic[Value]):
    """A cache of values derived from serialised models, which are constants of modules.

    The key is the address of the constant; an entry lives as long as its array.

    Args:
        create: derives a value from a model.
    """

    def __init__(self, create: Callable[[onnx.ModelProto], Value]) -> None:
        self._create = create
        self._values: LRUCache[tuple[int, int], tuple[object, Value]] = LRUCache(256)

    def of(self, model: NDArray) -> Value:
        """The value of a model, created if missing."""
        data = as_numpy(model)
        key = (data.ctypes.data, data.nbytes)

        def create() -> tuple[object, Value]:
            value = self._create(onnx.ModelProto.FromString(data.tobytes()))
            return self._guard_address(data, key), value

        return self._values.get_or_create(key, create)[1]

    def _guard_address(self, data: np.ndarray, key: tuple[int, int]) -> object:
        """Ensure that the address is not reused while the entry exists.

        If numpy owns the memory, a finalizer drops the entry; else the entry has to keep
        the returned array alive.
        """
        owner = data
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if owner.base is not None:
            return data
        weakref.finalize(owner, self._values.drop, key.__eq__).atexit = False
        return None

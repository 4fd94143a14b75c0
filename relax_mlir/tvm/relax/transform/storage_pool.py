"""Free-list allocator for the storages that tensors of a block reuse."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any

from relax_mlir.symbolic.dims import Dim

__all__ = ["Storage", "StoragePool", "planned_storages"]

_MAX_SIZE_RATIO = 16  # a storage up to this many times as large or as small is reused


@dataclass(eq=False)
class Storage:
    """A storage that tensors reuse one after another.

    Attributes:
        size_bytes: its capacity, a number or an expression of symbols.
        dtype, scope: of the tensors in it.
        block: the index of the binding block that allocates it.
        uses: the number of remaining uses of its current tensor.
        is_planned: whether it may be reused; False if its tensor may escape.
        is_taken: whether it is an allocation of its own.
    """

    size_bytes: Dim
    dtype: str
    scope: str
    block: int
    uses: int = 0
    is_planned: bool = True
    is_taken: bool = False

    @property
    def key(self) -> int:
        """Its size in bytes, or -1 if symbolic."""
        return self.size_bytes if isinstance(self.size_bytes, int) else -1


class StoragePool:
    """Free lists of storages, sorted by size."""

    def __init__(self) -> None:
        self._free: dict[tuple[str, str], list[Storage]] = {}

    def request(self, requested: Storage) -> Storage:
        """Returns a free storage that fits ``requested``, or ``requested`` itself."""
        free = self._free.get((requested.scope, requested.dtype), [])
        index = self._find(free, requested) if requested.uses else None
        if index is None:
            requested.is_taken = True
            return requested
        reused = free.pop(index)
        if requested.key > reused.key:
            reused.size_bytes = requested.size_bytes
        reused.uses = requested.uses
        return reused

    def _find(self, free: list[Storage], requested: Storage) -> int | None:
        """Returns the best fit: the smallest that is large enough, else the largest."""
        size = requested.key
        if size < 0:
            equal = (
                i for i, s in enumerate(free) if s.size_bytes == requested.size_bytes
            )
            return next(equal, None)
        sizes = [storage.key for storage in free]
        smallest = bisect_left(sizes, size // _MAX_SIZE_RATIO)
        middle = bisect_left(sizes, size)
        if middle < bisect_right(sizes, size * _MAX_SIZE_RATIO):
            return middle
        return middle - 1 if smallest < middle and sizes[middle - 1] >= 0 else None

    def release(self, storage: Storage) -> None:
        """Returns a storage to its free list."""
        free = self._free.setdefault((storage.scope, storage.dtype), [])
        index = bisect_right([other.key for other in free], storage.key)
        free.insert(index, storage)


def planned_storages(storages: Any) -> list[Storage]:  # Any: storages in nested lists
    """Returns the planned storages of the tensors in a value."""
    if isinstance(storages, list):
        return [leaf for nested in storages for leaf in planned_storages(nested)]
    if isinstance(storages, Storage) and storages.is_planned:
        return [storages]
    return []

"""Pieces of memory that tensors of a block share, one after the other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any

from relax_mlir.dialects.dims import Dim

__all__ = ["Pool", "Storage", "leaves"]

_RANGE = 16  # a piece this many times as large, or as small, is still taken


@dataclass(eq=False)
class Storage:
    """A piece of memory.

    Attributes:
        size_bytes: what it holds, a number or an expression of sizes.
        dtype, scope: of the tensors in it.
        block: number of the block of bindings that it is taken in.
        uses: how often its tensor is still read or written.
        is_planned: whether the plan is about it; not if others may keep its tensor.
        is_taken: whether it is memory of its own.
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
        """Its size, or -1 if that is not known."""
        return self.size_bytes if isinstance(self.size_bytes, int) else -1


class Pool:
    """Pieces of memory that no tensor needs any more, in order of size."""

    def __init__(self) -> None:
        self._free: dict[tuple[str, str], list[Storage]] = {}

    def request(self, wanted: Storage) -> Storage:
        """A free piece for what ``wanted`` describes, or ``wanted`` itself."""
        free = self._free.get((wanted.scope, wanted.dtype), [])
        number = self._find(free, wanted) if wanted.uses else None
        if number is None:
            wanted.is_taken = True
            return wanted
        found = free.pop(number)
        if wanted.key > found.key:
            found.size_bytes = wanted.size_bytes
        found.uses = wanted.uses
        return found

    def _find(self, free: list[Storage], wanted: Storage) -> int | None:
        """The piece to take: the least that is large enough, or else the largest."""
        size = wanted.key
        if size < 0:
            equal = (i for i, s in enumerate(free) if s.size_bytes == wanted.size_bytes)
            return next(equal, None)
        sizes = [storage.key for storage in free]
        first = bisect_left(sizes, size // _RANGE)
        middle = bisect_left(sizes, size)
        if middle < bisect_right(sizes, size * _RANGE):
            return middle
        return middle - 1 if first < middle and sizes[middle - 1] >= 0 else None

    def release(self, storage: Storage) -> None:
        """Take back a piece."""
        free = self._free.setdefault((storage.scope, storage.dtype), [])
        number = bisect_right([other.key for other in free], storage.key)
        free.insert(number, storage)


def leaves(storages: Any) -> list[Storage]:  # Any: storages nested as tuples are
    """The pieces that the tensors in a value lie in, as far as the plan is about them."""
    if isinstance(storages, list):
        return [leaf for part in storages for leaf in leaves(part)]
    if isinstance(storages, Storage) and storages.is_planned:
        return [storages]
    return []

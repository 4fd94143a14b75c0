"""Layouts: a letter an axis says what it stands for, such as ``NHWC``."""

import math
import re
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from relax_mlir.dialects.dims import floordiv
from relax_mlir.dialects.tir import Buffer, Index, Scalar

__all__ = ["SPATIAL", "Arranged", "Layout"]

T = TypeVar("T")

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}  # of every number of spatial axes


class Layout:
    """The order of the axes of a tensor, next to a plain one that code is written for.

    An axis may be in blocks: ``NCHW4c`` has four channels in its last axis, and a fourth
    of them in its second. What shapes such tensors have is known; there are no programs
    on them.

    Args:
        letters: the axes of the tensor.
        plain: the same letters in the plain order.

    Raises:
        ValueError: they are other letters, or an axis is in blocks and not there as well.
    """

    def __init__(self, letters: str, plain: str) -> None:
        found = re.findall(r"(\d*)([A-Za-z])", letters)
        main = [letter for count, letter in found if not count]
        self._blocks = [
            (letter.upper(), int(count)) for count, letter in found if count
        ]
        is_whole = "".join(map("".join, found)) == letters
        if (
            not is_whole
            or sorted(main) != sorted(plain)
            or not self._has_blocked(plain)
        ):
            raise ValueError(
                f"bad layout: expected the axes of {plain} in some order, got `{letters}`"
            )
        self.letters = letters
        self.is_plain = letters == plain
        # The plain axis of every axis; the place of every axis, those of blocks too.
        self.order = tuple(map(plain.index, main))
        self._from = tuple(map(main.index, plain))
        self._plain = plain
        self._is_block = [bool(count) for count, _ in found]

    def _has_blocked(self, plain: str) -> bool:
        return all(letter in plain and count > 0 for letter, count in self._blocks)

    def _block_size(self, axis: int) -> int:
        """How many elements of a plain axis are together in blocks."""
        sizes = (n for letter, n in self._blocks if letter == self._plain[axis])
        return math.prod(sizes)

    def to_plain(self, shape: Sequence[T]) -> tuple[T, ...]:
        """Something per axis of the tensor, such as its shape, in the plain order.

        Raises:
            ValueError: there are more or fewer axes.
        """
        if len(shape) != len(self._is_block):
            raise ValueError(f"expected rank {len(self._is_block)}, got {len(shape)}")
        main = [
            part
            for part, is_block in zip(shape, self._is_block, strict=True)
            if not is_block
        ]
        plain = tuple(main[axis] for axis in self._from)
        if not self._blocks:
            return plain
        return tuple(size * self._block_size(axis) for axis, size in enumerate(plain))

    def from_plain(self, shape: Sequence[T]) -> tuple[T, ...]:
        """Something per axis in the plain order as the tensor has it."""
        if not self._blocks:
            return tuple(shape[axis] for axis in self.order)
        main = iter(
            floordiv(shape[axis], self._block_size(axis)) for axis in self.order
        )
        blocks = iter(size for _, size in self._blocks)
        return tuple(next(blocks if b else main) for b in self._is_block)

    def require_program(self) -> None:
        """Refuse a layout that no program is written for.

        Raises:
            ValueError: an axis is in blocks.
        """
        if self._blocks:
            raise ValueError(
                f"layout `{self.letters}`: there is no program for axes in blocks"
            )

    def array_to_plain(self, array: np.ndarray) -> np.ndarray:
        """An array in the plain order."""
        self.require_program()
        return array.transpose(self._from)

    def array_from_plain(self, array: np.ndarray) -> np.ndarray:
        """An array in the plain order as the tensor has it."""
        return np.ascontiguousarray(array.transpose(self.order))

    def buffer(self, buffer: Buffer) -> Buffer:
        """A buffer that is read and written in the plain order."""
        self.require_program()
        return buffer if self.is_plain else Arranged(buffer, self)


class Arranged(Buffer):
    """A buffer whose axes seem to be in a plain order."""

    def __init__(self, buffer: Buffer, layout: Layout) -> None:
        super().__init__(buffer.value, layout.to_plain(buffer.shape), buffer.dtype)
        self._order = layout.order

    def __getitem__(self, indices: "Index | int | tuple[Index | int, ...]") -> Scalar:
        plain = indices if isinstance(indices, tuple) else (indices,)
        return super().__getitem__(tuple(plain[axis] for axis in self._order))

    def store(self, value: Scalar, indices: "Sequence[Index | int]") -> None:
        super().store(value, [indices[axis] for axis in self._order])

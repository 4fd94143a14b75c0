"""Tensor layouts such as ``NHWC``: one letter per axis, and blocked axes."""

import math
import re
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from relax_mlir.dialects.tir import Buffer, Index, Scalar
from relax_mlir.symbolic.dims import floordiv

__all__ = ["SPATIAL", "Layout", "PermutedBuffer"]

T = TypeVar("T")

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}  # letters by number of spatial axes


class Layout:
    """A permutation of a plain layout, in which the operators are implemented.

    An axis may be blocked: ``NCHW4c`` has blocks of four channels in its last axis, and the
    number of blocks in its second. Shape inference supports blocked layouts; there are no
    tensor programs for them.

    Args:
        letters: the axes of the tensor.
        plain: the same letters in the plain order.

    Raises:
        ValueError: the letters differ, or a blocked axis has no outer axis.
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
        # Per axis of the tensor, the plain axis; and the inverse permutation.
        self.order = tuple(map(plain.index, main))
        self._from = tuple(map(main.index, plain))
        self._plain = plain
        self._is_block = [bool(count) for count, _ in found]

    def _has_blocked(self, plain: str) -> bool:
        return all(letter in plain and count > 0 for letter, count in self._blocks)

    def _block_size(self, axis: int) -> int:
        """The product of the block sizes of a plain axis."""
        sizes = (n for letter, n in self._blocks if letter == self._plain[axis])
        return math.prod(sizes)

    def to_plain(self, shape: Sequence[T]) -> tuple[T, ...]:
        """Permutes per-axis values of the tensor, such as its shape, to the plain order.

        Raises:
            ValueError: the number of values differs from the rank.
        """
        if len(shape) != len(self._is_block):
            raise ValueError(f"expected rank {len(self._is_block)}, got {len(shape)}")
        main = [
            dim
            for dim, is_block in zip(shape, self._is_block, strict=True)
            if not is_block
        ]
        plain = tuple(main[axis] for axis in self._from)
        if not self._blocks:
            return plain
        return tuple(size * self._block_size(axis) for axis, size in enumerate(plain))

    def from_plain(self, shape: Sequence[T]) -> tuple[T, ...]:
        """Permutes per-axis values from the plain order to the tensor's."""
        if not self._blocks:
            return tuple(shape[axis] for axis in self.order)
        main = iter(
            floordiv(shape[axis], self._block_size(axis)) for axis in self.order
        )
        blocks = iter(size for _, size in self._blocks)
        return tuple(next(blocks if b else main) for b in self._is_block)

    def require_program(self) -> None:
        """Checks that tensor programs support the layout.

        Raises:
            ValueError: an axis is blocked.
        """
        if self._blocks:
            raise ValueError(
                f"layout `{self.letters}`: blocked axes are not supported here"
            )

    def array_to_plain(self, array: np.ndarray) -> np.ndarray:
        """Transposes an array to the plain order."""
        self.require_program()
        return array.transpose(self._from)

    def array_from_plain(self, array: np.ndarray) -> np.ndarray:
        """Transposes an array from the plain order to the tensor's."""
        return np.ascontiguousarray(array.transpose(self.order))

    def buffer(self, buffer: Buffer) -> Buffer:
        """A view of a buffer with its axes in the plain order."""
        self.require_program()
        return buffer if self.is_plain else PermutedBuffer(buffer, self)


class PermutedBuffer(Buffer):
    """A view of a buffer with permuted axes: indexed in the plain order."""

    def __init__(self, buffer: Buffer, layout: Layout) -> None:
        super().__init__(buffer.value, layout.to_plain(buffer.shape), buffer.dtype)
        self._order = layout.order

    def __getitem__(self, indices: "Index | int | tuple[Index | int, ...]") -> Scalar:
        plain = indices if isinstance(indices, tuple) else (indices,)
        return super().__getitem__(tuple(plain[axis] for axis in self._order))

    def store(self, value: Scalar, indices: "Sequence[Index | int]") -> None:
        super().store(value, [indices[axis] for axis in self._order])

"""Layouts: a letter an axis says what it stands for, such as ``NHWC``."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from relax_mlir.dialects.tir import Buffer, Index, Scalar

__all__ = ["SPATIAL", "Arranged", "Layout"]

T = TypeVar("T")

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}  # of every number of spatial axes


class Layout:
    """The order of the axes of a tensor, next to a plain one that code is written for.

    Args:
        letters: the axes of the tensor.
        plain: the same letters in the plain order.

    Raises:
        ValueError: they are other letters; axes in blocks, as in ``NCHW4c``, are.
    """

    def __init__(self, letters: str, plain: str) -> None:
        if sorted(letters) != sorted(plain):
            raise ValueError(
                f"bad layout: expected the axes of {plain} in some order, got `{letters}`"
            )
        self.is_plain = letters == plain
        self.order = tuple(map(plain.index, letters))  # the plain axis of every axis
        self._from = tuple(map(letters.index, plain))  # the axis of every plain axis

    def to_plain(self, shape: Sequence[T]) -> tuple[T, ...]:
        """Something per axis of the tensor, such as its shape, in the plain order.

        Raises:
            ValueError: there are more or fewer axes.
        """
        if len(shape) != len(self.order):
            raise ValueError(f"expected rank {len(self.order)}, got {len(shape)}")
        return tuple(shape[axis] for axis in self._from)

    def from_plain(self, shape: Sequence[T]) -> tuple[T, ...]:
        """Something per axis in the plain order as the tensor has it."""
        return tuple(shape[axis] for axis in self.order)

    def array_to_plain(self, array: np.ndarray) -> np.ndarray:
        """An array in the plain order."""
        return array.transpose(self._from)

    def array_from_plain(self, array: np.ndarray) -> np.ndarray:
        """An array in the plain order as the tensor has it."""
        return np.ascontiguousarray(array.transpose(self.order))

    def buffer(self, buffer: Buffer) -> Buffer:
        """A buffer that is read and written in the plain order."""
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

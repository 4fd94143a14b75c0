"""Valid ranges of index operands, for runtime checks of indices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from mlir.ir import RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.shapes import Dim

__all__ = [
    "IndexOperand",
    "IndexRange",
    "axis_range",
    "length_range",
    "nonnegative_axis_range",
    "out_of_range_message",
]


@dataclass(frozen=True)
class IndexRange:
    """Valid range of an index operand: ``least <= index < limit``.

    Attributes:
        limits: one limit for all indices, or one per component along the last axis.
        least: the smallest valid index; None for ``-limit``, so that negative indices
            count from the end.
        ignored: an index outside the range that is also valid, such as a padding label.
    """

    limits: tuple[Dim, ...]
    least: int | None = None
    ignored: int | None = None


@dataclass(frozen=True)
class IndexOperand:
    """An operand that holds indices, lengths or positions.

    Attributes:
        ranges: computes the valid range of each tensor of the operand from the arguments
            of the operator's ``infer``; None if every index is valid.
        out_of_range: behaviour for an index out of range when checks are off.
        column: position along the last axis at which the indices are; None if all
            elements are indices.
        is_unlimited: whether every integer is a valid index, for all sizes.
    """

    ranges: Callable[..., IndexRange | Sequence[IndexRange] | None]
    out_of_range: str
    column: int | None = None
    is_unlimited: bool = False

    @staticmethod
    def unlimited(meaning: str) -> "IndexOperand":
        """An operand for which every integer is valid.

        Args:
            meaning: behaviour for an index outside the axis, for the documentation.
        """
        return IndexOperand(lambda *types, **attrs: None, meaning, is_unlimited=True)


def axis_range(data: RankedTensorType, axis: int) -> IndexRange:
    """Range of indices into an axis of ``data``; negative ones count from the end."""
    return IndexRange((tensors.shape_of(data)[shapes.check_axis(axis, data.rank)],))


def nonnegative_axis_range(
    data: RankedTensorType, axis: int, **options: Any
) -> IndexRange:
    """Range of indices into an axis of ``data``, without negative ones."""
    return replace(axis_range(data, axis), least=0, **options)


def length_range(data: RankedTensorType, axis: int) -> IndexRange:
    """Range of lengths along an axis of ``data``: 0 to its size, inclusive."""
    size = tensors.shape_of(data)[shapes.check_axis(axis, data.rank)]
    return IndexRange((size + 1,), least=0)


def out_of_range_message(
    indices: np.ndarray, limits: Sequence[int], least: int | None, ignored: int | None
) -> str | None:
    """Error message for the first out-of-range index in row-major order, or None.

    The native runtime reports the same text. For the arguments see :class:`IndexRange`.
    """
    wide = indices.astype(np.int64)
    top = np.array(limits if len(limits) > 1 else limits[0], np.int64)
    allowed = (wide >= (-top if least is None else least)) & (wide < top)
    if ignored is not None:
        allowed |= wide == ignored
    if indices.dtype.kind == "u":  # large uint64 values wrapped to negative ones
        allowed &= wide >= 0
    found = np.argwhere(~allowed)
    if not len(found):
        return None
    position = tuple(map(int, found[0]))
    limit = limits[position[-1]] if len(limits) > 1 else limits[0]
    low = -limit if least is None else least
    expected = f"{low} to {limit - 1}" if low < limit else "none"
    return (
        f"index out of range at {list(position)}: expected {expected}, "
        f"got {indices[position]}"
    )

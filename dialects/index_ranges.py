"""Which operands of an operator hold indices, and the range of each."""

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
    "along_axis",
    "from_front",
    "lengths_along",
    "out_of_range",
]


@dataclass(frozen=True)
class IndexRange:
    """The indices that an operand may hold: ``least <= index < limit``.

    Attributes:
        limits: one for all indices, or one for each component along the last axis.
        least: the smallest index; None for ``-limit``: indices may count from the end.
        ignored: an index outside of the range that is allowed.
    """

    limits: tuple[Dim, ...]
    least: int | None = None
    ignored: int | None = None


@dataclass(frozen=True)
class IndexOperand:
    """An operand that holds indices, lengths or positions.

    Attributes:
        ranges: what each tensor of the operand may hold, from the arguments of the
            operator's ``infer``; None where no index is out of range.
        out_of_range: what an index out of range does where nothing checks it.
        column: the column of the last axis that holds the indices; None for all of it.
        is_unlimited: whether every index has a meaning, whatever the sizes are.
    """

    ranges: Callable[..., IndexRange | Sequence[IndexRange] | None]
    out_of_range: str
    column: int | None = None
    is_unlimited: bool = False

    @staticmethod
    def unlimited(meaning: str) -> "IndexOperand":
        """An operand of which every index has a meaning."""
        return IndexOperand(lambda *types, **attrs: None, meaning, is_unlimited=True)


def along_axis(data: RankedTensorType, axis: int) -> IndexRange:
    """Indices of an axis of ``data``; negative ones count from the end."""
    return IndexRange((tensors.shape_of(data)[shapes.check_axis(axis, data.rank)],))


def from_front(data: RankedTensorType, axis: int, **options: Any) -> IndexRange:
    """Indices of an axis of ``data``, which do not count from the end."""
    return replace(along_axis(data, axis), least=0, **options)


def lengths_along(data: RankedTensorType, axis: int) -> IndexRange:
    """Numbers of elements of an axis of ``data``: from 0 to all of them."""
    size = tensors.shape_of(data)[shapes.check_axis(axis, data.rank)]
    return IndexRange((size + 1,), least=0)


def out_of_range(
    indices: np.ndarray, limits: Sequence[int], least: int | None, ignored: int | None
) -> str | None:
    """What is wrong with the first index out of range, in row-major order, if one is.

    The native runtime says the same. Arguments are as :class:`IndexRange` has them.
    """
    wide = indices.astype(np.int64)
    top = np.array(limits if len(limits) > 1 else limits[0], np.int64)
    allowed = (wide >= (-top if least is None else least)) & (wide < top)
    if ignored is not None:
        allowed |= wide == ignored
    if indices.dtype.kind == "u":  # of 64 bits, the largest have become negative
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

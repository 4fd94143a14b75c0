"""Merging of contraction axes that are contiguous in all operands."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from relax_mlir.schedules.builder import IndexLike, product
from relax_mlir.schedules.kernel_view import Access

__all__ = ["Axis", "merge_axes", "mergeable_groups"]


@dataclass(frozen=True)
class Axis:
    """A loop axis of the anchor statement, possibly several axes collapsed into one.

    A collapsed axis runs over the product of their sizes: past the end of a dimension of
    a row-major buffer the next row follows.

    Attributes:
        number: of the innermost of the axes; extent: trip count.
    """

    number: int
    extent: IndexLike


def merge_axes(
    axes: Sequence[int],
    extents: Sequence[IndexLike],
    accesses: Sequence[Access],
    apart: Container[int] = (),
) -> list[Axis]:
    """Merge neighbouring axes, outermost first, where all accesses allow it.

    Axes of size 1 are dropped, unless there is no other.

    Args:
        apart: axes that are not merged.
    """
    return [
        Axis(group[-1], product([extents[n] for n in group]))
        for group in mergeable_groups(axes, extents, accesses, apart)
    ]


def mergeable_groups(
    axes: Sequence[int],
    extents: Sequence[IndexLike],
    accesses: Sequence[Access],
    apart: Container[int] = (),
) -> list[list[int]]:
    """The groups of axes that :func:`merge_axes` merges, outermost first."""
    result: list[list[int]] = []
    for number in axes:
        if extents[number] == 1:
            continue
        before = result[-1][-1] if result else number
        may_merge = number not in apart and before not in apart and before != number
        if may_merge and _are_mergeable(before, number, extents[number], accesses):
            result[-1].append(number)
        else:
            result.append([number])
    return result or [[axes[-1]]]


def _are_mergeable(
    outer: int, inner: int, extent: IndexLike, accesses: Sequence[Access]
) -> bool:
    """Whether the stride of ``outer`` is ``extent`` strides of ``inner`` in all accesses."""
    if not isinstance(extent, int):
        return False
    for access in accesses:
        outer_stride, inner_stride = map(access.stride_of, (outer, inner))
        if outer_stride is None or inner_stride is None:
            return False
        if outer_stride != inner_stride * extent:
            return False
    return True

"""Axes of a contraction that are walked as one."""

from collections.abc import Sequence
from dataclasses import dataclass

from relax_mlir.schedules.emit import Extent, multiply
from relax_mlir.schedules.nest import Access

__all__ = ["Axis", "merged"]


@dataclass(frozen=True)
class Axis:
    """An axis of the anchor, and how far it counts.

    One that stands for several counts on past its own size: what lies behind the end of
    a dimension of a row-major buffer is the next row.
    """

    number: int
    extent: Extent


def merged(
    axes: Sequence[int], extents: Sequence[Extent], accesses: Sequence[Access]
) -> list[Axis]:
    """Some axes, outermost first, neighbours as one where all accesses allow it.

    Axes of one point are left out, unless no other is there.
    """
    found: list[Axis] = []
    for number in axes:
        axis = Axis(number, extents[number])
        if axis.extent == 1 and len(axes) > 1:
            continue
        if found and _walk_as_one(found[-1], axis, accesses):
            outer = found.pop()
            axis = Axis(number, multiply(outer.extent, axis.extent))
        found.append(axis)
    return found or [Axis(axes[-1], 1)]


def _walk_as_one(outer: Axis, inner: Axis, accesses: Sequence[Access]) -> bool:
    if not isinstance(inner.extent, int):
        return False
    for access in accesses:
        far, near = (access.stride_of(axis.number) for axis in (outer, inner))
        if far is None or near is None or far != near * inner.extent:
            return False
    return True

"""Axes of a contraction that are walked as one."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from relax_mlir.schedules.emit import Extent, product
from relax_mlir.schedules.nest import Access

__all__ = ["Axis", "groups", "merged"]


@dataclass(frozen=True)
class Axis:
    """An axis of the anchor, and how far it counts.

    One that stands for several counts on past its own size: what lies behind the end of
    a dimension of a row-major buffer is the next row.
    """

    number: int
    extent: Extent


def merged(
    axes: Sequence[int],
    extents: Sequence[Extent],
    accesses: Sequence[Access],
    apart: Container[int] = (),
) -> list[Axis]:
    """Some axes, outermost first, neighbours as one where all accesses allow it.

    Axes of one point are left out, unless no other is there.

    Args:
        apart: axes that stay alone.
    """
    return [
        Axis(group[-1], product([extents[n] for n in group]))
        for group in groups(axes, extents, accesses, apart)
    ]


def groups(
    axes: Sequence[int],
    extents: Sequence[Extent],
    accesses: Sequence[Access],
    apart: Container[int] = (),
) -> list[list[int]]:
    """The numbers of those that :func:`merged` makes one, outermost first."""
    found: list[list[int]] = []
    for number in axes:
        if extents[number] == 1:
            continue
        before = found[-1][-1] if found else number
        is_free = number not in apart and before not in apart and before != number
        if is_free and _walk_as_one(before, number, extents[number], accesses):
            found[-1].append(number)
        else:
            found.append([number])
    return found or [[axes[-1]]]


def _walk_as_one(
    outer: int, inner: int, extent: Extent, accesses: Sequence[Access]
) -> bool:
    """Whether an axis goes on where ``inner``, of so many points, ends."""
    if not isinstance(extent, int):
        return False
    for access in accesses:
        far, near = (access.stride_of(axis) for axis in (outer, inner))
        if far is None or near is None or far != near * extent:
            return False
    return True

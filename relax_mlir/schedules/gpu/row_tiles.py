"""Tiles of rows that are several axes: boxes of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from relax_mlir.schedules.contraction_axes import Axis
from relax_mlir.schedules.emit import (
    Extent,
    add,
    ceil_div,
    index,
    multiply,
    product,
    unflatten,
)
from relax_mlir.schedules.gpu.launch import if_less
from relax_mlir.schedules.rule import Refusal

__all__ = ["RowTile", "row_tile"]

_LEAST_USE = 0.7  # share of a tile's places that are rows, where these are several axes


@dataclass(frozen=True)
class RowTile:
    """Rows of a tile, which is a box of the axes of rows.

    Attributes:
        axes: outermost first; sizes: of the box; places: that a tile has.
    """

    axes: Sequence[Axis]
    sizes: Sequence[int]
    places: int

    @property
    def _counts(self) -> list[Extent]:
        pairs = zip(self.axes, self.sizes, strict=True)
        return [ceil_div(axis.extent, size) for axis, size in pairs]

    @property
    def count(self) -> Extent:
        """How many tiles have all rows."""
        return product(self._counts)

    @property
    def taken(self) -> dict[int, int]:
        """The size of the box, by axis."""
        return {a.number: size for a, size in zip(self.axes, self.sizes, strict=True)}

    def first(self, number: Extent) -> dict[int, Extent]:
        """The first row of a tile."""
        where = unflatten(index(number), self._counts)
        return {
            axis.number: multiply(place, size)
            for axis, place, size in zip(self.axes, where, self.sizes, strict=True)
        }

    def visit(
        self,
        place: Extent,
        first: Mapping[int, Extent],
        body: Callable[[Mapping[int, Extent]], None],
    ) -> None:
        """``body(row)`` for a place in a tile, if there is a row."""
        inside = (
            [place] if len(self.sizes) == 1 else unflatten(index(place), self.sizes)
        )
        row = {
            axis.number: add(first[axis.number], at)
            for axis, at in zip(self.axes, inside, strict=True)
        }

        def test(axes: Sequence[Axis]) -> None:
            if not axes:
                body(row)
                return
            axis, *others = axes
            if_less(row[axis.number], axis.extent, lambda: test(others))

        if math.prod(self.sizes) == self.places:
            test(self.axes)
        else:
            # Past the end of the box, the outermost place is past its size.
            if_less(inside[0], self.sizes[0], lambda: test(self.axes))


def row_tile(axes: Sequence[Axis], rows: int) -> RowTile:
    """The box of up to so many rows that has the fewest places where no row is.

    Raises:
        Refusal: it has too many of these.
    """
    if len(axes) == 1:
        return RowTile(axes, [rows], rows)
    extents = [a.extent if isinstance(a.extent, int) else rows for a in axes]
    # Of those that are as good, what lies nearest together.
    sizes = max(_sizes(extents, rows), key=lambda s: (_use(s, extents, rows), s[::-1]))
    if _use(sizes, extents, rows) < _LEAST_USE:
        raise Refusal("its rows are several axes, of which no box fills a tile")
    return RowTile(axes, sizes, rows)


def _sizes(extents: Sequence[int], rows: int) -> Iterator[tuple[int, ...]]:
    """Boxes of up to so many rows."""
    *outer, last = extents
    for size in range(1, min(last, rows) + 1):
        if not outer:
            yield (size,)
            continue
        for others in _sizes(outer, rows // size):
            yield (*others, size)


def _use(sizes: Sequence[int], extents: Sequence[int], rows: int) -> float:
    """The share of places of tiles where a row is."""
    places = rows * math.prod(-(-e // s) for e, s in zip(extents, sizes, strict=True))
    return math.prod(extents) / places

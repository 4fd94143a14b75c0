"""Row tiles of GEMMs whose M dimension is several axes (convolutions): boxes of pixels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    ceil_div,
    index,
    multiply,
    product,
    unflatten,
)
from relax_mlir.schedules.contraction_axes import Axis
from relax_mlir.schedules.gpu.launch import if_less
from relax_mlir.schedules.rule import NotApplicable

__all__ = ["RowTile", "choose_row_tile"]

_MIN_UTILIZATION = 0.7  # fraction of a tile's rows in use, if M is several axes


@dataclass(frozen=True)
class RowTile:
    """The rows of a tile: a box over the M axes.

    Attributes:
        axes: outermost first; box: extents along them.
        rows: of a tile; at least the points of the box.
    """

    axes: Sequence[Axis]
    box: Sequence[int]
    rows: int

    @property
    def _counts(self) -> list[IndexLike]:
        pairs = zip(self.axes, self.box, strict=True)
        return [ceil_div(axis.extent, size) for axis, size in pairs]

    @property
    def count(self) -> IndexLike:
        """Number of tiles that cover all rows."""
        return product(self._counts)

    @property
    def box_by_axis(self) -> dict[int, int]:
        """Extents of the box, by axis."""
        return {a.number: size for a, size in zip(self.axes, self.box, strict=True)}

    def origin(self, number: IndexLike) -> dict[int, IndexLike]:
        """The first point of a tile."""
        where = unflatten(index(number), self._counts)
        return {
            axis.number: multiply(place, size)
            for axis, place, size in zip(self.axes, where, self.box, strict=True)
        }

    def for_point(
        self,
        place: IndexLike,
        origin: Mapping[int, IndexLike],
        body: Callable[[Mapping[int, IndexLike]], None],
    ) -> None:
        """Emits ``body(point)`` for a row of a tile, predicated at the edges."""
        inside = [place] if len(self.box) == 1 else unflatten(index(place), self.box)
        row = {
            axis.number: add(origin[axis.number], at)
            for axis, at in zip(self.axes, inside, strict=True)
        }

        def test(axes: Sequence[Axis]) -> None:
            if not axes:
                body(row)
                return
            axis, *others = axes
            if_less(row[axis.number], axis.extent, lambda: test(others))

        if math.prod(self.box) == self.rows:
            test(self.axes)
        else:
            # Rows past the end of the box have an outermost coordinate past its extent.
            if_less(inside[0], self.box[0], lambda: test(self.axes))


def choose_row_tile(axes: Sequence[Axis], rows: int) -> RowTile:
    """The box of at most ``rows`` points with the highest utilization of the tiles.

    Raises:
        NotApplicable: the utilization is too low.
    """
    if len(axes) == 1:
        return RowTile(axes, [rows], rows)
    extents = [a.extent if isinstance(a.extent, int) else rows for a in axes]
    # Ties go to the box that is longest along the inner axes.
    box = max(
        _boxes(extents, rows), key=lambda s: (_utilization(s, extents, rows), s[::-1])
    )
    if _utilization(box, extents, rows) < _MIN_UTILIZATION:
        raise NotApplicable(
            "its rows are several axes, and no box of them fills a tile"
        )
    return RowTile(axes, box, rows)


def _boxes(extents: Sequence[int], rows: int) -> Iterator[tuple[int, ...]]:
    """All boxes of at most ``rows`` points."""
    *outer, last = extents
    for size in range(1, min(last, rows) + 1):
        if not outer:
            yield (size,)
            continue
        for others in _boxes(outer, rows // size):
            yield (*others, size)


def _utilization(box: Sequence[int], extents: Sequence[int], rows: int) -> float:
    """The fraction of the tiles' rows that are in the domain."""
    tiles = math.prod(-(-e // s) for e, s in zip(extents, box, strict=True))
    return math.prod(extents) / (rows * tiles)

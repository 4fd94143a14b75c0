"""Contractions of few tiles: blocks share the terms of a sum, and a second launch adds up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from relax_mlir.schedules.contraction_axes import Axis
from relax_mlir.schedules.contraction_plan import Plan
from relax_mlir.schedules.emit import (
    Extent,
    add,
    alloc,
    index,
    multiply,
    op,
    product,
    static,
    vector_type,
)
from relax_mlir.schedules.epilogue import Epilogue
from relax_mlir.schedules.gpu.grid import for_each_point
from relax_mlir.schedules.gpu.launch import PROCESSORS
from relax_mlir.schedules.nest import point_count

__all__ = ["PART", "PartialSums", "part_count"]

PART = -1  # the axis of the parts, beside those of the contraction
_LANES = 4  # neighbours that a thread adds up
_FEWEST_TURNS = 4  # of a part: fewer do not fill the slices that are on their way
_MOST_PARTS = 16


def part_count(plan: Plan, tiles: int, turns: Extent) -> int:
    """Of how many blocks each has some terms of a tile.

    Args:
        tiles: of the result; turns: slices of the sum.
    """
    columns = [plan.anchor.extents[axis] for axis in plan.n]
    is_even = all(isinstance(n, int) for n in columns)
    is_even = is_even and point_count(columns) % _LANES == 0
    if not isinstance(turns, int) or not is_even or not plan.anchor.starts_from_zero:
        return 1
    wanted = min(PROCESSORS // max(1, tiles), turns // _FEWEST_TURNS, _MOST_PARTS)
    if wanted < 2:
        return 1
    per_part = -(-turns // wanted)
    return -(-turns // per_part)  # none is left without terms


class PartialSums:
    """Stands in for what follows a sum: keeps the sums of all parts, and adds them up.

    Args:
        axes: of separate products and of rows; columns: the axis of columns.
        count: of parts; lanes: neighbouring columns that a thread stores.
    """

    def __init__(
        self, plan: Plan, axes: Sequence[Axis], columns: Axis, count: int, lanes: int
    ) -> None:
        self.lanes = lanes
        self._plan, self._axes, self._columns = plan, axes, columns
        self._count = count
        sizes = [axis.extent for axis in (*axes, columns)]
        self._size = product(sizes)
        self._memory = alloc([multiply(self._size, count)], plan.element)

    def store(
        self, value: ir.Value, at: Mapping[int, Extent], mask: ir.Value | None
    ) -> None:
        """Keep neighbours of a part, as :meth:`Epilogue.store` writes results."""
        assert mask is None
        place = add(multiply(at[PART], self._size), self._place(at))
        name = (
            "vector.store" if isinstance(value.type, ir.VectorType) else "memref.store"
        )
        op(name, None, value, self._memory, index(place))

    def _place(self, at: Mapping[int, Extent]) -> Extent:
        place: Extent = 0
        for axis in (*self._axes, self._columns):
            place = add(multiply(place, axis.extent), at[axis.number])
        return place

    def add_up(self) -> None:
        """Launch what adds the parts in their order, and what follows."""
        plan, axes = self._plan, self._axes
        type_ = vector_type(_LANES, plan.element)
        epilogue = Epilogue(plan.anchor, plan.maps, plan.n, _LANES)
        name = "arith.addf" if isinstance(plan.element, ir.FloatType) else "arith.addi"
        groups = static(self._columns.extent) // _LANES

        def write(points: list[Extent]) -> None:
            at = {a.number: p for a, p in zip(axes, points[:-1], strict=True)}
            at[self._columns.number] = multiply(points[-1], _LANES)
            place = self._place(at)
            parts = [
                op("vector.load", type_, self._memory, index(add(place, first)))
                for first in (multiply(self._size, n) for n in range(self._count))
            ]
            total = parts[0]
            for part in parts[1:]:
                total = op(name, type_, total, part)
            epilogue.store(total, at, None)

        for_each_point([*(axis.extent for axis in axes), groups], write)

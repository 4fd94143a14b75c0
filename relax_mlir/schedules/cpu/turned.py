"""Turned: maps that read rows where they write columns.

Transposes, and what is fused into them. A square tile is read row by row, turned in
registers, and written row by row, so that neither side is touched element by element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.emit import (
    Extent,
    add,
    broadcast,
    ceil_div,
    constant,
    for_loop,
    index,
    less,
    minimum,
    multiply,
    op,
    parallel_loop,
    product,
    rem,
    subtract,
    unflatten,
    vector_type,
)
from relax_mlir.schedules.nest import Access, Kernel, Statement, point_count
from relax_mlir.schedules.rule import PlannedRule
from relax_mlir.schedules.squares import turn
from relax_mlir.schedules.vectorize_body import BodyCloner, load, store

__all__ = ["Turned"]

_LEAST = 4  # points along either side of a tile that are worth it
_TILE_WORK = 1 << 14  # points that are worth a thread's while


class Turned(PlannedRule["_Plan"]):
    """Square tiles, turned in registers."""

    def plan(self, kernel: Kernel) -> _Plan | None:
        """One map that reads across what it writes."""
        return _plan(kernel)

    def write(self, plan: _Plan) -> None:
        _TurnedLoops(plan, self.unit.bits).emit()


@dataclass(frozen=True)
class _Plan:
    """How a kernel reads across what it writes.

    Attributes:
        statement: the map.
        row: the axis along which neighbours are written.
        column: the axis along which those are read that are turned.
    """

    statement: Statement
    row: int
    column: int

    def is_turned(self, access: Access) -> bool:
        """Whether an operand is read across."""
        return access.stride_of(self.row) not in (0, 1)


def _plan(kernel: Kernel) -> _Plan | None:
    if kernel.has_loops or len(kernel.statements) != 1 or kernel.temporaries:
        return None
    (statement,) = kernel.statements
    if statement.is_reduction or len(statement.outputs) != 1:
        return None
    if statement.looks_at_points:
        return None
    widths = {a.buffer.type.element_type.width for a in statement.accesses}
    if len(widths) != 1 or min(widths) < 32:
        return None
    (out,) = statement.outputs
    axes = range(len(statement.kinds))
    rows = [axis for axis in axes if out.stride_of(axis) == 1]
    if len(rows) != 1:
        return None
    (row,) = rows
    turned = [a for a in statement.inputs if a.stride_of(row) not in (0, 1)]
    columns = {next((x for x in axes if a.stride_of(x) == 1), None) for a in turned}
    if len(columns) != 1 or None in columns:
        return None
    column = columns.pop()
    assert column is not None
    sides = (statement.extents[axis] for axis in (row, column))
    if column not in out.axes or not all(map(_is_long, sides)):
        return None
    return _Plan(statement, row, column)


def _is_long(extent: Extent) -> bool:
    return not isinstance(extent, int) or extent >= _LEAST


class _TurnedLoops:
    """Writes the loops of one map."""

    def __init__(self, plan: _Plan, vector_bits: int) -> None:
        self.plan, self.statement = plan, plan.statement
        element = self.statement.outputs[0].buffer.type.element_type
        self.lanes = vector_bits // element.width
        extents = self.statement.extents
        self.rows, self.columns = extents[plan.row], extents[plan.column]
        self.others = [
            axis for axis in range(len(extents)) if axis not in (plan.row, plan.column)
        ]

    def emit(self) -> None:
        """Write them at the insertion point: a strip of columns a tile."""
        outer = [self.statement.extents[axis] for axis in self.others]
        strips = ceil_div(self.columns, self.lanes)
        grid = [*outer, strips]

        def tile(number: ir.Value) -> None:
            *points, strip = unflatten(number, grid)
            at = dict(zip(self.others, points, strict=True))
            at[self.plan.column] = multiply(strip, self.lanes)
            self._emit_strip(at)

        work = self.lanes * point_count([self.rows])
        parallel_loop(product(grid), tile, grain=max(1, _TILE_WORK // max(1, work)))

    def _emit_strip(self, at: Mapping[int, Extent]) -> None:
        """All tiles of some neighbouring columns."""
        row, column, lanes = self.plan.row, self.plan.column, self.lanes
        across = _Side.of(subtract(self.columns, at[column]), lanes)
        if isinstance(self.columns, int) and self.columns % lanes == 0:
            across = _Side(lanes, lanes, None)
        along = _Side(lanes, lanes, None)
        full = subtract(self.rows, rem(self.rows, lanes))

        def whole(first: ir.Value) -> tuple[()]:
            self._emit_tile({**at, row: first}, along, across)
            return ()

        for_loop(0, full, lanes, whole)
        left = subtract(self.rows, full)
        if left == 0:
            return

        def rest(first: ir.Value) -> tuple[()]:
            self._emit_tile({**at, row: first}, _Side.of(left, lanes), across)
            return ()

        for_loop(full, self.rows, lanes, rest)

    def _emit_tile(self, at: Mapping[int, Extent], along: _Side, across: _Side) -> None:
        """One tile, of so many points along what is written, and across."""
        statement = self.statement
        turned = {
            number: self._read_across(access, at, along, across)
            for number, access in enumerate(statement.inputs)
            if self.plan.is_turned(access)
        }
        (out,) = statement.outputs
        for i in across.numbers():
            points = self._points(at, self.plan.column, i)
            mask = along.masked(across.has(i))
            values = {}
            for number, access in enumerate(statement.inputs):
                if number in turned:
                    value = turned[number][i]
                else:
                    value = self._read(access, points, mask)
                values[statement.body.arguments[number]] = value
            (result,) = BodyCloner(statement.body, [], None, self.lanes).run(values)
            store(result, out.buffer, out.indices(points), self.lanes, mask)

    def _read(
        self, access: Access, points: Sequence[Extent], mask: ir.Value | None
    ) -> ir.Value:
        """An operand that lies as what is written does, or is one number for all lanes."""
        stride = access.stride_of(self.plan.row)
        assert stride is not None
        if not stride and mask is not None:  # what does not exist reads the last one
            clamped = list(points)
            column = self.plan.column
            clamped[column] = minimum(points[column], subtract(self.columns, 1))
            points = clamped
        where = access.indices(points)
        return load(access.buffer, where, self.lanes, stride, mask if stride else None)

    def _read_across(
        self, access: Access, at: Mapping[int, Extent], along: _Side, across: _Side
    ) -> list[ir.Value]:
        """An operand's vectors along what is written, one for each point across."""
        element = access.buffer.type.element_type
        nothing = broadcast(constant(0, element), self.lanes)
        rows = [nothing] * self.lanes
        for i in along.numbers():
            points = self._points(at, self.plan.row, i)
            mask = across.masked(along.has(i))
            rows[i] = load(access.buffer, access.indices(points), self.lanes, 1, mask)
        return turn(rows)

    def _points(self, at: Mapping[int, Extent], axis: int, step: int) -> list[Extent]:
        where = {**at, axis: add(at[axis], step)}
        return [where[axis] for axis in range(len(self.statement.extents))]


@dataclass(frozen=True)
class _Side:
    """One side of a tile.

    Attributes:
        lanes: points that there is room for; count: that exist.
        mask: which; None if all do.
    """

    lanes: int
    count: Extent
    mask: ir.Value | None

    @staticmethod
    def of(count: Extent, lanes: int) -> _Side:
        """A side of which ``count`` points are left, perhaps more than fit."""
        type_ = vector_type(lanes, ir.IntegerType.get_signless(1))
        return _Side(lanes, count, op("vector.create_mask", type_, index(count)))

    def numbers(self) -> range:
        """The points that may exist."""
        known = self.count if isinstance(self.count, int) else self.lanes
        return range(min(known, self.lanes))

    def has(self, number: int) -> ir.Value | None:
        """Whether a point exists, as one bit; None if it surely does."""
        return None if isinstance(self.count, int) else less(number, self.count)

    def masked(self, exists: ir.Value | None) -> ir.Value | None:
        """Which points exist, if something else does; None if all do."""
        if exists is None:
            return self.mask
        every = broadcast(exists, self.lanes)
        return (
            every
            if self.mask is None
            else op("arith.andi", every.type, every, self.mask)
        )

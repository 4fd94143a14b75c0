"""Turned: maps that read rows where they write columns.

Transposes, and what is fused into them. A square tile is read row by row, turned in
registers, and written row by row, so that neither side is touched element by element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.configuration import Configuration
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
from relax_mlir.schedules.rule import (
    Refusal,
    Rule,
    check_one_output,
    check_statements,
)
from relax_mlir.schedules.squares import turn
from relax_mlir.schedules.vectorize_body import BodyCloner, load, store

__all__ = ["Turned"]

_LEAST = 4  # points along either side of a tile that are worth it
_TILE_WORK = 1 << 14  # points that are worth a thread's while


@dataclass(frozen=True)
class TurnedConfiguration(Configuration):
    """How a kernel reads across what it writes.

    Attributes:
        tile: points along either side.
    """

    rule = "Turned"
    tile: int


@dataclass(frozen=True)
class Turned(Rule["_Plan"]):
    """Square tiles, turned in registers."""

    configuration: TurnedConfiguration | None = None

    def plan(self, kernel: Kernel) -> _Plan:
        """One map that reads across what it writes."""
        return _plan(kernel)

    def configurations(self, plan: _Plan) -> list[TurnedConfiguration]:
        """Tiles as wide as a vector, and narrower ones."""
        sides = [_lanes(plan, self.unit.bits)]
        while sides[-1] > _LEAST:
            sides.append(sides[-1] // 2)
        return [TurnedConfiguration(side) for side in sides]

    def write(self, plan: _Plan) -> None:
        made = self.configuration
        tile = _lanes(plan, self.unit.bits) if made is None else made.tile
        _TurnedLoops(plan, tile).emit()


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


def _plan(kernel: Kernel) -> _Plan:
    check_statements(kernel)
    if len(kernel.statements) != 1 or kernel.temporaries:
        raise Refusal("it has more than one statement")
    (statement,) = kernel.statements
    if statement.is_reduction:
        raise Refusal("its statement is a sum")
    check_one_output(statement)
    if statement.looks_at_points:
        raise Refusal("what it computes depends on where it is")
    widths = {a.buffer.type.element_type.width for a in statement.accesses}
    if len(widths) != 1 or min(widths) < 32:
        raise Refusal("its elements are not all of one width of 32 bits or more")
    row, column = _sides(statement)
    if not all(_is_long(statement.extents[axis]) for axis in (row, column)):
        raise Refusal(f"a side of its tiles would have less than {_LEAST} points")
    return _Plan(statement, row, column)


def _sides(statement: Statement) -> tuple[int, int]:
    """The axis along which neighbours are written, and that along which they are read."""
    (out,) = statement.outputs
    axes = range(len(statement.kinds))
    rows = [axis for axis in axes if out.stride_of(axis) == 1]
    if len(rows) != 1:
        raise Refusal("it does not write neighbours along one axis")
    (row,) = rows
    turned = [a for a in statement.inputs if a.stride_of(row) not in (0, 1)]
    if not turned:
        raise Refusal("it reads neighbours along the axis where it writes them")
    columns = {next((x for x in axes if a.stride_of(x) == 1), None) for a in turned}
    column = columns.pop()
    if columns or column is None or column not in out.axes:
        raise Refusal("it does not read neighbours along one other axis")
    return row, column


def _is_long(extent: Extent) -> bool:
    return not isinstance(extent, int) or extent >= _LEAST


def _lanes(plan: _Plan, vector_bits: int) -> int:
    """Elements of a vector."""
    return vector_bits // plan.statement.outputs[0].buffer.type.element_type.width


class _TurnedLoops:
    """Writes the loops of one map, in tiles of so many points along either side."""

    def __init__(self, plan: _Plan, lanes: int) -> None:
        self.plan, self.statement = plan, plan.statement
        self.lanes = lanes
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

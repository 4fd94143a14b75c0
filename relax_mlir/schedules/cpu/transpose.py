"""Transpose rule: elementwise statements with a transposed input.

A square tile is loaded in row vectors, transposed in registers, and stored in row vectors,
so that both sides use contiguous accesses. Elementwise operations are fused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
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
from relax_mlir.schedules.configuration import Configuration
from relax_mlir.schedules.kernel_view import Access, Kernel, Statement, point_count
from relax_mlir.schedules.lane_transpose import transpose_lanes
from relax_mlir.schedules.rule import (
    CpuRule,
    NotApplicable,
    check_one_output,
    check_statements,
)
from relax_mlir.schedules.vectorize_body import (
    BodyVectorizer,
    load_vector,
    store_vector,
)

__all__ = ["Transpose"]

_MIN_SIDE = 4  # minimum side of a tile
_TILE_WORK = 1 << 14  # points per thread that pay for starting it


@dataclass(frozen=True)
class TransposeConfiguration(Configuration):
    """Tunable parameters of a transpose.

    Attributes:
        tile: side of a square tile, in elements.
    """

    rule = "Transpose"
    tile: int


@dataclass(frozen=True)
class Transpose(CpuRule["_TransposePlan"]):
    """In-register transposes of square tiles."""

    configuration: TransposeConfiguration | None = None

    def plan(self, kernel: Kernel) -> _TransposePlan:
        """Match one elementwise statement with a transposed input."""
        return _plan(kernel)

    def configurations(self, plan: _TransposePlan) -> list[TransposeConfiguration]:
        """Tiles as wide as a vector, and narrower powers of two."""
        sides = [_lanes(plan, self.unit.vector_bits)]
        while sides[-1] > _MIN_SIDE:
            sides.append(sides[-1] // 2)
        return [TransposeConfiguration(side) for side in sides]

    def write(self, plan: _TransposePlan) -> None:
        chosen = self.configuration
        tile = _lanes(plan, self.unit.vector_bits) if chosen is None else chosen.tile
        _TransposeLoops(plan, tile).emit()


@dataclass(frozen=True)
class _TransposePlan:
    """A kernel matched as a transpose.

    Attributes:
        statement: the elementwise statement.
        row: the contiguous axis of the output.
        column: the contiguous axis of the transposed inputs.
    """

    statement: Statement
    row: int
    column: int

    def is_transposed(self, access: Access) -> bool:
        """Whether an operand is neither contiguous nor constant along the output rows."""
        return access.stride_of(self.row) not in (0, 1)


def _plan(kernel: Kernel) -> _TransposePlan:
    check_statements(kernel)
    if len(kernel.statements) != 1 or kernel.temporaries:
        raise NotApplicable("it has more than one statement")
    (statement,) = kernel.statements
    if statement.is_reduction:
        raise NotApplicable("its statement is a reduction")
    check_one_output(statement)
    if statement.depends_on_indices:
        raise NotApplicable("its statement depends on indices")
    widths = {a.buffer.type.element_type.width for a in statement.accesses}
    if len(widths) != 1 or min(widths) < 32:
        raise NotApplicable("its elements do not all have one width of 32 bits or more")
    row, column = _contiguous_axes(statement)
    if not all(_is_long(statement.extents[axis]) for axis in (row, column)):
        raise NotApplicable(f"a transposed axis has fewer than {_MIN_SIDE} elements")
    return _TransposePlan(statement, row, column)


def _contiguous_axes(statement: Statement) -> tuple[int, int]:
    """The contiguous axes of the output and of its transposed inputs."""
    (out,) = statement.outputs
    axes = range(len(statement.kinds))
    rows = [axis for axis in axes if out.stride_of(axis) == 1]
    if len(rows) != 1:
        raise NotApplicable("its output has no contiguous axis, or several")
    (row,) = rows
    transposed = [a for a in statement.inputs if a.stride_of(row) not in (0, 1)]
    if not transposed:
        raise NotApplicable("it has no transposed input")
    columns = {next((x for x in axes if a.stride_of(x) == 1), None) for a in transposed}
    column = columns.pop()
    if columns or column is None or column not in out.axes:
        raise NotApplicable(
            "its transposed inputs are not contiguous along one common axis"
        )
    return row, column


def _is_long(extent: IndexLike) -> bool:
    return not isinstance(extent, int) or extent >= _MIN_SIDE


def _lanes(plan: _TransposePlan, vector_bits: int) -> int:
    """Elements per vector."""
    return vector_bits // plan.statement.outputs[0].buffer.type.element_type.width


class _TransposeLoops:
    """Emits the loops of one transpose, in tiles of ``lanes`` x ``lanes`` elements."""

    def __init__(self, plan: _TransposePlan, lanes: int) -> None:
        self.plan, self.statement = plan, plan.statement
        self.lanes = lanes
        extents = self.statement.extents
        self.rows, self.columns = extents[plan.row], extents[plan.column]
        self.others = [
            axis for axis in range(len(extents)) if axis not in (plan.row, plan.column)
        ]

    def emit(self) -> None:
        """Emit the loops at the insertion point; a parallel tile is a strip of columns."""
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

    def _emit_strip(self, at: Mapping[int, IndexLike]) -> None:
        """Emit all tiles of a strip of columns."""
        row, column, lanes = self.plan.row, self.plan.column, self.lanes
        across = _TileSide.of(subtract(self.columns, at[column]), lanes)
        if isinstance(self.columns, int) and self.columns % lanes == 0:
            across = _TileSide(lanes, lanes, None)
        along = _TileSide(lanes, lanes, None)
        full = subtract(self.rows, rem(self.rows, lanes))

        def whole(first: ir.Value) -> tuple[()]:
            self._emit_tile({**at, row: first}, along, across)
            return ()

        for_loop(0, full, lanes, whole)
        remaining = subtract(self.rows, full)
        if remaining == 0:
            return

        def tail(first: ir.Value) -> tuple[()]:
            self._emit_tile({**at, row: first}, _TileSide.of(remaining, lanes), across)
            return ()

        for_loop(full, self.rows, lanes, tail)

    def _emit_tile(
        self, at: Mapping[int, IndexLike], along: _TileSide, across: _TileSide
    ) -> None:
        """Emit one tile.

        Args:
            along: side along the output rows; across: the other side.
        """
        statement = self.statement
        transposed = {
            number: self._load_transposed(access, at, along, across)
            for number, access in enumerate(statement.inputs)
            if self.plan.is_transposed(access)
        }
        (out,) = statement.outputs
        for i in across.numbers():
            points = self._points(at, self.plan.column, i)
            mask = along.masked(across.has(i))
            values = {}
            for number, access in enumerate(statement.inputs):
                if number in transposed:
                    value = transposed[number][i]
                else:
                    value = self._load(access, points, mask)
                values[statement.body.arguments[number]] = value
            (result,) = BodyVectorizer(statement.body, [], None, self.lanes).run(values)
            store_vector(result, out.buffer, out.indices(points), self.lanes, mask)

    def _load(
        self, access: Access, points: Sequence[IndexLike], mask: ir.Value | None
    ) -> ir.Value:
        """Load an operand that is contiguous or constant along the output rows."""
        stride = access.stride_of(self.plan.row)
        assert stride is not None
        if not stride and mask is not None:  # scalar loads are clamped, not masked
            clamped = list(points)
            column = self.plan.column
            clamped[column] = minimum(points[column], subtract(self.columns, 1))
            points = clamped
        indices = access.indices(points)
        return load_vector(
            access.buffer, indices, self.lanes, stride, mask if stride else None
        )

    def _load_transposed(
        self,
        access: Access,
        at: Mapping[int, IndexLike],
        along: _TileSide,
        across: _TileSide,
    ) -> list[ir.Value]:
        """Load a tile of an operand, and transpose it to vectors along the output rows."""
        element = access.buffer.type.element_type
        zero = broadcast(constant(0, element), self.lanes)
        rows = [zero] * self.lanes
        for i in along.numbers():
            points = self._points(at, self.plan.row, i)
            mask = across.masked(along.has(i))
            rows[i] = load_vector(
                access.buffer, access.indices(points), self.lanes, 1, mask
            )
        return transpose_lanes(rows)

    def _points(
        self, at: Mapping[int, IndexLike], axis: int, step: int
    ) -> list[IndexLike]:
        point = {**at, axis: add(at[axis], step)}
        return [point[axis] for axis in range(len(self.statement.extents))]


@dataclass(frozen=True)
class _TileSide:
    """One side of a tile.

    Attributes:
        lanes: length of the side; count: valid points, may exceed ``lanes``.
        mask: of the valid points; None if all are.
    """

    lanes: int
    count: IndexLike
    mask: ir.Value | None

    @staticmethod
    def of(count: IndexLike, lanes: int) -> _TileSide:
        """A side with ``count`` valid points left, which may exceed ``lanes``."""
        type_ = vector_type(lanes, ir.IntegerType.get_signless(1))
        return _TileSide(lanes, count, op("vector.create_mask", type_, index(count)))

    def numbers(self) -> range:
        """The points that may be valid."""
        known = self.count if isinstance(self.count, int) else self.lanes
        return range(min(known, self.lanes))

    def has(self, number: int) -> ir.Value | None:
        """An i1: whether a point is valid; None if it is so statically."""
        return None if isinstance(self.count, int) else less(number, self.count)

    def masked(self, condition: ir.Value | None) -> ir.Value | None:
        """The mask of the side and'ed with a condition; None if all points are valid."""
        if condition is None:
            return self.mask
        all_lanes = broadcast(condition, self.lanes)
        if self.mask is None:
            return all_lanes
        return op("arith.andi", all_lanes.type, all_lanes, self.mask)

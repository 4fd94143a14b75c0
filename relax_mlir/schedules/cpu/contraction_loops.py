"""The loops of a contraction: panels of columns, tiles of rows in registers."""

from collections.abc import Mapping, Sequence

from mlir import ir

from relax_mlir.schedules.cpu.contraction_plan import Map, Plan
from relax_mlir.schedules.cpu.panel import Columns, Tiling
from relax_mlir.schedules.emit import (
    Extent,
    add,
    broadcast,
    ceil_div,
    for_loop,
    index,
    multiply,
    op,
    parallel_loop,
    product,
    rem,
    subtract,
    unflatten,
)
from relax_mlir.schedules.nest import point_count
from relax_mlir.schedules.vectorize_body import BodyCloner, load, store

__all__ = ["ContractionLoops", "placed"]

# Rows x vectors of accumulators: with the vectors of one step and a broadcast they fill
# the registers (32 of 512 bits, 16 of 256).
_TILES = {512: ((8, 3), (14, 2), (6, 4)), 256: ((6, 2), (4, 3)), 128: ((8, 2), (6, 4))}
_PACK_ROWS = 4  # tiles of rows from which on copying the columns pays
_WORK = 1 << 18  # multiply-adds that are worth a thread's while


class ContractionLoops:
    """Writes the loops of one contraction, step by step of its sum.

    Args:
        plan: the contraction.
        vector_bits: width of the machine's vectors.
    """

    def __init__(self, plan: Plan, vector_bits: int) -> None:
        self.plan = plan
        self.lanes = vector_bits // plan.element.width
        self.extents = plan.anchor.extents
        self.rows = product([self.extents[i] for i in plan.m])
        columns = product([self.extents[i] for i in plan.n])
        depth = product([self.extents[i] for i in plan.k])
        self.mr, vectors = _choose_tile(
            self.rows, columns, self.lanes, _TILES[vector_bits]
        )
        self.tiling = Tiling(plan, self.lanes, vectors, columns, depth)

    def emit(self) -> None:
        """Write them at the insertion point."""
        plan, tiling = self.plan, self.tiling
        outer = [self.extents[i] for i in plan.outer]
        grid = [*outer, ceil_div(tiling.columns, tiling.width)]
        work = point_count([self.rows, tiling.depth]) * tiling.width

        def tile(number: ir.Value) -> None:
            *products, panel = unflatten(number, grid)
            points: list[Extent] = [0] * len(plan.anchor.kinds)
            for axis, point in zip(plan.outer, products, strict=True):
                points[axis] = point
            first = multiply(panel, tiling.width)
            self._emit_panel(points, self.columns_from(points, first))

        parallel_loop(product(grid), tile, grain=max(1, _WORK // max(1, work)))

    def columns_from(self, points: Sequence[Extent], first: Extent) -> Columns:
        """The columns of one tile."""
        return Columns(self.tiling, points, first)

    def _emit_panel(self, points: Sequence[Extent], columns: Columns) -> None:
        """One panel of columns against all rows."""
        is_tall = isinstance(self.rows, int) and self.rows >= _PACK_ROWS * self.mr
        if not self.plan.whole or is_tall:
            columns.pack()
        full = subtract(self.rows, rem(self.rows, self.mr))

        def rows(m: ir.Value) -> tuple[()]:
            self._emit_tile(m, self.mr, points, columns)
            return ()

        for_loop(0, full, self.mr, rows)
        if isinstance(self.rows, int):
            if self.rows % self.mr:
                self._emit_tile(index(full), self.rows % self.mr, points, columns)
            return

        self._emit_rest(full, points, columns)

    def _emit_rest(
        self, begin: Extent, points: Sequence[Extent], columns: Columns
    ) -> None:
        """Rows that fill no tile, whose number is not known: in tiles half as high each.

        Each tile reads all columns, which one row after the other would do too often.
        """
        left = rem(self.rows, self.mr)
        height = 1 << max(0, (self.mr - 1).bit_length() - 1)
        while height:
            end = add(begin, subtract(left, rem(left, height)))

            def rows(m: ir.Value, height: int = height) -> tuple[()]:
                self._emit_tile(m, height, points, columns)
                return ()

            for_loop(begin, end, height, rows)
            begin, left, height = end, rem(left, height), height // 2

    def _emit_tile(
        self, m: ir.Value, count: int, points: Sequence[Extent], columns: Columns
    ) -> None:
        """One register tile: ``count`` rows from ``m`` on."""
        rows = [self._row(add(m, i)) for i in range(count)]
        sums = iter(self.sums(points, rows, columns))
        for row in rows:
            for q in range(self.tiling.vectors):
                self._finish(next(sums), row, columns, q)

    def sums(
        self,
        points: Sequence[Extent],
        rows: Sequence[Mapping[int, Extent]],
        columns: Columns,
    ) -> list[ir.Value]:
        """The vectors of sums of some rows, one row after the other."""
        vectors = range(self.tiling.vectors)

        def step(k: ir.Value, *sums: ir.Value) -> list[ir.Value]:
            found = [columns.at(k, q) for q in vectors]
            following: list[ir.Value] = []
            for row in rows:
                factor = broadcast(self._row_element(points, row, k), self.lanes)
                for q in vectors:
                    total = sums[len(following)]
                    following.append(_multiply_add(factor, found[q], total))
            return following

        accumulators = [self.start()] * (len(rows) * len(vectors))
        return for_loop(0, self.tiling.depth, 1, step, accumulators)

    def start(self) -> ir.Value:
        """A vector of empty sums."""
        start = op("arith.constant", self.plan.element, value=self.plan.anchor.start)
        return broadcast(start, self.lanes)

    def _row(self, m: Extent) -> dict[int, Extent]:
        """The index along each of the rows' axes of row ``m``."""
        points = unflatten(index(m), [self.extents[i] for i in self.plan.m])
        return dict(zip(self.plan.m, points, strict=True))

    def row_place(
        self, points: Sequence[Extent], row: Mapping[int, Extent], k: Extent
    ) -> list[ir.Value]:
        """Where the rows' operand holds what step ``k`` of the sum takes of a row."""
        *leading, last = self.plan.k
        where = placed(points, {**row, **dict.fromkeys(leading, 0), last: k})
        return self.plan.a.indices(where)

    def _row_element(
        self, points: Sequence[Extent], row: Mapping[int, Extent], k: ir.Value
    ) -> ir.Value:
        factor = self.plan.rows_of
        place = self.row_place(points, row, k)
        found = op("memref.load", factor.element, factor.access.buffer, *place)
        if factor.extend is None:
            return found
        return op(factor.extend, self.plan.element, found)

    def _finish(
        self, value: ir.Value, row: Mapping[int, Extent], columns: Columns, q: int
    ) -> None:
        """Run the maps on one vector of results and store it."""
        points = placed(columns.points_of(q), row)
        mask = columns.masks[q]
        out = self.plan.anchor.outputs[0]
        produced = {out.buffer: value}
        for following in self.plan.maps:
            value = self._map(following, points, produced, mask)
            out = following.output
            produced[out.buffer] = value
        store(value, out.buffer, out.indices(points), self.lanes, mask)

    def _map(
        self,
        following: Map,
        points: Sequence[Extent],
        produced: Mapping[ir.Value, ir.Value],
        mask: ir.Value | None,
    ) -> ir.Value:
        values: dict[ir.Value, ir.Value] = {}
        body = following.statement.body
        for argument, access in zip(body.arguments, following.inputs, strict=False):
            if access.buffer in produced:
                values[argument] = produced[access.buffer]
                continue
            is_row = any(axis in access.axes for axis in self.plan.n)
            values[argument] = load(
                access.buffer,
                access.indices(points),
                self.lanes,
                int(is_row),
                mask if is_row else None,
            )
        (result,) = BodyCloner(body, [], None, self.lanes).run(values)
        return result


def _multiply_add(x: ir.Value, y: ir.Value, total: ir.Value) -> ir.Value:
    """x * y + total, of floats rounded once."""
    if isinstance(total.type.element_type, ir.FloatType):
        return op("vector.fma", total.type, x, y, total)
    return op("arith.addi", total.type, op("arith.muli", total.type, x, y), total)


def _choose_tile(
    rows: Extent, columns: Extent, lanes: int, tiles: Sequence[tuple[int, int]]
) -> tuple[int, int]:
    """Rows and vectors of the tile that computes the least that is thrown away."""
    if rows == 1:
        return 1, min(16, -(-columns // lanes)) if isinstance(columns, int) else 4
    if not isinstance(columns, int):
        return tiles[0]

    def cost(tile: tuple[int, int]) -> float:
        mr, vectors = tile
        width = vectors * lanes
        padded = -(-columns // width) * width
        used_rows = 1.0
        if isinstance(rows, int) and rows:
            used_rows = -(-rows // mr) * mr / rows
        # A small tile reads more per multiply-add.
        return padded * (1 + 0.25 * (used_rows - 1)) * (1 + 0.3 / mr + 0.1 / vectors)

    mr, vectors = min(tiles, key=cost)
    while vectors > 1 and columns <= (vectors - 1) * lanes:
        vectors -= 1
    return (min(mr, rows) if isinstance(rows, int) else mr), vectors


def placed(points: Sequence[Extent], at: Mapping[int, Extent]) -> list[Extent]:
    """An index per axis, those of ``at`` in place of the ones in ``points``."""
    return [at.get(axis, point) for axis, point in enumerate(points)]

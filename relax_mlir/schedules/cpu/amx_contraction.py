"""Contractions whose products are multiplied in tiles: 16 rows by 16 columns at a time.

Up to two tiles of rows meet two of columns, so that four tiles of sums stay in registers over
the whole sum. They are stored to scratch memory then, from where the epilogue reads vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from mlir import ir

from relax_mlir.schedules.contraction_axes import Axis
from relax_mlir.schedules.contraction_plan import Plan
from relax_mlir.schedules.cpu import amx
from relax_mlir.schedules.cpu.contraction_tile import ContractionConfiguration, Tile
from relax_mlir.schedules.cpu.dot_contraction import (
    DotColumns,
    DotContractionLoops,
    for_runs,
    runs_of_sum,
)
from relax_mlir.schedules.cpu.dots import Dot
from relax_mlir.schedules.cpu.panel import Columns
from relax_mlir.schedules.emit import (
    UNROLLED,
    Extent,
    add,
    alloc,
    for_loop,
    index,
    minimum,
    multiply,
    op,
    product,
    rem,
    static,
    subtract,
    vector_type,
)
from relax_mlir.schedules.flat import flat_view
from relax_mlir.schedules.rule import VectorUnit
from relax_mlir.schedules.vectorize_body import load, store

__all__ = ["AmxContractionLoops", "step_of_tiles"]

_VECTOR_BITS = 512  # of a tile's row


def step_of_tiles(plan: Plan, unit: VectorUnit) -> int:
    """How many terms of a contraction's sums a tile's row holds; 0 if it takes no tiles.

    The terms of a row must lie side by side, and whole words of them. Columns that are
    stored in blocks must be so in groups of as many terms, and not too many of them.
    """
    factors = plan.rows_of, plan.columns_of
    terms = unit.terms_of_tile(plan.element, *((f.element, f.extend) for f in factors))
    extents = plan.anchor.extents
    if terms == 1 or not all(isinstance(extents[axis], int) for axis in plan.k):
        return 0
    is_stored = plan.block in (amx.COLUMNS, 2 * amx.COLUMNS) and plan.group == terms
    if plan.block and not is_stored:
        return 0
    if not amx.takes_rows(product([extents[axis] for axis in plan.m])):
        return 0
    *_, run = runs_of_sum(plan, terms)
    is_run = plan.a.stride_of(run.number) == 1 and plan.anchor.starts_from_zero
    return amx.step_of_run(run.extent, terms) if is_run else 0


@dataclass(frozen=True)
class _Rows:
    """Where the rows of some tiles are read.

    Attributes:
        view: a buffer of one dimension; starts: where each tile begins in it.
        step: elements from a row to the next.
        steps: elements between neighbours along the axes of the sum.
    """

    view: ir.Value
    starts: Sequence[Extent]
    step: Extent
    steps: Callable[[int], Extent]


class AmxContractionLoops(DotContractionLoops):
    """Writes the loops of a contraction in tiles of AMX.

    All tiles of rows are as high: 16 rows, or all, if there are fewer. The last tile
    of rows begins before those that are left. Where it is not known whether there are as many
    before them, they are copied to where 16 have room.

    Args:
        plan, configuration: as for :class:`ContractionLoops`.
        step: terms of the sum that a tile's row holds.
    """

    work = 1 << 21  # at eight times the rate and more

    def __init__(
        self, plan: Plan, step: int, configuration: ContractionConfiguration | None
    ) -> None:
        self._step = step
        super().__init__(plan, _VECTOR_BITS, configuration)

    def _tile(self, vector_bits: int) -> Tile:
        """Two tiles of rows by two of columns, if there are as many."""
        rows = self.last.extent
        most = min(rows, 2 * amx.ROWS) if isinstance(rows, int) else 2 * amx.ROWS
        vectors = self.stored_vectors or amx.block_columns(self.columns) // self.lanes
        return Tile(most, vectors)

    def other_tiles(self, vector_bits: int) -> list[Tile]:
        """Fewer tiles at once."""
        tile, width = self.tile, self.stored_vectors
        widths = [width] if width else range(tile.vectors, 0, -1)
        heights = [tile.rows, *([amx.ROWS] if tile.rows > amx.ROWS else [])]
        found = [Tile(rows, vectors) for rows in heights for vectors in widths]
        return found[1:]

    @property
    def is_packed_here(self) -> bool:
        return self.plan.group == 1

    @cached_property
    def dot(self) -> Dot:
        return _Words(self.lanes, self.plan.columns_of.element)

    @property
    def _height(self) -> int:
        """Rows of a tile."""
        rows = self.last.extent
        return min(rows, amx.ROWS) if isinstance(rows, int) else amx.ROWS

    @cached_property
    def _axes(self) -> list[Axis]:
        return runs_of_sum(self.plan, self.dot.terms)

    def _emit_block(
        self,
        points: Mapping[int, Extent],
        units: tuple[Extent, Extent],
        panels: tuple[Extent, Extent],
    ) -> None:
        width = self.tile.vectors * self.lanes
        self._sums = alloc([self.tile.rows, width], self.plan.element)
        if not isinstance(self.last.extent, int):
            shape = [amx.ROWS, self.tiling.depth]
            self._rest = flat_view(alloc(shape, self.plan.rows_of.element))
        super()._emit_block(points, units, panels)

    # rows

    def _emit_rows(
        self,
        points: Mapping[int, Extent],
        begin: Extent,
        end: Extent,
        columns: Columns,
        unit: Extent | None = None,
    ) -> None:
        """Rows from ``begin`` to ``end``; of an open number, the last ones are copied."""
        if isinstance(self.last.extent, int):
            super()._emit_rows(points, begin, end, columns, unit)
            return
        for height in dict.fromkeys((self.tile.rows, amx.ROWS)):
            full = subtract(end, rem(subtract(end, begin), height))

            def tile(m: ir.Value, height: int = height) -> tuple[()]:
                at = {**points, self.last.number: m}
                self._emit_tile(at, height, columns, 0)
                return ()

            for_loop(begin, full, height, tile)
            begin = full

        def rest(m: ir.Value) -> tuple[()]:
            at = {**points, self.last.number: m}
            count = subtract(end, m)
            rows = self._copied(self.a.offset(at), count)
            self._multiply(rows, [0], columns, 0)
            self._finish(at, count, 0, columns)
            return ()

        for_loop(begin, end, amx.ROWS, rest)

    def _emit_tile(
        self,
        points: Mapping[int, Extent],
        count: int,
        columns: Columns,
        number: Extent,
    ) -> None:
        """Some rows by one or two tiles of columns."""
        height = self._height
        # Rows before the first one are multiplied once more, and not written.
        before = max(0, height - count)
        places = [0, count - height] if count > height else [0]
        step = self.a.step(self.last.number)
        first = subtract(self.a.offset(points), multiply(step, before))
        starts = [add(first, multiply(step, place)) for place in places]
        rows = _Rows(self.a.view, starts, step, self.a.step)
        self._multiply(rows, places, columns, number)
        self._finish(points, count, before, columns)

    def _copied(self, begin: Extent, count: Extent) -> _Rows:
        """Less than a tile of rows, copied: each one's terms behind each other."""
        *outer, run = self._axes
        depth, length = static(self.tiling.depth), static(run.extent)
        # Terms of a copied row from one step to the next, along each axis of the sum.
        sizes = {
            axis.number: product([a.extent for a in self._axes[place:]])
            for place, axis in enumerate(self._axes, start=1)
        }
        lanes = self.dot.terms * self.lanes
        step = self.a.step(self.last.number)

        def vector(source: Extent, target: Extent, left: Extent) -> tuple[()]:
            type_ = vector_type(lanes, ir.IntegerType.get_signless(1))
            mask = op("vector.create_mask", type_, index(left))
            found = load(self.a.view, [index(source)], lanes, 1, mask)
            store(found, self._rest, [index(target)], lanes, mask)
            return ()

        def copy(axes: Sequence[Axis], source: Extent, target: Extent) -> tuple[()]:
            if not axes:

                def part(k: ir.Value) -> tuple[()]:
                    left = minimum(subtract(length, k), lanes)
                    return vector(add(source, k), add(target, k), left)

                for_loop(0, length, lanes, part)
                return ()
            axis, *inner = axes

            def at(k: ir.Value) -> tuple[()]:
                here = add(source, multiply(k, self.a.step(axis.number)))
                there = add(target, multiply(k, sizes[axis.number]))
                return copy(inner, here, there)

            for_loop(0, axis.extent, 1, at)
            return ()

        def row(i: ir.Value) -> tuple[()]:
            return copy(outer, add(begin, multiply(i, step)), multiply(i, depth))

        for_loop(0, count, 1, row)
        return _Rows(self._rest, [0], depth, lambda number: sizes[number])

    # tiles

    def _multiply(
        self,
        rows: _Rows,
        places: Sequence[int],
        columns: Columns,
        number: Extent,
    ) -> None:
        """Sum products up in tiles, and store them.

        Args:
            places: rows of the scratch memory where tiles of rows go.
            number: counts the tiles that work with these columns.
        """
        assert isinstance(columns, DotColumns)
        groups, terms, step = columns.groups, self.dot.terms, self._step
        assert groups is not None
        plan, height = self.plan, self._height
        a_type = amx.tile_type(height, step, plan.rows_of.element)
        words = terms * amx.COLUMNS
        b_type = amx.tile_type(step // terms, words, plan.columns_of.element)
        *outer, run = self._axes
        run_groups = static(run.extent) // terms
        turn_begins = self._ahead(columns, number)

        def multiply_step(
            offset: Extent, group: Extent, sums: Sequence[ir.Value]
        ) -> list[ir.Value]:
            for turn in range(0, step // terms, UNROLLED):
                turn_begins(add(group, turn))
            across = [
                amx.load_tile(b_type, groups.view, groups.place(group, q), groups.step)
                for q in range(columns.vectors)
            ]
            following: list[ir.Value] = []
            for start in rows.starts:
                factor = amx.load_tile(a_type, rows.view, add(start, offset), rows.step)
                following += [
                    amx.multiply_tiles(
                        sums[len(following) + q],
                        factor,
                        column,
                        (plan.rows_of, plan.columns_of),
                    )
                    for q, column in enumerate(across)
                ]
            return following

        def multiply_run(
            offset: Extent, run_number: Extent, sums: list[ir.Value]
        ) -> list[ir.Value]:
            first = multiply(run_number, run_groups)

            def at(k: ir.Value, *carried: ir.Value) -> list[ir.Value]:
                group = add(first, multiply(k, step // terms))
                return multiply_step(add(offset, multiply(k, step)), group, carried)

            return for_loop(0, static(run.extent) // step, 1, at, sums)

        sum_type = amx.tile_type(height, amx.COLUMNS, plan.element)
        where = [(row, q) for row in places for q in range(columns.vectors)]
        zeros = [amx.zero_tile(sum_type) for _ in where]
        sums = for_runs(outer, rows.steps, multiply_run, zeros)
        for tile, (row, q) in zip(sums, where, strict=True):
            amx.store_tile(tile, self._sums, (row, q * self.lanes))

    def _finish(
        self, points: Mapping[int, Extent], count: Extent, first: int, columns: Columns
    ) -> None:
        """Run the epilogue on rows of sums, from row ``first`` of the scratch memory on."""
        row_axis, column_axis = self.last.number, self.plan.n[-1]

        def row(i: ir.Value) -> tuple[()]:
            at = {**points, row_axis: add(points[row_axis], i)}
            for q in range(columns.vectors):
                where = [index(add(i, first)), index(q * self.lanes)]
                value = load(self._sums, where, self.lanes, 1, None)
                here = {**at, column_axis: columns.first_of(q)}
                self.epilogue.store(value, here, columns.masks[q])
            return ()

        for_loop(0, count, 1, row)


class _Words(Dot):
    """Terms that are neighbours, of any signs: what tiles have instead of vectors."""

    def __init__(self, lanes: int, element: ir.Type) -> None:
        super().__init__(lanes, element)
        self.terms = 32 // element.width

"""The loops of a contraction: blocks of rows, panels of columns, tiles in registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.blocked_sums import (
    LONG_BLOCK,
    block_lengths,
    blocked_loop,
    blocked_unrolled_loop,
)
from relax_mlir.schedules.contraction_axes import Axis, merged
from relax_mlir.schedules.contraction_plan import Plan
from relax_mlir.schedules.cpu.ahead import Ahead
from relax_mlir.schedules.cpu.contraction_tile import (
    ContractionConfiguration,
    Rows,
    Tile,
    choose_tile,
    fitting_tiles,
    tile_of_width,
)
from relax_mlir.schedules.cpu.panel import Columns, Cut, Tiling
from relax_mlir.schedules.emit import (
    Extent,
    add,
    alloc,
    broadcast,
    ceil_div,
    div,
    for_loop,
    index,
    maximum,
    minimum,
    multiply,
    multiply_add,
    op,
    parallel_loop,
    product,
    rem,
    subtract,
    unflatten,
)
from relax_mlir.schedules.epilogue import Epilogue
from relax_mlir.schedules.flat import Flat, flat_view
from relax_mlir.schedules.nest import point_count

__all__ = ["BLOCKS_KB", "ContractionLoops"]

BLOCKS_KB = 512, 256, 128, 1024  # that rows may take of the second-level cache
_NEAR_BYTES = 1 << 18  # of columns that stay in the second-level cache
_STREAM_BYTES = 1 << 16  # how far ahead columns are brought that are read once
_MOST_TILES = 128  # of rows; with more of them, bringing columns nearer does not show
_TILES = 64  # so many are enough to keep threads busy


@dataclass(frozen=True)
class _Grid:
    """How the work is cut into independent tiles.

    Attributes:
        units: rows come in units, that is tiles of rows, or rows that lie side by side.
        per_block: units of one tile.
        panels: panels of columns, the narrower last one counted too.
        per_group: panels of one tile.
    """

    units: Extent
    per_block: Extent
    panels: Extent
    per_group: int


@dataclass(frozen=True)
class _Place:
    """How far a sum is.

    Attributes:
        a, b: what that is in the operands, in elements; k: in steps.
    """

    a: Extent = 0
    b: Extent = 0
    k: Extent = 0


@dataclass(frozen=True)
class _Sums:
    """The sums of one tile.

    Attributes:
        rows: where its rows begin; columns: its columns.
        turn_begins: what is done beside, every few steps.
    """

    rows: Sequence[Extent]
    columns: Columns
    turn_begins: Callable[[Extent], None]


class ContractionLoops:
    """Writes the loops of one contraction.

    Args:
        plan: the contraction.
        vector_bits: width of the machine's vectors.
        configuration: how to write them; by a model if it is None.

    Attributes:
        work: multiply-adds that are worth a thread's while.
    """

    work = 1 << 18

    def __init__(
        self,
        plan: Plan,
        vector_bits: int,
        configuration: ContractionConfiguration | None = None,
    ) -> None:
        self.plan = plan
        self.lanes = vector_bits // plan.element.width
        extents = plan.anchor.extents
        self.outer = [Axis(i, extents[i]) for i in plan.outer]
        self.epilogue = Epilogue(plan.anchor, plan.maps, plan.n, self.lanes)
        by_row = [plan.a, *self.epilogue.accesses]
        *self.leading, self.last = merged(plan.m, extents, by_row)
        self.rows = product([extents[i] for i in plan.m])
        self.columns = product([extents[i] for i in plan.n])
        self.sum_axes = merged(plan.k, extents, (plan.a, plan.b))
        depth = product([axis.extent for axis in self.sum_axes])
        self.tiling = Tiling(plan, self.lanes, self.columns, self.sum_axes, depth)
        self.block_kb, self.tile = BLOCKS_KB[0], self._tile(vector_bits)
        if configuration is not None:
            self.block_kb = configuration.block_kb
            self.tile = Tile(configuration.rows, configuration.vectors)

    def _tile(self, vector_bits: int) -> Tile:
        """The tile that is fastest, or that fits how the columns are stored."""
        rows, width = self.rows_of_tiles(), self.stored_vectors
        if width:
            return tile_of_width(rows, width, vector_bits)
        return choose_tile(rows, _known(self.columns), self.lanes, vector_bits)

    @property
    def stored_vectors(self) -> int:
        """Vectors of the blocks in which the columns are stored; 0 if they are in none."""
        vectors, rest = divmod(self.plan.block, self.lanes)
        return 0 if rest else vectors

    def rows_of_tiles(self) -> Rows:
        """The rows that tiles are cut from."""
        step = self.row_step()
        bytes_ = None if step is None else step * self.plan.rows_of.element.width // 8
        return Rows(_known(self.last.extent), bytes_)

    def other_tiles(self, vector_bits: int) -> list[Tile]:
        """The tiles that may take the place of this one, the most promising first."""
        columns, width = _known(self.columns), self.stored_vectors
        vectors = None if columns is None else max(1, -(-columns // self.lanes))
        tiles = fitting_tiles(self.rows_of_tiles(), vectors, width, vector_bits)
        return [tile for tile in tiles if tile != self.tile]

    @property
    def is_blocked(self) -> bool:
        """Whether it matters how much of the cache a block of rows may take."""
        bytes_ = point_count([self.rows]) * self._bytes_of_row()
        return not self.is_packed_here and bytes_ > min(BLOCKS_KB) << 10

    def _bytes_of_row(self) -> int:
        return point_count([self.tiling.depth]) * self.plan.rows_of.element.width // 8

    def row_step(self) -> int | None:
        """Elements from a row to the next where rows are read; None if not known."""
        return self.plan.a.stride_of(self.last.number)

    # the grid

    def emit(self) -> None:
        """Write them at the insertion point."""
        self.grid = grid = self._grid()
        is_cut = isinstance(grid.per_block, int)
        blocks = ceil_div(grid.units, grid.per_block) if is_cut else 1
        groups = ceil_div(grid.panels, grid.per_group)
        extents = [*(axis.extent for axis in self.outer), blocks, groups]

        def tile(number: ir.Value) -> None:
            *outer, block, group = unflatten(number, extents)
            points = {a.number: p for a, p in zip(self.outer, outer, strict=True)}
            begin = multiply(block, grid.per_block)
            end = minimum(add(begin, grid.per_block), grid.units)
            first = multiply(group, grid.per_group)
            last = minimum(add(first, grid.per_group), grid.panels)
            self._emit_block(points, (begin, end), (first, last))

        parallel_loop(product(extents), tile, grain=self._grain(grid))

    def _grid(self) -> _Grid:
        units: Extent = product([axis.extent for axis in self.leading])
        rows_of_unit = self.last.extent
        if not self.leading:
            units, rows_of_unit = (
                ceil_div(self.last.extent, self.tile.rows),
                self.tile.rows,
            )
        panels = ceil_div(self.columns, self.tile.vectors * self.lanes)
        if self.is_packed_here:
            return _Grid(units, units, panels, 1)
        unit_bytes = max(1, self._bytes_of_row() * point_count([rows_of_unit]))
        per_block = max(1, (self.block_kb << 10) // unit_bytes)
        if not isinstance(units, int) or not isinstance(panels, int):
            return _Grid(units, per_block, panels, 1)
        work = point_count([self.rows, self.tiling.depth, self.columns])
        wanted = min(_TILES, max(1, work // self.work))
        per_block = max(1, min(per_block, units))
        blocks = -(-units // per_block)
        groups = min(panels, -(-wanted // blocks))
        return _Grid(units, per_block, panels, -(-panels // groups))

    def _grain(self, grid: _Grid) -> int:
        rows = self.tile.rows if not self.leading else point_count([self.last.extent])
        per_block = point_count([grid.per_block])
        width = grid.per_group * self.tile.vectors * self.lanes
        work = point_count([self.tiling.depth]) * rows * per_block * width
        return max(1, self.work // max(1, work))

    @property
    def is_packed_here(self) -> bool:
        """Whether the columns are copied into a panel when the kernel runs."""
        if self.plan.block:
            return self.plan.block != self.tile.vectors * self.lanes
        is_tall = isinstance(self.rows, int) and self.rows >= 4 * self.tile.rows
        return not self.plan.whole or is_tall

    # blocks of rows, panels of columns

    def _emit_block(
        self,
        points: Mapping[int, Extent],
        units: tuple[Extent, Extent],
        panels: tuple[Extent, Extent],
    ) -> None:
        """Some units of rows against some panels of columns."""
        self.a = Flat.of(self.plan.a)
        self.first_unit = units[0]
        memory = self.alloc_panel() if self.is_packed_here else None

        def panel(columns: Columns) -> None:
            if memory is not None:
                columns.pack(memory)
            self._emit_panel(points, units, columns)

        self.for_panels(points, panels, panel)

    def for_panels(
        self,
        points: Mapping[int, Extent],
        panels: tuple[Extent, Extent],
        body: Callable[[Columns], None],
    ) -> None:
        """A loop over some panels of columns, of which the last may be narrower."""
        width = self.tile.vectors * self.lanes
        first, last = panels

        def emit(panel: ir.Value, count: Extent, vectors: int) -> tuple[()]:
            cut = Cut(panel, vectors, self.tile.vectors, self.lanes, count)
            body(self.columns_from(points, cut))
            return ()

        if not isinstance(self.columns, int):

            def clipped(panel: ir.Value) -> tuple[()]:
                count = subtract(self.columns, multiply(panel, width))
                return emit(panel, count, self.tile.vectors)

            for_loop(first, last, 1, clipped)
            return
        full, left = divmod(self.columns, width)
        vectors = -(-left // self.lanes)
        end = minimum(last, full)
        for_loop(first, end, 1, lambda p: emit(p, width, self.tile.vectors))
        if left:
            begin = maximum(first, full)
            for_loop(begin, last, 1, lambda p: emit(p, left, vectors))

    def alloc_panel(self) -> ir.Value:
        """Memory for the columns of one panel."""
        # Its sizes are known before the loop over tiles, of which each has its own.
        shape = Columns.panel_shape(self.tiling, self.tile.vectors)
        return flat_view(alloc(shape, self.plan.columns_of.element))

    def _emit_panel(
        self,
        points: Mapping[int, Extent],
        units: tuple[Extent, Extent],
        columns: Columns,
    ) -> None:
        """One panel of columns against some units of rows."""
        begin, end = units
        if self.leading:
            for_loop(begin, end, 1, lambda unit: self._emit_unit(unit, points, columns))
            return
        height, extent = self.tile.rows, self.last.extent
        if not isinstance(extent, int):
            first, last = multiply(begin, height), multiply(end, height)
            self._emit_rows(points, first, minimum(last, extent), columns)
            return
        full, left = divmod(extent, height)

        def tile(unit: ir.Value, count: int) -> tuple[()]:
            at = {**points, self.last.number: multiply(unit, height)}
            self._emit_tile(at, count, columns, subtract(unit, begin))
            return ()

        for_loop(begin, minimum(end, full), 1, lambda unit: tile(unit, height))
        if left:
            for_loop(maximum(begin, full), end, 1, lambda unit: tile(unit, left))

    def _emit_unit(
        self, unit: ir.Value, points: Mapping[int, Extent], columns: Columns
    ) -> tuple[()]:
        """The rows along the last axis, at one point of those before it."""
        where = unflatten(unit, [axis.extent for axis in self.leading])
        at = dict(points)
        for axis, point in zip(self.leading, where, strict=True):
            at[axis.number] = point
        self._emit_rows(at, 0, self.last.extent, columns, unit)
        return ()

    def _emit_rows(
        self,
        points: Mapping[int, Extent],
        begin: Extent,
        end: Extent,
        columns: Columns,
        unit: Extent | None = None,
    ) -> None:
        """Rows from ``begin`` to ``end``, in tiles; those that are left in lower ones.

        Each tile reads all columns, which one row after the other would do too often: if
        it is not known how many rows are left, tiles are half as high each.
        """
        height = self.tile.rows
        number: Extent = 0
        if unit is not None and isinstance(self.last.extent, int):
            per_unit = -(-self.last.extent // height)
            number = multiply(subtract(unit, self.first_unit), per_unit)
        while height:
            left = rem(subtract(end, begin), height)
            full = subtract(end, left)

            def tile(m: ir.Value, height: int = height) -> tuple[()]:
                at = {**points, self.last.number: m}
                order = add(number, div(m, self.tile.rows))
                self._emit_tile(at, height, columns, order)
                return ()

            for_loop(begin, full, height, tile)
            begin = full
            if isinstance(left, int):
                height = left
            else:
                height = 1 << (height - 1).bit_length() - 1 if height > 1 else 0

    # tiles

    def columns_from(self, points: Mapping[int, Extent], cut: Cut) -> Columns:
        """The columns of one panel."""
        return Columns(self.tiling, points, cut)

    def _emit_tile(
        self,
        points: Mapping[int, Extent],
        count: int,
        columns: Columns,
        number: Extent,
    ) -> None:
        """One register tile: ``count`` rows from a point on.

        Args:
            number: counts the tiles that work with these columns.
        """
        sums = iter(self.sums(points, count, columns, number))
        for i in range(count):
            row = {**points, self.last.number: add(points[self.last.number], i)}
            for q in range(columns.vectors):
                at = {**row, self.plan.n[-1]: columns.first_of(q)}
                self.epilogue.store(next(sums), at, columns.masks[q])

    def sums(
        self,
        points: Mapping[int, Extent],
        count: int,
        columns: Columns,
        number: Extent,
    ) -> list[ir.Value]:
        """The vectors of sums of some rows, one row after the other."""
        start = self.a.offset(points)
        step = self.a.step(self.last.number)
        rows = [add(start, multiply(step, i)) for i in range(count)]
        tile = _Sums(rows, columns, self._ahead(columns, number))
        accumulators = [self.start()] * (count * columns.vectors)
        return self._sum_nest(self.sum_axes, _Place(), tile, accumulators)

    def _ahead(self, columns: Columns, number: Extent) -> Callable[[Extent], None]:
        """Brings what comes next nearer, if it is packed and does not stay near anyway.

        That is the next panel, or, where a panel is read once, what lies a bit ahead.
        """
        if not self.plan.block:
            return lambda step: None
        size, depth = self.tiling.panel_elements, self.tiling.depth
        panels, tiles = self.grid.panels, self._tiles_of_panel()
        known = isinstance(size, int) and isinstance(depth, int)
        if not known or not isinstance(panels, int) or tiles is None:
            return lambda step: None
        is_near = size * panels * columns.element_bytes <= _NEAR_BYTES
        if is_near or tiles > _MOST_TILES:
            return lambda step: None
        ahead = Ahead(columns.source, size, self.tile.vectors, tiles)
        distance = size
        if tiles == 1:
            distance = min(size, _STREAM_BYTES // columns.element_bytes)
        return ahead.begin(columns.following(distance), number)

    def _tiles_of_panel(self) -> int | None:
        """How many tiles of rows a panel of columns meets; None if it is not known."""
        per_unit = 1
        if self.leading:
            if not isinstance(self.last.extent, int):
                return None
            per_unit = -(-self.last.extent // self.tile.rows)
        per_block = self.grid.per_block
        return per_unit * per_block if isinstance(per_block, int) else None

    def _sum_nest(
        self,
        axes: Sequence[Axis],
        place: _Place,
        tile: _Sums,
        sums: list[ir.Value],
    ) -> list[ir.Value]:
        """Loops over the axes of the sum."""
        axis, *inner = axes
        a_step, b_step = self.a.step(axis.number), tile.columns.step(axis.number)
        k_outer = multiply(place.k, axis.extent)

        def at(k: Extent, carried: Sequence[ir.Value]) -> list[ir.Value]:
            here = _Place(
                add(place.a, multiply(k, a_step)),
                add(place.b, multiply(k, b_step)),
                add(k_outer, k),
            )
            if inner:
                return self._sum_nest(inner, here, tile, list(carried))
            return self._step(here, tile, carried)

        if inner:
            terms = product([a.extent for a in inner])
            lengths = block_lengths(axis.extent, terms, LONG_BLOCK)
            return blocked_loop(
                0, axis.extent, 1, lambda k, *sums: at(k, sums), sums, lengths
            )
        return blocked_unrolled_loop(
            axis.extent, at, sums, lambda k: tile.turn_begins(add(k_outer, k))
        )

    def _step(
        self, place: _Place, tile: _Sums, sums: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """One step of the sum."""
        columns = tile.columns
        found = [columns.at(place.b, q) for q in range(columns.vectors)]
        following: list[ir.Value] = []
        for row in tile.rows:
            factor = broadcast(self._row_element(add(row, place.a)), self.lanes)
            for column in found:
                total = sums[len(following)]
                following.append(multiply_add(factor, column, total))
        return following

    def _row_element(self, offset: Extent) -> ir.Value:
        factor = self.plan.rows_of
        found = op("memref.load", factor.element, self.a.view, index(offset))
        if factor.extend is None:
            return found
        return op(factor.extend, self.plan.element, found)

    def start(self) -> ir.Value:
        """A vector of empty sums."""
        start = op("arith.constant", self.plan.element, value=self.plan.anchor.start)
        return broadcast(start, self.lanes)


def _known(extent: Extent) -> int | None:
    return extent if isinstance(extent, int) else None

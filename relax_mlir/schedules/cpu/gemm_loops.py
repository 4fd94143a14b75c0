"""GEMM loops: parallel tiles, blocks of rows, RHS panels, and the micro-kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.blocked_summation import (
    LONG_BLOCK,
    block_lengths,
    blocked_loop,
    blocked_unrolled_loop,
)
from relax_mlir.schedules.builder import (
    IndexLike,
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
from relax_mlir.schedules.contraction_axes import Axis, merge_axes
from relax_mlir.schedules.cpu.gemm_panel import Panel, PanelSlice, PanelTiling
from relax_mlir.schedules.cpu.gemm_tile import (
    GemmConfiguration,
    GemmRows,
    RegisterTile,
    choose_tile,
    feasible_tiles,
    tile_of_width,
)
from relax_mlir.schedules.cpu.prefetch import Prefetch
from relax_mlir.schedules.epilogue import Epilogue
from relax_mlir.schedules.flat_buffers import FlatAccess, flat_view
from relax_mlir.schedules.kernel_view import point_count
from relax_mlir.schedules.match_contraction import ContractionPlan

__all__ = ["BLOCKS_KB", "GemmLoops"]

BLOCKS_KB = 512, 256, 128, 1024  # sizes of a block of LHS rows in L2
_L2_BYTES = 1 << 18  # size of an RHS that stays in L2
_STREAM_BYTES = 1 << 16  # prefetch distance for panels that are used once
_MAX_TILES = 128  # register tiles per panel above which prefetching does not pay
_TILES = 64  # parallel tiles that keep threads busy


@dataclass(frozen=True)
class _Grid:
    """Partition of M and N into parallel tiles.

    Attributes:
        units: of rows: register tiles, or the rows along the last axis of M.
        per_block: units per tile.
        panels: RHS panels, including a narrower last one.
        per_group: panels per tile.
    """

    units: IndexLike
    per_block: IndexLike
    panels: IndexLike
    per_group: int


@dataclass(frozen=True)
class _KOffset:
    """Position in the K loops.

    Attributes:
        a, b: offsets in the operands, in elements; k: linearized index.
    """

    a: IndexLike = 0
    b: IndexLike = 0
    k: IndexLike = 0


@dataclass(frozen=True)
class _Accumulation:
    """Inputs of the K loops of one register tile.

    Attributes:
        rows: offset of each LHS row; panel: the RHS.
        prologue: emits prefetches at the start of each unrolled iteration.
    """

    rows: Sequence[IndexLike]
    panel: Panel
    prologue: Callable[[IndexLike], None]


class GemmLoops:
    """Emits the loops of one GEMM.

    Args:
        plan: the contraction.
        vector_bits: width of a vector register.
        configuration: tunable parameters; None for those of the cost model.

    Attributes:
        work: multiply-adds per thread that pay for starting it.
    """

    work = 1 << 18

    def __init__(
        self,
        plan: ContractionPlan,
        vector_bits: int,
        configuration: GemmConfiguration | None = None,
    ) -> None:
        self.plan = plan
        self.lanes = vector_bits // plan.element.width
        extents = plan.anchor.extents
        self.outer = [Axis(i, extents[i]) for i in plan.outer]
        self.epilogue = Epilogue(plan.anchor, plan.maps, plan.n, self.lanes)
        by_row = [plan.a, *self.epilogue.accesses]
        *self.leading, self.last = merge_axes(plan.m, extents, by_row)
        self.rows = product([extents[i] for i in plan.m])
        self.columns = product([extents[i] for i in plan.n])
        self.k_axes = merge_axes(plan.k, extents, (plan.a, plan.b))
        depth = product([axis.extent for axis in self.k_axes])
        self.tiling = PanelTiling(plan, self.lanes, self.columns, self.k_axes, depth)
        self.block_kb, self.tile = BLOCKS_KB[0], self._tile(vector_bits)
        if configuration is not None:
            self.block_kb = configuration.block_kb
            self.tile = RegisterTile(configuration.rows, configuration.vectors)

    def _tile(self, vector_bits: int) -> RegisterTile:
        """The cheapest register tile, or the one that fits the prepacked panels."""
        rows, width = self.rows_of_tiles(), self.stored_vectors
        if width:
            return tile_of_width(rows, width, vector_bits)
        return choose_tile(rows, _static_or_none(self.columns), self.lanes, vector_bits)

    @property
    def stored_vectors(self) -> int:
        """Width of the prepacked panels in vectors; 0 without prepacking."""
        vectors, rest = divmod(self.plan.panel_width, self.lanes)
        return 0 if rest else vectors

    def rows_of_tiles(self) -> GemmRows:
        """The rows from which register tiles are taken."""
        step = self.row_step()
        bytes_ = None if step is None else step * self.plan.lhs.element.width // 8
        return GemmRows(_static_or_none(self.last.extent), bytes_)

    def other_tiles(self, vector_bits: int) -> list[RegisterTile]:
        """Alternative register tiles, the cheapest first."""
        columns, width = _static_or_none(self.columns), self.stored_vectors
        vectors = None if columns is None else max(1, -(-columns // self.lanes))
        tiles = feasible_tiles(self.rows_of_tiles(), vectors, width, vector_bits)
        return [tile for tile in tiles if tile != self.tile]

    @property
    def is_blocked(self) -> bool:
        """Whether the size of the row blocks has an effect."""
        bytes_ = point_count([self.rows]) * self._bytes_of_row()
        return not self.needs_packing and bytes_ > min(BLOCKS_KB) << 10

    def _bytes_of_row(self) -> int:
        return point_count([self.tiling.depth]) * self.plan.lhs.element.width // 8

    def row_step(self) -> int | None:
        """Row stride of the LHS in elements; None if dynamic."""
        return self.plan.a.stride_of(self.last.number)

    # parallel tiles

    def emit(self) -> None:
        """Emit the loops at the insertion point."""
        self.grid = grid = self._grid()
        is_blocked = isinstance(grid.per_block, int)
        blocks = ceil_div(grid.units, grid.per_block) if is_blocked else 1
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
        units: IndexLike = product([axis.extent for axis in self.leading])
        rows_of_unit = self.last.extent
        if not self.leading:
            units, rows_of_unit = (
                ceil_div(self.last.extent, self.tile.rows),
                self.tile.rows,
            )
        panels = ceil_div(self.columns, self.tile.vectors * self.lanes)
        if self.needs_packing:
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
    def needs_packing(self) -> bool:
        """Whether the RHS is packed into panels at run time."""
        if self.plan.panel_width:
            return self.plan.panel_width != self.tile.vectors * self.lanes
        is_tall = isinstance(self.rows, int) and self.rows >= 4 * self.tile.rows
        return not self.plan.is_rhs_contiguous or is_tall

    # blocks of rows, panels

    def _emit_block(
        self,
        points: Mapping[int, IndexLike],
        units: tuple[IndexLike, IndexLike],
        panels: tuple[IndexLike, IndexLike],
    ) -> None:
        """Emit one parallel tile: a range of units of rows by a range of panels."""
        self.a = FlatAccess.of(self.plan.a)
        self.first_unit = units[0]
        packed = self.alloc_panel() if self.needs_packing else None

        def multiply_panel(panel: Panel) -> None:
            if packed is not None:
                panel.pack(packed)
            self._emit_panel(points, units, panel)

        self.for_panels(points, panels, multiply_panel)

    def for_panels(
        self,
        points: Mapping[int, IndexLike],
        panels: tuple[IndexLike, IndexLike],
        body: Callable[[Panel], None],
    ) -> None:
        """Loop over a range of panels; the last one of all may be narrower."""
        width = self.tile.vectors * self.lanes
        first, last = panels

        def emit(number: ir.Value, count: IndexLike, vectors: int) -> tuple[()]:
            panel_slice = PanelSlice(
                number, vectors, self.tile.vectors, self.lanes, count
            )
            body(self.panel(points, panel_slice))
            return ()

        if not isinstance(self.columns, int):

            def clipped(number: ir.Value) -> tuple[()]:
                count = subtract(self.columns, multiply(number, width))
                return emit(number, count, self.tile.vectors)

            for_loop(first, last, 1, clipped)
            return
        full, tail = divmod(self.columns, width)
        vectors = -(-tail // self.lanes)
        end = minimum(last, full)
        for_loop(first, end, 1, lambda p: emit(p, width, self.tile.vectors))
        if tail:
            begin = maximum(first, full)
            for_loop(begin, last, 1, lambda p: emit(p, tail, vectors))

    def alloc_panel(self) -> ir.Value:
        """Allocate scratch for one packed panel."""
        # Its sizes must not depend on the tile: scratch is sized before the parallel loop.
        shape = Panel.panel_shape(self.tiling, self.tile.vectors)
        return flat_view(alloc(shape, self.plan.rhs.element))

    def _emit_panel(
        self,
        points: Mapping[int, IndexLike],
        units: tuple[IndexLike, IndexLike],
        panel: Panel,
    ) -> None:
        """Multiply a range of units of rows by one panel."""
        begin, end = units
        if self.leading:
            for_loop(begin, end, 1, lambda unit: self._emit_unit(unit, points, panel))
            return
        height, extent = self.tile.rows, self.last.extent
        if not isinstance(extent, int):
            first, last = multiply(begin, height), multiply(end, height)
            self._emit_rows(points, first, minimum(last, extent), panel)
            return
        full, tail = divmod(extent, height)

        def tile(unit: ir.Value, count: int) -> tuple[()]:
            at = {**points, self.last.number: multiply(unit, height)}
            self._emit_tile(at, count, panel, subtract(unit, begin))
            return ()

        for_loop(begin, minimum(end, full), 1, lambda unit: tile(unit, height))
        if tail:
            for_loop(maximum(begin, full), end, 1, lambda unit: tile(unit, tail))

    def _emit_unit(
        self, unit: ir.Value, points: Mapping[int, IndexLike], panel: Panel
    ) -> tuple[()]:
        """Multiply the rows along the last axis of M, at one point of the others."""
        leading = unflatten(unit, [axis.extent for axis in self.leading])
        at = dict(points)
        for axis, point in zip(self.leading, leading, strict=True):
            at[axis.number] = point
        self._emit_rows(at, 0, self.last.extent, panel, unit)
        return ()

    def _emit_rows(
        self,
        points: Mapping[int, IndexLike],
        begin: IndexLike,
        end: IndexLike,
        panel: Panel,
        unit: IndexLike | None = None,
    ) -> None:
        """Loop over register tiles from row ``begin`` to ``end``, with smaller tail tiles.

        For a dynamic number of remaining rows the tile height is halved repeatedly: every
        tile reads the whole panel, so single rows would read it too often.
        """
        height = self.tile.rows
        number: IndexLike = 0
        if unit is not None and isinstance(self.last.extent, int):
            per_unit = -(-self.last.extent // height)
            number = multiply(subtract(unit, self.first_unit), per_unit)
        while height:
            tail = rem(subtract(end, begin), height)
            full = subtract(end, tail)

            def tile(m: ir.Value, height: int = height) -> tuple[()]:
                at = {**points, self.last.number: m}
                order = add(number, div(m, self.tile.rows))
                self._emit_tile(at, height, panel, order)
                return ()

            for_loop(begin, full, height, tile)
            begin = full
            if isinstance(tail, int):
                height = tail
            else:
                height = 1 << (height - 1).bit_length() - 1 if height > 1 else 0

    # register tiles

    def panel(self, points: Mapping[int, IndexLike], panel_slice: PanelSlice) -> Panel:
        """One panel of the RHS."""
        return Panel(self.tiling, points, panel_slice)

    def _emit_tile(
        self,
        points: Mapping[int, IndexLike],
        count: int,
        panel: Panel,
        number: IndexLike,
    ) -> None:
        """Emit one register tile of ``count`` rows with its epilogue.

        Args:
            points: the point of its first row.
            number: sequence number among the tiles of the panel.
        """
        sums = iter(self.sums(points, count, panel, number))
        for i in range(count):
            row = {**points, self.last.number: add(points[self.last.number], i)}
            for q in range(panel.vectors):
                at = {**row, self.plan.n[-1]: panel.first_column(q)}
                self.epilogue.store(next(sums), at, panel.masks[q])

    def sums(
        self,
        points: Mapping[int, IndexLike],
        count: int,
        panel: Panel,
        number: IndexLike,
    ) -> list[ir.Value]:
        """Emit the K loops of a register tile; its accumulators in row-major order."""
        start = self.a.offset(points)
        step = self.a.step(self.last.number)
        rows = [add(start, multiply(step, i)) for i in range(count)]
        tile = _Accumulation(rows, panel, self._prefetch(panel, number))
        accumulators = [self.start()] * (count * panel.vectors)
        return self._k_loops(self.k_axes, _KOffset(), tile, accumulators)

    def _prefetch(self, panel: Panel, number: IndexLike) -> Callable[[IndexLike], None]:
        """Software prefetch during a tile, for a prepacked RHS that does not fit L2.

        Fetches the next panel or, if each panel is used once, data at a fixed distance.
        """
        if not self.plan.panel_width:
            return lambda step: None
        size, depth = self.tiling.panel_elements, self.tiling.depth
        panels, tiles = self.grid.panels, self._tiles_of_panel()
        known = isinstance(size, int) and isinstance(depth, int)
        if not known or not isinstance(panels, int) or tiles is None:
            return lambda step: None
        is_near = size * panels * panel.element_bytes <= _L2_BYTES
        if is_near or tiles > _MAX_TILES:
            return lambda step: None
        prefetch = Prefetch(panel.buffer, size, self.tile.vectors, tiles)
        distance = size
        if tiles == 1:
            distance = min(size, _STREAM_BYTES // panel.element_bytes)
        return prefetch.begin(panel.offset_ahead(distance), number)

    def _tiles_of_panel(self) -> int | None:
        """Register tiles that use a panel; None if dynamic."""
        per_unit = 1
        if self.leading:
            if not isinstance(self.last.extent, int):
                return None
            per_unit = -(-self.last.extent // self.tile.rows)
        per_block = self.grid.per_block
        return per_unit * per_block if isinstance(per_block, int) else None

    def _k_loops(
        self,
        axes: Sequence[Axis],
        offset: _KOffset,
        tile: _Accumulation,
        sums: list[ir.Value],
    ) -> list[ir.Value]:
        """Loops over the axes of K."""
        axis, *inner = axes
        a_step, b_step = self.a.step(axis.number), tile.panel.k_stride(axis.number)
        k_outer = multiply(offset.k, axis.extent)

        def at(k: IndexLike, carried: Sequence[ir.Value]) -> list[ir.Value]:
            inner_offset = _KOffset(
                add(offset.a, multiply(k, a_step)),
                add(offset.b, multiply(k, b_step)),
                add(k_outer, k),
            )
            if inner:
                return self._k_loops(inner, inner_offset, tile, list(carried))
            return self._rank1_update(inner_offset, tile, carried)

        if inner:
            terms = product([a.extent for a in inner])
            lengths = block_lengths(axis.extent, terms, LONG_BLOCK)
            return blocked_loop(
                0, axis.extent, 1, lambda k, *sums: at(k, sums), sums, lengths
            )
        return blocked_unrolled_loop(
            axis.extent, at, sums, lambda k: tile.prologue(add(k_outer, k))
        )

    def _rank1_update(
        self, offset: _KOffset, tile: _Accumulation, sums: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """One step of the micro-kernel: a rank-1 update of the accumulators."""
        panel = tile.panel
        rhs = [panel.vector_at(offset.b, q) for q in range(panel.vectors)]
        updated: list[ir.Value] = []
        for row in tile.rows:
            lhs = broadcast(self._lhs_element(add(row, offset.a)), self.lanes)
            for vector in rhs:
                updated.append(multiply_add(lhs, vector, sums[len(updated)]))
        return updated

    def _lhs_element(self, offset: IndexLike) -> ir.Value:
        """An element of the LHS in the type of the accumulator."""
        operand = self.plan.lhs
        element = op("memref.load", operand.element, self.a.view, index(offset))
        if operand.extend is None:
            return element
        return op(operand.extend, self.plan.element, element)

    def start(self) -> ir.Value:
        """A vector of initial accumulators."""
        start = op("arith.constant", self.plan.element, value=self.plan.anchor.start)
        return broadcast(start, self.lanes)


def _static_or_none(extent: IndexLike) -> int | None:
    return extent if isinstance(extent, int) else None

"""GEMM loops on AMX tiles of 16 x 16 accumulators.

Up to two tiles of rows times two tiles of columns keep four accumulator tiles in registers
over the K loop. These are then stored to scratch, where the epilogue loads them as vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from mlir import ir

from relax_mlir.schedules.builder import (
    UNROLL_FACTOR,
    IndexLike,
    add,
    alloc,
    for_loop,
    index,
    minimum,
    multiply,
    op,
    product,
    rem,
    static_size,
    subtract,
    vector_type,
)
from relax_mlir.schedules.contraction_axes import Axis
from relax_mlir.schedules.cpu import amx
from relax_mlir.schedules.cpu.dot_product import DotProduct
from relax_mlir.schedules.cpu.dot_product_gemm import (
    DotProductGemmLoops,
    DotProductPanel,
    for_k_runs,
    k_runs,
)
from relax_mlir.schedules.cpu.gemm_panel import Panel
from relax_mlir.schedules.cpu.gemm_tile import GemmConfiguration, RegisterTile
from relax_mlir.schedules.flat_buffers import flat_view
from relax_mlir.schedules.match_contraction import ContractionPlan
from relax_mlir.schedules.target_features import VectorUnit
from relax_mlir.schedules.vectorize_body import load_vector, store_vector

__all__ = ["AmxGemmLoops", "amx_k_step"]

_VECTOR_BITS = 512  # width of a tile row


def amx_k_step(plan: ContractionPlan, unit: VectorUnit) -> int:
    """K step of the tiles for a GEMM, in elements; 0 if AMX is not applicable.

    The innermost run of K must be contiguous in the LHS, and whole words. A prepacked RHS
    must have panels of one or two tiles in VNNI layout.
    """
    operands = plan.lhs, plan.rhs
    factor = unit.amx_vnni_factor(
        plan.element, *((o.element, o.extend) for o in operands)
    )
    extents = plan.anchor.extents
    if factor == 1 or not all(isinstance(extents[axis], int) for axis in plan.k):
        return 0
    fits_tiles = (
        plan.panel_width in (amx.COLUMNS, 2 * amx.COLUMNS)
        and plan.vnni_factor == factor
    )
    if plan.panel_width and not fits_tiles:
        return 0
    if not amx.has_enough_rows(product([extents[axis] for axis in plan.m])):
        return 0
    *_, run = k_runs(plan, factor)
    is_run = plan.a.stride_of(run.number) == 1 and plan.anchor.starts_from_zero
    return amx.tile_k_step(run.extent, factor) if is_run else 0


@dataclass(frozen=True)
class _AmxRows:
    """The LHS tiles of a step in memory.

    Attributes:
        view: a flat buffer; starts: offset of each tile.
        step: row stride in elements.
        steps: stride of an axis of K in elements.
    """

    view: ir.Value
    starts: Sequence[IndexLike]
    step: IndexLike
    steps: Callable[[int], IndexLike]


class AmxGemmLoops(DotProductGemmLoops):
    """Emits the loops of a GEMM on AMX tiles.

    All LHS tiles have the same height: 16 rows, or M if that is smaller. The tail tile
    overlaps the tile before it. For a dynamic M, which may be below 16, the tail is copied
    to scratch of 16 rows instead.

    Args:
        plan, configuration: as for :class:`GemmLoops`.
        step: K step of the tiles, in elements.
    """

    work = 1 << 21  # AMX has at least eight times the throughput of vectors

    def __init__(
        self, plan: ContractionPlan, step: int, configuration: GemmConfiguration | None
    ) -> None:
        self._step = step
        super().__init__(plan, _VECTOR_BITS, configuration)

    def _tile(self, vector_bits: int) -> RegisterTile:
        """A register block of two by two tiles, fewer where M or N ends."""
        rows = self.last.extent
        most = min(rows, 2 * amx.ROWS) if isinstance(rows, int) else 2 * amx.ROWS
        vectors = self.stored_vectors or amx.block_columns(self.columns) // self.lanes
        return RegisterTile(most, vectors)

    def other_tiles(self, vector_bits: int) -> list[RegisterTile]:
        """Register tiles of fewer AMX tiles."""
        tile, width = self.tile, self.stored_vectors
        widths = [width] if width else range(tile.vectors, 0, -1)
        heights = [tile.rows, *([amx.ROWS] if tile.rows > amx.ROWS else [])]
        tiles = [RegisterTile(rows, vectors) for rows in heights for vectors in widths]
        return tiles[1:]

    @property
    def needs_packing(self) -> bool:
        return self.plan.vnni_factor == 1

    @cached_property
    def dot(self) -> DotProduct:
        return _AmxDotProduct(self.lanes, self.plan.rhs.element)

    @property
    def _height(self) -> int:
        """Height of an AMX tile."""
        rows = self.last.extent
        return min(rows, amx.ROWS) if isinstance(rows, int) else amx.ROWS

    @cached_property
    def _axes(self) -> list[Axis]:
        return k_runs(self.plan, self.dot.vnni_factor)

    def _emit_block(
        self,
        points: Mapping[int, IndexLike],
        units: tuple[IndexLike, IndexLike],
        panels: tuple[IndexLike, IndexLike],
    ) -> None:
        width = self.tile.vectors * self.lanes
        self._sums = alloc([self.tile.rows, width], self.plan.element)
        if not isinstance(self.last.extent, int):
            shape = [amx.ROWS, self.tiling.depth]
            self._tail = flat_view(alloc(shape, self.plan.lhs.element))
        super()._emit_block(points, units, panels)

    # rows

    def _emit_rows(
        self,
        points: Mapping[int, IndexLike],
        begin: IndexLike,
        end: IndexLike,
        panel: Panel,
        unit: IndexLike | None = None,
    ) -> None:
        """Loop over register tiles; the tail of a dynamic number of rows is copied."""
        if isinstance(self.last.extent, int):
            super()._emit_rows(points, begin, end, panel, unit)
            return
        for height in dict.fromkeys((self.tile.rows, amx.ROWS)):
            full = subtract(end, rem(subtract(end, begin), height))

            def tile(m: ir.Value, height: int = height) -> tuple[()]:
                at = {**points, self.last.number: m}
                self._emit_tile(at, height, panel, 0)
                return ()

            for_loop(begin, full, height, tile)
            begin = full

        def tail(m: ir.Value) -> tuple[()]:
            at = {**points, self.last.number: m}
            count = subtract(end, m)
            rows = self._copy_tail(self.a.offset(at), count)
            self._multiply(rows, [0], panel, 0)
            self._emit_epilogue(at, count, 0, panel)
            return ()

        for_loop(begin, end, amx.ROWS, tail)

    def _emit_tile(
        self,
        points: Mapping[int, IndexLike],
        count: int,
        panel: Panel,
        number: IndexLike,
    ) -> None:
        """Emit one register tile of ``count`` rows by one or two AMX tiles of columns."""
        height = self._height
        # A tail tile recomputes rows of the tile before it, and does not store them.
        before = max(0, height - count)
        first_rows = [0, count - height] if count > height else [0]
        step = self.a.step(self.last.number)
        first = subtract(self.a.offset(points), multiply(step, before))
        starts = [add(first, multiply(step, row)) for row in first_rows]
        rows = _AmxRows(self.a.view, starts, step, self.a.step)
        self._multiply(rows, first_rows, panel, number)
        self._emit_epilogue(points, count, before, panel)

    def _copy_tail(self, begin: IndexLike, count: IndexLike) -> _AmxRows:
        """Copy fewer rows than a tile has to scratch, with K contiguous."""
        *outer, run = self._axes
        depth, length = static_size(self.tiling.depth), static_size(run.extent)
        # Strides of the axes of K in the copy.
        strides = {
            axis.number: product([a.extent for a in self._axes[position:]])
            for position, axis in enumerate(self._axes, start=1)
        }
        lanes = self.dot.vnni_factor * self.lanes
        step = self.a.step(self.last.number)

        def vector(source: IndexLike, target: IndexLike, count: IndexLike) -> tuple[()]:
            type_ = vector_type(lanes, ir.IntegerType.get_signless(1))
            mask = op("vector.create_mask", type_, index(count))
            value = load_vector(self.a.view, [index(source)], lanes, 1, mask)
            store_vector(value, self._tail, [index(target)], lanes, mask)
            return ()

        def copy(
            axes: Sequence[Axis], source: IndexLike, target: IndexLike
        ) -> tuple[()]:
            if not axes:

                def part(k: ir.Value) -> tuple[()]:
                    remaining = minimum(subtract(length, k), lanes)
                    return vector(add(source, k), add(target, k), remaining)

                for_loop(0, length, lanes, part)
                return ()
            axis, *inner = axes

            def at(k: ir.Value) -> tuple[()]:
                next_source = add(source, multiply(k, self.a.step(axis.number)))
                next_target = add(target, multiply(k, strides[axis.number]))
                return copy(inner, next_source, next_target)

            for_loop(0, axis.extent, 1, at)
            return ()

        def row(i: ir.Value) -> tuple[()]:
            return copy(outer, add(begin, multiply(i, step)), multiply(i, depth))

        for_loop(0, count, 1, row)
        return _AmxRows(self._tail, [0], depth, lambda number: strides[number])

    # tiles

    def _multiply(
        self,
        rows: _AmxRows,
        first_rows: Sequence[int],
        panel: Panel,
        number: IndexLike,
    ) -> None:
        """Emit the K loops on accumulator tiles, and store these to scratch.

        Args:
            rows: the LHS.
            first_rows: first row of each LHS tile in the scratch.
            number: sequence number among the register tiles of the panel.
        """
        assert isinstance(panel, DotProductPanel)
        groups, factor, step = panel.groups, self.dot.vnni_factor, self._step
        assert groups is not None
        plan, height = self.plan, self._height
        a_type = amx.tile_type(height, step, plan.lhs.element)
        width = factor * amx.COLUMNS
        b_type = amx.tile_type(step // factor, width, plan.rhs.element)
        *outer, run = self._axes
        run_groups = static_size(run.extent) // factor
        prologue = self._prefetch(panel, number)

        def multiply_step(
            offset: IndexLike, group: IndexLike, sums: Sequence[ir.Value]
        ) -> list[ir.Value]:
            for i in range(0, step // factor, UNROLL_FACTOR):
                prologue(add(group, i))
            rhs = [
                amx.load_tile(b_type, groups.view, groups.offset(group, q), groups.step)
                for q in range(panel.vectors)
            ]
            updated: list[ir.Value] = []
            for start in rows.starts:
                lhs = amx.load_tile(a_type, rows.view, add(start, offset), rows.step)
                updated += [
                    amx.multiply_tiles(
                        sums[len(updated) + q],
                        lhs,
                        tile,
                        (plan.lhs, plan.rhs),
                    )
                    for q, tile in enumerate(rhs)
                ]
            return updated

        def multiply_run(
            offset: IndexLike, run_number: IndexLike, sums: list[ir.Value]
        ) -> list[ir.Value]:
            first = multiply(run_number, run_groups)

            def at(k: ir.Value, *carried: ir.Value) -> list[ir.Value]:
                group = add(first, multiply(k, step // factor))
                return multiply_step(add(offset, multiply(k, step)), group, carried)

            return for_loop(0, static_size(run.extent) // step, 1, at, sums)

        sum_type = amx.tile_type(height, amx.COLUMNS, plan.element)
        positions = [(row, q) for row in first_rows for q in range(panel.vectors)]
        zeros = [amx.zero_tile(sum_type) for _ in positions]
        sums = for_k_runs(outer, rows.steps, multiply_run, zeros)
        for tile, (row, q) in zip(sums, positions, strict=True):
            amx.store_tile(tile, self._sums, (row, q * self.lanes))

    def _emit_epilogue(
        self,
        points: Mapping[int, IndexLike],
        count: IndexLike,
        first: int,
        panel: Panel,
    ) -> None:
        """Apply the epilogue to ``count`` rows of scratch, from row ``first`` on."""
        row_axis, column_axis = self.last.number, self.plan.n[-1]

        def row(i: ir.Value) -> tuple[()]:
            at = {**points, row_axis: add(points[row_axis], i)}
            for q in range(panel.vectors):
                indices = [index(add(i, first)), index(q * self.lanes)]
                value = load_vector(self._sums, indices, self.lanes, 1, None)
                point = {**at, column_axis: panel.first_column(q)}
                self.epilogue.store(value, point, panel.masks[q])
            return ()

        for_loop(0, count, 1, row)


class _AmxDotProduct(DotProduct):
    """VNNI layout of AMX tiles, whose instructions support all signedness combinations."""

    def __init__(self, lanes: int, element: ir.Type) -> None:
        super().__init__(lanes, element)
        self.vnni_factor = 32 // element.width

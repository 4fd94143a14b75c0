"""Loops of fused attention over blocks of queries whose scores stay in cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    alloc,
    ceil_div,
    for_loop,
    index,
    maximum,
    minimum,
    multiply,
    parallel_loop,
    product,
    subtract,
    unflatten,
)
from relax_mlir.schedules.cpu.gemm_loops import GemmLoops
from relax_mlir.schedules.cpu.gemm_panel import Panel
from relax_mlir.schedules.flat_buffers import FlatAccess, flat_view
from relax_mlir.schedules.kernel_view import Access, Statement, point_count
from relax_mlir.schedules.match_attention import AttentionPlan
from relax_mlir.schedules.match_contraction import ContractionPlan
from relax_mlir.schedules.statement_loops import emit_statement

__all__ = ["AttentionLoops"]

_CACHE_BYTES = 1 << 17  # share of L2 for the scores of a block
_MIN_ROWS, _MAX_ROWS = 16, 128  # queries per block
_ROWS_AT_ONCE = 8  # interleaved rows, which hide the latency of row maxima
# Pairs of a number of tiles that keeps threads busy, and the minimum number of queries per
# tile that amortizes packing keys and values.
_PARTS = ((16, 256), (4, 64))
_WORK = 1 << 18  # multiply-adds per thread that pay for starting it


class _Matmul(GemmLoops):
    """One of the two matmuls, for a block of rows at a time.

    Args:
        plan: the matmul.
        vector_bits: width of a vector register.
        pitch: row stride in elements of an LHS in scratch; None for an LHS in memory.
    """

    def __init__(
        self, plan: ContractionPlan, vector_bits: int, pitch: IndexLike | None = None
    ) -> None:
        self._pitch = pitch
        super().__init__(plan, vector_bits)
        self.width = self.tile.vectors * self.lanes
        self.panels = ceil_div(self.columns, self.width)
        self._packed: ir.Value | None = None
        self._is_used_once = True

    def row_step(self) -> int | None:
        if self._pitch is None:
            return super().row_step()
        return self._pitch if isinstance(self._pitch, int) else None

    def prepare(self, points: Mapping[int, IndexLike], *, is_used_once: bool) -> None:
        """Allocate the packed RHS, and pack it in advance, unless only one block uses it.

        Args:
            points: the point along the batch axes.
            is_used_once: whether the tile has a single block of rows, which then packs
                each panel right before its use.
        """
        self._packed, self._is_used_once = None, is_used_once
        if not self.needs_packing:
            return
        panels = 1 if is_used_once else self.panels
        shape = [panels, self.tiling.depth, self.width]
        self._packed = packed = flat_view(alloc(shape, self.plan.rhs.element))

        def pack(panel: Panel) -> None:
            panel.pack(packed, self._begin(panel))

        if not is_used_once:
            self.for_panels(points, (0, self.panels), pack)

    def _begin(self, panel: Panel) -> IndexLike:
        """Offset of a panel in the packed RHS."""
        size = multiply(self.tiling.depth, self.width)
        return multiply(panel.panel_slice.number, size)

    def emit_rows(
        self,
        a: FlatAccess,
        points: Mapping[int, IndexLike],
        begin: IndexLike,
        count: IndexLike,
    ) -> None:
        """Multiply ``count`` rows from ``begin`` on by all panels.

        If the panels are packed in advance, the loop over panels is the inner one: operands of
        the epilogue, such as a mask, are then accessed along rows.

        Args:
            a: access of the LHS.
        """
        self.a, self.first_unit = a, 0

        def register_tile(row: IndexLike, height: int, panel: Panel) -> None:
            at = {**points, self.last.number: add(begin, row)}
            self._emit_tile(at, height, panel, 0)

        def all_rows(panel: Panel) -> None:
            self._prepare_panel(panel)
            if isinstance(count, int):
                self._for_tiles(
                    count, lambda row, height: register_tile(row, height, panel)
                )
            else:
                self._emit_rows(points, begin, add(begin, count), panel)

        def all_panels(row: IndexLike, height: int) -> None:
            def one_panel(panel: Panel) -> None:
                self._prepare_panel(panel)
                register_tile(row, height, panel)

            self.for_panels(points, (0, self.panels), one_panel)

        if self._is_used_once or not isinstance(count, int):
            self.for_panels(points, (0, self.panels), all_rows)
        else:
            self._for_tiles(count, all_panels)

    def _prepare_panel(self, panel: Panel) -> None:
        """Pack a panel, or read it from where it is packed already."""
        if self._packed is None:
            return
        if self._is_used_once:
            panel.pack(self._packed)
        else:
            panel.read_packed(self._packed, self._begin(panel))

    def _for_tiles(self, count: int, body: Callable[[IndexLike, int], None]) -> None:
        """Loop over the register tiles of ``count`` rows; ``body(first row, rows)``."""

        def tile(row: ir.Value) -> tuple[()]:
            body(row, height)
            return ()

        height = self.tile.rows
        full = count - count % height
        for_loop(0, full, height, tile)
        if full < count:
            body(full, count - full)


@dataclass(frozen=True)
class _Block:
    """A block of queries of one head.

    Attributes:
        heads: indices of the head; begin: first query.
        scratch: scratch buffers that replace the kernel's temporaries.
    """

    heads: Sequence[IndexLike]
    begin: IndexLike
    scratch: Mapping[ir.Value, ir.Value]

    def relocate(
        self, buffer: ir.Value, indices: list[ir.Value]
    ) -> tuple[ir.Value, list[ir.Value]]:
        """Replace a temporary by scratch, which is indexed by [query - begin, ...]."""
        if buffer not in self.scratch:
            return buffer, indices
        depth = len(self.heads) + 1
        row = index(subtract(indices[depth - 1], self.begin))
        return self.scratch[buffer], [row, *indices[depth:]]


class AttentionLoops:
    """Emits the loops of fused attention.

    A parallel tile is a head or some blocks of its queries. It packs keys and values into
    panels if that pays. For each block it then computes the scores against all keys,
    the row-wise statements, and the matmul with the values.

    Args:
        plan: the attention.
        vector_bits: width of a vector register.
    """

    def __init__(self, plan: AttentionPlan, vector_bits: int) -> None:
        self.plan, self.vector_bits = plan, vector_bits
        self.lanes = vector_bits // plan.scores.element.width
        *self.heads, self.rows = plan.extents
        self.pitch = self._pitch()
        self.scores = _Matmul(plan.scores, vector_bits)
        self.values = _Matmul(plan.values, vector_bits, self.pitch)
        self.per_block, self.per_tile = self._cut()
        self.blocks = ceil_div(self.rows, self.per_block)

    def _pitch(self) -> IndexLike:
        """Row stride of the scores in elements: whole vectors, and no multiple of a page."""
        keys = self.plan.keys
        if not isinstance(keys, int):
            return multiply(ceil_div(keys, self.lanes), self.lanes)
        pitch = -(-keys // self.lanes) * self.lanes
        page = 4096 * 8 // self.plan.scores.element.width
        return pitch if pitch % page else pitch + self.lanes

    def _cut(self) -> tuple[int, int]:
        """Queries per block, and blocks per tile."""
        most = _MIN_ROWS
        if isinstance(self.pitch, int):
            row_bytes = self.pitch * self.plan.scores.element.width // 8
            most = max(_MIN_ROWS, min(_CACHE_BYTES // row_bytes, _MAX_ROWS))
        if not isinstance(self.rows, int):
            _, rows = _PARTS[0]
            return most, -(-rows // most)
        heads = max(1, point_count(self.heads))
        parts = [min(-(-tiles // heads), self.rows // rows) for tiles, rows in _PARTS]
        rows_of_tile = -(-self.rows // max(1, *parts))
        blocks = -(-rows_of_tile // most)
        height = self.scores.tile.rows
        per_block = min(self.rows, -(-rows_of_tile // (blocks * height)) * height)
        return max(1, per_block), blocks

    def emit(self) -> None:
        """Emit the loops at the insertion point."""
        tiles = ceil_div(self.blocks, self.per_tile)
        extents = [*self.heads, tiles]

        def tile(number: ir.Value) -> None:
            *heads, part = unflatten(number, extents)
            first = multiply(part, self.per_tile)
            last = minimum(add(first, self.per_tile), self.blocks)
            self._emit_tile(heads, first, last)

        scores = point_count([self.per_tile, self.per_block, self.plan.keys])
        per_score = (self.scores.tiling.depth, self.values.columns)
        work = scores * sum(point_count([size]) for size in per_score)
        grain = max(1, _WORK // max(1, work))
        parallel_loop(product(extents), tile, grain=grain)

    def _emit_tile(
        self, heads: Sequence[IndexLike], first: IndexLike, last: IndexLike
    ) -> None:
        """Emit one tile: blocks ``first`` to ``last`` of a head."""
        points = [
            {
                axis: point
                for axis, point in zip(axes, heads, strict=False)
                if axis is not None
            }
            for axes in (self.plan.score_axes, self.plan.value_axes)
        ]
        for loops, at in zip((self.scores, self.values), points, strict=True):
            loops.prepare(at, is_used_once=self.per_tile == 1)
        scratch = self._scratch()

        def block(number: IndexLike, count: IndexLike) -> tuple[()]:
            begin = multiply(number, self.per_block)
            self._emit_block(_Block(heads, begin, scratch), points, count)
            return ()

        if not isinstance(self.rows, int):

            def clipped(number: ir.Value) -> tuple[()]:
                remaining = subtract(self.rows, multiply(number, self.per_block))
                return block(number, minimum(remaining, self.per_block))

            for_loop(first, last, 1, clipped)
            return
        full, tail = divmod(self.rows, self.per_block)
        for_loop(first, minimum(last, full), 1, lambda n: block(n, self.per_block))
        if tail:
            for_loop(maximum(first, full), last, 1, lambda n: block(n, tail))

    def _scratch(self) -> dict[ir.Value, ir.Value]:
        """Allocate scratch for the temporaries; statements write in place where possible."""
        scratch: dict[ir.Value, ir.Value] = {}
        for writer, buffer in zip(
            [None, *self.plan.rows], self.plan.temporaries, strict=True
        ):
            dead = None if writer is None else self._overwritten(writer, scratch)
            scratch[buffer] = self._alloc(buffer) if dead is None else scratch[dead]
        return scratch

    def _alloc(self, buffer: ir.Value) -> ir.Value:
        shape: list[IndexLike] = [self.per_block]
        if buffer.type.rank > self.plan.depth:
            is_one = buffer.type.shape[-1] == 1 and self.plan.keys != 1
            shape.append(1 if is_one else self.pitch)
        return alloc(shape, buffer.type.element_type)

    def _overwritten(
        self, writer: Statement, known: Mapping[ir.Value, ir.Value]
    ) -> ir.Value | None:
        """A temporary that a statement may overwrite: dead after it, with the same map."""
        out = writer.outputs[0]
        later = self.plan.rows[self.plan.rows.index(writer) + 1 :]
        after = [a for m in self.plan.values.maps for a in m.inputs]
        read_later = {a.buffer for s in later for a in s.inputs}
        read_later |= {a.buffer for a in (self.plan.values.a, *after)}
        for access in writer.inputs:
            buffer = access.buffer
            if buffer in known and buffer not in read_later:
                everywhere = [a for a in writer.inputs if a.buffer == buffer]
                is_same = all(a.forms == out.forms for a in everywhere)
                if is_same and buffer.type == out.buffer.type:
                    return buffer
        return None

    def _emit_block(
        self, block: _Block, points: Sequence[Mapping[int, IndexLike]], count: IndexLike
    ) -> None:
        """Emit one block: scores, row-wise statements, and the matmul with the values."""
        for loops in (self.scores, self.values):
            loops.epilogue = replace(loops.epilogue, relocate=block.relocate)
        of_scores, of_values = points
        queries = FlatAccess.of(self.plan.scores.a)
        self.scores.emit_rows(queries, of_scores, block.begin, count)
        self._emit_row_statements(block, count)
        weights = self._weights(self.plan.values.a, block)
        self.values.emit_rows(weights, of_values, block.begin, count)

    def _emit_row_statements(self, block: _Block, count: IndexLike) -> None:
        """Emit the row-wise statements, interleaved for groups of rows.

        A statement runs on all rows of a group before the next one does, so that the
        latencies of the rows' reductions overlap.
        """

        def row(statement: Statement, i: ir.Value) -> tuple[()]:
            point = [*block.heads, add(block.begin, i)]
            emit_statement(statement, point, block.relocate, self.vector_bits)
            return ()

        def rows(first: ir.Value) -> tuple[()]:
            end = minimum(add(first, _ROWS_AT_ONCE), count)
            for statement in self.plan.rows:
                for_loop(first, end, 1, partial(row, statement))
            return ()

        for_loop(0, count, _ROWS_AT_ONCE, rows)

    def _weights(self, access: Access, block: _Block) -> FlatAccess:
        """The LHS of the second matmul, in scratch."""
        (key,), (row,) = self.plan.values.k, self.plan.values.m
        begin = subtract(0, multiply(block.begin, self.pitch))
        view = flat_view(block.scratch[access.buffer])
        return FlatAccess(view, {row: self.pitch, key: 1}, {}, begin)

"""The loops of attention: blocks of rows, whose scores stay in cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mlir import ir

from relax_mlir.schedules.attention_plan import AttentionPlan
from relax_mlir.schedules.contraction_plan import Plan
from relax_mlir.schedules.cpu.contraction_loops import ContractionLoops
from relax_mlir.schedules.cpu.panel import Columns
from relax_mlir.schedules.emit import (
    Extent,
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
from relax_mlir.schedules.flat import Flat, flat_view
from relax_mlir.schedules.nest import Access, Statement, point_count
from relax_mlir.schedules.statement_loops import emit_statement

__all__ = ["AttentionLoops"]

_CACHE_BYTES = 1 << 17  # what the scores of a block of rows may take of a near cache
_LEAST_ROWS, _MOST_ROWS = 16, 128  # of a block
_ROWS_AT_ONCE = 8  # so many keep a core busy while each waits for its maximum
# So many tiles are enough to keep threads busy, but each has some rows at least, for which
# it copies keys and values; few heads are cut into shorter ones.
_PARTS = ((16, 256), (4, 64))
_WORK = 1 << 18  # multiply-adds that are worth a thread's while


class _Product(ContractionLoops):
    """One of the two products, for some rows at a time.

    Args:
        plan: the product.
        vector_bits: width of the machine's vectors.
        pitch: elements between rows in the memory that stands in for what it reads; None
            if nothing does.
    """

    def __init__(
        self, plan: Plan, vector_bits: int, pitch: Extent | None = None
    ) -> None:
        self._pitch = pitch
        super().__init__(plan, vector_bits)
        self.width = self.tile.vectors * self.lanes
        self.panels = ceil_div(self.columns, self.width)
        self._memory: ir.Value | None = None
        self._is_used_once = True

    def row_step(self) -> int | None:
        if self._pitch is None:
            return super().row_step()
        return self._pitch if isinstance(self._pitch, int) else None

    def prepare(self, points: Mapping[int, Extent], *, is_used_once: bool) -> None:
        """Make room for columns, and copy them there unless they are used just once.

        Args:
            is_used_once: whether one block of rows is all that follows, which then copies
                each panel when it is at it.
        """
        self._memory, self._is_used_once = None, is_used_once
        if not self.is_packed_here:
            return
        panels = 1 if is_used_once else self.panels
        shape = [panels, self.tiling.depth, self.width]
        self._memory = memory = flat_view(alloc(shape, self.plan.columns_of.element))

        def panel(columns: Columns) -> None:
            columns.pack(memory, self._begin(columns))

        if not is_used_once:
            self.for_panels(points, (0, self.panels), panel)

    def _begin(self, columns: Columns) -> Extent:
        size = multiply(self.tiling.depth, self.width)
        return multiply(columns.cut.panel, size)

    def emit_rows(
        self, a: Flat, points: Mapping[int, Extent], begin: Extent, count: Extent
    ) -> None:
        """Some rows from ``begin`` on against all columns.

        Where columns are there already, a tile of rows meets all of them before the next
        one does: what maps read, such as a mask, is then walked along rows.

        Args:
            a: the rows.
        """
        self.a, self.first_unit = a, 0

        def meet(row: Extent, height: int, columns: Columns) -> None:
            at = {**points, self.last.number: add(begin, row)}
            self._emit_tile(at, height, columns, 0)

        def panel(columns: Columns) -> None:
            self._take(columns)
            if isinstance(count, int):
                self._for_tiles(count, lambda row, height: meet(row, height, columns))
            else:
                self._emit_rows(points, begin, add(begin, count), columns)

        def tile(row: Extent, height: int) -> None:
            def panel(columns: Columns) -> None:
                self._take(columns)
                meet(row, height, columns)

            self.for_panels(points, (0, self.panels), panel)

        if self._is_used_once or not isinstance(count, int):
            self.for_panels(points, (0, self.panels), panel)
        else:
            self._for_tiles(count, tile)

    def _take(self, columns: Columns) -> None:
        """Let columns be read where they are packed, or pack them."""
        if self._memory is None:
            return
        if self._is_used_once:
            columns.pack(self._memory)
        else:
            columns.read_packed(self._memory, self._begin(columns))

    def _for_tiles(self, count: int, body: Callable[[Extent, int], None]) -> None:
        """Tiles of a known number of rows; ``body`` gets the first, and how many."""

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
    """Some rows of a head.

    Attributes:
        heads: which head; begin: the first row.
        scratch: what stands in for the buffers inside the kernel, by buffer.
    """

    heads: Sequence[Extent]
    begin: Extent
    scratch: Mapping[ir.Value, ir.Value]

    def relocate(
        self, buffer: ir.Value, where: list[ir.Value]
    ) -> tuple[ir.Value, list[ir.Value]]:
        """Buffers inside the kernel lie in scratch, row by row."""
        if buffer not in self.scratch:
            return buffer, where
        depth = len(self.heads) + 1
        row = index(subtract(where[depth - 1], self.begin))
        return self.scratch[buffer], [row, *where[depth:]]


class AttentionLoops:
    """Writes the loops of one attention.

    A tile is a head, or some rows of one. It copies keys and values into panels, if that
    pays, and then takes one block of rows after the other: scores of all keys, what
    follows on the rows, and the product with the values.

    Args:
        plan: the attention.
        vector_bits: width of the machine's vectors.
    """

    def __init__(self, plan: AttentionPlan, vector_bits: int) -> None:
        self.plan, self.vector_bits = plan, vector_bits
        self.lanes = vector_bits // plan.scores.element.width
        *self.heads, self.rows = plan.extents
        self.pitch = self._pitch()
        self.scores = _Product(plan.scores, vector_bits)
        self.values = _Product(plan.values, vector_bits, self.pitch)
        self.per_block, self.per_tile = self._cut()
        self.blocks = ceil_div(self.rows, self.per_block)

    def _pitch(self) -> Extent:
        """Elements from one row of scores to the next: no two share a cache line."""
        keys = self.plan.keys
        if not isinstance(keys, int):
            return multiply(ceil_div(keys, self.lanes), self.lanes)
        pitch = -(-keys // self.lanes) * self.lanes
        page = 4096 * 8 // self.plan.scores.element.width
        return pitch if pitch % page else pitch + self.lanes

    def _cut(self) -> tuple[int, int]:
        """Rows of a block, and blocks of a tile."""
        most = _LEAST_ROWS
        if isinstance(self.pitch, int):
            row_bytes = self.pitch * self.plan.scores.element.width // 8
            most = max(_LEAST_ROWS, min(_CACHE_BYTES // row_bytes, _MOST_ROWS))
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
        """Write them at the insertion point."""
        tiles = ceil_div(self.blocks, self.per_tile)
        extents = [*self.heads, tiles]

        def tile(number: ir.Value) -> None:
            *heads, part = unflatten(number, extents)
            first = multiply(part, self.per_tile)
            last = minimum(add(first, self.per_tile), self.blocks)
            self._emit_tile(heads, first, last)

        scores = point_count([self.per_tile, self.per_block, self.plan.keys])
        products = (self.scores.tiling.depth, self.values.columns)
        work = scores * sum(point_count([size]) for size in products)
        grain = max(1, _WORK // max(1, work))
        parallel_loop(product(extents), tile, grain=grain)

    def _emit_tile(self, heads: Sequence[Extent], first: Extent, last: Extent) -> None:
        """Some blocks of rows of a head."""
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

        def block(number: Extent, count: Extent) -> tuple[()]:
            begin = multiply(number, self.per_block)
            self._emit_block(_Block(heads, begin, scratch), points, count)
            return ()

        if not isinstance(self.rows, int):

            def clipped(number: ir.Value) -> tuple[()]:
                left = subtract(self.rows, multiply(number, self.per_block))
                return block(number, minimum(left, self.per_block))

            for_loop(first, last, 1, clipped)
            return
        full, left = divmod(self.rows, self.per_block)
        for_loop(first, minimum(last, full), 1, lambda n: block(n, self.per_block))
        if left:
            for_loop(maximum(first, full), last, 1, lambda n: block(n, left))

    def _scratch(self) -> dict[ir.Value, ir.Value]:
        """Memory for the buffers inside the kernel, some in the place of dead ones."""
        found: dict[ir.Value, ir.Value] = {}
        for writer, buffer in zip(
            [None, *self.plan.rows], self.plan.temporaries, strict=True
        ):
            dying = None if writer is None else self._overwritten(writer, found)
            found[buffer] = self._alloc(buffer) if dying is None else found[dying]
        return found

    def _alloc(self, buffer: ir.Value) -> ir.Value:
        shape: list[Extent] = [self.per_block]
        if buffer.type.rank > self.plan.depth:
            is_one = buffer.type.shape[-1] == 1 and self.plan.keys != 1
            shape.append(1 if is_one else self.pitch)
        return alloc(shape, buffer.type.element_type)

    def _overwritten(
        self, writer: Statement, known: Mapping[ir.Value, ir.Value]
    ) -> ir.Value | None:
        """A buffer that a statement reads for the last time where it writes."""
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
        self, block: _Block, points: Sequence[Mapping[int, Extent]], count: Extent
    ) -> None:
        """Some rows: their scores, what follows on them, and their values."""
        for loops in (self.scores, self.values):
            loops.epilogue = replace(loops.epilogue, relocate=block.relocate)
        of_scores, of_values = points
        queries = Flat.of(self.plan.scores.a)
        self.scores.emit_rows(queries, of_scores, block.begin, count)
        self._follow(block, count)
        weights = self._weights(self.plan.values.a, block)
        self.values.emit_rows(weights, of_values, block.begin, count)

    def _follow(self, block: _Block, count: Extent) -> None:
        """What follows on rows, statement by statement for a few rows at a time.

        Rows do not wait for each other, as one after the other does for its maximum.
        """

        def row(statement: Statement, i: ir.Value) -> tuple[()]:
            where = [*block.heads, add(block.begin, i)]
            emit_statement(statement, where, block.relocate, self.vector_bits)
            return ()

        def rows(first: ir.Value) -> tuple[()]:
            end = minimum(add(first, _ROWS_AT_ONCE), count)
            for statement in self.plan.rows:
                for_loop(first, end, 1, partial(row, statement))
            return ()

        for_loop(0, count, _ROWS_AT_ONCE, rows)

    def _weights(self, access: Access, block: _Block) -> Flat:
        """What the second product reads, as it lies in scratch."""
        (key,), (row,) = self.plan.values.k, self.plan.values.m
        begin = subtract(0, multiply(block.begin, self.pitch))
        view = flat_view(block.scratch[access.buffer])
        return Flat(view, {row: self.pitch, key: 1}, {}, begin)

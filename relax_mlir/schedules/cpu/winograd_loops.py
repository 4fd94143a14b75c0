"""Loops of Winograd convolutions; ``winograd.py`` describes the method."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    constant,
    div,
    for_loop,
    index,
    less,
    minimum,
    multiply,
    multiply_add,
    op,
    parallel_loop,
    scf_if,
    subtract,
    unflatten,
    vector_type,
)
from relax_mlir.schedules.cpu.gemm_tile import GemmRows, tile_of_width
from relax_mlir.schedules.cpu.match_winograd import WinogradConfiguration, WinogradPlan
from relax_mlir.schedules.cpu.prefetch import Prefetch
from relax_mlir.schedules.cpu.winograd_range import TileRange
from relax_mlir.schedules.epilogue import Epilogue
from relax_mlir.schedules.flat_buffers import flat_view
from relax_mlir.schedules.padding import Padding, lane_mask, window_masks
from relax_mlir.schedules.vectorize_body import load_vector, store_vector
from relax_mlir.schedules.winograd import (
    INPUT_TILE,
    KERNEL_SIZE,
    OUTPUT_TILE,
    transform_input,
    transform_output,
)

__all__ = ["WinogradLoops"]

_POINTS = INPUT_TILE * INPUT_TILE
_MIN_TILES = 4  # minimum number of parallel tiles
_SUM_BLOCK = 128  # channels; small, as the output transform amplifies rounding errors
_PITCH = 16  # padding between points in scratch, in elements, against cache conflicts


class WinogradLoops:
    """Emits the loops of one Winograd convolution."""

    def __init__(
        self,
        plan: WinogradPlan,
        lanes: int,
        configuration: WinogradConfiguration,
    ) -> None:
        self.plan, self.lanes = plan, lanes
        self.images, self.rows, self.columns, self.out = plan.result
        source = ir.MemRefType(plan.data.source.type).shape
        _, self.read_rows, self.read_columns, self.pixel = source
        self.channels = plan.channels
        self.down, self.across = plan.tiles
        out = plan.anchor.outputs[0].buffer
        self.written = Padding(out, out, [0] * 4, plan.data.fill)
        self.vectors = plan.width // lanes
        self.panels = plan.panels
        self.block_rows, self.block_columns = configuration.rows, configuration.columns
        self.at_once = configuration.panels
        self.tiles = self.block_rows * self.block_columns
        self.tile = tile_of_width(GemmRows(self.tiles), self.vectors, 32 * lanes)
        self.epilogue = Epilogue(plan.anchor, plan.maps, plan.axes[-1:], lanes)
        # Strides of tiles and of points in scratch, in elements.
        self.product_row = self.at_once * plan.width
        self.value_step = self.tiles * self.channels + _PITCH
        self.product_step = self.tiles * self.product_row + _PITCH

    def emit(self) -> None:
        """Emit the loops at the insertion point."""
        down = self.down // self.block_rows
        across = self.across // self.block_columns
        blocks = self.images * down * across
        groups = min(self.panels, -(-_MIN_TILES // blocks))
        per_group = -(-self.panels // groups)
        groups = -(-self.panels // per_group)

        def tile(number: ir.Value) -> None:
            grid = [self.images, down, across, groups]
            image, row, column, group = unflatten(number, grid)
            f32 = self.plan.anchor.outputs[0].buffer.type.element_type
            plan = self.plan
            read = plan.data.source, plan.transformed, plan.kernel
            self.data, self.transformed, self.kernel = map(flat_view, read)
            self.values = alloc([_POINTS * self.value_step], f32)
            self.products = alloc([_POINTS * self.product_step], f32)
            self.is_direct = alloc([self.tiles], ir.IntegerType.get_signless(8))
            self.range = TileRange(plan, self.lanes)
            self.image = image
            self.first_row = multiply(row, self.block_rows)
            self.first_column = multiply(column, self.block_columns)
            self._transform_inputs()
            first = multiply(group, per_group)
            last = minimum(add(first, per_group), self.panels)

            def panels(begin: ir.Value) -> tuple[()]:
                self._emit_panels(begin, minimum(add(begin, self.at_once), last))
                return ()

            for_loop(first, last, self.at_once, panels)

        parallel_loop(blocks * groups, tile)

    def _for_tiles(self, body: Callable[[ir.Value, ir.Value], None]) -> None:
        """Loops over the tiles of a block; ``body(row, column)``."""

        def row(i: ir.Value) -> tuple[()]:
            def column(j: ir.Value) -> tuple[()]:
                body(i, j)
                return ()

            for_loop(0, self.block_columns, 1, column)
            return ()

        for_loop(0, self.block_rows, 1, row)

    # input transform

    def _corner(self, i: ir.Value, j: ir.Value) -> tuple[IndexLike, IndexLike]:
        """Row and column of a tile's first result, and of its first pixel when padded."""
        row, column = add(self.first_row, i), add(self.first_column, j)
        return multiply(row, OUTPUT_TILE), multiply(column, OUTPUT_TILE)

    def _transform_inputs(self) -> None:
        """Transform the input tiles of the block; copy those out of range."""

        def tile(i: ir.Value, j: ir.Value) -> None:
            row, column = self._corner(i, j)
            _, up, left, _ = self.plan.data.before
            pixel = add(multiply(self.image, self.read_rows), subtract(row, up))
            pixel = add(multiply(pixel, self.read_columns), subtract(column, left))
            source = multiply(pixel, self.pixel)
            number = self._number(i, j)
            target = multiply(number, self.channels)
            masks = self._masks((row, column), self.plan.data, INPUT_TILE)

            def pixels_at(c: ir.Value) -> list[list[ir.Value]]:
                place = add(source, c)
                columns = [self._column(place, n, masks) for n in range(INPUT_TILE)]
                return [list(row) for row in zip(*columns, strict=True)]

            def transform(c: ir.Value, *running: ir.Value) -> list[ir.Value]:
                columns, statistics = [], []
                # Column by column, for low register pressure.
                for n in range(INPUT_TILE):
                    column = self._column(add(source, c), n, masks)
                    statistics = self.range.include_column(n, column, statistics)
                    columns.append(transform_input(column))
                rows = map(transform_input, zip(*columns, strict=True))
                self._store_points(list(rows), add(target, c))
                return self.range.include(running, statistics)

            def copy(c: ir.Value) -> tuple[()]:
                self._store_points(pixels_at(c), add(target, c))
                return ()

            def copy_all() -> tuple[()]:
                for_loop(0, self.channels, self.lanes, copy)
                return ()

            initial = self.range.initial()
            sums = for_loop(0, self.channels, self.lanes, transform, initial)
            is_outside = self.range.is_outside(sums, row, column, pixels_at)
            byte = op("arith.extui", self.is_direct.type.element_type, is_outside)
            op("memref.store", None, byte, self.is_direct, index(number))
            scf_if(is_outside, [], copy_all)

        self._for_tiles(tile)

    def _number(self, i: ir.Value, j: ir.Value) -> IndexLike:
        """Linear index of a tile in its block."""
        return add(multiply(i, self.block_columns), j)

    def _column(
        self, source: IndexLike, j: int, masks: Sequence[Sequence[ir.Value | None]]
    ) -> list[ir.Value]:
        """Load one column of a tile's pixels, as vectors of channels."""
        return [self._load_pixel(source, i, j, masks[i][j]) for i in range(INPUT_TILE)]

    def _store_points(
        self, values: Sequence[Sequence[ir.Value]], target: IndexLike
    ) -> None:
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                position = add(target, (i * INPUT_TILE + j) * self.value_step)
                store_vector(value, self.values, [index(position)], self.lanes, None)

    def _load_pixel(
        self, source: IndexLike, i: int, j: int, mask: ir.Value | None
    ) -> ir.Value:
        offset = (i * self.read_columns + j) * self.pixel
        return self._to_f32(
            load_vector(self.data, [index(add(source, offset))], self.lanes, 1, mask)
        )

    def _to_f32(self, vector: ir.Value) -> ir.Value:
        """Extend a vector to f32."""
        wide = vector_type(self.lanes, self.values.type.element_type)
        return vector if vector.type == wide else op("arith.extf", wide, vector)

    def _masks(
        self, corner: tuple[IndexLike, IndexLike], image: Padding, count: int
    ) -> list[list[ir.Value | None]]:
        """Padding masks of a tile of ``count`` x ``count`` pixels."""
        last = [(tiles - 1) * OUTPUT_TILE for tiles in self.plan.tiles]
        return window_masks(image, corner, last, count, self.lanes)

    # GEMMs

    def _emit_panels(self, begin: ir.Value, end: IndexLike) -> None:
        """Emit the GEMMs and output transforms of a group of panels."""

        def point(number: ir.Value) -> tuple[()]:
            def panel(p: ir.Value) -> tuple[()]:
                # Prefetch the next panel, or the first one of the next point.
                successor, first = add(p, 1), add(begin, self.panels)
                has_successor = less(successor, end)
                following = op("arith.select", p.type, has_successor, successor, first)
                column = multiply(subtract(p, begin), width)
                return self._multiply(number, p, following, column)

            for_loop(begin, end, 1, panel)
            return ()

        width = self.plan.width
        for_loop(0, _POINTS, 1, point)
        self._write_results(begin, end)

    def _multiply(
        self, point: ir.Value, panel: ir.Value, following: ir.Value, column: IndexLike
    ) -> tuple[()]:
        """Emit the GEMM of one point and one panel: all tiles by the panel's channels.

        Args:
            following: the panel to prefetch; numbers past the last one mean the next point.
            column: first column of the results in scratch.
        """
        size = self.channels * self.plan.width
        block = multiply(point, self.panels)
        weights, next_weights = (
            multiply(add(block, p), size) for p in (panel, following)
        )
        values = multiply(point, self.value_step)
        target = add(multiply(point, self.product_step), column)
        height = self.tile.rows

        prefetch = Prefetch(
            self.transformed, size, self.vectors, -(-self.tiles // height)
        )

        def tile(first: IndexLike, count: int) -> tuple[()]:
            row = add(values, multiply(first, self.channels))
            prologue = prefetch.begin(next_weights, div(first, height))
            sums = iter(self._sums(row, count, weights, prologue))
            for i in range(count):
                at = add(target, multiply(add(first, i), self.product_row))
                for q in range(self.vectors):
                    indices = [index(add(at, q * self.lanes))]
                    store_vector(next(sums), self.products, indices, self.lanes, None)
            return ()

        full = self.tiles - self.tiles % height
        for_loop(0, full, height, lambda first: tile(first, height))
        if self.tiles % height:
            tile(full, self.tiles % height)
        return ()

    def _sums(
        self,
        row: IndexLike,
        count: int,
        weights: IndexLike,
        prologue: Callable[[IndexLike], None],
    ) -> list[ir.Value]:
        """Emit the micro-kernel: ``count`` tiles by a panel, over the input channels."""
        element = self.values.type.element_type
        zero = broadcast(constant(0, element), self.lanes)

        def step(c: IndexLike, sums: Sequence[ir.Value]) -> list[ir.Value]:
            at = add(weights, multiply(c, self.plan.width))
            rhs = self._weights(self.transformed, at)
            updated: list[ir.Value] = []
            for i in range(count):
                position = index(add(add(row, i * self.channels), c))
                value = op("memref.load", element, self.values, position)
                lhs = broadcast(value, self.lanes)
                for vector in rhs:
                    total = sums[len(updated)]
                    fma = op("vector.fma", total.type, lhs, vector, total)
                    updated.append(fma)
            return updated

        sums = [zero] * (count * self.vectors)
        return blocked_unrolled_loop(self.channels, step, sums, prologue, _SUM_BLOCK)

    def _weights(self, kernel: ir.Value, offset: IndexLike) -> list[ir.Value]:
        """Load the weights of a panel's output channels, as vectors of f32."""
        offsets = [index(add(offset, q * self.lanes)) for q in range(self.vectors)]
        vectors = [load_vector(kernel, [at], self.lanes, 1, None) for at in offsets]
        return list(map(self._to_f32, vectors))

    # tiles out of range

    def _convolve_directly(
        self, number: IndexLike, begin: ir.Value, end: IndexLike
    ) -> None:
        """Direct convolution of a tile, whose inputs are in scratch untransformed.

        Result [a, b] is stored as the product of point a * WRITTEN + b.
        """
        source = multiply(number, self.channels)

        def panel(p: ir.Value) -> tuple[()]:
            column = multiply(subtract(p, begin), self.plan.width)
            target = add(multiply(number, self.product_row), column)
            for_loop(0, OUTPUT_TILE, 1, lambda a: row(a, p, target))
            return ()

        def row(a: ir.Value, p: ir.Value, target: IndexLike) -> tuple[()]:
            sums = iter(self._row_of_sums(a, p, source))
            for b in range(OUTPUT_TILE):
                point = add(multiply(a, OUTPUT_TILE), b)
                at = add(multiply(point, self.product_step), target)
                for q in range(self.vectors):
                    indices = [index(add(at, q * self.lanes))]
                    store_vector(next(sums), self.products, indices, self.lanes, None)
            return ()

        for_loop(begin, end, 1, panel)

    def _is_direct(self, number: IndexLike) -> ir.Value:
        i1, i8 = map(ir.IntegerType.get_signless, (1, 8))
        byte = op("memref.load", i8, self.is_direct, index(number))
        return op("arith.trunci", i1, byte)

    def _row_of_sums(
        self, a: ir.Value, panel: ir.Value, source: IndexLike
    ) -> list[ir.Value]:
        """Accumulate row ``a`` of a tile's results for one panel.

        Args:
            source: offset of the tile's first pixel in scratch.
        """
        element = self.values.type.element_type

        def weights_at(r: ir.Value, s: int, c: ir.Value) -> list[ir.Value]:
            block = add(multiply(add(multiply(r, KERNEL_SIZE), s), self.panels), panel)
            at = multiply(add(multiply(block, self.channels), c), self.plan.width)
            return self._weights(self.kernel, at)

        def pixel_at(r: ir.Value, j: int, c: ir.Value) -> ir.Value:
            point = add(multiply(add(a, r), INPUT_TILE), j)
            at = add(add(multiply(point, self.value_step), source), c)
            value = op("memref.load", element, self.values, index(at))
            return broadcast(value, self.lanes)

        def step(r: ir.Value, c: ir.Value, *sums: ir.Value) -> list[ir.Value]:
            pixels = [pixel_at(r, j, c) for j in range(INPUT_TILE)]
            updated = list(sums)
            for s in range(KERNEL_SIZE):
                weights = weights_at(r, s, c)
                for n in range(len(updated)):
                    b, q = divmod(n, self.vectors)
                    updated[n] = multiply_add(pixels[b + s], weights[q], updated[n])
            return updated

        def row(r: ir.Value, *sums: ir.Value) -> list[ir.Value]:
            return for_loop(0, self.channels, 1, lambda c, *now: step(r, c, *now), sums)

        zero = broadcast(constant(0, element), self.lanes)
        lengths = block_lengths(KERNEL_SIZE, KERNEL_SIZE * self.channels, LONG_BLOCK)
        sums = [zero] * (OUTPUT_TILE * self.vectors)
        return blocked_loop(0, KERNEL_SIZE, 1, row, sums, lengths)

    # output transform

    def _write_results(self, begin: ir.Value, end: IndexLike) -> None:
        """Store the results of all tiles for a group of panels."""
        first = multiply(begin, self.plan.width)
        channels = subtract(minimum(multiply(end, self.plan.width), self.out), first)

        def tile(i: ir.Value, j: ir.Value) -> None:
            corner, number = self._corner(i, j), self._number(i, j)
            source = multiply(number, self.product_row)

            def direct() -> tuple[()]:
                self._convolve_directly(number, begin, end)
                self._store_direct(corner, source, first, channels)
                return ()

            def transformed() -> tuple[()]:
                self._transform_outputs(corner, source, first, channels)
                return ()

            scf_if(self._is_direct(number), [], direct, transformed)

        self._for_tiles(tile)

    def _store(
        self,
        value: ir.Value,
        pixel: tuple[IndexLike, IndexLike],
        channel: IndexLike,
        mask: ir.Value | None,
    ) -> None:
        """Apply the epilogue to a vector of channels of one pixel, and store it."""
        point = (self.image, *pixel, channel)
        self.epilogue.store(value, dict(zip(self.plan.axes, point, strict=True)), mask)

    def _transform_outputs(
        self,
        corner: tuple[IndexLike, IndexLike],
        source: IndexLike,
        first: IndexLike,
        channels: IndexLike,
    ) -> None:
        """Apply the output transform to one tile, and store its results.

        Args:
            corner: row and column of its first result.
            source: offset of its products in scratch.
            first: first output channel; channels: number of output channels.
        """
        row, column = corner
        masks = self._masks(corner, self.written, OUTPUT_TILE)

        def vector(lane: ir.Value) -> tuple[()]:
            for a, results in enumerate(self._transformed_tile(add(source, lane))):
                for b, value in enumerate(results):
                    pixel = add(row, a), add(column, b)
                    self._store(value, pixel, add(first, lane), masks[a][b])
            return ()

        for_loop(0, channels, self.lanes, vector)

    def _store_direct(
        self,
        corner: tuple[IndexLike, IndexLike],
        source: IndexLike,
        first: IndexLike,
        channels: IndexLike,
    ) -> None:
        """Store the results of one tile from :meth:`_convolve_directly`."""

        def pixel(a: ir.Value, b: ir.Value) -> tuple[()]:
            position = add(corner[0], a), add(corner[1], b)
            inside = map(self.written.is_inside, (1, 2), position)
            mask = lane_mask(list(inside), self.lanes)
            point = add(multiply(a, OUTPUT_TILE), b)
            begin = add(source, multiply(point, self.product_step))

            def vector(lane: ir.Value) -> tuple[()]:
                indices = [index(add(begin, lane))]
                value = load_vector(self.products, indices, self.lanes, 1, None)
                self._store(value, position, add(first, lane), mask)
                return ()

            for_loop(0, channels, self.lanes, vector)
            return ()

        def row(a: ir.Value) -> tuple[()]:
            for_loop(0, OUTPUT_TILE, 1, lambda b: pixel(a, b))
            return ()

        for_loop(0, OUTPUT_TILE, 1, row)

    def _transformed_tile(self, source: IndexLike) -> list[list[ir.Value]]:
        """The output transform of a vector of channels; [WRITTEN][WRITTEN]."""

        def product(i: int, j: int) -> ir.Value:
            position = add(source, (i * INPUT_TILE + j) * self.product_step)
            return load_vector(self.products, [index(position)], self.lanes, 1, None)

        down = [
            transform_output([product(i, j) for i in range(INPUT_TILE)])
            for j in range(INPUT_TILE)
        ]
        return [
            transform_output([column[a] for column in down]) for a in range(OUTPUT_TILE)
        ]

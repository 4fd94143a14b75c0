"""The loops of Winograd convolutions; ``winograd.py`` has the method."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from relax_mlir.schedules.blocked_sums import (
    LONG_BLOCK,
    block_lengths,
    blocked_loop,
    blocked_unrolled_loop,
)
from relax_mlir.schedules.cpu.ahead import Ahead
from relax_mlir.schedules.cpu.contraction_tile import (
    Rows,
    tile_of_width,
)
from relax_mlir.schedules.cpu.winograd_plan import WinogradConfiguration, WinogradPlan
from relax_mlir.schedules.cpu.winograd_range import TileRange
from relax_mlir.schedules.emit import (
    Extent,
    add,
    alloc,
    broadcast,
    constant,
    div,
    either,
    for_loop,
    index,
    less,
    minimum,
    multiply,
    multiply_add,
    op,
    parallel_loop,
    subtract,
    unflatten,
    vector_type,
)
from relax_mlir.schedules.epilogue import Epilogue
from relax_mlir.schedules.flat import flat_view
from relax_mlir.schedules.padding import Padding, mask_of, window_masks
from relax_mlir.schedules.vectorize_body import load, store
from relax_mlir.schedules.winograd import (
    KERNEL,
    READ,
    WRITTEN,
    transform_input,
    transform_output,
)

__all__ = ["WinogradLoops"]

_POINTS = READ * READ
_LEAST_TILES = 4  # so many, however few rows of tiles there are
_SUM_BLOCK = 128  # channels: less than elsewhere, as roundings grow on the way back
_PITCH = 16  # elements between points, beside what they hold: no two share cache lines


class WinogradLoops:
    """Writes the loops of one convolution."""

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
        self.tile = tile_of_width(Rows(self.tiles), self.vectors, 32 * lanes)
        self.epilogue = Epilogue(plan.anchor, plan.maps, plan.axes[-1:], lanes)
        # Elements from one tile to the next, and from one point to the next.
        self.product_row = self.at_once * plan.width
        self.value_step = self.tiles * self.channels + _PITCH
        self.product_step = self.tiles * self.product_row + _PITCH

    def emit(self) -> None:
        """Write them at the insertion point."""
        down = self.down // self.block_rows
        across = self.across // self.block_columns
        blocks = self.images * down * across
        groups = min(self.panels, -(-_LEAST_TILES // blocks))
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
            self._to_points()
            first = multiply(group, per_group)
            last = minimum(add(first, per_group), self.panels)

            def panels(begin: ir.Value) -> tuple[()]:
                self._emit_panels(begin, minimum(add(begin, self.at_once), last))
                return ()

            for_loop(first, last, self.at_once, panels)

        parallel_loop(blocks * groups, tile)

    def _for_tiles(self, body: Callable[[ir.Value, ir.Value], None]) -> None:
        """Loops over the rows of tiles of a block, and over the tiles of a row."""

        def row(i: ir.Value) -> tuple[()]:
            def column(j: ir.Value) -> tuple[()]:
                body(i, j)
                return ()

            for_loop(0, self.block_columns, 1, column)
            return ()

        for_loop(0, self.block_rows, 1, row)

    # numbers at the points

    def _corner(self, i: ir.Value, j: ir.Value) -> tuple[Extent, Extent]:
        """Row and column of a tile's first result, which are those of what it reads."""
        row, column = add(self.first_row, i), add(self.first_column, j)
        return multiply(row, WRITTEN), multiply(column, WRITTEN)

    def _to_points(self) -> None:
        def tile(i: ir.Value, j: ir.Value) -> None:
            row, column = self._corner(i, j)
            _, up, left, _ = self.plan.data.before
            pixel = add(multiply(self.image, self.read_rows), subtract(row, up))
            pixel = add(multiply(pixel, self.read_columns), subtract(column, left))
            source = multiply(pixel, self.pixel)
            number = self._number(i, j)
            target = multiply(number, self.channels)
            masks = self._masks((row, column), self.plan.data, READ)

            def pixels_at(c: ir.Value) -> list[list[ir.Value]]:
                place = add(source, c)
                columns = [self._column(place, n, masks) for n in range(READ)]
                return [list(row) for row in zip(*columns, strict=True)]

            def transform(c: ir.Value, *running: ir.Value) -> list[ir.Value]:
                columns, found = [], []
                # Column by column, so that few pixels are in registers at once.
                for n in range(READ):
                    column = self._column(add(source, c), n, masks)
                    found = self.range.include_column(n, column, found)
                    columns.append(transform_input(column))
                rows = map(transform_input, zip(*columns, strict=True))
                self._store_points(list(rows), add(target, c))
                return self.range.include(running, found)

            def copy(c: ir.Value) -> tuple[()]:
                self._store_points(pixels_at(c), add(target, c))
                return ()

            def copy_all() -> tuple[()]:
                for_loop(0, self.channels, self.lanes, copy)
                return ()

            none = self.range.none()
            sums = for_loop(0, self.channels, self.lanes, transform, none)
            is_outside = self.range.is_outside(sums, row, column, pixels_at)
            byte = op("arith.extui", self.is_direct.type.element_type, is_outside)
            op("memref.store", None, byte, self.is_direct, index(number))
            either(is_outside, [], copy_all)

        self._for_tiles(tile)

    def _number(self, i: ir.Value, j: ir.Value) -> Extent:
        """The number of a tile in its block."""
        return add(multiply(i, self.block_columns), j)

    def _column(
        self, source: Extent, j: int, masks: Sequence[Sequence[ir.Value | None]]
    ) -> list[ir.Value]:
        """A vector of channels of the pixels of a tile's column."""
        return [self._read(source, i, j, masks[i][j]) for i in range(READ)]

    def _store_points(
        self, values: Sequence[Sequence[ir.Value]], target: Extent
    ) -> None:
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                where = add(target, (i * READ + j) * self.value_step)
                store(value, self.values, [index(where)], self.lanes, None)

    def _read(self, source: Extent, i: int, j: int, mask: ir.Value | None) -> ir.Value:
        offset = (i * self.read_columns + j) * self.pixel
        return self._wide(
            load(self.data, [index(add(source, offset))], self.lanes, 1, mask)
        )

    def _wide(self, vector: ir.Value) -> ir.Value:
        """A vector in f32."""
        wide = vector_type(self.lanes, self.values.type.element_type)
        return vector if vector.type == wide else op("arith.extf", wide, vector)

    def _masks(
        self, corner: tuple[Extent, Extent], image: Padding, count: int
    ) -> list[list[ir.Value | None]]:
        """Masks of a tile's pixels, of which ``count`` are read or written each way."""
        last = [(tiles - 1) * WRITTEN for tiles in self.plan.tiles]
        return window_masks(image, corner, last, count, self.lanes)

    # products

    def _emit_panels(self, begin: ir.Value, end: Extent) -> None:
        """Some panels of output channels."""

        def point(number: ir.Value) -> tuple[()]:
            def panel(p: ir.Value) -> tuple[()]:
                # What comes next is the next panel, or the first at the next point.
                beside, first = add(p, 1), add(begin, self.panels)
                are_more = less(beside, end)
                following = op("arith.select", p.type, are_more, beside, first)
                column = multiply(subtract(p, begin), width)
                return self._multiply(number, p, following, column)

            for_loop(begin, end, 1, panel)
            return ()

        width = self.plan.width
        for_loop(0, _POINTS, 1, point)
        self._write_results(begin, end)

    def _multiply(
        self, point: ir.Value, panel: ir.Value, following: ir.Value, column: Extent
    ) -> tuple[()]:
        """The products of all tiles at one point, which go to a column of the scratch.

        Args:
            following: the panel that comes next; beyond the last one, at the next point.
        """
        size = self.channels * self.plan.width
        block = multiply(point, self.panels)
        weights, ahead_of = (multiply(add(block, p), size) for p in (panel, following))
        values = multiply(point, self.value_step)
        target = add(multiply(point, self.product_step), column)
        height = self.tile.rows

        ahead = Ahead(self.transformed, size, self.vectors, -(-self.tiles // height))

        def tile(first: Extent, count: int) -> tuple[()]:
            row = add(values, multiply(first, self.channels))
            begin = ahead.begin(ahead_of, div(first, height))
            sums = iter(self._sums(row, count, weights, begin))
            for i in range(count):
                at = add(target, multiply(add(first, i), self.product_row))
                for q in range(self.vectors):
                    where = [index(add(at, q * self.lanes))]
                    store(next(sums), self.products, where, self.lanes, None)
            return ()

        full = self.tiles - self.tiles % height
        for_loop(0, full, height, lambda first: tile(first, height))
        if self.tiles % height:
            tile(full, self.tiles % height)
        return ()

    def _sums(
        self,
        row: Extent,
        count: int,
        weights: Extent,
        turn_begins: Callable[[Extent], None],
    ) -> list[ir.Value]:
        """The sums of ``count`` tiles over the input channels, for the panel."""
        element = self.values.type.element_type
        zero = broadcast(constant(0, element), self.lanes)

        def step(c: Extent, sums: Sequence[ir.Value]) -> list[ir.Value]:
            at = add(weights, multiply(c, self.plan.width))
            found = self._weights(self.transformed, at)
            following: list[ir.Value] = []
            for i in range(count):
                where = index(add(add(row, i * self.channels), c))
                number = op("memref.load", element, self.values, where)
                factor = broadcast(number, self.lanes)
                for column in found:
                    total = sums[len(following)]
                    made = op("vector.fma", total.type, factor, column, total)
                    following.append(made)
            return following

        sums = [zero] * (count * self.vectors)
        return blocked_unrolled_loop(self.channels, step, sums, turn_begins, _SUM_BLOCK)

    def _weights(self, kernel: ir.Value, offset: Extent) -> list[ir.Value]:
        """The weights of a panel's output channels, in vectors of f32."""
        places = [index(add(offset, q * self.lanes)) for q in range(self.vectors)]
        found = [load(kernel, [place], self.lanes, 1, None) for place in places]
        return list(map(self._wide, found))

    # tiles beyond the limits

    def _convolve_directly(self, number: Extent, begin: ir.Value, end: Extent) -> None:
        """A tile's results, from inputs in the place of the values at the points.

        Result [a, b] takes the place of the product at the point a * WRITTEN + b.
        """
        source = multiply(number, self.channels)

        def panel(p: ir.Value) -> tuple[()]:
            column = multiply(subtract(p, begin), self.plan.width)
            target = add(multiply(number, self.product_row), column)
            for_loop(0, WRITTEN, 1, lambda a: row(a, p, target))
            return ()

        def row(a: ir.Value, p: ir.Value, target: Extent) -> tuple[()]:
            sums = iter(self._row_of_sums(a, p, source))
            for b in range(WRITTEN):
                point = add(multiply(a, WRITTEN), b)
                at = add(multiply(point, self.product_step), target)
                for q in range(self.vectors):
                    where = [index(add(at, q * self.lanes))]
                    store(next(sums), self.products, where, self.lanes, None)
            return ()

        for_loop(begin, end, 1, panel)

    def _is_direct(self, number: Extent) -> ir.Value:
        i1, i8 = map(ir.IntegerType.get_signless, (1, 8))
        byte = op("memref.load", i8, self.is_direct, index(number))
        return op("arith.trunci", i1, byte)

    def _row_of_sums(
        self, a: ir.Value, panel: ir.Value, source: Extent
    ) -> list[ir.Value]:
        """Row a of a tile's results for the output channels of a panel.

        Args:
            source: of the tile's inputs at its first pixel.
        """
        element = self.values.type.element_type

        def weights_at(r: ir.Value, s: int, c: ir.Value) -> list[ir.Value]:
            block = add(multiply(add(multiply(r, KERNEL), s), self.panels), panel)
            at = multiply(add(multiply(block, self.channels), c), self.plan.width)
            return self._weights(self.kernel, at)

        def pixel_at(r: ir.Value, j: int, c: ir.Value) -> ir.Value:
            point = add(multiply(add(a, r), READ), j)
            at = add(add(multiply(point, self.value_step), source), c)
            number = op("memref.load", element, self.values, index(at))
            return broadcast(number, self.lanes)

        def step(r: ir.Value, c: ir.Value, *sums: ir.Value) -> list[ir.Value]:
            pixels = [pixel_at(r, j, c) for j in range(READ)]
            made = list(sums)
            for s in range(KERNEL):
                weights = weights_at(r, s, c)
                for n in range(len(made)):
                    b, q = divmod(n, self.vectors)
                    made[n] = multiply_add(pixels[b + s], weights[q], made[n])
            return made

        def row(r: ir.Value, *sums: ir.Value) -> list[ir.Value]:
            return for_loop(0, self.channels, 1, lambda c, *now: step(r, c, *now), sums)

        zero = broadcast(constant(0, element), self.lanes)
        lengths = block_lengths(KERNEL, KERNEL * self.channels, LONG_BLOCK)
        sums = [zero] * (WRITTEN * self.vectors)
        return blocked_loop(0, KERNEL, 1, row, sums, lengths)

    # results

    def _write_results(self, begin: ir.Value, end: Extent) -> None:
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
                self._from_points(corner, source, first, channels)
                return ()

            either(self._is_direct(number), [], direct, transformed)

        self._for_tiles(tile)

    def _store(
        self,
        value: ir.Value,
        pixel: tuple[Extent, Extent],
        channel: Extent,
        mask: ir.Value | None,
    ) -> None:
        """Run the epilogue on a vector of channels of a pixel of the result."""
        places = (self.image, *pixel, channel)
        self.epilogue.store(value, dict(zip(self.plan.axes, places, strict=True)), mask)

    def _from_points(
        self,
        corner: tuple[Extent, Extent],
        source: Extent,
        first: Extent,
        channels: Extent,
    ) -> None:
        """The results of one tile from its products at the points.

        Args:
            corner: row and column of its first result.
            source: of its products; first: its first output channel; channels: how many.
        """
        row, column = corner
        masks = self._masks(corner, self.written, WRITTEN)

        def vector(lane: ir.Value) -> tuple[()]:
            for a, results in enumerate(self._tile_from_points(add(source, lane))):
                for b, value in enumerate(results):
                    pixel = add(row, a), add(column, b)
                    self._store(value, pixel, add(first, lane), masks[a][b])
            return ()

        for_loop(0, channels, self.lanes, vector)

    def _store_direct(
        self,
        corner: tuple[Extent, Extent],
        source: Extent,
        first: Extent,
        channels: Extent,
    ) -> None:
        """The results of one tile that :meth:`_convolve_directly` computed."""

        def pixel(a: ir.Value, b: ir.Value) -> tuple[()]:
            places = add(corner[0], a), add(corner[1], b)
            inside = map(self.written.is_inside, (1, 2), places)
            mask = mask_of(list(inside), self.lanes)
            point = add(multiply(a, WRITTEN), b)
            begin = add(source, multiply(point, self.product_step))

            def vector(lane: ir.Value) -> tuple[()]:
                where = [index(add(begin, lane))]
                value = load(self.products, where, self.lanes, 1, None)
                self._store(value, places, add(first, lane), mask)
                return ()

            for_loop(0, channels, self.lanes, vector)
            return ()

        def row(a: ir.Value) -> tuple[()]:
            for_loop(0, WRITTEN, 1, lambda b: pixel(a, b))
            return ()

        for_loop(0, WRITTEN, 1, row)

    def _tile_from_points(self, source: Extent) -> list[list[ir.Value]]:
        """A vector of output channels of one tile: rows of results."""

        def product(i: int, j: int) -> ir.Value:
            where = add(source, (i * READ + j) * self.product_step)
            return load(self.products, [index(where)], self.lanes, 1, None)

        down = [
            transform_output([product(i, j) for i in range(READ)]) for j in range(READ)
        ]
        return [
            transform_output([column[a] for column in down]) for a in range(WRITTEN)
        ]

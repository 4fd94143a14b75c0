"""Winograd: the three sums of ``tir-use-winograd``, block by block of tiles in cache.

A block is some rows of tiles. Their numbers at the points go to scratch memory for all
input channels; then, for some panels of output channels after the others, come the
products, summed up in registers, and the results, on which the maps run before they are
stored. How many tiles, and how many panels at once, is a matter of what passes through
the caches: the transformed kernel does once for each block, the scratch memory once for
each group of panels if it is too large for the second cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.configuration import Configuration
from relax_mlir.schedules.cpu.ahead import Ahead
from relax_mlir.schedules.cpu.contraction_tile import (
    Rows,
    tile_of_width,
    time_per_product,
)
from relax_mlir.schedules.cpu.winograd_plan import WinogradPlan, plan_winograd
from relax_mlir.schedules.emit import (
    Extent,
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
    op,
    parallel_loop,
    subtract,
    unflatten,
    unrolled_loop,
    vector_type,
)
from relax_mlir.schedules.epilogue import Epilogue
from relax_mlir.schedules.flat import flat_view
from relax_mlir.schedules.nest import Kernel
from relax_mlir.schedules.padding import Padding
from relax_mlir.schedules.rule import Rule
from relax_mlir.schedules.vectorize_body import load, store
from relax_mlir.schedules.winograd import (
    READ,
    WRITTEN,
    transform_input,
    transform_output,
)

__all__ = ["Winograd", "WinogradConfiguration"]

_POINTS = READ * READ
_CACHE_BYTES = 600 << 10  # of the second-level cache, for scratch memory
_BYTES_A_CYCLE = 8  # from the third cache
_PRODUCTS_A_CYCLE = 32
_LEAST_TILES = 4  # so many, however few rows of tiles there are
_PITCH = 16  # elements between points, beside what they hold: no two share cache lines


@dataclass(frozen=True)
class WinogradConfiguration(Configuration):
    """How a convolution by tiles is written.

    Attributes:
        rows, columns: tiles of a block, down and across.
        panels: of output channels that are summed before their results are written.
    """

    rule = "Winograd"
    rows: int
    columns: int
    panels: int


@dataclass(frozen=True)
class Winograd(Rule[WinogradPlan]):
    """Convolutions by F(4x4, 3x3), as ``tir-use-winograd`` writes them."""

    configuration: WinogradConfiguration | None = None

    def plan(self, kernel: Kernel) -> WinogradPlan:
        """What the pass wrote, and maps of its result."""
        return plan_winograd(kernel)

    def configurations(self, plan: WinogradPlan) -> list[WinogradConfiguration]:
        """Blocks of all tiles, of whole rows of them, or of part of a row."""
        return _WinogradLoops(plan, self.unit.bits // 32, None).configurations()

    def write(self, plan: WinogradPlan) -> None:
        _WinogradLoops(plan, self.unit.bits // 32, self.configuration).emit()


class _WinogradLoops:
    """Writes the loops of one convolution."""

    def __init__(
        self,
        plan: WinogradPlan,
        lanes: int,
        configuration: WinogradConfiguration | None,
    ) -> None:
        self.plan, self.lanes = plan, lanes
        self.images, self.rows, self.columns, self.out = plan.result
        _, self.read_rows, self.read_columns, self.pixel = plan.data.sizes
        self.channels = plan.channels
        self.down, self.across = plan.tiles
        out = plan.anchor.outputs[0].buffer
        self.written = Padding(out, out, [0] * 4, plan.data.fill)
        self.vectors = plan.width // lanes
        self.panels = -(-self.out // plan.width)
        made = configuration or self.configurations()[0]
        self.block_rows, self.block_columns = made.rows, made.columns
        self.at_once = made.panels
        self.tiles = self.block_rows * self.block_columns
        self.tile = tile_of_width(Rows(self.tiles), self.vectors, 32 * lanes)
        self.epilogue = Epilogue(plan.anchor, plan.maps, plan.axes[-1:], lanes)
        # Elements from one tile to the next, and from one point to the next.
        self.product_row = self.at_once * plan.width
        self.value_step = self.tiles * self.channels + _PITCH
        self.product_step = self.tiles * self.product_row + _PITCH

    def configurations(self) -> list[WinogradConfiguration]:
        """Those that cut the picture into equal blocks, the fastest by the model first."""
        choices = [
            WinogradConfiguration(rows, columns, at_once)
            for rows in _divisors(self.down)
            for columns in _divisors(self.across)
            for at_once in (1, self.panels)
            if rows == 1 or columns == self.across
        ]
        return sorted(choices, key=self._cycles)

    def _cycles(self, made: WinogradConfiguration) -> float:
        """About how long it takes in blocks of so many tiles, and panels, at once."""
        tiles, at_once = made.rows * made.columns, made.panels
        values = 4 * _POINTS * tiles * self.channels
        products = 4 * _POINTS * tiles * at_once * self.plan.width
        passing = weights = 4 * _POINTS * self.channels * self.out
        if values + products > _CACHE_BYTES:
            turns = -(-self.panels // at_once)
            passing += values * (1 + turns) + 2 * products * turns
        elif values + products + weights <= _CACHE_BYTES * 3 // 2:
            passing //= 4
        tile = tile_of_width(Rows(tiles), self.vectors, 32 * self.lanes)
        work = _POINTS * tiles * self.channels * self.out / _PRODUCTS_A_CYCLE
        work *= time_per_product(tile, Rows(tiles), self.vectors)
        blocks = self.down * self.across // tiles
        return (passing / _BYTES_A_CYCLE + work) * blocks

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
            read = self.plan.data.source, self.plan.kernel
            self.data, self.kernel = map(flat_view, read)
            self.values = alloc([_POINTS * self.value_step], f32)
            self.products = alloc([_POINTS * self.product_step], f32)
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
            target = multiply(add(multiply(i, self.block_columns), j), self.channels)
            masks = self._masks(row, column, self.plan.data, READ)

            def channels(c: ir.Value) -> tuple[()]:
                self._tile_to_points(add(source, c), add(target, c), masks)
                return ()

            for_loop(0, self.channels, self.lanes, channels)

        self._for_tiles(tile)

    def _tile_to_points(
        self, source: Extent, target: Extent, masks: Sequence[Sequence[ir.Value | None]]
    ) -> None:
        """A vector of channels of one tile."""
        down = [
            transform_input(
                [self._read(source, i, j, masks[i][j]) for i in range(READ)]
            )
            for j in range(READ)
        ]
        for i in range(READ):
            row = transform_input([column[i] for column in down])
            for j, value in enumerate(row):
                where = add(target, (i * READ + j) * self.value_step)
                store(value, self.values, [index(where)], self.lanes, None)

    def _read(self, source: Extent, i: int, j: int, mask: ir.Value | None) -> ir.Value:
        offset = (i * self.read_columns + j) * self.pixel
        found = load(self.data, [index(add(source, offset))], self.lanes, 1, mask)
        wide = vector_type(self.lanes, self.values.type.element_type)
        return found if found.type == wide else op("arith.extf", wide, found)

    def _masks(
        self, row: Extent, column: Extent, picture: Padding, count: int
    ) -> list[list[ir.Value | None]]:
        """Masks of a tile's points: none of a point's lanes exist if it is outside.

        Args:
            picture: what is read or written; count: points of the tile, each way.
        """
        tiles, places = (self.down, self.across), (row, column)
        inside: list[list[ir.Value | None]] = [[], []]
        for found, dimension, place, many in zip(
            inside, (1, 2), places, tiles, strict=True
        ):
            for i in range(count):
                last = (many - 1) * WRITTEN + i
                is_sure = not picture.may_be_outside(dimension, i, last)
                at = add(place, i)
                found.append(None if is_sure else picture.is_inside(dimension, at))
        return [[self._both(a, b) for b in inside[1]] for a in inside[0]]

    def _both(self, a: ir.Value | None, b: ir.Value | None) -> ir.Value | None:
        known = [c for c in (a, b) if c is not None]
        if not known:
            return None
        both = known[0] if len(known) == 1 else op("arith.andi", a.type, a, b)
        return broadcast(both, self.lanes)

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
        self._from_points(begin, end)

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

        ahead = Ahead(self.kernel, size, self.vectors, -(-self.tiles // height))

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
        turn_begins: Callable[[ir.Value], None],
    ) -> list[ir.Value]:
        """The sums of ``count`` tiles over the input channels, for the panel."""
        element = self.values.type.element_type
        zero = broadcast(constant(0, element), self.lanes)

        def step(c: Extent, sums: Sequence[ir.Value]) -> list[ir.Value]:
            found = [
                self._weight(add(weights, multiply(c, self.plan.width)), q)
                for q in range(self.vectors)
            ]
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
        return unrolled_loop(self.channels, step, sums, turn_begins)

    def _weight(self, offset: Extent, q: int) -> ir.Value:
        where = [index(add(offset, q * self.lanes))]
        return load(self.kernel, where, self.lanes, 1, None)

    # results

    def _from_points(self, begin: ir.Value, end: Extent) -> None:
        image_axis, row_axis, column_axis, channel_axis = self.plan.axes
        first = multiply(begin, self.plan.width)
        channels = subtract(minimum(multiply(end, self.plan.width), self.out), first)

        def tile(i: ir.Value, j: ir.Value) -> None:
            row, column = self._corner(i, j)
            source = multiply(add(multiply(i, self.block_columns), j), self.product_row)
            masks = self._masks(row, column, self.written, WRITTEN)

            def vector(lane: ir.Value) -> tuple[()]:
                at = {image_axis: self.image, channel_axis: add(first, lane)}
                for a, results in enumerate(self._tile_from_points(add(source, lane))):
                    for b, value in enumerate(results):
                        here = {row_axis: add(row, a), column_axis: add(column, b)}
                        self.epilogue.store(value, {**at, **here}, masks[a][b])
                return ()

            for_loop(0, channels, self.lanes, vector)

        self._for_tiles(tile)

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


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]

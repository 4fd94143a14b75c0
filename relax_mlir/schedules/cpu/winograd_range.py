"""Range check of a Winograd tile's inputs, which selects the tiles to convolve directly.

`InputLimits` in ``schedules/winograd.py`` defines the range. The input transform also
accumulates the peak of a tile and the sums of |x| over four blocks of 2x2 pixels. Each
receptive field contains one of these blocks, so most tiles pass by a check of the four. For
the others a second pass over the inputs sums over all receptive fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    alloc,
    broadcast,
    constant,
    for_loop,
    index,
    less,
    multiply,
    op,
    scf_if,
    vector_type,
)
from relax_mlir.schedules.combiner import Combiner
from relax_mlir.schedules.cpu.match_winograd import WinogradPlan
from relax_mlir.schedules.vectorize_body import load_vector, store_vector
from relax_mlir.schedules.winograd import (
    INPUT_TILE,
    KERNEL_SIZE,
    MAX_SHARE,
    OUTPUT_TILE,
)

__all__ = ["TileRange"]

Pixels = Sequence[Sequence[ir.Value]]

_MAGNITUDE = 0x7FFFFFFF  # all bits of an f32 but the sign
_EQUAL, _AT_MOST = 1, 5  # arith.cmpf predicates oeq and ole, false for NaN
_ADD = Combiner("arith.addf", "add", 0.0)
_MAX = Combiner("arith.maxsi", "maxsi", 0)  # of magnitude bits; NaN is above infinity
# First pixel of the blocks along an axis: the receptive fields of results 0 and 1 contain
# the first block, those of 2 and 3 the second.
_CORNERS = (1, 3)


class TileRange:
    """Emits the range check of one tile, in the loop over the tiles of a block.

    Args:
        plan: the convolution; lanes: per vector.
    """

    def __init__(self, plan: WinogradPlan, lanes: int) -> None:
        self.plan, self.lanes = plan, lanes
        self.f32 = plan.limits.type.element_type
        self.bits = ir.IntegerType.get_signless(32)
        self.sums = alloc([INPUT_TILE * INPUT_TILE * lanes], self.f32)
        self.pixels = alloc([INPUT_TILE * INPUT_TILE], self.f32)

    def initial(self) -> list[ir.Value]:
        """Initial running values of a tile: largest, peak and four block sums."""
        zero = broadcast(constant(0, self.f32), self.lanes)
        return [broadcast(constant(0, self.bits), self.lanes), *[zero] * 5]

    def include_column(
        self, number: int, pixels: Sequence[ir.Value], statistics: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """Accumulate the statistics of one vector of channels, column by column.

        Args:
            number: of the column; pixels: [READ].
            statistics: statistics of the columns before it.

        Returns:
            The magnitude of the largest pixel, and sums over the blocks begun so far.
        """
        sizes = list(map(self._magnitude, pixels))
        top = _combined(_MAX, [*sizes, *statistics[:1]])
        blocks = list(statistics[1:])
        for corner in _CORNERS:
            if number not in (corner, corner + 1):
                continue
            for position, row in enumerate(_CORNERS):
                pair = map(self._float, sizes[row : row + 2])
                total = _combined(_ADD, list(pair))
                if number == corner:
                    blocks.append(total)
                else:
                    at = len(blocks) - len(_CORNERS) + position
                    blocks[at] = _ADD.combine(blocks[at], total)
        return [top, *blocks]

    def include(
        self, running: Sequence[ir.Value], statistics: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """Add the statistics of all columns of a vector of channels to the running values."""
        largest, peak, *blocks = running
        top, *sums = statistics
        pairs = zip(blocks, sums, strict=True)
        return [
            _MAX.combine(largest, top),
            _ADD.combine(peak, self._float(top)),
            *(_ADD.combine(block, total) for block, total in pairs),
        ]

    def is_outside(
        self,
        running: Sequence[ir.Value],
        row: IndexLike,
        column: IndexLike,
        pixels_at: Callable[[ir.Value], Pixels],
    ) -> ir.Value:
        """An i1: whether a tile's inputs are out of range.

        Args:
            running: values after the last vector of channels.
            row, column: of the tile's first result.
            pixels_at: reloads a vector of channels of the tile.
        """
        top, *sums = running
        largest = self._float(_MAX.lanes_of(top))
        peak, *blocks = (_ADD.lanes_of(vector) for vector in sums)
        least, most, tap = (self._limit(n) for n in range(3))
        zero = constant(0, self.f32)
        is_normal = _or(_at_most(least, peak), _compare(_EQUAL, peak, zero))
        is_normal = _and(is_normal, _at_most(peak, most))
        field = self._min_block_sum(blocks, row, column)
        weighted = op("arith.mulf", self.f32, tap, field)
        is_even = self._is_even(peak, largest, weighted, field)
        is_inside = scf_if(
            _and(is_normal, is_even),
            [is_even.type],
            lambda: [is_even],
            lambda: [
                _and(is_normal, self._fields(peak, largest, row, column, pixels_at))
            ],
        )[0]
        return _not(is_inside)

    def _is_even(
        self, peak: ir.Value, largest: ir.Value, weighted: ir.Value, field: ir.Value
    ) -> ir.Value:
        """Whether the sums of a receptive field admit the tile's peak and largest pixel."""
        share = op("arith.mulf", self.f32, constant(MAX_SHARE, self.f32), field)
        return _and(_at_most(peak, weighted), _at_most(largest, share))

    def _min_block_sum(
        self, blocks: Sequence[ir.Value], row: IndexLike, column: IndexLike
    ) -> ir.Value:
        """The minimum of the block sums, without blocks beyond the last result."""
        left = self._min_of_two(blocks[:2], row, 0)
        right = self._min_of_two(blocks[2:], row, 0)
        return self._min_of_two([left, right], column, 1)

    def _min_of_two(
        self, blocks: Sequence[ir.Value], corner: IndexLike, axis: int
    ) -> ir.Value:
        """The smaller of two block sums; the first if the second has no results."""
        first, second = blocks
        smaller = op("arith.minimumf", self.f32, first, second)
        last = (self.plan.tiles[axis] - 1) * OUTPUT_TILE
        if self.plan.result[1 + axis] - last > OUTPUT_TILE // 2:
            return smaller
        return op("arith.select", self.f32, less(corner, last), smaller, first)

    def _fields(
        self,
        peak: ir.Value,
        largest: ir.Value,
        row: IndexLike,
        column: IndexLike,
        pixels_at: Callable[[ir.Value], Pixels],
    ) -> ir.Value:
        """Whether all receptive fields of the tile's results pass."""
        self._sum_pixels(pixels_at)
        taps = [self._limit(3 + n) for n in range(KERNEL_SIZE * KERNEL_SIZE)]
        _, rows, columns, _ = self.plan.result

        def field(a: ir.Value, b: ir.Value, so_far: ir.Value) -> ir.Value:
            weighted = total = constant(0, self.f32)
            for number, tap in enumerate(taps):
                r, s = divmod(number, KERNEL_SIZE)
                at = add(multiply(add(a, r), INPUT_TILE), add(b, s))
                pixel = op("memref.load", self.f32, self.pixels, index(at))
                total = _ADD.combine(total, pixel)
                weighted = op("math.fma", self.f32, tap, pixel, weighted)
            is_result = _and(less(add(row, a), rows), less(add(column, b), columns))
            is_even = self._is_even(peak, largest, weighted, total)
            return _and(so_far, _or(_not(is_result), is_even))

        def fields(a: ir.Value, so_far: ir.Value) -> list[ir.Value]:
            return for_loop(
                0, OUTPUT_TILE, 1, lambda b, now: [field(a, b, now)], [so_far]
            )

        true = constant(1, ir.IntegerType.get_signless(1))
        return for_loop(0, OUTPUT_TILE, 1, fields, [true])[0]

    def _sum_pixels(self, pixels_at: Callable[[ir.Value], Pixels]) -> None:
        """Sum |x| over channels at each pixel."""
        lanes, count = self.lanes, INPUT_TILE * INPUT_TILE
        zero = broadcast(constant(0, self.f32), lanes)

        def clear(k: ir.Value) -> tuple[()]:
            store_vector(zero, self.sums, [index(multiply(k, lanes))], lanes, None)
            return ()

        def channels(c: ir.Value) -> tuple[()]:
            flat = [value for row in pixels_at(c) for value in row]
            for k, value in enumerate(flat):
                indices = [index(k * lanes)]
                before = load_vector(self.sums, indices, lanes, 1, None)
                size = self._float(self._magnitude(value))
                store_vector(
                    _ADD.combine(before, size), self.sums, indices, lanes, None
                )
            return ()

        def across(k: ir.Value) -> tuple[()]:
            indices = [index(multiply(k, lanes))]
            total = _ADD.lanes_of(load_vector(self.sums, indices, lanes, 1, None))
            op("memref.store", None, total, self.pixels, k)
            return ()

        for_loop(0, count, 1, clear)
        for_loop(0, self.plan.channels, lanes, channels)
        for_loop(0, count, 1, across)

    def _limit(self, number: int) -> ir.Value:
        return op("memref.load", self.f32, self.plan.limits, index(number))

    def _magnitude(self, value: ir.Value) -> ir.Value:
        """The bits of |x| as an integer, in the same order as |x|."""
        type_ = vector_type(self.lanes, self.bits)
        mask = broadcast(constant(_MAGNITUDE, self.bits), self.lanes)
        return op("arith.andi", type_, op("arith.bitcast", type_, value), mask)

    def _float(self, magnitude: ir.Value) -> ir.Value:
        """Bitcast a magnitude, scalar or vector, to f32."""
        is_vector = isinstance(magnitude.type, ir.VectorType)
        type_ = vector_type(self.lanes, self.f32) if is_vector else self.f32
        return op("arith.bitcast", type_, magnitude)


def _combined(combiner: Combiner, values: Sequence[ir.Value]) -> ir.Value:
    """Tree reduction of values, for a short dependency chain."""
    level = list(values)
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        odd = level[len(level) // 2 * 2 :]
        level = [*(combiner.combine(a, b) for a, b in pairs), *odd]
    return level[0]


def _compare(predicate: int, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    i1, i64 = (ir.IntegerType.get_signless(bits) for bits in (1, 64))
    attribute = ir.IntegerAttr.get(i64, predicate)
    return op("arith.cmpf", i1, lhs, rhs, predicate=attribute)


def _at_most(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    return _compare(_AT_MOST, lhs, rhs)


def _and(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    return op("arith.andi", lhs.type, lhs, rhs)


def _or(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    return op("arith.ori", lhs.type, lhs, rhs)


def _not(value: ir.Value) -> ir.Value:
    return op("arith.xori", value.type, value, constant(1, value.type))

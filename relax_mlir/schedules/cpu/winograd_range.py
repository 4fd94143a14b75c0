"""The range of a Winograd tile's inputs: which tiles are convolved directly.

``schedules/winograd.py`` says what `InputLimits` are. While the inputs of a tile are
transformed, their peak and the sums of |x| over four blocks of 2x2 pixels are kept. Each
receptive field contains one of the blocks, so most tiles pass by these alone. For the
others, the sums over all receptive fields are computed in a second pass over the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from relax_mlir.schedules.combination import Combination
from relax_mlir.schedules.cpu.winograd_plan import WinogradPlan
from relax_mlir.schedules.emit import (
    Extent,
    add,
    alloc,
    broadcast,
    constant,
    either,
    for_loop,
    index,
    less,
    multiply,
    op,
    vector_type,
)
from relax_mlir.schedules.vectorize_body import load, store
from relax_mlir.schedules.winograd import KERNEL, LARGEST_SHARE, READ, WRITTEN

__all__ = ["TileRange"]

Pixels = Sequence[Sequence[ir.Value]]

_MAGNITUDE = 0x7FFFFFFF  # of the bits of an f32: all but the sign
_EQUAL, _AT_MOST = 1, 5  # of arith.cmpf's predicates: false for NaN
_ADD = Combination("arith.addf", "add", 0.0)
_MAX = Combination("arith.maxsi", "maxsi", 0)  # of magnitudes; NaN is above infinity
# Where the blocks begin along an axis of a tile: the receptive fields of results 0 and 1
# contain the first, those of 2 and 3 the second.
_CORNERS = (1, 3)


class TileRange:
    """Writes the check of one tile's inputs, in the loop over a block's tiles.

    Args:
        plan: the convolution; lanes: of a vector.
    """

    def __init__(self, plan: WinogradPlan, lanes: int) -> None:
        self.plan, self.lanes = plan, lanes
        self.f32 = plan.limits.type.element_type
        self.bits = ir.IntegerType.get_signless(32)
        self.sums = alloc([READ * READ * lanes], self.f32)
        self.pixels = alloc([READ * READ], self.f32)

    def none(self) -> list[ir.Value]:
        """The running values of a tile before its first vector of channels."""
        zero = broadcast(constant(0, self.f32), self.lanes)
        return [broadcast(constant(0, self.bits), self.lanes), *[zero] * 5]

    def include_column(
        self, number: int, pixels: Sequence[ir.Value], found: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """What a vector of channels adds to the running values, column by column.

        Args:
            number: of the column; pixels: [READ].
            found: the result for the columns before.

        Returns:
            The magnitude of the largest pixel; sums over the blocks that have begun.
        """
        sizes = list(map(self._magnitude, pixels))
        top = _combined(_MAX, [*sizes, *found[:1]])
        blocks = list(found[1:])
        for corner in _CORNERS:
            if number not in (corner, corner + 1):
                continue
            for place, row in enumerate(_CORNERS):
                pair = map(self._float, sizes[row : row + 2])
                total = _combined(_ADD, list(pair))
                if number == corner:
                    blocks.append(total)
                else:
                    at = len(blocks) - len(_CORNERS) + place
                    blocks[at] = _ADD.of_two(blocks[at], total)
        return [top, *blocks]

    def include(
        self, running: Sequence[ir.Value], found: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """The running values with what :meth:`include_column` found in all columns."""
        largest, peak, *blocks = running
        top, *sums = found
        pairs = zip(blocks, sums, strict=True)
        return [
            _MAX.of_two(largest, top),
            _ADD.of_two(peak, self._float(top)),
            *(_ADD.of_two(block, total) for block, total in pairs),
        ]

    def is_outside(
        self,
        running: Sequence[ir.Value],
        row: Extent,
        column: Extent,
        pixels_at: Callable[[ir.Value], Pixels],
    ) -> ir.Value:
        """Whether a tile's inputs are beyond the limits.

        Args:
            running: its values after the last vector of channels.
            row, column: of its first result.
            pixels_at: reads a vector of channels once more.
        """
        top, *sums = running
        largest = self._float(_MAX.lanes_of(top))
        peak, *blocks = (_ADD.lanes_of(vector) for vector in sums)
        least, most, tap = (self._limit(n) for n in range(3))
        zero = constant(0, self.f32)
        is_normal = _or(_at_most(least, peak), _compare(_EQUAL, peak, zero))
        is_normal = _and(is_normal, _at_most(peak, most))
        field = self._least(blocks, row, column)
        weighted = op("arith.mulf", self.f32, tap, field)
        is_even = self._is_even(peak, largest, weighted, field)
        is_inside = either(
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
        """Whether a receptive field's sums are large enough for the peak and the largest."""
        share = op("arith.mulf", self.f32, constant(LARGEST_SHARE, self.f32), field)
        return _and(_at_most(peak, weighted), _at_most(largest, share))

    def _least(
        self, blocks: Sequence[ir.Value], row: Extent, column: Extent
    ) -> ir.Value:
        """The smallest sum over a block that belongs to some result."""
        left = self._least_of_two(blocks[:2], row, 0)
        right = self._least_of_two(blocks[2:], row, 0)
        return self._least_of_two([left, right], column, 1)

    def _least_of_two(
        self, blocks: Sequence[ir.Value], place: Extent, axis: int
    ) -> ir.Value:
        """The smaller of two blocks' sums, if the second belongs to results at all."""
        first, second = blocks
        smaller = op("arith.minimumf", self.f32, first, second)
        last = (self.plan.tiles[axis] - 1) * WRITTEN
        if self.plan.result[1 + axis] - last > WRITTEN // 2:
            return smaller
        return op("arith.select", self.f32, less(place, last), smaller, first)

    def _fields(
        self,
        peak: ir.Value,
        largest: ir.Value,
        row: Extent,
        column: Extent,
        pixels_at: Callable[[ir.Value], Pixels],
    ) -> ir.Value:
        """Whether the sums over all receptive fields are large enough."""
        self._sum_pixels(pixels_at)
        taps = [self._limit(3 + n) for n in range(KERNEL * KERNEL)]
        _, rows, columns, _ = self.plan.result

        def field(a: ir.Value, b: ir.Value, so_far: ir.Value) -> ir.Value:
            weighted = total = constant(0, self.f32)
            for number, tap in enumerate(taps):
                r, s = divmod(number, KERNEL)
                at = add(multiply(add(a, r), READ), add(b, s))
                pixel = op("memref.load", self.f32, self.pixels, index(at))
                total = _ADD.of_two(total, pixel)
                weighted = op("math.fma", self.f32, tap, pixel, weighted)
            is_result = _and(less(add(row, a), rows), less(add(column, b), columns))
            is_even = self._is_even(peak, largest, weighted, total)
            return _and(so_far, _or(_not(is_result), is_even))

        def fields(a: ir.Value, so_far: ir.Value) -> list[ir.Value]:
            return for_loop(0, WRITTEN, 1, lambda b, now: [field(a, b, now)], [so_far])

        true = constant(1, ir.IntegerType.get_signless(1))
        return for_loop(0, WRITTEN, 1, fields, [true])[0]

    def _sum_pixels(self, pixels_at: Callable[[ir.Value], Pixels]) -> None:
        """Sum |x| over channels at each pixel."""
        lanes, count = self.lanes, READ * READ
        zero = broadcast(constant(0, self.f32), lanes)

        def clear(k: ir.Value) -> tuple[()]:
            store(zero, self.sums, [index(multiply(k, lanes))], lanes, None)
            return ()

        def channels(c: ir.Value) -> tuple[()]:
            flat = [value for row in pixels_at(c) for value in row]
            for k, value in enumerate(flat):
                where = [index(k * lanes)]
                before = load(self.sums, where, lanes, 1, None)
                size = self._float(self._magnitude(value))
                store(_ADD.of_two(before, size), self.sums, where, lanes, None)
            return ()

        def across(k: ir.Value) -> tuple[()]:
            where = [index(multiply(k, lanes))]
            total = _ADD.lanes_of(load(self.sums, where, lanes, 1, None))
            op("memref.store", None, total, self.pixels, k)
            return ()

        for_loop(0, count, 1, clear)
        for_loop(0, self.plan.channels, lanes, channels)
        for_loop(0, count, 1, across)

    def _limit(self, number: int) -> ir.Value:
        return op("memref.load", self.f32, self.plan.limits, index(number))

    def _magnitude(self, value: ir.Value) -> ir.Value:
        """|x| as an integer, which orders as |x| does."""
        type_ = vector_type(self.lanes, self.bits)
        mask = broadcast(constant(_MAGNITUDE, self.bits), self.lanes)
        return op("arith.andi", type_, op("arith.bitcast", type_, value), mask)

    def _float(self, magnitude: ir.Value) -> ir.Value:
        """|x| of a magnitude: a scalar, or a vector."""
        is_vector = isinstance(magnitude.type, ir.VectorType)
        type_ = vector_type(self.lanes, self.f32) if is_vector else self.f32
        return op("arith.bitcast", type_, magnitude)


def _combined(how: Combination, values: Sequence[ir.Value]) -> ir.Value:
    """Values as one, pair by pair, so that few depend on each other."""
    level = list(values)
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [*(how.of_two(a, b) for a, b in pairs), *level[len(level) // 2 * 2 :]]
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

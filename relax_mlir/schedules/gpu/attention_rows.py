"""A softmax of rows whose scores come a tile at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.combination import Combination
from relax_mlir.schedules.emit import broadcast, constant, op
from relax_mlir.schedules.gpu.attention_products import Tile, by_rows
from relax_mlir.schedules.gpu.launch import shuffle_xor

__all__ = [
    "SUM",
    "RowState",
    "Weighed",
    "number_or_zero",
    "of_all_threads",
    "of_thread",
    "power",
    "weighed",
]

SUM = Combination("arith.addf", "add", 0.0)
_EQUAL = 1  # of arith.cmpf's predicates: both are numbers, and equal


@dataclass(frozen=True)
class RowState:
    """What a thread knows of its rows.

    Attributes:
        tops: the greatest scores; totals: the thread's part of the sums of exponentials.
        sums: its columns of the values that were added.
    """

    tops: Sequence[ir.Value]
    totals: Sequence[ir.Value]
    sums: Tile

    @property
    def values(self) -> list[ir.Value]:
        """All of it, as a loop carries it."""
        return [*self.tops, *self.totals, *(v for row in self.sums for v in row)]

    def of(self, values: Sequence[ir.Value]) -> RowState:
        """The same, from what a loop has carried."""
        rows = len(self.tops)
        tops, totals, sums = values[:rows], values[rows : 2 * rows], values[2 * rows :]
        return RowState(tops, totals, by_rows(sums, rows))


@dataclass(frozen=True)
class Weighed:
    """The exponentials of some scores, and what a thread knows of its rows with them.

    Attributes:
        weights: the exponentials; scales: by row, what was added before is worth now.
        tops, totals: as those of :class:`RowState`.
    """

    weights: Tile
    scales: Sequence[ir.Value]
    tops: Sequence[ir.Value]
    totals: Sequence[ir.Value]

    def state(self, sums: Tile) -> RowState:
        """With the values that were added before, scaled; nothing is added to them."""
        scaled = []
        for row, scale in zip(sums, self.scales, strict=True):
            factor = broadcast(scale, row[0].type.shape[0])
            scaled.append([op("arith.mulf", v.type, v, factor) for v in row])
        return RowState(self.tops, self.totals, scaled)


def weighed(
    scores: Tile,
    greatest: Sequence[ir.Value],
    before: RowState,
    way: Combination,
    *,
    scale: float,
    is_exact: bool,
) -> Weighed:
    """The exponentials of what scores, times ``scale``, are less than the greatest so far.

    Args:
        greatest: of the scores of each row.
        before: what the thread knew, of which sums of values are not looked at.
        way: how two scores become the greater one.
        is_exact: whether the difference is rounded before it is scaled to a power of two,
            which keeps small ones whole, whatever they are of; else both are one operation,
            which is off by as much as the greatest score, scaled, is rounded.
    """
    weights: Tile = []
    rows: list[tuple[ir.Value, ir.Value, ir.Value]] = []
    for row, own, known, total in zip(
        scores, greatest, before.tops, before.totals, strict=True
    ):
        if scale != 1:
            own = op("arith.mulf", own.type, own, constant(scale, own.type))
        top = way.of_two(known, own)
        base = number_or_zero(top)
        weights.append([power(v, base, scale=scale, is_exact=is_exact) for v in row])
        worth = power(known, base, is_exact=is_exact)
        total = op("arith.mulf", total.type, total, worth)
        rows.append((worth, top, SUM.of_two(total, of_thread(weights[-1], SUM))))
    scales, tops, totals = zip(*rows, strict=True)
    return Weighed(weights, scales, tops, totals)


def number_or_zero(top: ir.Value) -> ir.Value:
    """A greatest score; 0 where a row has none but -inf, which cannot be subtracted."""
    none, zero = (constant(n, top.type) for n in (-math.inf, 0.0))
    predicate = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _EQUAL)
    i1 = ir.IntegerType.get_signless(1)
    is_none = op("arith.cmpf", i1, top, none, predicate=predicate)
    return op("arith.select", top.type, is_none, zero, top)


def power(
    number: ir.Value, base: ir.Value, *, scale: float = 1, is_exact: bool
) -> ir.Value:
    """e to the power of ``scale * number - base``.

    Args:
        number: may be a vector.
        is_exact: as :func:`weighed` takes it.
    """
    of_two = math.log2(math.e)
    lanes = number.type.shape[0] if isinstance(number.type, ir.VectorType) else 1

    def spread(value: ir.Value) -> ir.Value:
        return broadcast(value, lanes) if lanes > 1 else value

    type_ = number.type
    if is_exact:
        if scale == 1:
            less = op("arith.subf", type_, number, spread(base))
        else:
            negative = spread(op("arith.negf", base.type, base))
            factor = spread(constant(scale, base.type))
            less = op("math.fma", type_, number, factor, negative)
        exponent = op("arith.mulf", type_, less, spread(constant(of_two, base.type)))
    else:
        shift = op("arith.mulf", base.type, base, constant(-of_two, base.type))
        factor = spread(constant(scale * of_two, base.type))
        exponent = op("math.fma", type_, number, factor, spread(shift))
    fast = ir.Attribute.parse("#arith.fastmath<afn>")
    return op("math.exp2", type_, exponent, fastmath=fast)


def of_all_threads(value: ir.Value, way: Combination) -> ir.Value:
    """What the threads have that share a row, combined, in all of them."""
    for distance in (1, 2):
        value = way.of_two(value, shuffle_xor(value, distance))
    return value


def of_thread(values: Sequence[ir.Value], way: Combination) -> ir.Value:
    """The numbers that a thread has of a row, combined."""
    total, *rest = values
    for value in rest:
        total = way.of_two(total, value)
    return way.lanes_of(total) if isinstance(total.type, ir.VectorType) else total

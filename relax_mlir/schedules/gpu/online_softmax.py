"""Online softmax: running maximum and sum of rows, with rescaling.

Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.builder import broadcast, constant, op
from relax_mlir.schedules.combiner import Combiner
from relax_mlir.schedules.gpu.attention_matmuls import RowFragment, split_rows
from relax_mlir.schedules.gpu.launch import shuffle_xor

__all__ = [
    "SUM",
    "SoftmaxState",
    "SoftmaxStep",
    "exponential",
    "finite_or_zero",
    "online_softmax_step",
    "reduce_in_quad",
    "reduce_in_thread",
]

SUM = Combiner("arith.addf", "add", 0.0)
_EQUAL = 1  # predicate of arith.cmpf: ordered and equal


@dataclass(frozen=True)
class SoftmaxState:
    """State of the online softmax of a thread's rows.

    Attributes:
        row_max: running maxima; row_sum: the thread's share of the running sums.
        accumulators: output accumulators.
    """

    row_max: Sequence[ir.Value]
    row_sum: Sequence[ir.Value]
    accumulators: RowFragment

    @property
    def values(self) -> list[ir.Value]:
        """The loop-carried values."""
        return [
            *self.row_max,
            *self.row_sum,
            *(v for row in self.accumulators for v in row),
        ]

    def from_values(self, values: Sequence[ir.Value]) -> SoftmaxState:
        """The state of the same structure with the given loop-carried values."""
        rows = len(self.row_max)
        row_max, row_sum, accumulators = (
            values[:rows],
            values[rows : 2 * rows],
            values[2 * rows :],
        )
        return SoftmaxState(row_max, row_sum, split_rows(accumulators, rows))


@dataclass(frozen=True)
class SoftmaxStep:
    """Result of a step of the online softmax.

    Attributes:
        weights: the exponentials; rescales: by row, the rescaling of earlier accumulators.
        row_max, row_sum: as in :class:`SoftmaxState`.
    """

    weights: RowFragment
    rescales: Sequence[ir.Value]
    row_max: Sequence[ir.Value]
    row_sum: Sequence[ir.Value]

    def next_state(self, accumulators: RowFragment) -> SoftmaxState:
        """The state after the step, with rescaled accumulators."""
        scaled = []
        for row, scale in zip(accumulators, self.rescales, strict=True):
            factor = broadcast(scale, row[0].type.shape[0])
            scaled.append([op("arith.mulf", v.type, v, factor) for v in row])
        return SoftmaxState(self.row_max, self.row_sum, scaled)


def online_softmax_step(
    scores: RowFragment,
    tile_max: Sequence[ir.Value],
    before: SoftmaxState,
    combiner: Combiner,
    *,
    scale: float,
    is_exact: bool,
) -> SoftmaxStep:
    """Emits a step of the online softmax: ``exp(scale * scores - running maximum)``.

    Args:
        tile_max: maximum of each row of ``scores``.
        before: the state, without its accumulators.
        combiner: combiner of the maximum.
        is_exact: whether the difference is computed before the multiplication by log2(e),
            which keeps small differences exact. Else both are one FMA, whose error is the
            rounding error of the scaled maximum.
    """
    weights: RowFragment = []
    rows: list[tuple[ir.Value, ir.Value, ir.Value]] = []
    for row, tile_row_max, old_max, partial_sum in zip(
        scores, tile_max, before.row_max, before.row_sum, strict=True
    ):
        if scale != 1:
            tile_row_max = op(
                "arith.mulf",
                tile_row_max.type,
                tile_row_max,
                constant(scale, tile_row_max.type),
            )
        new_max = combiner.combine(old_max, tile_row_max)
        base = finite_or_zero(new_max)
        weights.append(
            [exponential(v, base, scale=scale, is_exact=is_exact) for v in row]
        )
        rescale = exponential(old_max, base, is_exact=is_exact)
        partial_sum = op("arith.mulf", partial_sum.type, partial_sum, rescale)
        rows.append(
            (
                rescale,
                new_max,
                SUM.combine(partial_sum, reduce_in_thread(weights[-1], SUM)),
            )
        )
    rescales, row_max, row_sum = zip(*rows, strict=True)
    return SoftmaxStep(weights, rescales, row_max, row_sum)


def finite_or_zero(row_max: ir.Value) -> ir.Value:
    """A row maximum; 0 for fully masked rows, as ``-inf - -inf`` would be NaN."""
    masked, zero = (constant(n, row_max.type) for n in (-math.inf, 0.0))
    predicate = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _EQUAL)
    i1 = ir.IntegerType.get_signless(1)
    is_masked = op("arith.cmpf", i1, row_max, masked, predicate=predicate)
    return op("arith.select", row_max.type, is_masked, zero, row_max)


def exponential(
    number: ir.Value, base: ir.Value, *, scale: float = 1, is_exact: bool
) -> ir.Value:
    """Emits ``exp(scale * number - base)``, by ``exp2``.

    Args:
        number: may be a vector.
        is_exact: as in :func:`online_softmax_step`.
    """
    log2_e = math.log2(math.e)
    lanes = number.type.shape[0] if isinstance(number.type, ir.VectorType) else 1

    def spread(value: ir.Value) -> ir.Value:
        return broadcast(value, lanes) if lanes > 1 else value

    type_ = number.type
    if is_exact:
        if scale == 1:
            difference = op("arith.subf", type_, number, spread(base))
        else:
            negative = spread(op("arith.negf", base.type, base))
            factor = spread(constant(scale, base.type))
            difference = op("math.fma", type_, number, factor, negative)
        exponent = op(
            "arith.mulf", type_, difference, spread(constant(log2_e, base.type))
        )
    else:
        shift = op("arith.mulf", base.type, base, constant(-log2_e, base.type))
        factor = spread(constant(scale * log2_e, base.type))
        exponent = op("math.fma", type_, number, factor, spread(shift))
    fast = ir.Attribute.parse("#arith.fastmath<afn>")
    return op("math.exp2", type_, exponent, fastmath=fast)


def reduce_in_quad(value: ir.Value, combiner: Combiner) -> ir.Value:
    """Emits an all-reduce across the quad that shares a row."""
    for distance in (1, 2):
        value = combiner.combine(value, shuffle_xor(value, distance))
    return value


def reduce_in_thread(values: Sequence[ir.Value], combiner: Combiner) -> ir.Value:
    """Emits the reduction of a thread's elements of a row."""
    total, *rest = values
    for value in rest:
        total = combiner.combine(total, value)
    return combiner.lanes_of(total) if isinstance(total.type, ir.VectorType) else total

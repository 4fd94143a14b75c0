"""Blocked summation: reduction loops whose rounding error grows slowly with K.

A sum of n terms in one accumulator has an error of up to n roundings. Summed in blocks of
b terms, each in an accumulator of its own, the bound is b + n / b, and 3 * cbrt(n) for two
levels of blocks. The extra additions are 1 / b of all.

Source: Higham, The Accuracy of Floating Point Summation, SIAM J. Sci. Comput. 14(4), 1993.
"""

import math
from collections.abc import Callable, Sequence

from mlir import ir

from relax_mlir.dialects.dtypes import element_of
from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    broadcast,
    constant,
    for_loop,
    minimum,
    multiply,
    op,
    subtract,
    unrolled_loop,
)

__all__ = [
    "BLOCK",
    "LONG_BLOCK",
    "block_lengths",
    "blocked_loop",
    "blocked_unrolled_loop",
]

BLOCK = 64  # terms per block
LONG_BLOCK = 256  # for register tiles, whose block accumulators are spilled


def block_lengths(
    extent: IndexLike, inner: IndexLike = 1, block: int = BLOCK
) -> tuple[int, ...]:
    """Iterations per block of a reduction loop, innermost level first; none if it is short.

    Args:
        extent: trip count of the loop; inner: terms that each iteration adds.
        block: terms per block.
    """
    terms = inner if isinstance(inner, int) else block
    length = max(1, block // max(1, terms))
    lengths: list[int] = []
    # Loops of unknown trip count get two levels, whose outer loops mostly run once.
    while len(lengths) < 2 and not (isinstance(extent, int) and extent <= 2 * length):
        lengths.append(length)
        length *= block
    return tuple(lengths)


def blocked_loop(
    begin: IndexLike,
    end: IndexLike,
    step: IndexLike,
    body: Callable[..., Sequence[ir.Value]],
    carried: Sequence[ir.Value],
    lengths: Sequence[int],
) -> list[ir.Value]:
    """``scf.for`` with accumulators as carried values; sums of floats are blocked.

    Args:
        begin, end, step, body, carried: as for :func:`for_loop`.
        lengths: iterations per block of each level, as from `block_lengths`.
    """
    if not lengths or not all(map(_is_rounded, carried)):
        return for_loop(begin, end, step, body, carried)
    *inner, length = lengths
    size = multiply(step, length)

    def block(first: ir.Value, *totals: ir.Value) -> list[ir.Value]:
        last = add(first, minimum(size, subtract(end, first)))
        sums = blocked_loop(first, last, step, body, _zeros(totals), inner)
        return _add_to(totals, sums)

    return for_loop(begin, end, size, block, carried)


def blocked_unrolled_loop(
    extent: IndexLike,
    step: Callable[[IndexLike, Sequence[ir.Value]], list[ir.Value]],
    carried: list[ir.Value],
    prologue: Callable[[IndexLike], None],
    block: int = LONG_BLOCK,
) -> list[ir.Value]:
    """:func:`unrolled_loop` over K with accumulators; sums of floats are blocked.

    Args:
        extent, step, carried, prologue: as for :func:`unrolled_loop`.
        block: minimum number of terms per block.
    """
    is_short = isinstance(extent, int) and 2 * extent <= 3 * block
    if is_short or not all(map(_is_rounded, carried)):
        return unrolled_loop(extent, step, carried, prologue)
    if not isinstance(extent, int):
        lengths = block_lengths(extent, 1, 4 * block)[:1]
        return blocked_loop(
            0, extent, 1, lambda k, *sums: step(k, sums), carried, lengths
        )
    length = max(block, 1 << (math.isqrt(extent) - 1).bit_length())

    def sum_block(
        first: IndexLike, count: int, totals: Sequence[ir.Value]
    ) -> list[ir.Value]:
        sums = unrolled_loop(
            count,
            lambda k, now: step(add(first, k), now),
            _zeros(totals),
            lambda k: prologue(add(first, k)),
        )
        return _add_to(totals, sums)

    full = extent - extent % length
    totals = for_loop(
        0, full, length, lambda first, *now: sum_block(first, length, now), carried
    )
    return sum_block(full, extent - full, totals) if full < extent else totals


def _zeros(like: Sequence[ir.Value]) -> list[ir.Value]:
    """Zeros of the types of given scalars or vectors."""
    return [_zero(value.type) for value in like]


def _add_to(totals: Sequence[ir.Value], sums: Sequence[ir.Value]) -> list[ir.Value]:
    """Add the sums of a block to the totals."""
    pairs = zip(totals, sums, strict=True)
    return [op("arith.addf", total.type, total, part) for total, part in pairs]


def _is_rounded(total: ir.Value) -> bool:
    return isinstance(element_of(total.type), ir.FloatType)


def _zero(type_: ir.Type) -> ir.Value:
    zero = constant(0, element_of(type_))
    if isinstance(type_, ir.VectorType):
        return broadcast(zero, type_.shape[0])
    return zero

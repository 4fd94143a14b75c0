"""Blocked summation: loops whose rounding error does not grow with the length of a sum.

A sum of n terms in one accumulator is off by up to n roundings. In blocks of b terms, each
from zero, it is off by b + n / b, and by 3 * cbrt(n) in blocks of blocks. The additions of
blocks cost 1 / b of the others.

Source: Higham, The Accuracy of Floating Point Summation, SIAM J. Sci. Comput. 14(4), 1993.
"""

import math
from collections.abc import Callable, Sequence

from mlir import ir

from relax_mlir.dialects.dtypes import element_of
from relax_mlir.schedules.emit import (
    Extent,
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

BLOCK = 64  # terms of a block
LONG_BLOCK = 256  # where there are so many sums that those of blocks go to memory


def block_lengths(
    extent: Extent, inner: Extent = 1, block: int = BLOCK
) -> tuple[int, ...]:
    """Iterations of the blocks of a loop, innermost first; none where it is short.

    Args:
        extent: iterations of the loop; inner: terms that each sums up.
        block: terms of a block.
    """
    terms = inner if isinstance(inner, int) else block
    length = max(1, block // max(1, terms))
    lengths: list[int] = []
    # Loops of unknown length have blocks of blocks, whose loops mostly run once.
    while len(lengths) < 2 and not (isinstance(extent, int) and extent <= 2 * length):
        lengths.append(length)
        length *= block
    return tuple(lengths)


def blocked_loop(
    begin: Extent,
    end: Extent,
    step: Extent,
    body: Callable[..., Sequence[ir.Value]],
    carried: Sequence[ir.Value],
    lengths: Sequence[int],
) -> list[ir.Value]:
    """``scf.for`` whose carried values are sums; those of floats are taken in blocks.

    Args:
        begin, end, step, body, carried: as for :func:`for_loop`.
        lengths: iterations of a block, and of a block of blocks; see `block_lengths`.
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
    extent: Extent,
    step: Callable[[Extent, Sequence[ir.Value]], list[ir.Value]],
    carried: list[ir.Value],
    turn_begins: Callable[[Extent], None],
    block: int = LONG_BLOCK,
) -> list[ir.Value]:
    """:func:`unrolled_loop` over the terms of sums; those of floats are taken in blocks.

    Args:
        extent, step, carried, turn_begins: as for :func:`unrolled_loop`.
        block: the least terms of a block.
    """
    is_short = isinstance(extent, int) and 2 * extent <= 3 * block
    if is_short or not all(map(_is_rounded, carried)):
        return unrolled_loop(extent, step, carried, turn_begins)
    if not isinstance(extent, int):
        lengths = block_lengths(extent, 1, 4 * block)[:1]
        return blocked_loop(
            0, extent, 1, lambda k, *sums: step(k, sums), carried, lengths
        )
    length = max(block, 1 << (math.isqrt(extent) - 1).bit_length())

    def one(first: Extent, count: int, totals: Sequence[ir.Value]) -> list[ir.Value]:
        sums = unrolled_loop(
            count,
            lambda k, now: step(add(first, k), now),
            _zeros(totals),
            lambda k: turn_begins(add(first, k)),
        )
        return _add_to(totals, sums)

    full = extent - extent % length
    totals = for_loop(
        0, full, length, lambda first, *now: one(first, length, now), carried
    )
    return one(full, extent - full, totals) if full < extent else totals


def _zeros(like: Sequence[ir.Value]) -> list[ir.Value]:
    """Empty sums, scalars or vectors."""
    return [_zero(value.type) for value in like]


def _add_to(totals: Sequence[ir.Value], sums: Sequence[ir.Value]) -> list[ir.Value]:
    """The sums of blocks added to those before."""
    pairs = zip(totals, sums, strict=True)
    return [op("arith.addf", total.type, total, part) for total, part in pairs]


def _is_rounded(total: ir.Value) -> bool:
    return isinstance(element_of(total.type), ir.FloatType)


def _zero(type_: ir.Type) -> ir.Value:
    zero = constant(0, element_of(type_))
    if isinstance(type_, ir.VectorType):
        return broadcast(zero, type_.shape[0])
    return zero

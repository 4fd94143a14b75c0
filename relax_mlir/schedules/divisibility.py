"""Divisibility analysis of extents and indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from mlir import ir

from relax_mlir.analysis.index_maps import constant_of
from relax_mlir.schedules.builder import IndexLike

__all__ = ["known_divisor"]


def known_divisor(extent: IndexLike) -> int:
    """A divisor of an extent or index, as large as can be proven; 0 for the value 0."""
    if isinstance(extent, int):
        return abs(extent)
    constant = constant_of(extent)
    if constant is not None:
        return abs(constant)
    if isinstance(extent.owner, ir.Block):
        return _multiple_of_argument(ir.BlockArgument(extent))
    combine = _COMBINATIONS.get(extent.owner.name)
    return 1 if combine is None else combine(*map(known_divisor, extent.owner.operands))


def _multiple_of_argument(argument: ir.BlockArgument) -> int:
    loop = argument.owner.owner
    if loop.operation.name != "scf.for" or argument.arg_number:
        return 1
    begin, _, step = list(loop.operands)[:3]
    return math.gcd(known_divisor(begin), known_divisor(step))


# The divisor of a result from those of its operands; that of a constant is its magnitude.
_COMBINATIONS: Mapping[str, Callable[[int, int], int]] = {
    "arith.addi": math.gcd,
    "arith.subi": math.gcd,
    "arith.muli": lambda lhs, rhs: lhs * rhs,
    "arith.remui": math.gcd,
    "arith.minsi": math.gcd,
    "arith.maxsi": math.gcd,
}

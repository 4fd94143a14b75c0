"""What numbers extents and indices are surely multiples of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from mlir import ir

from relax_mlir.indexing import constant_of
from relax_mlir.schedules.emit import Extent

__all__ = ["multiple_of"]


def multiple_of(extent: Extent) -> int:
    """A number that an extent, or an index, is surely a multiple of; 0 if it is 0."""
    if isinstance(extent, int):
        return abs(extent)
    constant = constant_of(extent)
    if constant is not None:
        return abs(constant)
    if isinstance(extent.owner, ir.Block):
        return _multiple_of_argument(ir.BlockArgument(extent))
    combine = _COMBINATIONS.get(extent.owner.name)
    return 1 if combine is None else combine(*map(multiple_of, extent.owner.operands))


def _multiple_of_argument(argument: ir.BlockArgument) -> int:
    loop = argument.owner.owner
    if loop.operation.name != "scf.for" or argument.arg_number:
        return 1
    begin, _, step = list(loop.operands)[:3]
    return math.gcd(multiple_of(begin), multiple_of(step))


# By the multiples of the operands; that of a constant is its size.
_COMBINATIONS: Mapping[str, Callable[[int, int], int]] = {
    "arith.addi": math.gcd,
    "arith.subi": math.gcd,
    "arith.muli": lambda lhs, rhs: lhs * rhs,
    "arith.remui": math.gcd,
    "arith.minsi": math.gcd,
    "arith.maxsi": math.gcd,
}

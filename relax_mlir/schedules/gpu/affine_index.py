"""Affine forms of buffer indices over induction variables and thread ids, and their ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir

from relax_mlir.analysis.index_maps import constant_of
from relax_mlir.schedules.builder import IndexLike, add, affine_value
from relax_mlir.symbolic import intervals
from relax_mlir.symbolic.affine_forms import AffineForm
from relax_mlir.symbolic.intervals import (
    UNBOUNDED,
    Range,
    contains,
    floordiv,
    floormod,
    hull,
)

__all__ = [
    "ACCESSES",
    "STORES",
    "BufferAccess",
    "access_at",
    "accessed_range",
    "argument_range",
    "emit_affine_sum",
    "span_of",
    "structural_key",
    "value_range",
]

# Store operations, with the number of the operand that is the buffer.
STORES = {"memref.store": 1, "vector.store": 1}
# Loads and stores whose indices follow the buffer operand.
ACCESSES = frozenset({"memref.load", "memref.store", "vector.load", "vector.store"})


def affine_sum_of(value: ir.Value) -> AffineForm[ir.Value]:
    """The affine form of a value; a value that is not affine is a term of its own."""
    known = constant_of(value)
    if known is not None:
        return AffineForm({}, known)
    owner = value.owner
    name = None if isinstance(owner, ir.Block) else owner.name
    if name in ("arith.addi", "arith.subi", "arith.muli"):
        lhs, rhs = map(affine_sum_of, owner.operands)
        if name != "arith.muli":
            return lhs.plus(rhs, 1 if name == "arith.addi" else -1)
        return lhs.times(rhs) or AffineForm({value: 1})
    return AffineForm({value: 1})


@dataclass(frozen=True)
class BufferAccess:
    """A load or store of a buffer.

    Attributes:
        operation: the load or store; first: number of the operand that is the first index.
        indices: affine forms; lanes: elements accessed along the last dimension.
    """

    operation: ir.OpView
    first: int
    indices: tuple[AffineForm[ir.Value], ...]
    lanes: int


def access_at(operation: ir.OpView, place: int) -> BufferAccess:
    """The access of an operation to the buffer that is its operand ``place``."""
    operands = list(operation.operation.operands)
    touched = operation.results[0].type if len(operation.results) else operands[0].type
    lanes = touched.shape[0] if isinstance(touched, ir.VectorType) else 1
    indices = tuple(map(affine_sum_of, operands[place + 1 :]))
    return BufferAccess(operation, place + 1, indices, lanes)


def structural_key(value: ir.Value) -> Any:  # Any: nested tuples
    """A key that is equal for values computed by the same expression of the same values."""
    owner = value.owner
    if isinstance(owner, ir.Block) or not owner.name.startswith("arith."):
        return value
    known = constant_of(value)
    return (owner.name, known, *map(structural_key, owner.operands))


def accessed_range(
    indices: Sequence[AffineForm[ir.Value]], lanes: Sequence[int]
) -> Range:
    """The bounds of the elements that some accesses touch along a dimension.

    Args:
        indices: the first element of each access; lanes: the number of elements.
    """
    return hull(
        [
            intervals.add(total.range_over(value_range), (0, count - 1))
            for total, count in zip(indices, lanes, strict=True)
        ]
    )


def emit_affine_sum(total: AffineForm[ir.Value]) -> IndexLike:
    """Emits the value of an affine form at the insertion point."""
    linear = total.shifted(-total.constant)
    return add(affine_value(linear, lambda value: value), total.constant)


def span_of(value: ir.Value) -> int | None:
    """The greatest minus the least value of a value; None if unknown."""
    return intervals.span(value_range(value))


def value_range(value: ir.Value) -> Range:
    """The bounds of a value."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return argument_range(value)
    combine = _DIVISIONS.get(owner.name)
    if combine is None:
        return UNBOUNDED
    divisor = constant_of(owner.operands[1])
    dividend = affine_sum_of(owner.operands[0]).range_over(value_range)
    if divisor is None or divisor < 1 or not contains((0, None), dividend):
        return UNBOUNDED
    return combine(dividend, (divisor, divisor))


# Division operations, which agree for non-negative dividends.
_DIVISIONS = {
    **dict.fromkeys(("arith.divsi", "arith.divui", "arith.floordivsi"), floordiv),
    **dict.fromkeys(("arith.remsi", "arith.remui"), floormod),
}


def argument_range(value: ir.Value) -> Range:
    """The bounds of an induction variable, or of a block or thread id."""
    parent = value.owner.owner
    position = ir.BlockArgument(value).arg_number
    if parent.operation.name == "gpu.launch":
        if position >= 6:
            return UNBOUNDED
        count = constant_of(parent.operation.operands[position])
        return UNBOUNDED if count is None else (0, max(count, 1) - 1)
    if parent.operation.name != "scf.for" or position != 0:
        return UNBOUNDED
    begin, end = (constant_of(v) for v in list(parent.operation.operands)[:2])
    if begin is None or end is None:
        return UNBOUNDED
    return begin, max(begin, end - 1)

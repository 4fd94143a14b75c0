"""Indices of buffers as sums of loop variables and numbers of threads, and how far they go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir

from relax_mlir.indexing import constant_of
from relax_mlir.schedules.emit import Extent, add, multiply

__all__ = [
    "ACCESSES",
    "STORES",
    "Access",
    "Sum",
    "access_at",
    "emit_sum",
    "key_of",
    "range_of",
    "range_of_counter",
    "span",
]

# Operations that write a buffer: which operand that is.
STORES = {"memref.store": 1, "vector.store": 1}
# Operations that take indices behind a buffer, and how wide they are.
ACCESSES = frozenset({"memref.load", "memref.store", "vector.load", "vector.store"})


@dataclass(frozen=True)
class Sum:
    """A number as a constant and multiples of values."""

    terms: dict[ir.Value, int]
    constant: int = 0

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        """It and a multiple of another one."""
        total = dict(self.terms)
        for value, times in other.terms.items():
            total[value] = total.get(value, 0) + factor * times
        kept = {value: times for value, times in total.items() if times}
        return Sum(kept, self.constant + factor * other.constant)


def sum_of(value: ir.Value) -> Sum:
    """A value taken apart; what is no sum is a term."""
    known = constant_of(value)
    if known is not None:
        return Sum({}, known)
    owner = value.owner
    name = None if isinstance(owner, ir.Block) else owner.name
    if name in ("arith.addi", "arith.subi", "arith.muli"):
        lhs, rhs = map(sum_of, owner.operands)
        if name != "arith.muli":
            return lhs.plus(rhs, 1 if name == "arith.addi" else -1)
        if lhs.terms and rhs.terms:
            return Sum({value: 1})
        one, times = (lhs, rhs.constant) if not rhs.terms else (rhs, lhs.constant)
        return Sum({}).plus(one, times)
    return Sum({value: 1})


@dataclass(frozen=True)
class Access:
    """A use of a buffer.

    Attributes:
        operation: it; first: which operand is its first index.
        sums: its indices; lanes: elements that it touches along the last dimension.
    """

    operation: ir.OpView
    first: int
    sums: tuple[Sum, ...]
    lanes: int


def access_at(operation: ir.OpView, place: int) -> Access:
    """How an operation uses the buffer that is its operand ``place``."""
    operands = list(operation.operation.operands)
    touched = operation.results[0].type if len(operation.results) else operands[0].type
    lanes = touched.shape[0] if isinstance(touched, ir.VectorType) else 1
    sums = tuple(map(sum_of, operands[place + 1 :]))
    return Access(operation, place + 1, sums, lanes)


def key_of(value: ir.Value) -> Any:  # Any: nested tuples
    """What two values have in common that are computed alike."""
    owner = value.owner
    if isinstance(owner, ir.Block) or not owner.name.startswith("arith."):
        return value
    known = constant_of(value)
    return (owner.name, known, *map(key_of, owner.operands))


def span(sums: Sequence[Sum], lanes: Sequence[int]) -> tuple[int, int] | None:
    """Where accesses begin, and how many elements lie between their ends."""
    ranges = [_range(total) for total in sums]
    known = [r for r in ranges if r is not None]
    if len(known) < len(ranges):
        return None
    low = min(begin for begin, _ in known)
    return low, max(e + n for (_, e), n in zip(known, lanes, strict=True)) - low


def emit_sum(total: Sum) -> Extent:
    """The number, at the insertion point."""
    place: Extent = 0
    for value, times in total.terms.items():
        place = add(place, multiply(value, times))
    return add(place, total.constant)


_Range = tuple[int, int] | None


def _range(total: Sum) -> _Range:
    """The least and the greatest number that a sum may be; None if that is not known."""
    low = high = total.constant
    for value, times in total.terms.items():
        known = range_of(value)
        if known is None:
            return None
        ends = [times * end for end in known]
        low, high = low + min(ends), high + max(ends)
    return low, high


def range_of(value: ir.Value) -> _Range:
    """The least and the greatest number that a value may be; None if that is not known."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return range_of_counter(value)
    if owner.name not in _DIVIDED:
        return None
    divisor = constant_of(owner.operands[1])
    whole = _range(sum_of(owner.operands[0]))
    if divisor is None or divisor < 1 or whole is None or whole[0] < 0:
        return None
    if _DIVIDED[owner.name]:
        return whole[0] // divisor, whole[1] // divisor
    is_same = whole[0] // divisor == whole[1] // divisor
    low, high = (end % divisor for end in whole)
    return (low, high) if is_same else (0, divisor - 1)


# Of what is not negative: whether it is the quotient.
_DIVIDED = {
    **dict.fromkeys(("arith.divsi", "arith.divui", "arith.floordivsi"), True),
    **dict.fromkeys(("arith.remsi", "arith.remui"), False),
}


def range_of_counter(value: ir.Value) -> _Range:
    """Of the variable of a loop, or of the number of a block or a thread."""
    holder = value.owner.owner
    number = ir.BlockArgument(value).arg_number
    if holder.operation.name == "gpu.launch":
        if number >= 6:
            return None
        count = constant_of(holder.operation.operands[number])
        return None if count is None else (0, max(count, 1) - 1)
    if holder.operation.name != "scf.for" or number != 0:
        return None
    begin, end = (constant_of(v) for v in list(holder.operation.operands)[:2])
    if begin is None or end is None:
        return None
    return begin, max(begin, end - 1)

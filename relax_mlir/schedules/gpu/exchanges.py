"""Memory of the device through which threads of a launch pass values to each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir

from relax_mlir.errors import PassError
from relax_mlir.indexing import constant_of
from relax_mlir.objects.memrefs import whole_buffer
from relax_mlir.rewriting import walk
from relax_mlir.schedules.gpu.index_sums import (
    ACCESSES,
    STORES,
    Access,
    Sum,
    access_at,
    range_of_counter,
    span,
)
from relax_mlir.schedules.gpu.thread_memory import is_of_threads
from relax_mlir.traversal import values_read

__all__ = ["exchanged_buffers"]

_BLOCKS, _THREADS = range(3), range(3, 6)  # arguments of a launch


def exchanged_buffers(launch: ir.Block) -> frozenset[ir.Value]:
    """The buffers that outlive a launch and pass values between threads of its blocks.

    A thread may read, and write again, what it has written itself: where all accesses to a
    buffer are computed alike, or where each thread has a range of a dimension for itself.

    Raises:
        PassError: one passes values between blocks, which cannot wait for each other.
    """
    found = set()
    for buffer, uses in _uses(launch).items():
        accesses = [use for use in uses if isinstance(use, Access)]
        is_known = len(accesses) == len(uses)
        for numbers, are_blocks in ((_BLOCKS, True), (_THREADS, False)):
            ids = [launch.arguments[n] for n in numbers if _count(launch, n) != 1]
            if not ids or (is_known and _are_apart(accesses, ids)):
                continue
            if are_blocks:
                raise PassError(
                    f"{launch.owner.location}: blocks of a launch pass values to each other "
                    f"through `{buffer.type}`, and cannot wait for each other: expected "
                    "loops bound to `blockIdx` of their own for what comes later"
                )
            found.add(buffer)
    return frozenset(found)


def _count(launch: ir.Block, number: int) -> int | None:
    """How many numbers there are along an axis."""
    return constant_of(launch.owner.operands[number])


def _uses(launch: ir.Block) -> dict[ir.Value, list[Access | None]]:
    """What is both written and used otherwise; None for what is no plain access."""
    uses: dict[ir.Value, list[Access | None]] = {}
    written: set[ir.Value] = set()
    for operation in walk(launch):
        name = operation.operation.name
        for place, value in enumerate(operation.operation.operands):
            is_buffer = isinstance(value.type, ir.MemRefType)
            if not is_buffer or not _outlives(whole_buffer(value)):
                continue
            if any(isinstance(r.type, ir.MemRefType) for r in operation.results):
                continue  # a view: what it is used for counts
            root = whole_buffer(value)
            is_plain = name in ACCESSES and root == value
            uses.setdefault(root, []).append(
                access_at(operation, place) if is_plain else None
            )
            if name not in ACCESSES or STORES.get(name) == place:
                written.add(root)
    return {b: found for b, found in uses.items() if b in written and len(found) > 1}


def _outlives(buffer: ir.Value) -> bool:
    """Whether a buffer is there when the launch has ended."""
    is_argument = isinstance(buffer.owner, ir.Block)
    is_own = not is_argument and buffer.owner.name == "memref.alloca"
    return not is_own and not is_of_threads(buffer)


def _are_apart(accesses: Sequence[Access], ids: Sequence[ir.Value]) -> bool:
    """Whether no two of those that differ in their numbers touch the same element."""
    if len({_shape_of(access) for access in accesses}) == 1:
        return all(_depends(accesses[0], number) for number in ids)
    dimensions = range(len(accesses[0].sums))
    told = {n for d in dimensions for n in _told_apart(accesses, d, ids)}
    told.update(number for number in ids if _is_told_by_division(accesses, number))
    return told.issuperset(ids)


def _is_told_by_division(accesses: Sequence[Access], number: ir.Value) -> bool:
    """Whether two indices of all accesses are the quotient and the rest of a number."""
    divisors: dict[str, set[int]] = {"div": set(), "rem": set()}
    for same in zip(*(access.sums for access in accesses), strict=True):
        parts = {_division(total, number) for total in same}
        part = parts.pop()
        if part is not None and not parts:
            divisors[part[0]].add(part[1])
    return not divisors["div"].isdisjoint(divisors["rem"])


def _division(total: Sum, number: ir.Value) -> tuple[str, int] | None:
    """Whether an index is a quotient or a rest of a number, and by what it is divided."""
    if len(total.terms) != 1 or total.constant:
        return None
    ((value, times),) = total.terms.items()
    owner = value.owner
    if times != 1 or isinstance(owner, ir.Block) or owner.name not in _DIVISIONS:
        return None
    divisor = constant_of(owner.operands[1])
    if owner.operands[0] != number or divisor is None or divisor < 1:
        return None
    return _DIVISIONS[owner.name], divisor


_DIVISIONS = {
    **dict.fromkeys(("arith.divsi", "arith.divui", "arith.floordivsi"), "div"),
    **dict.fromkeys(("arith.remsi", "arith.remui"), "rem"),
}


def _depends(access: Access, number: ir.Value) -> bool:
    return any(_leads_to(v, number) for total in access.sums for v in total.terms)


def _leads_to(value: ir.Value, number: ir.Value) -> bool:
    owner = value.owner
    if isinstance(owner, ir.Block):
        return value == number
    return any(_leads_to(v, number) for v in values_read(owner))


def _shape_of(access: Access) -> Any:  # Any: nested tuples
    """How the indices are computed; loops of as many turns are alike."""
    sums = (
        (total.constant, frozenset((_form(v), n) for v, n in total.terms.items()))
        for total in access.sums
    )
    return (access.lanes, *sums)


def _form(value: ir.Value) -> Any:  # Any: nested tuples
    owner = value.owner
    if isinstance(owner, ir.Block):
        is_counter = owner.owner.operation.name == "scf.for"
        known = range_of_counter(value) if is_counter else None
        return value if known is None else known
    if not owner.name.startswith("arith."):
        return value
    return (owner.name, constant_of(value), *map(_form, owner.operands))


def _told_apart(
    accesses: Sequence[Access], dimension: int, ids: Sequence[ir.Value]
) -> list[ir.Value]:
    """The numbers that an index of a dimension tells, as its digits."""
    sums = [access.sums[dimension] for access in accesses]
    digits = []
    for number in ids:
        steps = {total.terms.get(number, 0) for total in sums}
        if len(steps) != 1:
            return []
        digits += [(step, number) for step in steps if step > 0]
    ours = {*ids}
    agreed, rests = zip(*(_parted(total, ours) for total in sums), strict=True)
    if any(terms != agreed[0] for terms in agreed):
        return []
    is_last = dimension == len(accesses[0].sums) - 1
    touched = span(rests, [access.lanes if is_last else 1 for access in accesses])
    if touched is None:
        return []
    extent: int | None = touched[1]
    for step, number in sorted(digits, key=lambda digit: digit[0]):
        if extent is None or step < extent:
            return []
        last = range_of_counter(number)
        extent = None if last is None else extent + step * last[1]
    return [number for _, number in digits]


def _parted(total: Sum, ids: set[ir.Value]) -> tuple[dict[ir.Value, int], Sum]:
    """The terms of an index that all threads in question agree on, and the other ones."""
    agreed = {v: n for v, n in total.terms.items() if _is_agreed(v, ids)}
    known = ids | set(agreed)
    kept = {v: n for v, n in total.terms.items() if v not in known}
    return agreed, Sum(kept, total.constant)


def _is_agreed(value: ir.Value, ids: set[ir.Value]) -> bool:
    """Whether a value is a size, or a number of a block that all threads in question are of."""
    if not isinstance(value.owner, ir.Block):
        return False
    holder = value.owner.owner.operation.name
    is_thread = any(ir.BlockArgument(n).arg_number in _THREADS for n in ids)
    is_block = holder == "gpu.launch" and ir.BlockArgument(value).arg_number in _BLOCKS
    return holder == "func.func" or (is_thread and is_block)

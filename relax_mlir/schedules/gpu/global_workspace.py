"""Global buffers through which the threads of a block communicate within a launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir

from relax_mlir.analysis.index_maps import constant_of
from relax_mlir.errors import PassError
from relax_mlir.ir.traversal import values_read, walk
from relax_mlir.objects.write.memref import base_buffer
from relax_mlir.schedules.gpu.affine_index import (
    ACCESSES,
    STORES,
    BufferAccess,
    access_at,
    accessed_range,
    argument_range,
    span_of,
)
from relax_mlir.schedules.gpu.memory_spaces import is_launch_local
from relax_mlir.symbolic.affine_forms import AffineForm
from relax_mlir.symbolic.intervals import UNBOUNDED, span

__all__ = ["cross_thread_buffers"]

_BLOCKS, _THREADS = range(3), range(3, 6)  # block arguments of a launch


def cross_thread_buffers(launch: ir.Block) -> frozenset[ir.Value]:
    """Buffers that outlive a launch and carry values between threads of a block.

    A thread may read and overwrite its own values: if all accesses to a buffer have the same
    index expressions, or if each thread has a range of some dimension to itself.

    Raises:
        PassError: a buffer carries values between blocks, which cannot synchronize.
    """
    found = set()
    for buffer, uses in _uses(launch).items():
        accesses = [use for use in uses if isinstance(use, BufferAccess)]
        is_known = len(accesses) == len(uses)
        for positions, are_blocks in ((_BLOCKS, True), (_THREADS, False)):
            ids = [launch.arguments[n] for n in positions if _count(launch, n) != 1]
            if not ids or (is_known and _are_disjoint(accesses, ids)):
                continue
            if are_blocks:
                raise PassError(
                    f"{launch.owner.location}: blocks of a launch pass values to each other "
                    f"through `{buffer.type}`, and cannot synchronize: expected separate "
                    "loops bound to `blockIdx` for the later accesses"
                )
            found.add(buffer)
    return frozenset(found)


def _count(launch: ir.Block, position: int) -> int | None:
    """The extent of a launch axis, if it is a constant."""
    return constant_of(launch.owner.operands[position])


def _uses(launch: ir.Block) -> dict[ir.Value, list[BufferAccess | None]]:
    """Uses of the buffers that are written and also used otherwise; None if unanalyzable."""
    uses: dict[ir.Value, list[BufferAccess | None]] = {}
    written: set[ir.Value] = set()
    for operation in walk(launch):
        name = operation.operation.name
        for place, value in enumerate(operation.operation.operands):
            is_buffer = isinstance(value.type, ir.MemRefType)
            if not is_buffer or not _is_live_after(base_buffer(value)):
                continue
            if any(isinstance(r.type, ir.MemRefType) for r in operation.results):
                continue  # a view: its uses count
            root = base_buffer(value)
            is_plain = name in ACCESSES and root == value
            uses.setdefault(root, []).append(
                access_at(operation, place) if is_plain else None
            )
            if name not in ACCESSES or STORES.get(name) == place:
                written.add(root)
    return {b: found for b, found in uses.items() if b in written and len(found) > 1}


def _is_live_after(buffer: ir.Value) -> bool:
    """Whether a buffer is live after the launch."""
    is_argument = isinstance(buffer.owner, ir.Block)
    is_private_alloca = not is_argument and buffer.owner.name == "memref.alloca"
    return not is_private_alloca and not is_launch_local(buffer)


def _are_disjoint(accesses: Sequence[BufferAccess], ids: Sequence[ir.Value]) -> bool:
    """Whether threads (or blocks) of different ids never access the same element."""
    if len({_indices_key(access) for access in accesses}) == 1:
        return all(_depends_on_id(accesses[0], id_) for id_ in ids)
    dimensions = range(len(accesses[0].indices))
    determined = {n for d in dimensions for n in _determined_ids(accesses, d, ids)}
    determined.update(id_ for id_ in ids if _is_div_mod_indexed(accesses, id_))
    return determined.issuperset(ids)


def _is_div_mod_indexed(accesses: Sequence[BufferAccess], id_: ir.Value) -> bool:
    """Whether two indices of all accesses are ``id // c`` and ``id % c``."""
    divisors: dict[str, set[int]] = {"div": set(), "rem": set()}
    for same_dim in zip(*(access.indices for access in accesses), strict=True):
        divisions = {_division(total, id_) for total in same_dim}
        division = divisions.pop()
        if division is not None and not divisions:
            divisors[division[0]].add(division[1])
    return not divisors["div"].isdisjoint(divisors["rem"])


def _division(total: AffineForm[ir.Value], id_: ir.Value) -> tuple[str, int] | None:
    """The kind and divisor of an index ``id // c`` or ``id % c``; None for others."""
    if len(total.coefficients) != 1 or total.constant:
        return None
    ((value, coefficient),) = total.coefficients.items()
    owner = value.owner
    if coefficient != 1 or isinstance(owner, ir.Block) or owner.name not in _DIVISIONS:
        return None
    divisor = constant_of(owner.operands[1])
    if owner.operands[0] != id_ or divisor is None or divisor < 1:
        return None
    return _DIVISIONS[owner.name], divisor


_DIVISIONS = {
    **dict.fromkeys(("arith.divsi", "arith.divui", "arith.floordivsi"), "div"),
    **dict.fromkeys(("arith.remsi", "arith.remui"), "rem"),
}


def _depends_on_id(access: BufferAccess, id_: ir.Value) -> bool:
    return any(
        _is_computed_from(v, id_)
        for total in access.indices
        for v in total.coefficients
    )


def _is_computed_from(value: ir.Value, id_: ir.Value) -> bool:
    owner = value.owner
    if isinstance(owner, ir.Block):
        return value == id_
    return any(_is_computed_from(v, id_) for v in values_read(owner))


def _indices_key(access: BufferAccess) -> Any:  # Any: nested tuples
    """Structural key of the indices; loops with equal bounds are equal."""
    sums = (
        (
            total.constant,
            frozenset((_index_key(v), n) for v, n in total.coefficients.items()),
        )
        for total in access.indices
    )
    return (access.lanes, *sums)


def _index_key(value: ir.Value) -> Any:  # Any: nested tuples
    owner = value.owner
    if isinstance(owner, ir.Block):
        is_counter = owner.owner.operation.name == "scf.for"
        known = argument_range(value) if is_counter else UNBOUNDED
        return value if known == UNBOUNDED else known
    if not owner.name.startswith("arith."):
        return value
    return (owner.name, constant_of(value), *map(_index_key, owner.operands))


def _determined_ids(
    accesses: Sequence[BufferAccess], dimension: int, ids: Sequence[ir.Value]
) -> list[ir.Value]:
    """The ids that an index determines uniquely, as digits of a mixed-radix number."""
    sums = [access.indices[dimension] for access in accesses]
    digits: dict[ir.Value, int] = {}
    for id_ in ids:
        steps = {total.coefficients.get(id_, 0) for total in sums}
        if len(steps) != 1:
            return []
        digits.update((id_, step) for step in steps if step > 0)
    id_set = {*ids}
    uniform, remainders = zip(
        *(_split_uniform(total, id_set) for total in sums), strict=True
    )
    if any(terms != uniform[0] for terms in uniform):
        return []
    is_last = dimension == len(accesses[0].indices) - 1
    accessed = accessed_range(
        remainders, [access.lanes if is_last else 1 for access in accesses]
    )
    is_unique = AffineForm(digits).determines_variables(span_of, span(accessed))
    return list(digits) if is_unique else []


def _split_uniform(
    total: AffineForm[ir.Value], ids: set[ir.Value]
) -> tuple[dict[ir.Value, int], AffineForm[ir.Value]]:
    """Splits an index into terms that are uniform over the ids, and the rest without ids."""
    uniform = {v: n for v, n in total.coefficients.items() if _is_uniform(v, ids)}
    return uniform, total.restricted(lambda v: v not in ids and v not in uniform)


def _is_uniform(value: ir.Value, ids: set[ir.Value]) -> bool:
    """Whether a value is uniform over the ids: a size, or the block id for thread ids."""
    if not isinstance(value.owner, ir.Block):
        return False
    parent_name = value.owner.owner.operation.name
    is_thread = any(ir.BlockArgument(n).arg_number in _THREADS for n in ids)
    is_block = (
        parent_name == "gpu.launch" and ir.BlockArgument(value).arg_number in _BLOCKS
    )
    return parent_name == "func.func" or (is_thread and is_block)

"""Buffers of threads and of blocks of threads: as large as what one of them touches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir

from relax_mlir.errors import PassError
from relax_mlir.objects.memrefs import VIEWS, whole_buffer
from relax_mlir.rewriting import erase, walk
from relax_mlir.schedules.emit import index, op
from relax_mlir.schedules.gpu.combinations import reaches
from relax_mlir.schedules.gpu.index_sums import (
    ACCESSES,
    STORES,
    Access,
    Sum,
    access_at,
    emit_sum,
    key_of,
    range_of,
    range_of_counter,
    span,
)
from relax_mlir.schedules.gpu.launch import alloc_shared

__all__ = [
    "is_apart",
    "is_of_threads",
    "is_private",
    "is_shared",
    "place_buffers",
]


def is_shared(buffer: ir.Value) -> bool:
    """Whether the threads of a block share it."""
    return "workgroup" in str(ir.MemRefType(buffer.type).memory_space)


def is_private(buffer: ir.Value) -> bool:
    """Whether each thread has its own."""
    return "private" in str(ir.MemRefType(buffer.type).memory_space)


def is_of_threads(buffer: ir.Value) -> bool:
    """Whether it lives as long as a launch, at most."""
    return is_shared(buffer) or is_private(buffer)


def place_buffers(launch: ir.Block) -> None:
    """Move buffers of threads that a launch uses into it.

    Where all accesses to a dimension begin at the same place, as far as loops around all
    of them and numbers of blocks tell, and numbers of threads for memory of their own, it
    shrinks to what lies behind that place.

    Raises:
        PassError: the size of a buffer is not known.
    """
    found: dict[ir.Value, list[tuple[ir.OpView, int]]] = {}
    views: set[ir.Value] = set()
    for operation in walk(launch):
        for place, value in enumerate(operation.operation.operands):
            if not isinstance(value.type, ir.MemRefType):
                continue
            root = whole_buffer(value)
            if isinstance(root.owner, ir.Block) or not is_of_threads(root):
                continue
            found.setdefault(root, []).append((operation, place))
            if value != root or operation.operation.name not in ACCESSES:
                views.add(root)
    for buffer, uses in found.items():
        if buffer.owner.operation.block != launch:
            accesses = [] if buffer in views else [access_at(*use) for use in uses]
            _place(launch, buffer, accesses)


def is_apart(store: ir.OpView, loop: ir.OpView) -> bool:
    """Whether turns of a loop store to different elements, whatever threads do so."""
    access = access_at(store, STORES[store.operation.name])
    type_ = ir.MemRefType(store.operands[access.first - 1].type)
    if access.lanes != 1 or any(size < 0 for size in type_.shape):
        return False
    total = Sum({})
    for size, place in zip(type_.shape, access.sums, strict=True):
        total = place.plus(total, size)
    counter = loop.regions[0].blocks[0].arguments[0]
    moving = [
        (abs(times), value)
        for value, times in total.terms.items()
        if not _is_of_ids(value, is_private=False) and not _counts_around(value, loop)
    ]
    extent = 1
    for step, value in sorted(moving, key=lambda term: term[0]):
        turns = range_of(value)
        if step < extent or turns is None:
            return False
        extent += step * (turns[1] - turns[0])
    return counter in total.terms


def _counts_around(value: ir.Value, loop: ir.OpView) -> bool:
    """Whether a value is the variable of a loop around another one."""
    owner = value.owner
    holder = loop.operation.parent
    while isinstance(owner, ir.Block) and holder.name != "gpu.launch":
        if holder == owner.owner.operation:
            return True
        holder = holder.parent
    return False


def _place(launch: ir.Block, buffer: ir.Value, accesses: Sequence[Access]) -> None:
    type_ = ir.MemRefType(buffer.type)
    sizes = list(type_.shape)
    for dimension in range(len(sizes) if accesses else 0):
        sizes[dimension] = _shrink(buffer, accesses, dimension)
    if any(size < 0 for size in sizes):
        raise PassError(
            f"{buffer.owner.location}: the size of a buffer of threads is not known: "
            f"expected numbers, got `{type_}`"
        )
    with ir.InsertionPoint.at_block_begin(launch), buffer.owner.location:
        made = _alloc(buffer, sizes)
    buffer.replace_all_uses_with(made)
    for operation in walk(launch):
        _spread_memory(operation)
    erase(buffer.owner)


def _alloc(buffer: ir.Value, sizes: list[int]) -> ir.Value:
    element = ir.MemRefType(buffer.type).element_type
    if is_shared(buffer):
        return alloc_shared(sizes, element)
    segments = ir.DenseI32ArrayAttr.get([0, 0])
    type_ = ir.MemRefType.get(sizes, element)
    return op("memref.alloca", type_, operandSegmentSizes=segments)


def _spread_memory(operation: ir.OpView) -> None:
    """Let a view lie in the memory of what it is a view of."""
    if operation.operation.name in VIEWS:
        source = ir.MemRefType(operation.operands[0].type)
        result = operation.operation.results[0]
        own = ir.MemRefType(result.type)
        if own.memory_space != source.memory_space:
            shape = list(own.shape)
            type_ = ir.MemRefType.get(
                shape, own.element_type, own.layout, source.memory_space
            )
            result.set_type(type_)


def _shrink(buffer: ir.Value, accesses: Sequence[Access], dimension: int) -> int:
    """Let a dimension begin where all accesses to it begin; its size then."""
    shape = ir.MemRefType(buffer.type).shape
    size, is_last = shape[dimension], dimension == len(shape) - 1
    sums = [a.sums[dimension] for a in accesses]
    lanes = [a.lanes if is_last else 1 for a in accesses]
    shared = {key_of(v): (v, times) for v, times in sums[0].terms.items()}
    for total in sums[1:]:
        keys = {key_of(v): times for v, times in total.terms.items()}
        shared = {k: e for k, e in shared.items() if keys.get(k) == e[1]}
    ids = {
        k: e
        for k, e in shared.items()
        if _is_of_ids(e[0], is_private=is_private(buffer))
    }
    counters = [(k, v, abs(n)) for k, (v, n) in shared.items() if _is_counter(v)]
    counters.sort(key=lambda counter: -counter[2])
    # A turn of a loop must not touch elements that another turn of it does.
    while True:
        fixed = {*ids, *(key for key, _, _ in counters)}
        rests = [_without(total, fixed) for total in sums]
        extents = span(rests, lanes)
        if extents is None:
            return size
        low, extent = extents
        steps = [(value, times) for _, value, times in counters]
        if _is_apart(steps, extent) and _begin_anew(steps, accesses[0]):
            break
        counters = counters[:-1]
    if 0 <= size <= extent:
        return size
    for access, rest in zip(accesses, rests, strict=True):
        operation = access.operation
        with ir.InsertionPoint(operation), operation.location:
            place = emit_sum(rest.plus(Sum({}, low), -1))
            operation.operation.operands[access.first + dimension] = index(place)
    return extent


def _is_of_ids(value: ir.Value, *, is_private: bool) -> bool:
    """Whether those that see a buffer agree on a value, through all of a launch."""
    owner = value.owner
    if not isinstance(owner, ir.Block):
        is_pure = owner.name.startswith("arith.")
        return is_pure and all(
            _is_of_ids(v, is_private=is_private) for v in owner.operands
        )
    holder = owner.owner.operation.name
    if holder != "gpu.launch":
        return holder == "func.func"
    return is_private or ir.BlockArgument(value).arg_number not in (3, 4, 5)


def _is_counter(value: ir.Value) -> bool:
    owner = value.owner
    return isinstance(owner, ir.Block) and owner.owner.operation.name == "scf.for"


def _without(total: Sum, keys: set[Any]) -> Sum:  # Any: of key_of
    kept = {v: times for v, times in total.terms.items() if key_of(v) not in keys}
    return Sum(kept, total.constant)


def _is_apart(counters: Sequence[tuple[ir.Value, int]], extent: int) -> bool:
    """Whether no two turns of loops touch the same element.

    Args:
        counters: of the loops, the longest steps first; extent: what a turn touches.
    """
    known: int | None = extent
    for value, step in reversed(counters):
        if known is None or step < known:
            return False
        turns = range_of_counter(value)
        known = None if turns is None else known + step * (turns[1] - turns[0])
    return True


def _begin_anew(counters: Sequence[tuple[ir.Value, int]], first: Access) -> bool:
    """Whether turns of loops that a buffer is not indexed by write it before they read.

    Args:
        counters: of loops that it is indexed by; first: the access that comes first.
    """
    if not counters:
        return True
    held = [c.owner.owner.operation for c, _ in counters]
    conditions: list[ir.Value] = []
    others: set[ir.Value] = set()
    is_inside = True  # of the innermost of them
    current = first.operation.operation.parent
    while current.name != "gpu.launch":
        if current in held:
            is_inside = False
        elif current.name == "scf.if":
            conditions.append(current.operands[0])
        elif not is_inside:
            others.add(current.regions[0].blocks[0].arguments[0])
        current = current.parent
    if not others:
        return True
    is_store = first.operation.operation.name in STORES
    return is_store and not any(reaches(c, others) for c in conditions)

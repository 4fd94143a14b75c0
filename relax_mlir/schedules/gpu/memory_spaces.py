"""Shared and private buffers: moved into the launch, and compacted to the accessed region."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mlir import ir

from relax_mlir.errors import PassError
from relax_mlir.ir.traversal import walk
from relax_mlir.objects.write.memref import VIEWS, base_buffer
from relax_mlir.rewrite.patterns import erase
from relax_mlir.schedules.builder import index, op
from relax_mlir.schedules.gpu.affine_index import (
    ACCESSES,
    STORES,
    BufferAccess,
    access_at,
    accessed_range,
    emit_affine_sum,
    span_of,
    structural_key,
)
from relax_mlir.schedules.gpu.combiner_reader import depends_on
from relax_mlir.schedules.gpu.launch import alloc_shared
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = [
    "compact_buffers",
    "is_launch_local",
    "is_private",
    "is_shared",
    "stores_distinct_elements",
]


def is_shared(buffer: ir.Value) -> bool:
    """Whether a buffer is in shared memory."""
    return "workgroup" in str(ir.MemRefType(buffer.type).memory_space)


def is_private(buffer: ir.Value) -> bool:
    """Whether a buffer is private to each thread."""
    return "private" in str(ir.MemRefType(buffer.type).memory_space)


def is_launch_local(buffer: ir.Value) -> bool:
    """Whether a buffer is in shared or private memory, and so lives within a launch."""
    return is_shared(buffer) or is_private(buffer)


def compact_buffers(launch: ir.Block) -> None:
    """Moves the shared and private buffers that a launch uses into it, and compacts them.

    A dimension shrinks to the extent of its accesses if these have a common base: a function
    of block ids, of the loops around all accesses, and, for private buffers, of thread ids.

    Raises:
        PassError: the size of a buffer is unknown.
    """
    found: dict[ir.Value, list[tuple[ir.OpView, int]]] = {}
    views: set[ir.Value] = set()
    for operation in walk(launch):
        for place, value in enumerate(operation.operation.operands):
            if not isinstance(value.type, ir.MemRefType):
                continue
            root = base_buffer(value)
            if isinstance(root.owner, ir.Block) or not is_launch_local(root):
                continue
            found.setdefault(root, []).append((operation, place))
            if value != root or operation.operation.name not in ACCESSES:
                views.add(root)
    for buffer, uses in found.items():
        if buffer.owner.operation.block != launch:
            accesses = [] if buffer in views else [access_at(*use) for use in uses]
            _compact(launch, buffer, accesses)


def stores_distinct_elements(store: ir.OpView, loop: ir.OpView) -> bool:
    """Whether iterations of a loop store to distinct elements, for any two threads."""
    access = access_at(store, STORES[store.operation.name])
    type_ = ir.MemRefType(store.operands[access.first - 1].type)
    if access.lanes != 1 or any(size < 0 for size in type_.shape):
        return False
    total = AffineForm[ir.Value]({})
    for size, place in zip(type_.shape, access.indices, strict=True):
        total = place.plus(total, size)
    induction_var = loop.regions[0].blocks[0].arguments[0]
    varying = total.restricted(
        lambda value: (
            not _is_launch_constant(value, is_private=False)
            and not _is_outer_loop(value, loop)
        )
    )
    is_distinct = varying.determines_variables(span_of, needs_every_span=True)
    return is_distinct and induction_var in total.coefficients


def _is_outer_loop(value: ir.Value, loop: ir.OpView) -> bool:
    """Whether a value is the induction variable of a loop around another one."""
    owner = value.owner
    parent = loop.operation.parent
    while isinstance(owner, ir.Block) and parent.name != "gpu.launch":
        if parent == owner.owner.operation:
            return True
        parent = parent.parent
    return False


def _compact(
    launch: ir.Block, buffer: ir.Value, accesses: Sequence[BufferAccess]
) -> None:
    type_ = ir.MemRefType(buffer.type)
    sizes = list(type_.shape)
    for dimension in range(len(sizes) if accesses else 0):
        sizes[dimension] = _shrink(buffer, accesses, dimension)
    if any(size < 0 for size in sizes):
        raise PassError(
            f"{buffer.owner.location}: the size of a shared or private buffer is unknown: "
            f"expected a static shape, got `{type_}`"
        )
    with ir.InsertionPoint.at_block_begin(launch), buffer.owner.location:
        allocated = _alloc(buffer, sizes)
    buffer.replace_all_uses_with(allocated)
    for operation in walk(launch):
        _propagate_memory_space(operation)
    erase(buffer.owner)


def _alloc(buffer: ir.Value, sizes: list[int]) -> ir.Value:
    element = ir.MemRefType(buffer.type).element_type
    if is_shared(buffer):
        return alloc_shared(sizes, element)
    segments = ir.DenseI32ArrayAttr.get([0, 0])
    type_ = ir.MemRefType.get(sizes, element)
    return op("memref.alloca", type_, operandSegmentSizes=segments)


def _propagate_memory_space(operation: ir.OpView) -> None:
    """Propagates the memory space of a buffer to a view of it."""
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


def _shrink(buffer: ir.Value, accesses: Sequence[BufferAccess], dimension: int) -> int:
    """Rebases a dimension to the common base of all accesses; returns its new extent."""
    shape = ir.MemRefType(buffer.type).shape
    size, is_last = shape[dimension], dimension == len(shape) - 1
    sums = [a.indices[dimension] for a in accesses]
    lanes = [a.lanes if is_last else 1 for a in accesses]
    shared = {
        structural_key(v): (v, coefficient)
        for v, coefficient in sums[0].coefficients.items()
    }
    for total in sums[1:]:
        keys = {
            structural_key(v): coefficient
            for v, coefficient in total.coefficients.items()
        }
        shared = {k: e for k, e in shared.items() if keys.get(k) == e[1]}
    id_terms = {
        k: e
        for k, e in shared.items()
        if _is_launch_constant(e[0], is_private=is_private(buffer))
    }
    induction_vars = [
        (k, v, abs(n)) for k, (v, n) in shared.items() if _is_induction_var(v)
    ]
    induction_vars.sort(key=lambda induction_var: -induction_var[2])
    # Iterations of a loop in the base must not share elements.
    while True:
        fixed = {*id_terms, *(key for key, _, _ in induction_vars)}
        remainders = [
            total.restricted(lambda v, keys=fixed: structural_key(v) not in keys)
            for total in sums
        ]
        low, high = accessed_range(remainders, lanes)
        if low is None or high is None:
            return size
        extent = high - low + 1
        # Smallest coefficient first, and inner loops before outer ones of the same.
        steps = AffineForm({v: n for _, v, n in reversed(induction_vars)})
        if steps.determines_variables(span_of, high - low) and _is_written_first(
            steps.coefficients, accesses[0]
        ):
            break
        induction_vars = induction_vars[:-1]
    if 0 <= size <= extent:
        return size
    for access, remainder in zip(accesses, remainders, strict=True):
        operation = access.operation
        with ir.InsertionPoint(operation), operation.location:
            place = emit_affine_sum(remainder.shifted(-low))
            operation.operation.operands[access.first + dimension] = index(place)
    return extent


def _is_launch_constant(value: ir.Value, *, is_private: bool) -> bool:
    """Whether a value is constant during a launch for all threads that see a buffer."""
    owner = value.owner
    if not isinstance(owner, ir.Block):
        is_pure = owner.name.startswith("arith.")
        return is_pure and all(
            _is_launch_constant(v, is_private=is_private) for v in owner.operands
        )
    parent = owner.owner.operation.name
    if parent != "gpu.launch":
        return parent == "func.func"
    return is_private or ir.BlockArgument(value).arg_number not in (3, 4, 5)


def _is_induction_var(value: ir.Value) -> bool:
    owner = value.owner
    return isinstance(owner, ir.Block) and owner.owner.operation.name == "scf.for"


def _is_written_first(
    induction_vars: Collection[ir.Value], first: BufferAccess
) -> bool:
    """Whether iterations of the loops that do not index a buffer write it before they read.

    Args:
        induction_vars: induction variables that index it; first: its first access.
    """
    if not induction_vars:
        return True
    indexing_loops = [v.owner.owner.operation for v in induction_vars]
    conditions: list[ir.Value] = []
    others: set[ir.Value] = set()
    is_inside = True  # the innermost of these loops
    current = first.operation.operation.parent
    while current.name != "gpu.launch":
        if current in indexing_loops:
            is_inside = False
        elif current.name == "scf.if":
            conditions.append(current.operands[0])
        elif not is_inside:
            others.add(current.regions[0].blocks[0].arguments[0])
        current = current.parent
    if not others:
        return True
    is_store = first.operation.operation.name in STORES
    return is_store and not any(depends_on(c, others) for c in conditions)

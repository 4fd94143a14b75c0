"""The ``cache_read``, ``cache_write`` and ``cache_inplace`` primitives: cache stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.dialects.tir.scalars import emit, from_memory, to_memory
from relax_mlir.errors import ScheduleError
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects.write.memref import retype_view
from relax_mlir.symbolic.dims import Dim
from relax_mlir.tvm.tir.schedule import (
    accesses,
    dependences,
    edit,
    legality,
    regions,
    tree,
)
from relax_mlir.tvm.tir.schedule.buffers import element_dtype
from relax_mlir.tvm.tir.schedule.edit import IterVarSpec
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols, simplify
from relax_mlir.tvm.tir.schedule.regions import Interval
from relax_mlir.tvm.tir.schedule.state import (
    ScheduleState,
    limits_at,
    loop_bounds,
    loop_var,
)
from relax_mlir.tvm.tir.schedule.whole_writes import check_complete_write

__all__ = [
    "alloc_buffer",
    "allocate_cache",
    "cache_inplace",
    "cache_read",
    "cache_write",
    "index_dtype",
    "insertion_point_at",
    "load_compute_element",
    "load_element",
    "only_writer",
    "read_stage_position",
    "to_storage_type",
    "write_stage_position",
]


@dataclass(frozen=True)
class _Stage:
    """A copy between a buffer and its cache.

    Attributes:
        buffer: the buffer.
        box: the region copied.
        is_whole: whether the cache has the shape of the buffer; else that of the box.
        scope_or_loop: the loop, block or PrimFunc that contains the copy.
        position: the index of the statement there that the copy precedes.
    """

    buffer: ir.Value
    box: Sequence[Interval]
    is_whole: bool
    scope_or_loop: ir.Operation
    position: int


def alloc_buffer(
    scope: ir.Operation,
    shape: Sequence[Dim],
    like: ir.Value,
    name: str,
    memory: str,
    indices: IndexSymbols,
) -> ir.Value:
    """Allocates a buffer in a block or PrimFunc, after its other allocations.

    Args:
        scope: the block or the PrimFunc.
        shape: the shape.
        like: a buffer of the same element type.
        name: the name.
        memory: the storage scope.
    """
    element = ir.MemRefType(like.type).element_type
    attributes = accesses.buffer_dtype_attributes(like)
    return alloc_typed(scope, shape, element, name, memory, attributes, indices)


def alloc_typed(
    scope: ir.Operation,
    shape: Sequence[Dim],
    element: ir.Type,
    name: str,
    memory: str,
    attributes: Mapping[str, ir.Attribute],
    indices: IndexSymbols,
) -> ir.Value:
    """Allocates a buffer of an element type; see :func:`alloc_buffer`.

    Args:
        attributes: further attributes of the buffer.
    """
    dynamic = ir.ShapedType.get_dynamic_size()
    space = None if memory in ("global", "") else ir.StringAttr.get(memory)
    sizes = [d if isinstance(d, int) else dynamic for d in shape]
    type_ = ir.MemRefType.get(sizes, element, memory_space=space)
    with ir.InsertionPoint(_after_allocations(scope)):
        op = ir.Operation.create(
            "tir.alloc_buffer",
            results=[type_],
            operands=[indices.emit(d) for d in shape if not isinstance(d, int)],
            attributes={
                "shape": tensors.shape_attr(shape),
                attribute_names.NAME: ir.StringAttr.get(name),
                **attributes,
            },
        )
    return op.results[0]


def _after_allocations(scope: ir.Operation) -> ir.Operation:
    """The first operation after the allocations of a block or PrimFunc."""
    listed = [op.operation for op in own_operations(tree.body(scope))]
    last = max(
        (n for n, op in enumerate(listed) if op.name == "tir.alloc_buffer"), default=-1
    )
    return listed[last + 1]


def cache_read(
    state: ScheduleState,
    block: ir.Operation,
    number: int,
    memory: str,
    consumers: Sequence[ir.Operation],
) -> ir.Operation:
    """Redirect reads of a buffer to a copy; see :meth:`Schedule.cache_read`."""
    accesses.check_storage_scope(memory, "cache_read")
    buffer = accesses.buffer_at_index(block, number, "cache_read", is_write=False)
    scope = tree.scope_of(block)
    writer = only_writer(scope, buffer, "cache_read")
    readers = accesses.readers_of(scope, buffer)
    readers = [r for r in readers if writer is None or r != writer]
    redirected = list(consumers) or readers
    if not redirected:
        raise ScheduleError(
            f"cache_read: {tree.describe(block)} writes `{accesses.buffer_name(buffer)}`, "
            "too, and no other block reads it: expected a reader. Hint: see `cache_inplace`"
        )
    legality.check_outside_init(
        redirected if writer is None else [*redirected, writer], "cache_read"
    )
    with state.change(block) as indices:
        stage = _read_stage(scope, buffer, writer, redirected, readers, indices)
        return _cache(stage, scope, redirected, memory, indices, is_read=True)


def only_writer(
    scope: ir.Operation, buffer: ir.Value, where: str
) -> ir.Operation | None:
    """The only block of a scope that writes a buffer, or None.

    Raises:
        ScheduleError: there are several.
    """
    found = accesses.writers_of(scope, buffer)
    if len(found) > 1:
        raise ScheduleError(
            f"{where}: {len(found)} blocks write `{accesses.buffer_name(buffer)}`: "
            "expected at most one in the scope"
        )
    return found[0] if found else None


def _read_stage(
    scope: ir.Operation,
    buffer: ir.Value,
    writer: ir.Operation | None,
    consumers: Sequence[ir.Operation],
    readers: Sequence[ir.Operation],
    indices: IndexSymbols,
) -> _Stage:
    if writer is None or _comes_later(scope, writer, consumers):
        is_root = tree.is_function(scope)
        whole_buffer = [Interval(0, size - 1) for size in accesses.buffer_shape(buffer)]
        box = regions.block_box(scope, buffer, indices, is_write=False)
        found = whole_buffer
        if not is_root and box is not None:
            found = legality.clip_to_buffer(box, buffer, scope, indices)
        return _Stage(buffer, found, is_root, scope, 0)
    _check_read_later(scope, writer, consumers, buffer)
    scope_or_loop, first = read_stage_position(scope, writer, consumers)
    if buffer not in accesses.allocated_buffers(scope):
        for reader in consumers:
            _check_reads_copied(scope_or_loop, reader, writer, buffer, indices)
    return _stage_after(writer, buffer, scope_or_loop, first, readers, indices)


def _check_read_later(
    scope: ir.Operation,
    writer: ir.Operation,
    consumers: Sequence[ir.Operation],
    buffer: ir.Value,
) -> None:
    """Reject consumers before the block that produces the cached buffer."""
    listed = tree.blocks_below(scope)
    later = listed[listed.index(writer) + 1 :]
    for reader in consumers:
        if reader not in later:
            raise ScheduleError(
                f"cache_read: {tree.describe(reader)} does not follow "
                f"{tree.describe(writer)}, which writes "
                f"`{accesses.buffer_name(buffer)}`: expected readers after it"
            )


def _check_reads_copied(
    scope_or_loop: ir.Operation,
    reader: ir.Operation,
    writer: ir.Operation,
    buffer: ir.Value,
    indices: IndexSymbols,
) -> None:
    """Reject reads of elements that the copied region does not cover."""
    limits, upper_bounds = (
        limits_at(indices, scope_or_loop),
        legality.upper_bounds_at(indices, scope_or_loop),
    )
    copied = _box_at(scope_or_loop, writer, buffer, indices, writes_only=True)
    read = _box_at(scope_or_loop, reader, buffer, indices)
    if not legality.is_box_inside(read, copied, limits, upper_bounds):
        raise ScheduleError(
            f"cache_read: {tree.describe(reader)} may read elements of "
            f"`{accesses.buffer_name(buffer)}` that {tree.describe(writer)} does not "
            "write, or not yet: expected it to read what is copied"
        )


def read_stage_position(
    scope: ir.Operation, writer: ir.Operation | None, readers: Sequence[ir.Operation]
) -> tuple[ir.Operation, int]:
    """The position of a cache read stage: the loop or scope, and the statement it precedes."""
    if writer is None or _comes_later(scope, writer, readers):
        return scope, 0
    scope_or_loop = tree.innermost_common_ancestor(writer, readers)
    inside = set(tree.subtree(scope_or_loop))
    return scope_or_loop, min(
        tree.statement_index(scope_or_loop, r) for r in readers if r in inside
    )


def _comes_later(
    scope: ir.Operation, writer: ir.Operation, readers: Sequence[ir.Operation]
) -> bool:
    """Whether a writer runs once and after the readers, which then see the earlier value."""
    listed = tree.blocks_below(scope)
    later = all(listed.index(r) < listed.index(writer) for r in readers if r in listed)
    scope_or_loop = tree.innermost_common_ancestor(writer, readers)
    around = (
        []
        if scope_or_loop == scope
        else [*tree.enclosing_loops(scope_or_loop), scope_or_loop]
    )
    indices = IndexSymbols()
    return later and all(loop_bounds(indices, loop)[1] == 1 for loop in around)


def write_stage_position(
    scope: ir.Operation, writer: ir.Operation, readers: Sequence[ir.Operation]
) -> tuple[ir.Operation, int]:
    """The position of a cache write stage: the loop or scope, and the statement it precedes."""
    if not readers:
        return scope, len(tree.children(scope))
    scope_or_loop = tree.innermost_common_ancestor(writer, readers)
    return scope_or_loop, tree.statement_index(scope_or_loop, writer) + 1


def _stage_after(
    writer: ir.Operation,
    buffer: ir.Value,
    scope_or_loop: ir.Operation,
    position: int,
    readers: Sequence[ir.Operation],
    indices: IndexSymbols,
) -> _Stage:
    """The stage that copies what a block writes over the loops inside ``scope_or_loop``."""
    inside = set(tree.subtree(scope_or_loop)) - {scope_or_loop}
    box = _box_at(scope_or_loop, writer, buffer, indices, writes_only=True)
    is_whole = not tree.is_block(scope_or_loop) or not all(r in inside for r in readers)
    return _Stage(buffer, box, is_whole, scope_or_loop, position)


def _box_at(
    scope_or_loop: ir.Operation,
    block: ir.Operation,
    buffer: ir.Value,
    indices: IndexSymbols,
    *,
    writes_only: bool = False,
) -> list[Interval]:
    """The box that a block accesses over the loops inside ``scope_or_loop``."""
    inside = set(tree.subtree(scope_or_loop)) - {scope_or_loop}
    boxes = [
        regions.accessed_box(a, indices, lambda op: op in inside)
        for a in accesses.accesses_in(block)
        if a.buffer == buffer and (a.is_write or not writes_only)
    ]
    box = regions.bounding_box(boxes, limits_at(indices, scope_or_loop))
    assert box is not None
    return legality.clip_to_buffer(box, buffer, scope_or_loop, indices)


def cache_write(
    state: ScheduleState,
    block: ir.Operation,
    number: int,
    memory: str,
    consumers: Sequence[ir.Operation],
) -> ir.Operation:
    """Redirect writes of a buffer to a cache; see :meth:`Schedule.cache_write`."""
    accesses.check_storage_scope(memory, "cache_write")
    buffer = accesses.buffer_at_index(block, number, "cache_write", is_write=True)
    scope = tree.scope_of(block)
    writer = only_writer(scope, buffer, "cache_write")
    if writer != block:
        raise ScheduleError(
            f"cache_write: {tree.describe(block)} is not the block that writes "
            f"`{accesses.buffer_name(buffer)}`"
        )
    legality.check_outside_init([block, *consumers], "cache_write")
    dependences.check_no_control_dependence(block, "cache_write")
    check_holds_no_earlier_value(scope, block, buffer, "cache_write")
    readers = [r for r in accesses.readers_of(scope, buffer) if r != block]
    with state.change(block) as indices:
        others = [r for r in readers if r not in consumers]
        scope_or_loop, position = write_stage_position(scope, block, others)
        stage = _stage_after(block, buffer, scope_or_loop, position, readers, indices)
        check_complete_write(
            block,
            scope_or_loop,
            buffer,
            stage.box,
            lambda box: legality.clip_to_buffer(box, buffer, scope_or_loop, indices),
            indices,
            "cache_write",
        )
        users = [block, *consumers]
        return _cache(stage, scope, users, memory, indices, is_read=False)


def check_holds_no_earlier_value(
    scope: ir.Operation, block: ir.Operation, buffer: ir.Value, where: str
) -> None:
    """Reject write caches of in-place updates: the cache lacks the earlier value."""
    is_own = buffer in accesses.allocated_buffers(scope)
    if is_own or buffer not in accesses.buffers_read(block):
        return
    raise ScheduleError(
        f"{where}: {tree.describe(block)} reads `{accesses.buffer_name(buffer)}`, which it "
        "writes, and which has a value from outside of the scope: expected a block that "
        "only writes it. Hint: `cache_inplace` copies both ways"
    )


def cache_inplace(
    state: ScheduleState, block: ir.Operation, number: int, memory: str
) -> list[ir.Operation]:
    """Redirect an in-place update to a cache; see :meth:`Schedule.cache_inplace`."""
    accesses.check_storage_scope(memory, "cache_inplace")
    buffer = accesses.buffer_at_index(block, number, "cache_inplace", is_write=False)
    if buffer not in accesses.buffers_written(block):
        raise ScheduleError(
            f"cache_inplace: {tree.describe(block)} does not write "
            f"`{accesses.buffer_name(buffer)}`: expected a buffer that it reads and writes"
        )
    scope = tree.scope_of(block)
    legality.check_outside_init([block], "cache_inplace")
    with state.change(block) as indices:
        scope_or_loop = tree.parent_of(tree.realize_of(block))
        position = tree.statement_index(scope_or_loop, block)
        box = _box_at(scope_or_loop, block, buffer, indices)
        before = _Stage(buffer, box, True, scope_or_loop, position)
        after = _Stage(buffer, box, True, scope_or_loop, position + 1)
        cached = _allocate(before, scope, memory, indices)
        copy_out = _copy_block(after, cached, indices, is_read=False)
        copy_in = _copy_block(before, cached, indices, is_read=True)
        _redirect(block, before, cached, indices)
        return [copy_in, copy_out]


def _cache(
    stage: _Stage,
    scope: ir.Operation,
    users: Sequence[ir.Operation],
    memory: str,
    indices: IndexSymbols,
    *,
    is_read: bool,
) -> ir.Operation:
    cached = _allocate(stage, scope, memory, indices)
    made = _copy_block(stage, cached, indices, is_read=is_read)
    for user in users:
        _redirect(user, stage, cached, indices)
    return made


def _allocate(
    stage: _Stage, scope: ir.Operation, memory: str, indices: IndexSymbols
) -> ir.Value:
    shape: Sequence[Dim] = accesses.buffer_shape(stage.buffer)
    if not stage.is_whole:
        limits = limits_at(indices, stage.scope_or_loop)
        extents = [simplify(interval.extent, limits) for interval in stage.box]
        if any(isinstance(extent, int) and extent < 1 for extent in extents):
            raise ScheduleError(
                f"no element of `{accesses.buffer_name(stage.buffer)}` is accessed: expected "
                "a block that reads or writes some where its predicates hold"
            )
        # The shape of a buffer is invariant in the loops around.
        shape = [
            e if indices.is_size(e) else size
            for e, size in zip(extents, shape, strict=True)
        ]
    return allocate_cache(scope, stage.buffer, memory, indices, shape)


def allocate_cache(
    scope: ir.Operation,
    buffer: ir.Value,
    memory: str,
    indices: IndexSymbols,
    shape: Sequence[Dim] | None = None,
) -> ir.Value:
    """Allocates the cache of a buffer; see :func:`alloc_buffer`."""
    sizes = accesses.buffer_shape(buffer) if shape is None else shape
    name = f"{accesses.buffer_name(buffer)}_{memory.replace('.', '_')}"
    return alloc_buffer(scope, sizes, buffer, name, memory, indices)


def _copy_block(
    stage: _Stage, cached: ir.Value, indices: IndexSymbols, *, is_read: bool
) -> ir.Operation:
    """Creates loops ``ax0``, ... around a block that copies one element."""
    limits = limits_at(indices, stage.scope_or_loop)
    extents = [simplify(interval.extent, limits) for interval in stage.box]
    dtype = index_dtype(stage.buffer)
    scope_or_loop, values = insertion_point_at(stage.scope_or_loop, stage.position), []
    for number, (interval, extent) in enumerate(zip(stage.box, extents, strict=True)):
        with scope_or_loop:
            attributes = edit.loop_attributes(f"ax{number}", dtype=dtype)
            loop = edit.make_loop(indices, extent, attributes)
        scope_or_loop = edit.insertion_point_before(edit.terminator(tree.body(loop)))
        var = indices.of(loop_var(loop))
        values.append(interval.low + var if stage.is_whole else var)
    sizes = accesses.buffer_shape(stage.buffer) if stage.is_whole else extents
    axes = [IterVarSpec("S", size, f"v{n}", dtype) for n, size in enumerate(sizes)]
    with scope_or_loop:
        emitted = [indices.emit(v) for v in values]
        block = edit.make_block(
            accesses.buffer_name(cached), axes, emitted, indices.emit
        )
    _copy_element(block, stage, cached, indices, is_read=is_read)
    return block


def insertion_point_at(scope_or_loop: ir.Operation, position: int) -> ir.InsertionPoint:
    """The insertion point before a statement of a loop or scope, or at the end."""
    statements = tree.children(scope_or_loop)
    if position < len(statements):
        return edit.insertion_point_before(statements[position])
    return edit.insertion_point_before(edit.terminator(tree.body(scope_or_loop)))


def index_dtype(buffer: ir.Value) -> str:
    """The dtype of loop variables over a buffer."""
    attributes = accesses.buffer_dtype_attributes(buffer).get(
        attribute_names.SIZE_DTYPE
    )
    return "int32" if attributes is None else ir.StringAttr(attributes).value


def _copy_element(
    block: ir.Operation,
    stage: _Stage,
    cached: ir.Value,
    indices: IndexSymbols,
    *,
    is_read: bool,
) -> None:
    inner = edit.create_region(block, 1)
    iters = list(inner.arguments)
    with edit.insertion_point_before(edit.terminator(inner)):
        buffer_indices = iters
        if not stage.is_whole:
            buffer_indices = [
                indices.emit(interval.low + indices.of(p))
                for interval, p in zip(stage.box, iters, strict=True)
            ]
        sides = [(stage.buffer, buffer_indices), (cached, iters)]
        (source, read_at), (target, write_at) = sides if is_read else sides[::-1]
        value = load_element(source, read_at)
        ir.Operation.create("memref.store", operands=[value, target, *write_at])


def load_element(buffer: ir.Value, indices_of_element: Sequence[ir.Value]) -> ir.Value:
    """Loads an element in its storage type; a bool is an ``i8`` of 0 or 1."""
    return to_storage_type(load_compute_element(buffer, indices_of_element), buffer)


def load_compute_element(
    buffer: ir.Value, element_indices: Sequence[ir.Value]
) -> ir.Value:
    """Loads an element in its compute type; a bool is an ``i1``."""
    type_ = ir.MemRefType(buffer.type).element_type
    loaded = emit("memref.load", type_, buffer, *element_indices)
    return from_memory(loaded, dtype(element_dtype(buffer))).value


def to_storage_type(value: ir.Value, buffer: ir.Value) -> ir.Value:
    """Converts a scalar to the storage type of a buffer."""
    return to_memory(value, dtype(element_dtype(buffer)))


def _redirect(
    user: ir.Operation, stage: _Stage, cached: ir.Value, indices: IndexSymbols
) -> None:
    """Redirect the accesses of a block to the cache."""
    for op in tree.subtree(user):
        for number, operand in enumerate(list(op.operands)):
            if operand != stage.buffer:
                continue
            op.operands[number] = cached
            if not stage.is_whole:
                _shift(op, number + 1, stage, indices)
    for op in tree.subtree(user):
        if op.name == "memref.subview":
            retype_view(op)


def _shift(op: ir.Operation, first: int, stage: _Stage, indices: IndexSymbols) -> None:
    """Subtract the origin of the box from the indices of an access."""
    with edit.insertion_point_before(op):
        for number, interval in enumerate(stage.box):
            old = indices.of(op.operands[first + number])
            op.operands[first + number] = indices.emit(old - interval.low)

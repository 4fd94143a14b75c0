"""Primitives that put a copy of a buffer between its writers and its readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.tir import marks
from relax_mlir.dialects.tir.scalars import emit, from_memory, to_memory
from relax_mlir.errors import ScheduleError
from relax_mlir.objects.memrefs import retype_view
from relax_mlir.tir.schedule import accesses, dependences, edit, legality, regions, tree
from relax_mlir.tir.schedule.buffers import element_dtype
from relax_mlir.tir.schedule.edit import Axis
from relax_mlir.tir.schedule.indices import Indices, simplify
from relax_mlir.tir.schedule.regions import Run
from relax_mlir.tir.schedule.state import (
    ScheduleState,
    limits_at,
    loop_bounds,
    loop_var,
)
from relax_mlir.tir.schedule.whole_writes import check_written
from relax_mlir.traversal import own_operations

__all__ = [
    "alloc_buffer",
    "allocate_cache",
    "as_stored",
    "cache_inplace",
    "cache_read",
    "cache_write",
    "load_element",
    "only_writer",
    "place_before",
    "place_behind",
    "read_element",
    "size_dtype",
    "statement_point",
]


@dataclass(frozen=True)
class _Stage:
    """A copy between a buffer and its cache.

    Attributes:
        buffer: the buffer.
        box: what is copied.
        is_whole: whether the cache has the shape of the buffer; else that of the box.
        place: the loop, block or program in which the copy stands.
        position: the statement there that it comes before.
    """

    buffer: ir.Value
    box: Sequence[Run]
    is_whole: bool
    place: ir.Operation
    position: int


def alloc_buffer(
    scope: ir.Operation,
    shape: Sequence[Dim],
    like: ir.Value,
    name: str,
    memory: str,
    indices: Indices,
) -> ir.Value:
    """A new buffer of a block or of the program, after those that it has.

    Args:
        scope: the block or the program.
        shape: its dimensions.
        like: a buffer of the same element type.
        name: what it is called.
        memory: the storage scope.
    """
    element = ir.MemRefType(like.type).element_type
    said = accesses.buffer_marks(like)
    return alloc_typed(scope, shape, element, name, memory, said, indices)


def alloc_typed(
    scope: ir.Operation,
    shape: Sequence[Dim],
    element: ir.Type,
    name: str,
    memory: str,
    said: Mapping[str, ir.Attribute],
    indices: Indices,
) -> ir.Value:
    """A new buffer of elements of a type; see :func:`alloc_buffer`.

    Args:
        said: what else the program remembers of it.
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
                marks.NAME: ir.StringAttr.get(name),
                **said,
            },
        )
    return op.results[0]


def _after_allocations(scope: ir.Operation) -> ir.Operation:
    """The first operation behind the buffers of a block or program."""
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
    """Let blocks read a copy of a buffer; see :meth:`Schedule.cache_read`."""
    accesses.check_storage_scope(memory, "cache_read")
    buffer = accesses.buffer_of(block, number, "cache_read", is_write=False)
    scope = tree.scope_of(block)
    writer = only_writer(scope, buffer, "cache_read")
    found = accesses.readers_of(scope, buffer)
    readers = [r for r in found if writer is None or r != writer]
    wanted = list(consumers) or readers
    if not wanted:
        raise ScheduleError(
            f"cache_read: {tree.describe(block)} writes `{accesses.buffer_name(buffer)}`, "
            "too, and no other block reads it: expected a reader; see `cache_inplace`"
        )
    legality.check_outside_init(
        wanted if writer is None else [*wanted, writer], "cache_read"
    )
    with state.change(block) as indices:
        stage = _read_stage(scope, buffer, writer, wanted, readers, indices)
        return _cache(stage, scope, wanted, memory, indices, is_read=True)


def only_writer(
    scope: ir.Operation, buffer: ir.Value, where: str
) -> ir.Operation | None:
    """The block of a scope that writes a buffer, if there is one.

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
    indices: Indices,
) -> _Stage:
    if writer is None or _comes_later(scope, writer, consumers):
        is_root = tree.is_function(scope)
        whole = [Run(0, size - 1) for size in accesses.buffer_shape(buffer)]
        box = regions.regions_in(scope, buffer, indices, is_write=False)
        found = whole
        if not is_root and box is not None:
            found = legality.within_buffer(box, buffer, scope, indices)
        return _Stage(buffer, found, is_root, scope, 0)
    _check_read_later(scope, writer, consumers, buffer)
    place, first = place_before(scope, writer, consumers)
    if buffer not in accesses.own_buffers(scope):
        for reader in consumers:
            _check_reads_copied(place, reader, writer, buffer, indices)
    return _stage_after(writer, buffer, place, first, readers, indices)


def _check_read_later(
    scope: ir.Operation,
    writer: ir.Operation,
    consumers: Sequence[ir.Operation],
    buffer: ir.Value,
) -> None:
    """Refuse readers in front of the block whose results are copied."""
    listed = tree.blocks_below(scope)
    later = listed[listed.index(writer) + 1 :]
    for reader in consumers:
        if reader not in later:
            raise ScheduleError(
                f"cache_read: {tree.describe(reader)} does not stand behind "
                f"{tree.describe(writer)}, which writes "
                f"`{accesses.buffer_name(buffer)}`: expected readers behind it"
            )


def _check_reads_copied(
    place: ir.Operation,
    reader: ir.Operation,
    writer: ir.Operation,
    buffer: ir.Value,
    indices: Indices,
) -> None:
    """Refuse reads of values from before the scope, where what is written is copied."""
    limits, tops = limits_at(indices, place), legality.tops_at(indices, place)
    copied = _box_at(place, writer, buffer, indices, writes_only=True)
    read = _box_at(place, reader, buffer, indices)
    if not legality.is_box_inside(read, copied, limits, tops):
        raise ScheduleError(
            f"cache_read: {tree.describe(reader)} may read elements of "
            f"`{accesses.buffer_name(buffer)}` that {tree.describe(writer)} does not "
            "write, or not yet: expected it to read what is copied"
        )


def place_before(
    scope: ir.Operation, writer: ir.Operation | None, readers: Sequence[ir.Operation]
) -> tuple[ir.Operation, int]:
    """Where a copy stands that blocks read: the loop or scope, and what it comes before."""
    if writer is None or _comes_later(scope, writer, readers):
        return scope, 0
    place = tree.common_place(writer, readers)
    held = set(tree.subtree(place))
    inside = [r for r in readers if r in held]
    return place, min(tree.position_in(place, r) for r in inside)


def _comes_later(
    scope: ir.Operation, writer: ir.Operation, readers: Sequence[ir.Operation]
) -> bool:
    """Whether readers see what was there before the scope: a writer runs once, after them."""
    listed = tree.blocks_below(scope)
    later = all(listed.index(r) < listed.index(writer) for r in readers if r in listed)
    place = tree.common_place(writer, readers)
    around = [] if place == scope else [*tree.enclosing_loops(place), place]
    indices = Indices()
    return later and all(loop_bounds(indices, loop)[1] == 1 for loop in around)


def place_behind(
    scope: ir.Operation, writer: ir.Operation, readers: Sequence[ir.Operation]
) -> tuple[ir.Operation, int]:
    """Where a copy stands that is read in place of what a block writes."""
    if not readers:
        return scope, len(tree.children(scope))
    place = tree.common_place(writer, readers)
    return place, tree.position_in(place, writer) + 1


def _stage_after(
    writer: ir.Operation,
    buffer: ir.Value,
    place: ir.Operation,
    position: int,
    readers: Sequence[ir.Operation],
    indices: Indices,
) -> _Stage:
    """A copy of what a block writes over the loops inside of ``place``."""
    inside = set(tree.subtree(place)) - {place}
    box = _box_at(place, writer, buffer, indices, writes_only=True)
    is_whole = not tree.is_block(place) or not all(r in inside for r in readers)
    return _Stage(buffer, box, is_whole, place, position)


def _box_at(
    place: ir.Operation,
    block: ir.Operation,
    buffer: ir.Value,
    indices: Indices,
    *,
    writes_only: bool = False,
) -> list[Run]:
    """What a block touches of a buffer over the loops inside of ``place``."""
    inside = set(tree.subtree(place)) - {place}
    boxes = [
        regions.region_of(a, indices, lambda op: op in inside)
        for a in accesses.accesses_in(block)
        if a.buffer == buffer and (a.is_write or not writes_only)
    ]
    box = regions.hull(boxes, limits_at(indices, place))
    assert box is not None
    return legality.within_buffer(box, buffer, place, indices)


def cache_write(
    state: ScheduleState,
    block: ir.Operation,
    number: int,
    memory: str,
    consumers: Sequence[ir.Operation],
) -> ir.Operation:
    """Let a block write a copy of a buffer; see :meth:`Schedule.cache_write`."""
    accesses.check_storage_scope(memory, "cache_write")
    buffer = accesses.buffer_of(block, number, "cache_write", is_write=True)
    scope = tree.scope_of(block)
    writer = only_writer(scope, buffer, "cache_write")
    if writer != block:
        raise ScheduleError(
            f"cache_write: {tree.describe(block)} is not the block that writes "
            f"`{accesses.buffer_name(buffer)}`"
        )
    legality.check_outside_init([block, *consumers], "cache_write")
    dependences.check_unconditional(block, "cache_write")
    check_holds_no_earlier_value(scope, block, buffer, "cache_write")
    readers = [r for r in accesses.readers_of(scope, buffer) if r != block]
    with state.change(block) as indices:
        others = [r for r in readers if r not in consumers]
        place, position = place_behind(scope, block, others)
        stage = _stage_after(block, buffer, place, position, readers, indices)
        check_written(
            block,
            place,
            buffer,
            stage.box,
            lambda box: legality.within_buffer(box, buffer, place, indices),
            indices,
            "cache_write",
        )
        users = [block, *consumers]
        return _cache(stage, scope, users, memory, indices, is_read=False)


def check_holds_no_earlier_value(
    scope: ir.Operation, block: ir.Operation, buffer: ir.Value, where: str
) -> None:
    """Refuse to cache what a block updates: a new buffer lacks the value from before."""
    is_own = buffer in accesses.own_buffers(scope)
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
    """Let a block work on a copy of a buffer; see :meth:`Schedule.cache_inplace`."""
    accesses.check_storage_scope(memory, "cache_inplace")
    buffer = accesses.buffer_of(block, number, "cache_inplace", is_write=False)
    if buffer not in accesses.buffers_written(block):
        raise ScheduleError(
            f"cache_inplace: {tree.describe(block)} does not write "
            f"`{accesses.buffer_name(buffer)}`: expected a buffer that it reads and writes"
        )
    scope = tree.scope_of(block)
    legality.check_outside_init([block], "cache_inplace")
    with state.change(block) as indices:
        place = tree.parent_of(tree.realize_of(block))
        position = tree.position_in(place, block)
        box = _box_at(place, block, buffer, indices)
        before = _Stage(buffer, box, True, place, position)
        after = _Stage(buffer, box, True, place, position + 1)
        cached = _allocate(before, scope, memory, indices)
        made_after = _copy_block(after, cached, indices, is_read=False)
        made_before = _copy_block(before, cached, indices, is_read=True)
        _redirect(block, before, cached, indices)
        return [made_before, made_after]


def _cache(
    stage: _Stage,
    scope: ir.Operation,
    users: Sequence[ir.Operation],
    memory: str,
    indices: Indices,
    *,
    is_read: bool,
) -> ir.Operation:
    cached = _allocate(stage, scope, memory, indices)
    made = _copy_block(stage, cached, indices, is_read=is_read)
    for user in users:
        _redirect(user, stage, cached, indices)
    return made


def _allocate(
    stage: _Stage, scope: ir.Operation, memory: str, indices: Indices
) -> ir.Value:
    shape: Sequence[Dim] = accesses.buffer_shape(stage.buffer)
    if not stage.is_whole:
        limits = limits_at(indices, stage.place)
        extents = [simplify(run.extent, limits) for run in stage.box]
        if any(isinstance(extent, int) and extent < 1 for extent in extents):
            raise ScheduleError(
                f"no element of `{accesses.buffer_name(stage.buffer)}` is used: expected a "
                "block that reads or writes some, where its conditions hold"
            )
        # A buffer has one size in all steps of the loops around.
        shape = [
            e if indices.is_size(e) else size
            for e, size in zip(extents, shape, strict=True)
        ]
    return allocate_cache(scope, stage.buffer, memory, indices, shape)


def allocate_cache(
    scope: ir.Operation,
    buffer: ir.Value,
    memory: str,
    indices: Indices,
    shape: Sequence[Dim] | None = None,
) -> ir.Value:
    """A new buffer for copies of elements of another one; see :func:`alloc_buffer`."""
    sizes = accesses.buffer_shape(buffer) if shape is None else shape
    name = f"{accesses.buffer_name(buffer)}_{memory.replace('.', '_')}"
    return alloc_buffer(scope, sizes, buffer, name, memory, indices)


def _copy_block(
    stage: _Stage, cached: ir.Value, indices: Indices, *, is_read: bool
) -> ir.Operation:
    """Loops ``ax0``, ... around a block that copies one element."""
    limits = limits_at(indices, stage.place)
    extents = [simplify(run.extent, limits) for run in stage.box]
    dtype = size_dtype(stage.buffer)
    place, values = statement_point(stage.place, stage.position), []
    for number, (run, extent) in enumerate(zip(stage.box, extents, strict=True)):
        with place:
            attributes = edit.loop_attributes(f"ax{number}", dtype=dtype)
            loop = edit.make_loop(indices, extent, attributes)
        place = edit.point_before(edit.terminator(tree.body(loop)))
        var = indices.of(loop_var(loop))
        values.append(run.low + var if stage.is_whole else var)
    sizes = accesses.buffer_shape(stage.buffer) if stage.is_whole else extents
    axes = [Axis("S", size, f"v{n}", dtype) for n, size in enumerate(sizes)]
    with place:
        emitted = [indices.emit(v) for v in values]
        block = edit.make_block(
            accesses.buffer_name(cached), axes, emitted, indices.emit
        )
    _copy_element(block, stage, cached, indices, is_read=is_read)
    return block


def statement_point(place: ir.Operation, position: int) -> ir.InsertionPoint:
    """In front of a statement of a loop or a scope, or behind all of them."""
    statements = tree.children(place)
    if position < len(statements):
        return edit.point_before(statements[position])
    return edit.point_before(edit.terminator(tree.body(place)))


def size_dtype(buffer: ir.Value) -> str:
    """The type of the variables that count the elements of a buffer."""
    said = accesses.buffer_marks(buffer).get(marks.SIZE_DTYPE)
    return "int32" if said is None else ir.StringAttr(said).value


def _copy_element(
    block: ir.Operation,
    stage: _Stage,
    cached: ir.Value,
    indices: Indices,
    *,
    is_read: bool,
) -> None:
    inner = edit.open_region(block, 1)
    points = list(inner.arguments)
    with edit.point_before(edit.terminator(inner)):
        outer = points
        if not stage.is_whole:
            outer = [
                indices.emit(run.low + indices.of(p))
                for run, p in zip(stage.box, points, strict=True)
            ]
        sides = [(stage.buffer, outer), (cached, points)]
        (source, read_at), (target, write_at) = sides if is_read else sides[::-1]
        value = load_element(source, read_at)
        ir.Operation.create("memref.store", operands=[value, target, *write_at])


def load_element(buffer: ir.Value, place: Sequence[ir.Value]) -> ir.Value:
    """An element as it is stored: truth values are bytes that are 0 or 1."""
    return as_stored(read_element(buffer, place), buffer)


def read_element(buffer: ir.Value, place: Sequence[ir.Value]) -> ir.Value:
    """An element as scalars are computed: truth values have one bit."""
    type_ = ir.MemRefType(buffer.type).element_type
    loaded = emit("memref.load", type_, buffer, *place)
    return from_memory(loaded, dtype(element_dtype(buffer))).value


def as_stored(value: ir.Value, buffer: ir.Value) -> ir.Value:
    """A scalar as a buffer of its type holds it."""
    return to_memory(value, dtype(element_dtype(buffer)))


def _redirect(
    user: ir.Operation, stage: _Stage, cached: ir.Value, indices: Indices
) -> None:
    """Let a block use the cache."""
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


def _shift(op: ir.Operation, first: int, stage: _Stage, indices: Indices) -> None:
    """Count the indices of an access from where the box begins."""
    with edit.point_before(op):
        for number, run in enumerate(stage.box):
            old = indices.of(op.operands[first + number])
            op.operands[first + number] = indices.emit(old - run.low)

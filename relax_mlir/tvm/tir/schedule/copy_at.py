"""The ``read_at`` and ``write_at`` primitives: block-level copies at a loop."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects.tir import attribute_names
from relax_mlir.errors import ScheduleError
from relax_mlir.objects.write.memref import retype_view
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.symbols import substitute, symbols_of
from relax_mlir.tvm.tir.schedule import (
    accesses,
    dependences,
    edit,
    legality,
    regions,
    tree,
)
from relax_mlir.tvm.tir.schedule.cache import (
    allocate_cache,
    insertion_point_at,
    load_element,
)
from relax_mlir.tvm.tir.schedule.edit import IterVarSpec
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols
from relax_mlir.tvm.tir.schedule.regions import Interval
from relax_mlir.tvm.tir.schedule.state import (
    ScheduleState,
    limits_at,
    loop_bounds,
    loop_var,
)
from relax_mlir.tvm.tir.schedule.whole_writes import check_complete_write

__all__ = ["copy_at"]


def copy_at(
    state: ScheduleState,
    loop: ir.Operation,
    block: ir.Operation,
    number: int,
    memory: str,
    *,
    is_read: bool,
) -> ir.Operation:
    """Redirect accesses under a loop to a copy; see :meth:`Schedule.read_at`."""
    where = "read_at" if is_read else "write_at"
    accesses.check_storage_scope(memory, where)
    legality.check_outside_init([loop], where)
    if not is_read:
        dependences.check_no_control_dependence(block, where)
    buffer = accesses.buffer_at_index(block, number, where, is_write=not is_read)
    position = _position(loop, buffer, where, is_read=is_read)
    with state.change(loop) as indices:
        cached = allocate_cache(tree.scope_of(loop), buffer, memory, indices)
        box = _box(loop, buffer, cached, indices, is_read=is_read)
        if not is_read:
            check_complete_write(
                loop,
                loop,
                buffer,
                box,
                lambda found: legality.clip_to_buffer(found, buffer, loop, indices),
                indices,
                where,
            )
        statements = tree.children(loop)
        users = statements[position:] if is_read else statements[:position]
        for user in users:
            _redirect(user, buffer, cached)
        sides = (buffer, cached) if is_read else (cached, buffer)
        with insertion_point_at(loop, position):
            return _copy_block(loop, box, sides, accesses.buffer_name(cached), indices)


def _position(
    loop: ir.Operation, buffer: ir.Value, where: str, *, is_read: bool
) -> int:
    """The index of the statement in the loop that the copy precedes."""
    statements = tree.children(loop)
    reads = [
        n
        for n, s in enumerate(statements)
        if _accesses_buffer(s, buffer, is_write=False)
    ]
    writes = [
        n
        for n, s in enumerate(statements)
        if _accesses_buffer(s, buffer, is_write=True)
    ]
    name, described = accesses.buffer_name(buffer), tree.describe(loop)
    if not (reads if is_read else writes):
        verb = "reads" if is_read else "writes"
        raise ScheduleError(f"{where}: no block under {described} {verb} `{name}`")
    if is_read:
        if writes and writes[-1] >= reads[0]:
            raise ScheduleError(
                f"{where}: `{name}` is written under {described} after it is read"
            )
        return reads[0]
    _check_writes_stay_inside(loop, buffer, where)
    if reads and (reads[-1] > writes[-1] or reads[0] <= writes[0]):
        raise ScheduleError(
            f"{where}: under {described}, `{name}` is read before it is written, or after "
            "its last write: expected reads between the first write and the last"
        )
    return writes[-1] + 1


def _accesses_buffer(
    statement: ir.Operation, buffer: ir.Value, *, is_write: bool
) -> bool:
    find = accesses.inferred_writes if is_write else accesses.inferred_reads
    blocks = [statement] if tree.is_block(statement) else tree.blocks_below(statement)
    return any(buffer in find(block) for block in blocks)


def _check_writes_stay_inside(loop: ir.Operation, buffer: ir.Value, where: str) -> None:
    """Reject buffers with writers outside the loop, whose elements the copy lacks."""
    inside = set(tree.subtree(loop))
    for other in accesses.writers_of(tree.scope_of(loop), buffer):
        if other not in inside:
            raise ScheduleError(
                f"{where}: {tree.describe(other)} writes "
                f"`{accesses.buffer_name(buffer)}`, too: expected all its writers under "
                f"{tree.describe(loop)}"
            )


def _box(
    loop: ir.Operation,
    buffer: ir.Value,
    cached: ir.Value,
    indices: IndexSymbols,
    *,
    is_read: bool,
) -> list[Interval]:
    """The box accessed in one iteration of a loop by all threads that share the copy."""
    inside = set(tree.subtree(loop)) - {loop}
    relaxes = regions.relaxed_thread_loops(cached)
    boxes = [
        regions.accessed_box(access, indices, lambda op: op in inside, relaxes=relaxes)
        for access in accesses.accesses_in(loop)
        if access.buffer == buffer and access.is_write != is_read
    ]
    found = regions.bounding_box(boxes, limits_at(indices, loop))
    assert found is not None
    return legality.clip_to_buffer(found, buffer, loop, indices)


def _redirect(user: ir.Operation, buffer: ir.Value, cached: ir.Value) -> None:
    for op in tree.subtree(user):
        for number, operand in enumerate(list(op.operands)):
            if operand == buffer:
                op.operands[number] = cached
        if op.name == "memref.subview":
            retype_view(op)


def _copy_block(
    loop: ir.Operation,
    box: Sequence[Interval],
    sides: tuple[ir.Value, ir.Value],
    name: str,
    indices: IndexSymbols,
) -> ir.Operation:
    """Creates a block that copies a box; its iter vars are the loops that the box depends on.

    Args:
        sides: the source and the target buffer.
    """
    symbols = [
        n
        for interval in box
        for d in (interval.low, interval.extent)
        for n in symbols_of(d)
    ]
    around = {
        indices.symbol(loop_var(o)): o for o in [*tree.enclosing_loops(loop), loop]
    }
    names = [n for n in dict.fromkeys(symbols) if n in around]
    axes: list[IterVarSpec] = []
    for count, symbol in enumerate(names):
        _, extent = loop_bounds(indices, around[symbol])
        dtype = tree.string_attr(around[symbol], attribute_names.DTYPE, "int32")
        axes.append(IterVarSpec("S", extent, f"v{count}", dtype))
    loop_mins = {n: loop_bounds(indices, around[n])[0] for n in names}
    values = [
        indices.emit(indices.of(loop_var(around[n])) - loop_mins[n]) for n in names
    ]
    made = edit.make_block(name, axes, values, indices.emit, {"auto_copy": True})
    inner = edit.create_region(made, 1)
    known = {
        symbol: indices.of(argument) + loop_mins[symbol]
        for symbol, argument in zip(names, inner.arguments, strict=True)
    }
    _create_copy_loops(
        inner, [r.map_ends(lambda d: substitute(d, known)) for r in box], sides, indices
    )
    return made


def _create_copy_loops(
    inner: ir.Block,
    box: Sequence[Interval],
    sides: tuple[ir.Value, ir.Value],
    indices: IndexSymbols,
) -> None:
    """Creates loops ``ax0``, ... that copy a box."""
    insertion_point = edit.insertion_point_before(edit.terminator(inner))
    point: list[Dim] = []
    for number, interval in enumerate(box):
        with insertion_point:
            made = edit.make_loop(
                indices, interval.extent, edit.loop_attributes(f"ax{number}")
            )
        point.append(interval.low + indices.of(loop_var(made)))
        insertion_point = edit.insertion_point_before(edit.terminator(tree.body(made)))
    source, target = sides
    with insertion_point:
        read_at = list(map(indices.emit, point))
        value = load_element(source, read_at)
        write_at = list(map(indices.emit, point))
        ir.Operation.create("memref.store", operands=[value, target, *write_at])

"""Primitives that copy at a loop, in one block, what the loop reads or writes there."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.dialects.tir import marks
from relax_mlir.errors import ScheduleError
from relax_mlir.objects.memrefs import retype_view
from relax_mlir.tir.schedule import accesses, dependences, edit, legality, regions, tree
from relax_mlir.tir.schedule.cache import (
    allocate_cache,
    load_element,
    statement_point,
)
from relax_mlir.tir.schedule.edit import Axis
from relax_mlir.tir.schedule.indices import Indices
from relax_mlir.tir.schedule.regions import Run
from relax_mlir.tir.schedule.state import (
    ScheduleState,
    limits_at,
    loop_bounds,
    loop_var,
)
from relax_mlir.tir.schedule.whole_writes import check_written

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
    """Let all under a loop use a copy; see :meth:`Schedule.read_at` and ``write_at``."""
    where = "read_at" if is_read else "write_at"
    accesses.check_storage_scope(memory, where)
    legality.check_outside_init([loop], where)
    if not is_read:
        dependences.check_unconditional(block, where)
    buffer = accesses.buffer_of(block, number, where, is_write=not is_read)
    position = _position(loop, buffer, where, is_read=is_read)
    with state.change(loop) as indices:
        cached = allocate_cache(tree.scope_of(loop), buffer, memory, indices)
        box = _box(loop, buffer, cached, indices, is_read=is_read)
        if not is_read:
            check_written(
                loop,
                loop,
                buffer,
                box,
                lambda found: legality.within_buffer(found, buffer, loop, indices),
                indices,
                where,
            )
        statements = tree.children(loop)
        users = statements[position:] if is_read else statements[:position]
        for user in users:
            _redirect(user, buffer, cached)
        sides = (buffer, cached) if is_read else (cached, buffer)
        with statement_point(loop, position):
            return _copy_block(loop, box, sides, accesses.buffer_name(cached), indices)


def _position(
    loop: ir.Operation, buffer: ir.Value, where: str, *, is_read: bool
) -> int:
    """The number of the statement of the loop that the copy comes before."""
    statements = tree.children(loop)
    reads = [n for n, s in enumerate(statements) if _touches(s, buffer, is_write=False)]
    writes = [n for n, s in enumerate(statements) if _touches(s, buffer, is_write=True)]
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
            "it was written last: expected reads between the first write and the last"
        )
    return writes[-1] + 1


def _touches(statement: ir.Operation, buffer: ir.Value, *, is_write: bool) -> bool:
    find = accesses.writes if is_write else accesses.reads
    blocks = [statement] if tree.is_block(statement) else tree.blocks_below(statement)
    return any(buffer in find(block) for block in blocks)


def _check_writes_stay_inside(loop: ir.Operation, buffer: ir.Value, where: str) -> None:
    """Refuse a buffer of which elements come from elsewhere: the copy has not got them."""
    inside = set(tree.subtree(loop))
    for other in accesses.writers_of(tree.scope_of(loop), buffer):
        if other not in inside:
            raise ScheduleError(
                f"{where}: {tree.describe(other)} writes "
                f"`{accesses.buffer_name(buffer)}`, too: expected that all that write it "
                f"stand under {tree.describe(loop)}"
            )


def _box(
    loop: ir.Operation,
    buffer: ir.Value,
    cached: ir.Value,
    indices: Indices,
    *,
    is_read: bool,
) -> list[Run]:
    """What is touched of a buffer in one step of a loop, by all that share the copy."""
    inside = set(tree.subtree(loop)) - {loop}
    relaxes = regions.crosses_threads(cached)
    boxes = [
        regions.region_of(access, indices, lambda op: op in inside, relaxes=relaxes)
        for access in accesses.accesses_in(loop)
        if access.buffer == buffer and access.is_write != is_read
    ]
    found = regions.hull(boxes, limits_at(indices, loop))
    assert found is not None
    return legality.within_buffer(found, buffer, loop, indices)


def _redirect(user: ir.Operation, buffer: ir.Value, cached: ir.Value) -> None:
    for op in tree.subtree(user):
        for number, operand in enumerate(list(op.operands)):
            if operand == buffer:
                op.operands[number] = cached
        if op.name == "memref.subview":
            retype_view(op)


def _copy_block(
    loop: ir.Operation,
    box: Sequence[Run],
    sides: tuple[ir.Value, ir.Value],
    name: str,
    indices: Indices,
) -> ir.Operation:
    """A block with the loops that a box depends on as axes, which copies all of the box.

    Args:
        sides: from which buffer, and to which.
    """
    used = [n for run in box for d in (run.low, run.extent) for n in symbols_of(d)]
    around = {
        indices.symbol(loop_var(o)): o for o in [*tree.enclosing_loops(loop), loop]
    }
    names = [n for n in dict.fromkeys(used) if n in around]
    axes: list[Axis] = []
    for count, symbol in enumerate(names):
        _, extent = loop_bounds(indices, around[symbol])
        dtype = tree.string_attr(around[symbol], marks.DTYPE, "int32")
        axes.append(Axis("S", extent, f"v{count}", dtype))
    starts = {n: loop_bounds(indices, around[n])[0] for n in names}
    values = [indices.emit(indices.of(loop_var(around[n])) - starts[n]) for n in names]
    made = edit.make_block(name, axes, values, indices.emit, {"auto_copy": True})
    inner = edit.open_region(made, 1)
    known = {
        symbol: indices.of(argument) + starts[symbol]
        for symbol, argument in zip(names, inner.arguments, strict=True)
    }
    _fill(
        inner, [r.mapped(lambda d: substitute(d, known)) for r in box], sides, indices
    )
    return made


def _fill(
    inner: ir.Block,
    box: Sequence[Run],
    sides: tuple[ir.Value, ir.Value],
    indices: Indices,
) -> None:
    """Loops ``ax0``, ... that copy a box."""
    place = edit.point_before(edit.terminator(inner))
    points: list[Dim] = []
    for number, run in enumerate(box):
        with place:
            made = edit.make_loop(
                indices, run.extent, edit.loop_attributes(f"ax{number}")
            )
        points.append(run.low + indices.of(loop_var(made)))
        place = edit.point_before(edit.terminator(tree.body(made)))
    source, target = sides
    with place:
        read_at = list(map(indices.emit, points))
        value = load_element(source, read_at)
        write_at = list(map(indices.emit, points))
        ir.Operation.create("memref.store", operands=[value, target, *write_at])

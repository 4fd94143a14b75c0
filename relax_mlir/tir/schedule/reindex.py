"""Primitives that put a copy between a block and a buffer, in an order of the block's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from mlir import ir

from relax_mlir import rewriting
from relax_mlir.dialects import dims
from relax_mlir.dialects.dim_bounds import bounds
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.errors import ScheduleError, shown
from relax_mlir.tir.schedule import (
    accesses,
    dependences,
    edit,
    legality,
    predicates,
    regions,
    tree,
)
from relax_mlir.tir.schedule.axis_conditions import (
    at_axes,
    axis_bounds,
    axis_conditions,
)
from relax_mlir.tir.schedule.cache import (
    alloc_buffer,
    load_element,
    only_writer,
    place_before,
    place_behind,
    statement_point,
)
from relax_mlir.tir.schedule.decompose import axes_of
from relax_mlir.tir.schedule.edit import Axis
from relax_mlir.tir.schedule.index_map import IndexMap
from relax_mlir.tir.schedule.indices import Indices, simplify
from relax_mlir.tir.schedule.layout import mapped, program_symbols
from relax_mlir.tir.schedule.new_axes import axis_symbol, axis_symbols
from relax_mlir.tir.schedule.predicates import Condition
from relax_mlir.tir.schedule.regions import Run
from relax_mlir.tir.schedule.state import (
    ScheduleState,
    extents_of,
    limits_at,
    loop_bounds,
    loop_var,
)
from relax_mlir.tir.schedule.whole_writes import is_conditional

__all__ = ["beside", "loops_over", "reindex", "reindex_cache"]


@dataclass(frozen=True)
class _Copy:
    """A copy of what a block accesses of a buffer.

    Attributes:
        block: who accesses it.
        buffer: the buffer.
        place: where the block accesses it, in the symbols of its axes by their numbers.
        numbers: the axes that this depends on.
        is_read: whether the copy is read by the block; else written.
    """

    block: ir.Operation
    buffer: ir.Value
    place: Sequence[Dim]
    numbers: Sequence[int]
    is_read: bool


def reindex(
    state: ScheduleState, block: ir.Operation, buffer: ir.Value, *, is_read: bool
) -> ir.Operation:
    """Let a block access a buffer by its axes; see :meth:`Schedule.reindex`."""
    found = _copy(block, buffer, "reindex", is_read=is_read)
    legality.check_bound_in_scope(block, "reindex")
    _check_order(found)
    name = f"{accesses.buffer_name(buffer)}_reindex"
    with state.change(block) as indices:
        axes = [axes_of(block, indices)[n] for n in found.numbers]
        cached = alloc_buffer(
            tree.scope_of(block),
            [axis.start + axis.extent for axis in axes],
            buffer,
            name,
            accesses.storage_scope(buffer),
            indices,
        )
        points = [_symbol(n) for n in found.numbers]
        with beside(block, is_read=is_read):
            variables, place = loops_over(axes, indices)
        new_axes = [replace(a, kind="S", name=f"v{n}") for n, a in enumerate(axes)]
        left_out = _left_out(found, indices, "reindex")
        with place:
            made = edit.make_block(
                f"{name}_reindex" if is_read else name,
                new_axes,
                variables,
                indices.emit,
            )
        values = dict(zip(found.numbers, map(indices.of, variables), strict=True))
        predicates.set_predicate(made, at_axes(left_out, values), indices)
        _fill(made, found, cached, points, indices)
        _redirect(found, cached, points)
        edit.localise(tree.function_of(block))
        return made


def _symbol(number: int) -> Dim:
    return dims.symbol(axis_symbol(number))


def _copy(block: ir.Operation, buffer: ir.Value, where: str, *, is_read: bool) -> _Copy:
    """What a block accesses of a buffer, which is one element at a point.

    Raises:
        ScheduleError: it accesses several, or not element by element.
    """
    legality.check_not_root(block, where)
    legality.check_outside_init([block], where)
    if not is_read:
        dependences.check_unconditional(block, where)
        _check_under_no_condition(block, where)
    legality.check_axis_starts(block, where, may_be_above_0=where == "reindex")
    indices = Indices()
    known = axis_symbols(block, indices)
    limits = limits_at(indices, block)
    places: set[tuple[Dim, ...]] = set()
    for access in accesses.accesses_in(block):
        if access.buffer != buffer:
            continue
        if access.is_opaque:
            raise ScheduleError(
                f"{where}: {tree.describe(block)} touches "
                f"`{accesses.buffer_name(buffer)}` by its address or through "
                "`match_buffer`: expected plain reads and writes of its elements"
            )
        found = [simplify(d, limits) for d in access.indices(indices)]
        places.add(tuple(substitute(d, known) for d in found))
    is_own = buffer in accesses.own_buffers(tree.scope_of(block))
    if not is_read and not is_own and _stores_by_choice(block, buffer):
        raise ScheduleError(
            f"{where}: {tree.describe(block)} stores `{accesses.buffer_name(buffer)}` under "
            "a condition: expected that each point stores its element"
        )
    if is_read and buffer in accesses.buffers_written(block):
        raise ScheduleError(
            f"{where}: {tree.describe(block)} also writes "
            f"`{accesses.buffer_name(buffer)}`: expected that it only reads it"
        )
    goes_on = not is_read and tree.init_of(block) is None
    if goes_on and buffer in accesses.buffers_read(block):
        raise ScheduleError(
            f"{where}: {tree.describe(block)} goes on with what "
            f"`{accesses.buffer_name(buffer)}` holds before: expected a start value"
        )
    if len(places) != 1:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} accesses "
            f"`{accesses.buffer_name(buffer)}` at {len(places)} places of a point: "
            "expected one single place"
        )
    (place,) = places
    used = {name for dim in place for name in symbols_of(dim)}
    count = len(tree.kinds_of(block))
    numbers = [n for n in range(count) if axis_symbol(n) in used]
    if not used <= {*map(axis_symbol, numbers), *_sizes(block, indices)}:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} accesses `{accesses.buffer_name(buffer)}` at "
            "variables of loops: expected its own axes alone"
        )
    found = _Copy(block, buffer, place, numbers, is_read)
    _check_inside(found, indices, where)
    return found


def _check_under_no_condition(block: ir.Operation, where: str) -> None:
    """Refuse to copy back under no condition what a block writes under one."""
    scope = tree.scope_of(block)
    for around in takewhile(lambda o: o != scope, tree.ancestors(block)):
        if not (tree.is_loop(around) or tree.is_where(around)):
            raise ScheduleError(
                f"{where}: {tree.describe(block)} stands under a condition and may leave "
                "out elements: expected one in loops alone"
            )


def _stores_by_choice(block: ir.Operation, buffer: ir.Value) -> bool:
    """Whether all stores of a buffer in the body of a block depend on conditions."""
    found = accesses.accesses_in(tree.body(block))
    stores = [a for a in found if a.buffer == buffer and a.is_write]
    return all(is_conditional(a, block) for a in stores)


def _check_inside(copy: _Copy, indices: Indices, where: str) -> None:
    """Refuse elements outside of a buffer, which conditions keep a block from touching."""
    block = copy.block
    left_out = _left_out(copy, indices, where)
    touching = [a for a in accesses.accesses_in(block) if a.buffer == copy.buffer]
    is_guarded = all(is_conditional(a, block) for a in touching)
    if left_out and not is_guarded:
        return  # the copy has them too
    around = limits_at(indices, block)
    whole = {
        axis_symbol(number): Run(start, start + extent - 1)
        for number, (start, extent) in enumerate(
            zip(tree.axis_starts(block), extents_of(indices, block), strict=True)
        )
    }
    tops = {name: run.high for name, run in whole.items()}
    limits = around | {
        name: (bounds(run.low, around)[0], bounds(run.high, around)[1])
        for name, run in whole.items()
    }
    slacks = [0, *(condition.slack for condition in left_out)]
    for dim, size in zip(copy.place, accesses.buffer_shape(copy.buffer), strict=True):
        run = regions.interval(dim, whole, around)
        ends = run.low, size - 1 - run.high
        is_outside = any(isinstance(end, int) and end < 0 for end in ends)
        is_inside = all(
            any(predicates.is_never_negative(gap - s, limits, tops) for s in slacks)
            for gap in (dim, size - 1 - dim)
        )
        if not is_inside if is_guarded else is_outside:
            raise ScheduleError(
                f"{where}: {tree.describe(block)} accesses "
                f"`{accesses.buffer_name(copy.buffer)}` under a condition, at indices from "
                f"{run.low} to {run.high} of {size}: expected indices inside of the buffer"
            )


def _sizes(block: ir.Operation, indices: Indices) -> set[str]:
    """The symbols of the program's sizes."""
    arguments = tree.body(tree.function_of(block)).arguments
    return {
        indices.symbol(argument)
        for argument in arguments
        if isinstance(argument.type, ir.IndexType)
    }


def _check_order(copy: _Copy) -> None:
    """Refuse blocks beside a block that make or use what is copied in between."""
    block, scope = copy.block, tree.scope_of(copy.block)
    changing = accesses.writers_of(scope, copy.buffer)
    if not copy.is_read:
        changing += accesses.readers_of(scope, copy.buffer)
    top = set(tree.subtree(tree.child_of(scope, block)))
    for other in changing:
        if other != block and other in top:
            raise ScheduleError(
                f"reindex: {tree.describe(other)} uses "
                f"`{accesses.buffer_name(copy.buffer)}`, and stands in a loop with "
                f"{tree.describe(block)}: expected loops of its own"
            )


def _left_out(copy: _Copy, indices: Indices, where: str) -> list[Condition]:
    """What leaves out points of the axes, of which there is nothing to copy.

    Raises:
        ScheduleError: what is written depends on axes that the copy does not have.
    """
    conditions = predicates.block_conditions(copy.block, indices)
    if copy.is_read and any(c.value is not None for c in conditions):
        return []  # it may copy more than the block goes on to read
    found = axis_conditions(copy.block, indices, where)
    known = set(map(axis_symbol, copy.numbers))
    axes = set(map(axis_symbol, range(len(tree.kinds_of(copy.block)))))
    kept = [c for c in found if not (axes & set(symbols_of(c.slack))) - known]
    if len(kept) < len(found) and not copy.is_read:
        raise ScheduleError(
            f"{where}: the predicate of {tree.describe(copy.block)} depends on an axis "
            f"that is no index of `{accesses.buffer_name(copy.buffer)}`"
        )
    return kept


def beside(block: ir.Operation, *, is_read: bool) -> ir.InsertionPoint:
    """In front of the statement of the scope that holds a block, or behind it."""
    scope = tree.scope_of(block)
    position = tree.position_in(scope, block)
    return statement_point(scope, position if is_read else position + 1)


def loops_over(
    axes: Sequence[Axis], indices: Indices
) -> tuple[list[ir.Value], ir.InsertionPoint]:
    """Loops ``ax0``, ``ax1``, ... over axes; their variables, and the place inside."""
    variables: list[ir.Value] = []
    place = ir.InsertionPoint.current
    for number, axis in enumerate(axes):
        attributes = edit.loop_attributes(f"ax{number}", dtype=axis.dtype)
        with place:
            made = edit.make_loop(indices, axis.extent, attributes, axis.start)
        variables.append(loop_var(made))
        place = edit.point_before(edit.terminator(tree.body(made)))
    return variables, place


def _fill(
    made: ir.Operation,
    copy: _Copy,
    cached: ir.Value,
    cached_place: Sequence[Dim],
    indices: Indices,
) -> None:
    """Let a block copy an element."""
    inner = edit.open_region(made, 1)
    points = {
        axis_symbol(number): indices.of(argument)
        for number, argument in zip(copy.numbers, inner.arguments, strict=True)
    }
    limits = limits_at(indices, made)
    with edit.point_before(edit.terminator(inner)):
        outer, own = (
            [indices.emit(simplify(substitute(d, points), limits)) for d in place]
            for place in (copy.place, cached_place)
        )
        sides = [(copy.buffer, outer), (cached, own)]
        (source, read_at), (target, write_at) = sides if copy.is_read else sides[::-1]
        value = load_element(source, read_at)
        ir.Operation.create("memref.store", operands=[value, target, *write_at])


def _redirect(copy: _Copy, cached: ir.Value, cached_place: Sequence[Dim]) -> None:
    """Let a block access the copy."""
    for access in accesses.accesses_in(copy.block):
        if access.buffer != copy.buffer:
            continue
        op = access.op
        indices = Indices()
        indices.add_sizes(tree.function_of(op))
        region = tree.region_in(copy.block, op)
        points = {axis_symbol(n): indices.of(a) for n, a in enumerate(region.arguments)}
        limits = limits_at(indices, tree.parent_of(op))
        with edit.point_before(op):
            place = [
                indices.emit(simplify(substitute(d, points), limits))
                for d in cached_place
            ]
            if access.is_write:
                operands = [op.operands[0], cached, *place]
                ir.Operation.create("memref.store", operands=operands)
                rewriting.erase(op)
            else:
                value = emit("memref.load", op.results[0].type, cached, *place)
                rewriting.replace(op, value)


def reindex_cache(
    state: ScheduleState,
    block: ir.Operation,
    buffer: ir.Value,
    memory: str,
    index_map: IndexMap,
    *,
    is_read: bool,
) -> ir.Operation:
    """Let a block access a copy laid out by its axes.

    See :meth:`Schedule.reindex_cache_read` and :meth:`Schedule.reindex_cache_write`.
    """
    where = f"reindex_cache_{'read' if is_read else 'write'}"
    accesses.check_storage_scope(memory, where)
    found = _copy(block, buffer, where, is_read=is_read)
    count = len(tree.kinds_of(block))
    if len(index_map.initial_indices) != count:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} has {count} axes: expected a map of as many "
            f"indices, got {shown(index_map)}"
        )
    with state.change(block) as indices:
        axes = axes_of(block, indices)
        place, shape = _mapped_axes(block, axes, index_map)
        _check_same_axes(block, axes, found, place, where)
        name = f"{accesses.buffer_name(buffer)}_{memory.replace('.', '_')}"
        scope = tree.scope_of(block)
        cached = alloc_buffer(scope, shape, buffer, name, memory, indices)
        made = _copied_loops(found, name, axes, indices)
        _fill(made, found, cached, place, indices)
        _redirect(found, cached, place)
        edit.localise(tree.function_of(block))
        return made


def _mapped_axes(
    block: ir.Operation, axes: Sequence[Axis], index_map: IndexMap
) -> tuple[list[Dim], list[Dim]]:
    """Where an element lies in the copy, in terms of axes; and the shape of that."""
    limits = {
        axis_symbol(n): (0, a.extent - 1 if isinstance(a.extent, int) else None)
        for n, a in enumerate(axes)
    }
    points = [_symbol(n) for n in range(len(axes))]
    place = mapped(points, index_map, program_symbols(block, index_map), limits)
    if place is None:
        raise ScheduleError(
            f"reindex_cache: expected a map of sums, products and quotients, got "
            f"{index_map!r}"
        )
    domains = {axis_symbol(n): Run(0, a.extent - 1) for n, a in enumerate(axes)}
    runs = [regions.interval(d, domains, limits) for d in place]
    return place, [simplify(r.extent, limits) for r in runs]


def _check_same_axes(
    block: ir.Operation,
    axes: Sequence[Axis],
    copy: _Copy,
    place: Sequence[Dim],
    where: str,
) -> None:
    mentioned = {name for dim in place for name in symbols_of(dim)}
    for number, axis in enumerate(axes):
        is_mapped = axis_symbol(number) in mentioned
        if is_mapped != (number in copy.numbers):
            here, there = ("the map", "the indices of the buffer")
            if not is_mapped:
                here, there = there, here
            raise ScheduleError(
                f"{where}: {tree.describe(block)}: the axis `{axis.name}` appears in "
                f"{here}, but not in {there}"
            )


def _place(copy: _Copy) -> tuple[ir.Operation, int]:
    """The loop or the scope in which the copy is made, and the statement it comes before."""
    scope = tree.scope_of(copy.block)
    where = f"reindex_cache_{'read' if copy.is_read else 'write'}"
    if copy.is_read:
        writer = only_writer(scope, copy.buffer, where)
        return place_before(scope, writer, [copy.block])
    readers = accesses.readers_of(scope, copy.buffer)
    others = [r for r in readers if r != copy.block]
    around, position = place_behind(scope, copy.block, others)
    before = [
        op for child in tree.children(around)[:position] for op in tree.subtree(child)
    ]
    later = before[before.index(copy.block) + 1 :]
    for writer in accesses.writers_of(scope, copy.buffer):
        if writer in later:
            raise ScheduleError(
                f"{where}: {tree.describe(writer)} writes "
                f"`{accesses.buffer_name(copy.buffer)}` after {tree.describe(copy.block)}: "
                "expected no other writer before the copy"
            )
    return around, position


def _copied_loops(
    copy: _Copy, name: str, axes: Sequence[Axis], indices: Indices
) -> ir.Operation:
    """A block with the axes that matter, in copies of the loops that those are made of."""
    block = copy.block
    values = [indices.of(tree.bindings(block)[n]) for n in copy.numbers]
    used = {n for value in values for n in symbols_of(value)}
    copies: dict[str, Dim] = {}
    around, position = _place(copy)
    place = statement_point(around, position)
    outside = {around, *tree.ancestors(around)} if tree.is_loop(around) else set()
    for loop in tree.enclosing_loops(block):
        symbol = indices.symbol(loop_var(loop))
        if symbol not in used or loop in outside:
            continue
        low, extent = (substitute(d, copies) for d in loop_bounds(indices, loop))
        dtype = tree.axis_dtypes(block)[0]
        attributes = edit.loop_attributes(tree.loop_name(loop), dtype=dtype)
        with place:
            made = edit.make_loop(indices, extent, attributes, low)
        copies[symbol] = indices.of(loop_var(made))
        place = edit.point_before(edit.terminator(tree.body(made)))
    made_of = [substitute(v, copies) for v in values]
    with place:
        new = edit.make_block(
            name,
            [
                Axis("S", axes[n].extent, axes[n].name, axes[n].dtype)
                for n in copy.numbers
            ],
            [indices.emit(v) for v in made_of],
            indices.emit,
        )
    where = f"reindex_cache_{'read' if copy.is_read else 'write'}"
    _left_out(copy, indices, where)
    seen = used | _sizes(block, indices)
    conditions = predicates.block_conditions(block, indices)
    kept = [
        c.replaced(copies, {})
        for c in conditions
        if c.value is None and set(symbols_of(c.slack)) <= seen
    ]
    # What kept an axis in its extent may depend on loops that the copy does not have.
    whole = [Run(0, axes[n].extent - 1) for n in copy.numbers]
    known = {c.slack for c in kept}
    bounds = [c for c in axis_bounds(made_of, whole) if c.slack not in known]
    kept += legality.drop_proved(bounds, indices, tree.parent_of(new))
    predicates.set_predicate(new, kept, indices)
    return new

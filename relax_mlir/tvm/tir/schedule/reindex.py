"""The ``reindex`` and ``reindex_cache_read``/``_write`` primitives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from mlir import ir

from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.errors import ScheduleError, short_repr
from relax_mlir.rewrite import patterns
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.bounds import bounds
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.symbols import substitute, symbols_of
from relax_mlir.tvm.tir.schedule import (
    accesses,
    dependences,
    edit,
    legality,
    predicates,
    regions,
    tree,
)
from relax_mlir.tvm.tir.schedule.axis_conditions import (
    domain_conditions,
    iter_conditions,
    substitute_iters,
)
from relax_mlir.tvm.tir.schedule.cache import (
    alloc_buffer,
    insertion_point_at,
    load_element,
    only_writer,
    read_stage_position,
    write_stage_position,
)
from relax_mlir.tvm.tir.schedule.decompose import iter_vars_of
from relax_mlir.tvm.tir.schedule.edit import IterVarSpec
from relax_mlir.tvm.tir.schedule.index_map import IndexMap
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols, simplify
from relax_mlir.tvm.tir.schedule.layout import map_expressions, size_symbols
from relax_mlir.tvm.tir.schedule.new_axes import iter_symbol, iter_symbols
from relax_mlir.tvm.tir.schedule.predicates import Condition
from relax_mlir.tvm.tir.schedule.regions import Interval
from relax_mlir.tvm.tir.schedule.state import (
    ScheduleState,
    iter_extents,
    limits_at,
    loop_bounds,
    loop_var,
)
from relax_mlir.tvm.tir.schedule.whole_writes import is_conditional

__all__ = ["insertion_point_beside", "make_loops_over", "reindex", "reindex_cache"]


@dataclass(frozen=True)
class _Copy:
    """A copy of the elements that a block accesses.

    Attributes:
        block: the block.
        buffer: the buffer.
        place: the indices of the access, in the symbols of the iter vars.
        numbers: the iter vars used in the indices.
        is_read: whether the block reads the copy; else it writes it.
    """

    block: ir.Operation
    buffer: ir.Value
    place: Sequence[Dim]
    numbers: Sequence[int]
    is_read: bool


def reindex(
    state: ScheduleState, block: ir.Operation, buffer: ir.Value, *, is_read: bool
) -> ir.Operation:
    """Redirect a block to a copy indexed by its iter vars; see :meth:`Schedule.reindex`."""
    found = _match_access(block, buffer, "reindex", is_read=is_read)
    legality.check_bindings_in_scope(block, "reindex")
    _check_order(found)
    name = f"{accesses.buffer_name(buffer)}_reindex"
    with state.change(block) as indices:
        axes = [iter_vars_of(block, indices)[n] for n in found.numbers]
        cached = alloc_buffer(
            tree.scope_of(block),
            [axis.start + axis.extent for axis in axes],
            buffer,
            name,
            accesses.storage_scope(buffer),
            indices,
        )
        cached_indices = [_symbol(n) for n in found.numbers]
        with insertion_point_beside(block, is_read=is_read):
            variables, insertion_point = make_loops_over(axes, indices)
        new_axes = [replace(a, kind="S", name=f"v{n}") for n, a in enumerate(axes)]
        conditions = _excluding_conditions(found, indices, "reindex")
        with insertion_point:
            made = edit.make_block(
                f"{name}_reindex" if is_read else name,
                new_axes,
                variables,
                indices.emit,
            )
        values = dict(zip(found.numbers, map(indices.of, variables), strict=True))
        predicates.set_predicate(made, substitute_iters(conditions, values), indices)
        _fill(made, found, cached, cached_indices, indices)
        _redirect(found, cached, cached_indices)
        edit.rematerialize_all(tree.function_of(block))
        return made


def _symbol(number: int) -> Dim:
    return dims.symbol(iter_symbol(number))


def _match_access(
    block: ir.Operation, buffer: ir.Value, where: str, *, is_read: bool
) -> _Copy:
    """The access pattern of a block to a buffer, one element for each instance.

    Raises:
        ScheduleError: it accesses several, or not element by element.
    """
    legality.check_not_root(block, where)
    legality.check_outside_init([block], where)
    if not is_read:
        dependences.check_no_control_dependence(block, where)
        _check_unconditional(block, where)
    legality.check_iter_mins(block, where, may_be_above_0=where == "reindex")
    indices = IndexSymbols()
    known = iter_symbols(block, indices)
    limits = limits_at(indices, block)
    access_patterns: set[tuple[Dim, ...]] = set()
    for access in accesses.accesses_in(block):
        if access.buffer != buffer:
            continue
        if access.is_opaque:
            raise ScheduleError(
                f"{where}: {tree.describe(block)} accesses "
                f"`{accesses.buffer_name(buffer)}` by its address or through "
                "`match_buffer`: expected plain reads and writes of its elements"
            )
        found = [simplify(d, limits) for d in access.indices(indices)]
        access_patterns.add(tuple(substitute(d, known) for d in found))
    is_own = buffer in accesses.allocated_buffers(tree.scope_of(block))
    if not is_read and not is_own and _stores_conditionally(block, buffer):
        raise ScheduleError(
            f"{where}: {tree.describe(block)} stores `{accesses.buffer_name(buffer)}` under "
            "a condition: expected an unconditional store in each instance"
        )
    if is_read and buffer in accesses.buffers_written(block):
        raise ScheduleError(
            f"{where}: {tree.describe(block)} also writes "
            f"`{accesses.buffer_name(buffer)}`: expected that it only reads it"
        )
    updates_earlier_value = not is_read and tree.init_block_of(block) is None
    if updates_earlier_value and buffer in accesses.buffers_read(block):
        raise ScheduleError(
            f"{where}: {tree.describe(block)} updates the earlier value of "
            f"`{accesses.buffer_name(buffer)}`: expected an init block (`T.init`)"
        )
    if len(access_patterns) != 1:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} accesses "
            f"`{accesses.buffer_name(buffer)}` at {len(access_patterns)} places of an instance: "
            "expected one single place"
        )
    (element_indices,) = access_patterns
    used = {name for dim in element_indices for name in symbols_of(dim)}
    count = len(tree.iter_kinds(block))
    numbers = [n for n in range(count) if iter_symbol(n) in used]
    if not used <= {*map(iter_symbol, numbers), *_sizes(block, indices)}:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} accesses `{accesses.buffer_name(buffer)}` at "
            "loop variables: expected only its own iter vars"
        )
    found = _Copy(block, buffer, element_indices, numbers, is_read)
    _check_within_buffer(found, indices, where)
    return found


def _check_unconditional(block: ir.Operation, where: str) -> None:
    """Reject conditional blocks, whose result would be copied back unconditionally."""
    scope = tree.scope_of(block)
    for around in takewhile(lambda o: o != scope, tree.ancestors(block)):
        if not (tree.is_loop(around) or tree.is_predicate(around)):
            raise ScheduleError(
                f"{where}: {tree.describe(block)} is under a condition and may leave "
                "out elements: expected one nested only in loops"
            )


def _stores_conditionally(block: ir.Operation, buffer: ir.Value) -> bool:
    """Whether all stores to a buffer in the body of a block are conditional."""
    found = accesses.accesses_in(tree.body(block))
    stores = [a for a in found if a.buffer == buffer and a.is_write]
    return all(is_conditional(a, block) for a in stores)


def _check_within_buffer(copy: _Copy, indices: IndexSymbols, where: str) -> None:
    """Reject indices out of bounds, which conditions keep a block from accessing."""
    block = copy.block
    conditions = _excluding_conditions(copy, indices, where)
    copied_accesses = [
        a for a in accesses.accesses_in(block) if a.buffer == copy.buffer
    ]
    is_guarded = all(is_conditional(a, block) for a in copied_accesses)
    if conditions and not is_guarded:
        return  # the copy has the same predicate
    around = limits_at(indices, block)
    domains = {
        iter_symbol(number): Interval(start, start + extent - 1)
        for number, (start, extent) in enumerate(
            zip(tree.iter_var_mins(block), iter_extents(indices, block), strict=True)
        )
    }
    upper_bounds = {name: interval.high for name, interval in domains.items()}
    limits = around | {
        name: (bounds(interval.low, around)[0], bounds(interval.high, around)[1])
        for name, interval in domains.items()
    }
    slacks = [0, *(condition.slack for condition in conditions)]
    for dim, size in zip(copy.place, accesses.buffer_shape(copy.buffer), strict=True):
        interval = regions.evaluate_interval(dim, domains, around)
        ends = interval.low, size - 1 - interval.high
        is_outside = any(isinstance(end, int) and end < 0 for end in ends)
        is_inside = all(
            any(
                predicates.is_nonnegative(gap - s, limits, upper_bounds) for s in slacks
            )
            for gap in (dim, size - 1 - dim)
        )
        if not is_inside if is_guarded else is_outside:
            raise ScheduleError(
                f"{where}: {tree.describe(block)} accesses "
                f"`{accesses.buffer_name(copy.buffer)}` under a condition, at indices from "
                f"{interval.low} to {interval.high} of {size}: expected indices within the buffer"
            )


def _sizes(block: ir.Operation, indices: IndexSymbols) -> set[str]:
    """The symbols of the symbolic sizes."""
    arguments = tree.body(tree.function_of(block)).arguments
    return {
        indices.symbol(argument)
        for argument in arguments
        if isinstance(argument.type, ir.IndexType)
    }


def _check_order(copy: _Copy) -> None:
    """Reject other blocks in the same loops that write or use the copied buffer."""
    block, scope = copy.block, tree.scope_of(copy.block)
    changing = accesses.writers_of(scope, copy.buffer)
    if not copy.is_read:
        changing += accesses.readers_of(scope, copy.buffer)
    top = set(tree.subtree(tree.child_containing(scope, block)))
    for other in changing:
        if other != block and other in top:
            raise ScheduleError(
                f"reindex: {tree.describe(other)} uses "
                f"`{accesses.buffer_name(copy.buffer)}`, and is in a loop with "
                f"{tree.describe(block)}: expected loops of its own"
            )


def _excluding_conditions(
    copy: _Copy, indices: IndexSymbols, where: str
) -> list[Condition]:
    """The conditions that exclude instances, for which there is nothing to copy.

    Raises:
        ScheduleError: a write depends on iter vars that the copy does not have.
    """
    conditions = predicates.block_conditions(copy.block, indices)
    if copy.is_read and any(c.value is not None for c in conditions):
        return []  # it may copy more than the block reads
    found = iter_conditions(copy.block, indices, where)
    known = set(map(iter_symbol, copy.numbers))
    axes = set(map(iter_symbol, range(len(tree.iter_kinds(copy.block)))))
    kept = [c for c in found if not (axes & set(symbols_of(c.slack))) - known]
    if len(kept) < len(found) and not copy.is_read:
        raise ScheduleError(
            f"{where}: the predicate of {tree.describe(copy.block)} depends on an axis "
            f"that is not an index of `{accesses.buffer_name(copy.buffer)}`"
        )
    return kept


def insertion_point_beside(block: ir.Operation, *, is_read: bool) -> ir.InsertionPoint:
    """The insertion point before or after the statement of the scope that contains a block."""
    scope = tree.scope_of(block)
    position = tree.statement_index(scope, block)
    return insertion_point_at(scope, position if is_read else position + 1)


def make_loops_over(
    axes: Sequence[IterVarSpec], indices: IndexSymbols
) -> tuple[list[ir.Value], ir.InsertionPoint]:
    """Loops ``ax0``, ``ax1``, ... over iter vars; their variables, and the innermost point."""
    variables: list[ir.Value] = []
    insertion_point = ir.InsertionPoint.current
    for number, axis in enumerate(axes):
        attributes = edit.loop_attributes(f"ax{number}", dtype=axis.dtype)
        with insertion_point:
            made = edit.make_loop(indices, axis.extent, attributes, axis.start)
        variables.append(loop_var(made))
        insertion_point = edit.insertion_point_before(edit.terminator(tree.body(made)))
    return variables, insertion_point


def _fill(
    made: ir.Operation,
    copy: _Copy,
    cached: ir.Value,
    cached_indices: Sequence[Dim],
    indices: IndexSymbols,
) -> None:
    """Creates the body of a block that copies one element."""
    inner = edit.create_region(made, 1)
    iter_values = {
        iter_symbol(number): indices.of(argument)
        for number, argument in zip(copy.numbers, inner.arguments, strict=True)
    }
    limits = limits_at(indices, made)
    with edit.insertion_point_before(edit.terminator(inner)):
        outer, own = (
            [indices.emit(simplify(substitute(d, iter_values), limits)) for d in place]
            for place in (copy.place, cached_indices)
        )
        sides = [(copy.buffer, outer), (cached, own)]
        (source, read_at), (target, write_at) = sides if copy.is_read else sides[::-1]
        value = load_element(source, read_at)
        ir.Operation.create("memref.store", operands=[value, target, *write_at])


def _redirect(copy: _Copy, cached: ir.Value, cached_indices: Sequence[Dim]) -> None:
    """Redirect the accesses of a block to the copy."""
    for access in accesses.accesses_in(copy.block):
        if access.buffer != copy.buffer:
            continue
        op = access.op
        indices = IndexSymbols()
        indices.add_size_symbols(tree.function_of(op))
        region = tree.region_containing(copy.block, op)
        iter_values = {
            iter_symbol(n): indices.of(a) for n, a in enumerate(region.arguments)
        }
        limits = limits_at(indices, tree.parent_of(op))
        with edit.insertion_point_before(op):
            new_indices = [
                indices.emit(simplify(substitute(d, iter_values), limits))
                for d in cached_indices
            ]
            if access.is_write:
                operands = [op.operands[0], cached, *new_indices]
                ir.Operation.create("memref.store", operands=operands)
                patterns.erase(op)
            else:
                value = emit("memref.load", op.results[0].type, cached, *new_indices)
                patterns.replace(op, value)


def reindex_cache(
    state: ScheduleState,
    block: ir.Operation,
    buffer: ir.Value,
    memory: str,
    index_map: IndexMap,
    *,
    is_read: bool,
) -> ir.Operation:
    """Redirect a block to a cache indexed by a map of its iter vars.

    See :meth:`Schedule.reindex_cache_read` and :meth:`Schedule.reindex_cache_write`.
    """
    where = f"reindex_cache_{'read' if is_read else 'write'}"
    accesses.check_storage_scope(memory, where)
    found = _match_access(block, buffer, where, is_read=is_read)
    count = len(tree.iter_kinds(block))
    if len(index_map.initial_indices) != count:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} has {count} iter vars: expected a map of "
            f"{count} indices, got {short_repr(index_map)}"
        )
    with state.change(block) as indices:
        axes = iter_vars_of(block, indices)
        cache_indices, shape = _map_iters(block, axes, index_map)
        _check_same_iters(block, axes, found, cache_indices, where)
        name = f"{accesses.buffer_name(buffer)}_{memory.replace('.', '_')}"
        scope = tree.scope_of(block)
        cached = alloc_buffer(scope, shape, buffer, name, memory, indices)
        made = _create_copy(found, name, axes, indices)
        _fill(made, found, cached, cache_indices, indices)
        _redirect(found, cached, cache_indices)
        edit.rematerialize_all(tree.function_of(block))
        return made


def _map_iters(
    block: ir.Operation, axes: Sequence[IterVarSpec], index_map: IndexMap
) -> tuple[list[Dim], list[Dim]]:
    """The cache indices in terms of iter vars, and the shape of the cache."""
    limits = {
        iter_symbol(n): (0, a.extent - 1 if isinstance(a.extent, int) else None)
        for n, a in enumerate(axes)
    }
    iters = [_symbol(n) for n in range(len(axes))]
    cache_indices = map_expressions(
        iters, index_map, size_symbols(block, index_map), limits
    )
    if cache_indices is None:
        raise ScheduleError(
            f"reindex_cache: expected a map of sums, products and quotients, got "
            f"{index_map!r}"
        )
    domains = {iter_symbol(n): Interval(0, a.extent - 1) for n, a in enumerate(axes)}
    intervals = [regions.evaluate_interval(d, domains, limits) for d in cache_indices]
    return cache_indices, [simplify(r.extent, limits) for r in intervals]


def _check_same_iters(
    block: ir.Operation,
    axes: Sequence[IterVarSpec],
    copy: _Copy,
    cache_indices: Sequence[Dim],
    where: str,
) -> None:
    mentioned = {name for dim in cache_indices for name in symbols_of(dim)}
    for number, axis in enumerate(axes):
        is_mapped = iter_symbol(number) in mentioned
        if is_mapped != (number in copy.numbers):
            present, missing = ("the map", "the indices of the buffer")
            if not is_mapped:
                present, missing = missing, present
            raise ScheduleError(
                f"{where}: {tree.describe(block)}: the axis `{axis.name}` appears in "
                f"{present}, but not in {missing}"
            )


def _copy_position(copy: _Copy) -> tuple[ir.Operation, int]:
    """The loop or scope that contains the copy, and the statement it precedes."""
    scope = tree.scope_of(copy.block)
    where = f"reindex_cache_{'read' if copy.is_read else 'write'}"
    if copy.is_read:
        writer = only_writer(scope, copy.buffer, where)
        return read_stage_position(scope, writer, [copy.block])
    readers = accesses.readers_of(scope, copy.buffer)
    others = [r for r in readers if r != copy.block]
    around, position = write_stage_position(scope, copy.block, others)
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


def _create_copy(
    copy: _Copy, name: str, axes: Sequence[IterVarSpec], indices: IndexSymbols
) -> ir.Operation:
    """Creates the copying block over the iter vars used, in copies of their loops."""
    block = copy.block
    values = [indices.of(tree.bindings(block)[n]) for n in copy.numbers]
    used = {n for value in values for n in symbols_of(value)}
    copies: dict[str, Dim] = {}
    around, position = _copy_position(copy)
    insertion_point = insertion_point_at(around, position)
    outside = {around, *tree.ancestors(around)} if tree.is_loop(around) else set()
    for loop in tree.enclosing_loops(block):
        symbol = indices.symbol(loop_var(loop))
        if symbol not in used or loop in outside:
            continue
        low, extent = (substitute(d, copies) for d in loop_bounds(indices, loop))
        dtype = tree.iter_var_dtypes(block)[0]
        attributes = edit.loop_attributes(tree.loop_name(loop), dtype=dtype)
        with insertion_point:
            made = edit.make_loop(indices, extent, attributes, low)
        copies[symbol] = indices.of(loop_var(made))
        insertion_point = edit.insertion_point_before(edit.terminator(tree.body(made)))
    bindings = [substitute(v, copies) for v in values]
    with insertion_point:
        new = edit.make_block(
            name,
            [
                IterVarSpec("S", axes[n].extent, axes[n].name, axes[n].dtype)
                for n in copy.numbers
            ],
            [indices.emit(v) for v in bindings],
            indices.emit,
        )
    where = f"reindex_cache_{'read' if copy.is_read else 'write'}"
    _excluding_conditions(copy, indices, where)
    available = used | _sizes(block, indices)
    conditions = predicates.block_conditions(block, indices)
    kept = [
        c.replaced(copies, {})
        for c in conditions
        if c.value is None and set(symbols_of(c.slack)) <= available
    ]
    # The predicate that bounded an iter var may depend on loops that the copy lacks.
    domains = [Interval(0, axes[n].extent - 1) for n in copy.numbers]
    known = {c.slack for c in kept}
    bounds = [c for c in domain_conditions(bindings, domains) if c.slack not in known]
    kept += legality.unproved_conditions(bounds, indices, tree.parent_of(new))
    predicates.set_predicate(new, kept, indices)
    return new

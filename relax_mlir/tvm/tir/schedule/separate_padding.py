"""The ``decompose_padding`` primitive: a fill of the padding value and a copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.errors import ScheduleError
from relax_mlir.ir.traversal import only_store, own_operations
from relax_mlir.rewrite import patterns
from relax_mlir.symbolic.dims import Dim, symbol
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
from relax_mlir.tvm.tir.schedule.decompose import iter_vars_of
from relax_mlir.tvm.tir.schedule.edit import IterVarSpec
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols, fold_single_values
from relax_mlir.tvm.tir.schedule.predicates import Condition
from relax_mlir.tvm.tir.schedule.refresh import simplify_operands
from relax_mlir.tvm.tir.schedule.regions import Interval
from relax_mlir.tvm.tir.schedule.state import (
    ScheduleState,
    iter_extents,
    limits_at,
    loop_bounds,
    loop_var,
)

__all__ = ["check_decompose_padding", "decompose_padding"]

_WHERE = "decompose_padding"


@dataclass(frozen=True)
class _Padding:
    """A store of an element where a condition holds, and of a constant elsewhere.

    Attributes:
        selection: the ``scf.if`` that yields the stored value.
        store: the store.
        conditions: those under which an element is stored, in terms of the iter vars.
        intervals: the intervals of the iter vars where they hold.
    """

    selection: ir.Operation
    store: ir.Operation
    conditions: Sequence[Condition]
    intervals: Sequence[Interval]


def check_decompose_padding(block: ir.Operation, loop: ir.Operation) -> None:
    """Reject blocks that :func:`decompose_padding` does not support.

    Raises:
        ScheduleError: names the reason.
    """
    legality.check_not_root(block, _WHERE)
    legality.check_iter_mins(block, _WHERE)
    legality.check_complete(block, _WHERE)
    around = tree.enclosing_loops(block)
    if loop not in around:
        raise ScheduleError(
            f"{_WHERE}: {tree.describe(loop)} is not around {tree.describe(block)}"
        )
    dependences.check_init_hoist(block, around[around.index(loop) :], _WHERE)
    _match(block, IndexSymbols())


def decompose_padding(
    state: ScheduleState, block: ir.Operation, loop: ir.Operation
) -> ir.Operation:
    """Separate the fill of the padding value; see :meth:`Schedule.decompose_padding`."""
    check_decompose_padding(block, loop)
    with state.change(block) as indices:
        padding = _match(block, indices)
        around = tree.enclosing_loops(block)
        inner = around[around.index(loop) :]
        made = _create_fill_block(block, padding, inner, indices)
        _restrict_to_elements(state, block, padding, inner, indices)
        return made


def _match(block: ir.Operation, indices: IndexSymbols) -> _Padding:
    *operations, _ = own_operations(tree.body(block))
    listed = [op.operation for op in operations]
    store = only_store(tree.body(block))
    selections = [op for op in listed if op.name == "scf.if"]
    if store is None or len(selections) != 1 or tree.init_block_of(block) is not None:
        raise _unmatched(block)
    (selection,) = selections
    if list(selection.results) != [store.operands[0]] or not _yields_constant(
        selection
    ):
        raise _unmatched(block)
    found = predicates.conditions_of(selection.operands[0], indices)
    return _Padding(
        selection, store.operation, found, _element_intervals(block, found, indices)
    )


def _yields_constant(selection: ir.Operation) -> bool:
    """Whether the else branch yields a constant."""
    *_, last = own_operations(selection.regions[1].blocks[0])
    owner = last.operation.operands[0].owner
    return not isinstance(owner, ir.Block) and owner.name == "arith.constant"


def _unmatched(block: ir.Operation) -> ScheduleError:
    return ScheduleError(
        f"{_WHERE}: {tree.describe(block)}: expected one store of an element where a "
        "condition holds, and of a constant elsewhere"
    )


def _element_intervals(
    block: ir.Operation, conditions: Sequence[Condition], indices: IndexSymbols
) -> list[Interval]:
    """The interval of each iter var where the conditions hold; each bounds one iter var."""
    names = [indices.symbol(a) for a in tree.body(block).arguments]
    extents = iter_extents(indices, block)
    domains = [Interval(0, extent - 1) for extent in extents]
    found = list(domains)
    for condition in conditions:
        used = [n for n in symbols_of(condition.slack) if n in names]
        if condition.value is not None or len(used) != 1:
            raise _unsupported_condition(block)
        number = names.index(used[0])
        lower_slack = condition.slack - symbol(used[0])
        upper_bound = condition.slack + symbol(used[0])
        interval = found[number]
        if used[0] not in symbols_of(lower_slack):
            found[number] = Interval(-lower_slack, interval.high)
        elif used[0] not in symbols_of(upper_bound):
            found[number] = Interval(interval.low, upper_bound)
        else:
            raise _unsupported_condition(block)
    limits, upper_bounds = (
        limits_at(indices, block),
        legality.upper_bounds_at(indices, block),
    )
    found = [
        legality.clip_to_extent(r, e, limits, upper_bounds)
        for r, e in zip(found, extents, strict=True)
    ]
    if found == domains:
        raise ScheduleError(f"{_WHERE}: {tree.describe(block)} pads nothing")
    if any(
        isinstance(interval.extent, int) and interval.extent < 1 for interval in found
    ):
        raise ScheduleError(f"{_WHERE}: {tree.describe(block)} stores no elements")
    return found


def _unsupported_condition(block: ir.Operation) -> ScheduleError:
    return ScheduleError(
        f"{_WHERE}: {tree.describe(block)}: expected conditions that each compare one axis "
        "with a constant"
    )


def _create_fill_block(
    block: ir.Operation,
    padding: _Padding,
    loops: Sequence[ir.Operation],
    indices: IndexSymbols,
) -> ir.Operation:
    """Creates the block that stores the padding value, in copies of the loops, before them."""
    insertion_point, copies = edit.insertion_point_before(loops[0]), dict[str, Dim]()
    for loop in loops:
        low, extent = loop_bounds(indices, loop)
        name = tree.loop_name(loop)
        with insertion_point:
            made = edit.make_loop(
                indices,
                substitute(extent, copies),
                edit.loop_attributes(name, dtype=tree.string_attr(loop, "tir.dtype")),
                substitute(low, copies),
            )
        copies[indices.symbol(loop_var(loop))] = indices.of(loop_var(made))
        insertion_point = edit.insertion_point_before(edit.terminator(tree.body(made)))
    limits = limits_at(indices, block)
    values = [fold_single_values(indices.of(v), limits) for v in tree.bindings(block)]
    with insertion_point:
        new = edit.make_block(
            tree.block_name(block) + "_pad_const",
            iter_vars_of(block, indices),
            [indices.emit(substitute(v, copies)) for v in values],
            indices.emit,
        )
    _create_fill_body(block, padding, new)
    known = [
        c.replaced(copies, {}) for c in predicates.block_conditions(block, indices)
    ]
    predicates.set_predicate(new, known, indices)
    return new


def _create_fill_body(
    block: ir.Operation, padding: _Padding, new: ir.Operation
) -> None:
    inner = edit.create_region(new, 1)
    old = tree.body(block).arguments
    copies: dict[ir.Value, ir.Value] = dict(zip(old, inner.arguments, strict=True))
    *_, last = own_operations(padding.selection.regions[1].blocks[0])
    with edit.insertion_point_before(edit.terminator(inner)):
        number = edit.clone_expression(last.operation.operands[0], {})
        element_indices = [
            edit.clone_expression(v, copies) for v in list(padding.store.operands)[2:]
        ]
        buffer = padding.store.operands[1]
        ir.Operation.create("memref.store", operands=[number, buffer, *element_indices])


def _restrict_to_elements(
    state: ScheduleState,
    block: ir.Operation,
    padding: _Padding,
    loops: Sequence[ir.Operation],
    indices: IndexSymbols,
) -> None:
    """Restrict the loops and iter vars of the block to the copied elements."""
    limits = limits_at(indices, block)
    bindings = regions.binding_values(block, indices)
    conditions = [c.replaced(dict(bindings), limits) for c in padding.conditions]
    existing = predicates.block_conditions(block, indices)
    values = [fold_single_values(indices.of(v), limits) for v in tree.bindings(block)]
    shifted: dict[str, Dim] = {}
    for number, (value, interval) in enumerate(
        zip(values, padding.intervals, strict=True)
    ):
        own_loops = [loop for loop in loops if tree.blocks_below(loop) == [block]]
        loop = _own_loop(own_loops, value, values, indices)
        if loop is None:
            values[number] = value - interval.low
            continue
        shifted[indices.symbol(loop_var(loop))] = value + interval.low
        with edit.insertion_point_before(loop):
            loop.operands[1] = indices.emit(interval.extent)
    _replace_selection(block, padding)
    made = _create_copy_block(state, block, padding.intervals, values, indices)
    found = [c.replaced(shifted, {}) for c in (*conditions, *existing)]
    around = tree.parent_of(tree.realize_of(made))
    remaining = legality.unproved_conditions(found, indices, around)
    predicates.set_predicate(made, [c.canonical() for c in remaining], indices)
    simplify_operands(loops[0])


def _own_loop(
    loops: Sequence[ir.Operation],
    value: Dim,
    values: Sequence[Dim],
    indices: IndexSymbols,
) -> ir.Operation | None:
    """The loop from 0 that only one iter var is bound to; None if there is none."""
    for loop in loops:
        name = indices.symbol(loop_var(loop))
        users = [v for v in values if name in symbols_of(v)]
        if value == symbol(name) and users == [value]:
            low, _ = loop_bounds(indices, loop)
            return loop if low == 0 else None
    return None


def _replace_selection(block: ir.Operation, padding: _Padding) -> None:
    """Replace the selection by its then branch."""
    inner = padding.selection.regions[0].blocks[0]
    *operations, last = own_operations(inner)
    for op in operations:
        op.operation.move_before(padding.selection)
    patterns.replace(padding.selection, last.operation.operands[0])
    edit.erase_dead_arithmetic(block)


def _create_copy_block(
    state: ScheduleState,
    block: ir.Operation,
    intervals: Sequence[Interval],
    values: Sequence[Dim],
    indices: IndexSymbols,
) -> ir.Operation:
    """Recreates the block with iter vars relative to the start of their intervals."""
    old = iter_vars_of(block, indices)
    axes = [
        IterVarSpec(a.kind, interval.extent, a.name, a.dtype)
        for a, interval in zip(old, intervals, strict=True)
    ]
    with edit.insertion_point_before(block):
        made = edit.make_block(
            tree.block_name(block),
            axes,
            [indices.emit(v) for v in values],
            indices.emit,
            tree.annotations_of(block),
        )
    inner = edit.create_region(made, 1)
    mapping: dict[ir.Value, ir.Value] = {}
    with edit.insertion_point_before(edit.terminator(inner)):
        for argument, new, interval in zip(
            tree.body(block).arguments, inner.arguments, intervals, strict=True
        ):
            mapping[argument] = indices.emit(interval.low + indices.of(new))
        *operations, _ = own_operations(tree.body(block))
        for op in operations:
            patterns.clone(op, mapping)
    _simplify_indices(inner, indices)
    state.replace(block, made)
    patterns.erase(block)
    return made


def _simplify_indices(region: ir.Block, indices: IndexSymbols) -> None:
    """Rebuild the indices of accesses in canonical form."""
    for access in accesses.accesses_in(region):
        first = len(access.op.operands) - len(access.index_values)
        with edit.insertion_point_before(access.op):
            for number, value in enumerate(access.index_values):
                access.op.operands[first + number] = indices.emit(indices.of(value))

"""The primitive that stores what a buffer is padded with in a block of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir import rewriting
from relax_mlir.dialects.dims import Dim, symbol
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import (
    accesses,
    dependences,
    edit,
    legality,
    predicates,
    regions,
    tree,
)
from relax_mlir.tir.schedule.decompose import axes_of
from relax_mlir.tir.schedule.edit import Axis
from relax_mlir.tir.schedule.indices import Indices, without_units
from relax_mlir.tir.schedule.predicates import Condition
from relax_mlir.tir.schedule.refresh import refresh
from relax_mlir.tir.schedule.regions import Run
from relax_mlir.tir.schedule.state import (
    ScheduleState,
    extents_of,
    limits_at,
    loop_bounds,
    loop_var,
)
from relax_mlir.traversal import only_store, own_operations

__all__ = ["check", "decompose_padding"]

_WHERE = "decompose_padding"


@dataclass(frozen=True)
class _Padding:
    """A store of an element where a condition holds, and of a number elsewhere.

    Attributes:
        choice: what chooses.
        store: the store.
        conditions: when it is an element, in terms of the axes.
        runs: the values that axes then take.
    """

    choice: ir.Operation
    store: ir.Operation
    conditions: Sequence[Condition]
    runs: Sequence[Run]


def check(block: ir.Operation, loop: ir.Operation) -> None:
    """Refuse what :func:`decompose_padding` cannot do.

    Raises:
        ScheduleError: says why.
    """
    legality.check_not_root(block, _WHERE)
    legality.check_axis_starts(block, _WHERE)
    legality.check_complete(block, _WHERE)
    around = tree.enclosing_loops(block)
    if loop not in around:
        raise ScheduleError(
            f"{_WHERE}: {tree.describe(loop)} is not around {tree.describe(block)}"
        )
    dependences.check_start_hoisted(block, around[around.index(loop) :], _WHERE)
    _matched(block, Indices())


def decompose_padding(
    state: ScheduleState, block: ir.Operation, loop: ir.Operation
) -> ir.Operation:
    """Store what pads first; see :meth:`Schedule.decompose_padding`."""
    check(block, loop)
    with state.change(block) as indices:
        padding = _matched(block, indices)
        around = tree.enclosing_loops(block)
        inner = around[around.index(loop) :]
        made = _number_block(block, padding, inner, indices)
        _narrow(state, block, padding, inner, indices)
        return made


def _matched(block: ir.Operation, indices: Indices) -> _Padding:
    *operations, _ = own_operations(tree.body(block))
    listed = [op.operation for op in operations]
    store = only_store(tree.body(block))
    choices = [op for op in listed if op.name == "scf.if"]
    if store is None or len(choices) != 1 or tree.init_of(block) is not None:
        raise _unmatched(block)
    (choice,) = choices
    if list(choice.results) != [store.operands[0]] or not _is_number(choice):
        raise _unmatched(block)
    found = predicates.conditions_of(choice.operands[0], indices)
    return _Padding(choice, store.operation, found, _runs(block, found, indices))


def _is_number(choice: ir.Operation) -> bool:
    """Whether a number is chosen where a condition does not hold."""
    *_, last = own_operations(choice.regions[1].blocks[0])
    owner = last.operation.operands[0].owner
    return not isinstance(owner, ir.Block) and owner.name == "arith.constant"


def _unmatched(block: ir.Operation) -> ScheduleError:
    return ScheduleError(
        f"{_WHERE}: {tree.describe(block)}: expected one store of an element where a "
        "condition holds, and of a number elsewhere"
    )


def _runs(
    block: ir.Operation, conditions: Sequence[Condition], indices: Indices
) -> list[Run]:
    """The values that axes take where conditions hold, each of which is on one axis."""
    names = [indices.symbol(a) for a in tree.body(block).arguments]
    extents = extents_of(indices, block)
    whole = [Run(0, extent - 1) for extent in extents]
    found = list(whole)
    for condition in conditions:
        used = [n for n in symbols_of(condition.slack) if n in names]
        if condition.value is not None or len(used) != 1:
            raise _dependent(block)
        number = names.index(used[0])
        rest = condition.slack - symbol(used[0])
        upper = condition.slack + symbol(used[0])
        run = found[number]
        if used[0] not in symbols_of(rest):
            found[number] = Run(-rest, run.high)
        elif used[0] not in symbols_of(upper):
            found[number] = Run(run.low, upper)
        else:
            raise _dependent(block)
    limits, tops = limits_at(indices, block), legality.tops_at(indices, block)
    found = [
        legality.run_within(r, e, limits, tops)
        for r, e in zip(found, extents, strict=True)
    ]
    if found == whole:
        raise ScheduleError(f"{_WHERE}: {tree.describe(block)} pads nothing")
    if any(isinstance(run.extent, int) and run.extent < 1 for run in found):
        raise ScheduleError(f"{_WHERE}: {tree.describe(block)} stores no elements")
    return found


def _dependent(block: ir.Operation) -> ScheduleError:
    return ScheduleError(
        f"{_WHERE}: {tree.describe(block)}: expected conditions that compare one axis "
        "each with a number"
    )


def _number_block(
    block: ir.Operation,
    padding: _Padding,
    loops: Sequence[ir.Operation],
    indices: Indices,
) -> ir.Operation:
    """The number, stored everywhere, in copies of loops before them."""
    place, copies = edit.point_before(loops[0]), dict[str, Dim]()
    for loop in loops:
        low, extent = loop_bounds(indices, loop)
        name = tree.loop_name(loop)
        with place:
            made = edit.make_loop(
                indices,
                substitute(extent, copies),
                edit.loop_attributes(name, dtype=tree.string_attr(loop, "tir.dtype")),
                substitute(low, copies),
            )
        copies[indices.symbol(loop_var(loop))] = indices.of(loop_var(made))
        place = edit.point_before(edit.terminator(tree.body(made)))
    limits = limits_at(indices, block)
    values = [without_units(indices.of(v), limits) for v in tree.bindings(block)]
    with place:
        new = edit.make_block(
            tree.block_name(block) + "_pad_const",
            axes_of(block, indices),
            [indices.emit(substitute(v, copies)) for v in values],
            indices.emit,
        )
    _store_number(block, padding, new)
    known = [
        c.replaced(copies, {}) for c in predicates.block_conditions(block, indices)
    ]
    predicates.set_predicate(new, known, indices)
    return new


def _store_number(block: ir.Operation, padding: _Padding, new: ir.Operation) -> None:
    inner = edit.open_region(new, 1)
    old = tree.body(block).arguments
    copies: dict[ir.Value, ir.Value] = dict(zip(old, inner.arguments, strict=True))
    *_, last = own_operations(padding.choice.regions[1].blocks[0])
    with edit.point_before(edit.terminator(inner)):
        number = edit.copy_of(last.operation.operands[0], {})
        place = [edit.copy_of(v, copies) for v in list(padding.store.operands)[2:]]
        buffer = padding.store.operands[1]
        ir.Operation.create("memref.store", operands=[number, buffer, *place])


def _narrow(
    state: ScheduleState,
    block: ir.Operation,
    padding: _Padding,
    loops: Sequence[ir.Operation],
    indices: Indices,
) -> None:
    """Let the block store elements alone: loops and axes go over those."""
    limits = limits_at(indices, block)
    axes = regions.axis_values(block, indices)
    wanted = [c.replaced(dict(axes), limits) for c in padding.conditions]
    before = predicates.block_conditions(block, indices)
    values = [without_units(indices.of(v), limits) for v in tree.bindings(block)]
    moved: dict[str, Dim] = {}
    for number, (value, run) in enumerate(zip(values, padding.runs, strict=True)):
        alone = [loop for loop in loops if tree.blocks_below(loop) == [block]]
        loop = _own_loop(alone, value, values, indices)
        if loop is None:
            values[number] = value - run.low
            continue
        moved[indices.symbol(loop_var(loop))] = value + run.low
        with edit.point_before(loop):
            loop.operands[1] = indices.emit(run.extent)
    _choose_elements(block, padding)
    made = _with_runs(state, block, padding.runs, values, indices)
    found = [c.replaced(moved, {}) for c in (*wanted, *before)]
    around = tree.parent_of(tree.realize_of(made))
    left = legality.drop_proved(found, indices, around)
    predicates.set_predicate(made, [c.tidy() for c in left], indices)
    refresh(loops[0])


def _own_loop(
    loops: Sequence[ir.Operation],
    value: Dim,
    values: Sequence[Dim],
    indices: Indices,
) -> ir.Operation | None:
    """The loop that one axis alone is bound to, if it begins at 0."""
    for loop in loops:
        name = indices.symbol(loop_var(loop))
        users = [v for v in values if name in symbols_of(v)]
        if value == symbol(name) and users == [value]:
            low, _ = loop_bounds(indices, loop)
            return loop if low == 0 else None
    return None


def _choose_elements(block: ir.Operation, padding: _Padding) -> None:
    """Put what is chosen where the condition holds in place of the choice."""
    inner = padding.choice.regions[0].blocks[0]
    *operations, last = own_operations(inner)
    for op in operations:
        op.operation.move_before(padding.choice)
    rewriting.replace(padding.choice, last.operation.operands[0])
    edit.sweep(block)


def _with_runs(
    state: ScheduleState,
    block: ir.Operation,
    runs: Sequence[Run],
    values: Sequence[Dim],
    indices: Indices,
) -> ir.Operation:
    """The block with axes that count from where runs begin."""
    old = axes_of(block, indices)
    axes = [
        Axis(a.kind, run.extent, a.name, a.dtype)
        for a, run in zip(old, runs, strict=True)
    ]
    with edit.point_before(block):
        made = edit.make_block(
            tree.block_name(block),
            axes,
            [indices.emit(v) for v in values],
            indices.emit,
            tree.annotations_of(block),
        )
    inner = edit.open_region(made, 1)
    mapping: dict[ir.Value, ir.Value] = {}
    with edit.point_before(edit.terminator(inner)):
        for argument, new, run in zip(
            tree.body(block).arguments, inner.arguments, runs, strict=True
        ):
            mapping[argument] = indices.emit(run.low + indices.of(new))
        *operations, _ = own_operations(tree.body(block))
        for op in operations:
            rewriting.clone(op, mapping)
    _simplify_places(inner, indices)
    state.replace(block, made)
    rewriting.erase(block)
    return made


def _simplify_places(region: ir.Block, indices: Indices) -> None:
    """Write where elements lie as sums once more."""
    for access in accesses.accesses_in(region):
        first = len(access.op.operands) - len(access.index_values)
        with edit.point_before(access.op):
            for number, value in enumerate(access.index_values):
                access.op.operands[first + number] = indices.emit(indices.of(value))

"""The ``decompose_reduction`` primitive: moves an init block out of loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mlir import ir

from relax_mlir.errors import ScheduleError
from relax_mlir.rewrite import patterns
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.symbols import substitute, symbols_of
from relax_mlir.tvm.tir.schedule import (
    accesses,
    dependences,
    edit,
    legality,
    predicates,
    tree,
)
from relax_mlir.tvm.tir.schedule.edit import IterVarSpec
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols, contains_symbol
from relax_mlir.tvm.tir.schedule.state import (
    ScheduleState,
    iter_extents,
    loop_bounds,
    loop_var,
)

__all__ = [
    "decompose_reduction",
    "iter_vars_of",
    "set_init_predicate",
    "symbols_of_iters",
]


def decompose_reduction(
    state: ScheduleState, block: ir.Operation, loop: ir.Operation
) -> ir.Operation:
    """Split a reduction into init and update; see :meth:`Schedule.decompose_reduction`."""
    where = "decompose_reduction"
    legality.check_not_root(block, where)
    around = tree.enclosing_loops(block)
    if loop not in around:
        raise ScheduleError(
            f"{where}: {tree.describe(loop)} is not around {tree.describe(block)}"
        )
    legality.check_reduction(block, where)
    _check_above_reduction(block, loop, around)
    legality.check_init_self_contained(block, around[around.index(loop) :], where)
    dependences.check_init_hoist(block, around[around.index(loop) :], where)
    _check_init_inputs(block, loop)
    with state.change(block) as indices:
        made = _create_init_block(block, around[around.index(loop) :], indices)
        updated = edit.clone_with_regions(block, None, tree.body(block))
        updated.attributes["name"] = ir.StringAttr.get(
            tree.block_name(block) + "_update"
        )
        state.replace(block, updated)
        patterns.erase(block)
        edit.rematerialize_all(tree.function_of(made))
        return made


def _check_above_reduction(
    block: ir.Operation, loop: ir.Operation, around: Sequence[ir.Operation]
) -> None:
    indices = IndexSymbols()
    used = symbols_of_iters(block, indices, "R")
    for outer in around[: around.index(loop)]:
        if indices.symbol(loop_var(outer)) in used:
            raise ScheduleError(
                f"decompose_reduction: {tree.describe(outer)} is part of a reduce axis and "
                f"outside of {tree.describe(loop)}: expected a loop around all reduce loops"
            )
    used |= symbols_of_iters(block, indices, "S")
    for inner in around[around.index(loop) :]:
        is_used = indices.symbol(loop_var(inner)) in used
        if not is_used and loop_bounds(indices, inner)[1] != 1:
            raise ScheduleError(
                f"decompose_reduction: {tree.describe(inner)} repeats "
                f"{tree.describe(block)}: expected loops of its axes from "
                f"{tree.describe(loop)} on"
            )


def _check_init_inputs(block: ir.Operation, loop: ir.Operation) -> None:
    """Reject init blocks whose inputs are written in the loop."""
    init = tree.init_block_of(block)
    found = accesses.accesses_in(init) if init is not None else []
    read = {a.buffer for a in found if not a.is_write}
    for writer in tree.blocks_below(loop):
        changed = read.intersection(accesses.buffers_written(writer))
        if changed and writer != block:
            name = accesses.buffer_name(changed.pop())
            raise ScheduleError(
                f"decompose_reduction: {tree.describe(writer)} writes `{name}`, from which "
                f"{tree.describe(block)} computes its initial value: expected no such block "
                f"in {tree.describe(loop)}"
            )


def symbols_of_iters(block: ir.Operation, indices: IndexSymbols, kind: str) -> set[str]:
    """The symbols in the bindings of iter vars of a kind."""
    pairs = zip(tree.bindings(block), tree.iter_kinds(block), strict=True)
    return {n for v, k in pairs if k == kind for n in symbols_of(indices.of(v))}


def _create_init_block(
    block: ir.Operation, loops: Sequence[ir.Operation], indices: IndexSymbols
) -> ir.Operation:
    """Creates the init block, in copies of the spatial loops before the old ones."""
    spatial = [n for n, k in enumerate(tree.iter_kinds(block)) if k == "S"]
    used = symbols_of_iters(block, indices, "S")
    values = [indices.of(v) for v in tree.bindings(block)]
    insertion_point, copies = edit.insertion_point_before(loops[0]), dict[str, Dim]()
    first: dict[str, Dim] = {}
    for loop in loops:
        name = indices.symbol(loop_var(loop))
        low, extent = loop_bounds(indices, loop)
        if name not in used:
            first[name] = substitute(low, copies | first)
            continue
        attributes = edit.attributes_of(loop)
        attributes |= {"tir.name": ir.StringAttr.get(tree.loop_name(loop) + "_init")}
        with insertion_point:
            made = edit.make_loop(
                indices,
                substitute(extent, copies | first),
                attributes,
                substitute(low, copies | first),
            )
        copies[name] = indices.of(loop_var(made))
        insertion_point = edit.insertion_point_before(edit.terminator(tree.body(made)))
    axes = iter_vars_of(block, indices)
    with insertion_point:
        emitted = [indices.emit(substitute(values[n], copies)) for n in spatial]
        init_block = edit.make_block(
            tree.block_name(block) + "_init",
            [_renamed(axes[n], axes[n].name + "_init") for n in spatial],
            emitted,
            indices.emit,
            tree.annotations_of(block),
        )
    inner = tree.init_block_of(block)
    assert inner is not None
    inner.append_to(init_block.regions[1])
    for number in reversed(range(len(axes))):
        if number not in spatial:
            inner.erase_argument(number)
    found = [c for c in predicates.block_conditions(block, indices) if c.value is None]
    set_init_predicate(init_block, found, copies, first, indices)
    return init_block


def set_init_predicate(
    init_block: ir.Operation,
    conditions: Sequence[predicates.Condition],
    copies: Mapping[str, Dim],
    first: Mapping[str, Dim],
    indices: IndexSymbols,
) -> None:
    """Set the predicate of an init block: that of the reduction's first instance.

    Args:
        conditions: the conditions of the reduction block.
        copies: the copied loops of the init block.
        first: the lower bounds of the other loops, such as reduce loops.
    """
    around = tree.parent_of(init_block)
    on_other_loops = [c for c in conditions if contains_symbol(c.slack, list(first))]
    kept = [c.replaced(dict(copies), {}) for c in conditions if c not in on_other_loops]
    initial = [c.replaced({**copies, **first}, {}) for c in on_other_loops]
    kept += [
        c.canonical() for c in legality.unproved_conditions(initial, indices, around)
    ]
    predicates.set_predicate(init_block, kept, indices)


def iter_vars_of(block: ir.Operation, indices: IndexSymbols) -> list[IterVarSpec]:
    """The iter vars of a block."""
    return [
        IterVarSpec(*axis)
        for axis in zip(
            tree.iter_kinds(block),
            iter_extents(indices, block),
            tree.iter_var_names(block),
            tree.iter_var_dtypes(block),
            tree.iter_var_mins(block),
            strict=True,
        )
    ]


def _renamed(axis: IterVarSpec, name: str, kind: str = "") -> IterVarSpec:
    return replace(axis, kind=kind or axis.kind, name=name)

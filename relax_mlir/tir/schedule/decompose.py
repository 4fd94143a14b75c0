"""The primitive that gives the start value of a reduction a block of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mlir import ir

from relax_mlir import rewriting
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import (
    accesses,
    dependences,
    edit,
    legality,
    predicates,
    tree,
)
from relax_mlir.tir.schedule.edit import Axis
from relax_mlir.tir.schedule.indices import Indices, mentions
from relax_mlir.tir.schedule.state import (
    ScheduleState,
    extents_of,
    loop_bounds,
    loop_var,
)

__all__ = ["axes_of", "decompose_reduction", "set_start_predicate", "symbols_in"]


def decompose_reduction(
    state: ScheduleState, block: ir.Operation, loop: ir.Operation
) -> ir.Operation:
    """Give a reduction's start value a block; see :meth:`Schedule.decompose_reduction`."""
    where = "decompose_reduction"
    legality.check_not_root(block, where)
    around = tree.enclosing_loops(block)
    if loop not in around:
        raise ScheduleError(
            f"{where}: {tree.describe(loop)} is not around {tree.describe(block)}"
        )
    legality.check_reduction(block, where)
    _check_above_reduction(block, loop, around)
    legality.check_start_contained(block, around[around.index(loop) :], where)
    dependences.check_start_hoisted(block, around[around.index(loop) :], where)
    _check_start_known(block, loop)
    with state.change(block) as indices:
        made = _start_block(block, around[around.index(loop) :], indices)
        updated = edit.with_regions(block, None, tree.body(block))
        updated.attributes["name"] = ir.StringAttr.get(
            tree.block_name(block) + "_update"
        )
        state.replace(block, updated)
        rewriting.erase(block)
        edit.localise(tree.function_of(made))
        return made


def _check_above_reduction(
    block: ir.Operation, loop: ir.Operation, around: Sequence[ir.Operation]
) -> None:
    indices = Indices()
    used = symbols_in(block, indices, "R")
    for outer in around[: around.index(loop)]:
        if indices.symbol(loop_var(outer)) in used:
            raise ScheduleError(
                f"decompose_reduction: {tree.describe(outer)} is part of a reduce axis and "
                f"outside of {tree.describe(loop)}: expected a loop higher than all those"
            )
    used |= symbols_in(block, indices, "S")
    for inner in around[around.index(loop) :]:
        is_used = indices.symbol(loop_var(inner)) in used
        if not is_used and loop_bounds(indices, inner)[1] != 1:
            raise ScheduleError(
                f"decompose_reduction: {tree.describe(inner)} repeats "
                f"{tree.describe(block)}: expected loops of its axes from "
                f"{tree.describe(loop)} on"
            )


def _check_start_known(block: ir.Operation, loop: ir.Operation) -> None:
    """Refuse to set start values in front of who writes what they are made of."""
    start = tree.init_of(block)
    found = accesses.accesses_in(start) if start is not None else []
    read = {a.buffer for a in found if not a.is_write}
    for writer in tree.blocks_below(loop):
        changed = read.intersection(accesses.buffers_written(writer))
        if changed and writer != block:
            name = accesses.buffer_name(changed.pop())
            raise ScheduleError(
                f"decompose_reduction: {tree.describe(writer)} writes `{name}`, of which "
                f"{tree.describe(block)} makes its start value: expected no such block in "
                f"{tree.describe(loop)}"
            )


def symbols_in(block: ir.Operation, indices: Indices, kind: str) -> set[str]:
    """The symbols that the bindings of axes of a kind mention."""
    pairs = zip(tree.bindings(block), tree.kinds_of(block), strict=True)
    return {n for v, k in pairs if k == kind for n in symbols_of(indices.of(v))}


def _start_block(
    block: ir.Operation, loops: Sequence[ir.Operation], indices: Indices
) -> ir.Operation:
    """The start value in a block of its own, in loops of its own before the old ones."""
    spatial = [n for n, k in enumerate(tree.kinds_of(block)) if k == "S"]
    used = symbols_in(block, indices, "S")
    values = [indices.of(v) for v in tree.bindings(block)]
    place, copies = edit.point_before(loops[0]), dict[str, Dim]()
    first: dict[str, Dim] = {}
    for loop in loops:
        name = indices.symbol(loop_var(loop))
        low, extent = loop_bounds(indices, loop)
        if name not in used:
            first[name] = substitute(low, copies | first)
            continue
        attributes = edit.attributes_of(loop)
        attributes |= {"tir.name": ir.StringAttr.get(tree.loop_name(loop) + "_init")}
        with place:
            made = edit.make_loop(
                indices,
                substitute(extent, copies | first),
                attributes,
                substitute(low, copies | first),
            )
        copies[name] = indices.of(loop_var(made))
        place = edit.point_before(edit.terminator(tree.body(made)))
    axes = axes_of(block, indices)
    with place:
        emitted = [indices.emit(substitute(values[n], copies)) for n in spatial]
        start = edit.make_block(
            tree.block_name(block) + "_init",
            [_renamed(axes[n], axes[n].name + "_init") for n in spatial],
            emitted,
            indices.emit,
            tree.annotations_of(block),
        )
    inner = tree.init_of(block)
    assert inner is not None
    inner.append_to(start.regions[1])
    for number in reversed(range(len(axes))):
        if number not in spatial:
            inner.erase_argument(number)
    found = [c for c in predicates.block_conditions(block, indices) if c.value is None]
    set_start_predicate(start, found, copies, first, indices)
    return start


def set_start_predicate(
    start: ir.Operation,
    conditions: Sequence[predicates.Condition],
    copies: Mapping[str, Dim],
    first: Mapping[str, Dim],
    indices: Indices,
) -> None:
    """Make what holds where a reduction starts the predicate of the start value's block.

    Args:
        conditions: those of the reduction.
        copies: what stands for the loops that the start value has, too.
        first: where the others begin, such as those of reduce axes.
    """
    around = tree.parent_of(start)
    about_first = [c for c in conditions if mentions(c.slack, list(first))]
    kept = [c.replaced(dict(copies), {}) for c in conditions if c not in about_first]
    at_first = [c.replaced({**copies, **first}, {}) for c in about_first]
    kept += [c.tidy() for c in legality.drop_proved(at_first, indices, around)]
    predicates.set_predicate(start, kept, indices)


def axes_of(block: ir.Operation, indices: Indices) -> list[Axis]:
    """What the axes of a block are."""
    return [
        Axis(*axis)
        for axis in zip(
            tree.kinds_of(block),
            extents_of(indices, block),
            tree.axis_names(block),
            tree.axis_dtypes(block),
            tree.axis_starts(block),
            strict=True,
        )
    ]


def _renamed(axis: Axis, name: str, kind: str = "") -> Axis:
    return replace(axis, kind=kind or axis.kind, name=name)

"""The primitive that gives a block other axes, and loops to match."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects import dims
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.errors import ScheduleError, shown
from relax_mlir.tir.schedule import (
    dependences,
    edit,
    inversion,
    legality,
    predicates,
    regions,
    tree,
)
from relax_mlir.tir.schedule.axis_conditions import at_axes, axis_conditions
from relax_mlir.tir.schedule.edit import Axis
from relax_mlir.tir.schedule.index_map import IndexMap, limits_of
from relax_mlir.tir.schedule.indices import Indices, simplify
from relax_mlir.tir.schedule.layout import program_symbols
from relax_mlir.tir.schedule.new_axes import axis_symbol, simplify_accesses, with_axes
from relax_mlir.tir.schedule.regions import Run
from relax_mlir.tir.schedule.state import ScheduleState, extents_of, loop_var

__all__ = ["transform_block_layout"]

_WHERE = "transform_block_layout"


def transform_block_layout(
    state: ScheduleState, block: ir.Operation, index_map: IndexMap
) -> None:
    """Give a block other axes; see :meth:`Schedule.transform_block_layout`."""
    legality.check_not_root(block, _WHERE)
    legality.check_axis_starts(block, _WHERE)
    legality.check_self_contained(block, _WHERE)
    loops = tree.enclosing_loops(block)
    _check_trivial(block, loops)
    kinds = tree.kinds_of(block)
    if set(kinds) - {"S", "R"}:
        raise ScheduleError(
            f"{_WHERE}: {tree.describe(block)} has an axis whose points are in order: "
            "expected spatial and reduce axes"
        )
    if loops:
        dependences.check_none_carried(loops, _WHERE)
    if len(index_map.initial_indices) != len(kinds):
        raise ScheduleError(
            f"{_WHERE}: {tree.describe(block)} has {len(kinds)} axes: expected a map of as "
            f"many indices, got {shown(index_map)}"
        )
    with state.change(block) as indices:
        extents = extents_of(indices, block)
        names, final = index_map.dims(program_symbols(block, index_map))
        back = _inverse(block, index_map, names, final, extents)
        new_kinds = [
            _kind(block, f, dict(zip(names, kinds, strict=True))) for f in final
        ]
        sizes = _sizes(names, final, extents)
        _replace(
            state, block, loops, list(zip(new_kinds, sizes, strict=True)), back, indices
        )


def _check_trivial(block: ir.Operation, loops: Sequence[ir.Operation]) -> None:
    variables = [loop_var(loop) for loop in loops]
    values = tree.bindings(block)
    if any(v not in variables for v in values) or len(set(values)) != len(values):
        raise ScheduleError(
            f"{_WHERE}: the bindings of {tree.describe(block)} are not variables of loops "
            "around: expected an axis for a loop"
        )
    for loop in loops:
        if len(tree.children(loop)) != 1 or loop_var(loop) not in values:
            raise ScheduleError(
                f"{_WHERE}: {tree.describe(loop)} holds more than {tree.describe(block)}, "
                "or is no axis of it: expected a nest of loops for it alone"
            )


def _inverse(
    block: ir.Operation,
    index_map: IndexMap,
    names: Sequence[str],
    final: Sequence[Dim],
    extents: Sequence[Dim],
) -> list[Dim]:
    """The old axes in the symbols of the new ones."""
    found = inversion.invert(final, dict(zip(names, extents, strict=True)))
    if found is None or found.padding:
        raise ScheduleError(
            f"{_WHERE}: the index map {index_map} is not bijective affine on the axes of "
            f"{tree.describe(block)}"
        )
    units = {
        n: d
        for n, d, e in zip(names, _new_axes(names, final), extents, strict=True)
        if e == 1
    }
    known = {inversion.place(n): dims.symbol(axis_symbol(n)) for n in range(len(final))}
    values = {**found.values, **{n: d for n, d in units.items() if d is not None}}
    return [substitute(values[n], known) for n in names]


def _new_axes(names: Sequence[str], final: Sequence[Dim]) -> list[Dim | None]:
    """The new axis that each old one is, where one is just that."""
    symbols: dict[Dim, str] = {dims.symbol(n): n for n in names}
    places = {symbols[f]: k for k, f in enumerate(final) if f in symbols}
    return [
        dims.symbol(inversion.place(places[n])) if n in places else None for n in names
    ]


def _kind(block: ir.Operation, value: Dim, kinds: dict[str, str]) -> str:
    found = {kinds[n] for n in symbols_of(value) if n in kinds}
    if len(found) > 1:
        raise ScheduleError(
            f"{_WHERE}: {tree.describe(block)}: cannot tell the kind of the new axis "
            f"{value}: expected old axes of one kind in it"
        )
    return found.pop() if found else "S"


def _sizes(
    names: Sequence[str], final: Sequence[Dim], extents: Sequence[Dim]
) -> list[Dim]:
    limits = limits_of(names, extents)
    domains = {n: Run(0, e - 1) for n, e in zip(names, extents, strict=True)}
    runs = [regions.interval(f, domains, limits) for f in final]
    return [simplify(run.extent, limits) for run in runs]


def _replace(
    state: ScheduleState,
    block: ir.Operation,
    loops: Sequence[ir.Operation],
    axes: Sequence[tuple[str, Dim]],
    back: Sequence[Dim],
    indices: Indices,
) -> None:
    """New loops around the block with the new axes, in place of the old loops."""
    dtype = next(iter(tree.axis_dtypes(block)), "int32")
    top = loops[0] if loops else block
    place = edit.point_before(top)
    made: list[ir.Operation] = []
    for number, (_, extent) in enumerate(axes):
        with place:
            attributes = edit.loop_attributes(f"ax{number}", dtype=dtype)
            made.append(edit.make_loop(indices, extent, attributes))
        place = edit.point_before(edit.terminator(tree.body(made[-1])))
    left_out = axis_conditions(block, indices, _WHERE)
    if made:
        block.move_before(edit.terminator(tree.body(made[-1])))
    elif loops:
        block.move_before(top)
    new = with_axes(
        state,
        block,
        [Axis(kind, e, f"v{n}", dtype) for n, (kind, e) in enumerate(axes)],
        [indices.of(loop_var(loop)) for loop in made],
        back,
        indices,
    )
    if loops:
        state.erase(loops[0])
    points = {axis_symbol(n): indices.of(loop_var(loop)) for n, loop in enumerate(made)}
    values = [substitute(value, points) for value in back]
    predicates.set_predicate(new, at_axes(left_out, dict(enumerate(values))), indices)
    edit.localise(tree.function_of(new))
    simplify_accesses(new)

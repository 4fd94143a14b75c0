"""The ``transform_block_layout`` primitive: new iter vars and a matching loop nest."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir.errors import ScheduleError, short_repr
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.symbols import substitute, symbols_of
from relax_mlir.tvm.tir.schedule import (
    dependences,
    edit,
    inversion,
    legality,
    predicates,
    regions,
    tree,
)
from relax_mlir.tvm.tir.schedule.axis_conditions import (
    iter_conditions,
    substitute_iters,
)
from relax_mlir.tvm.tir.schedule.edit import IterVarSpec
from relax_mlir.tvm.tir.schedule.index_map import IndexMap, index_ranges
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols, simplify
from relax_mlir.tvm.tir.schedule.layout import size_symbols
from relax_mlir.tvm.tir.schedule.new_axes import (
    iter_symbol,
    simplify_accesses,
    with_iter_vars,
)
from relax_mlir.tvm.tir.schedule.regions import Interval
from relax_mlir.tvm.tir.schedule.state import ScheduleState, iter_extents, loop_var

__all__ = ["transform_block_layout"]

_WHERE = "transform_block_layout"


def transform_block_layout(
    state: ScheduleState, block: ir.Operation, index_map: IndexMap
) -> None:
    """Apply an index map to the iter domain; see :meth:`Schedule.transform_block_layout`."""
    legality.check_not_root(block, _WHERE)
    legality.check_iter_mins(block, _WHERE)
    legality.check_self_contained(block, _WHERE)
    loops = tree.enclosing_loops(block)
    _check_perfect_nest(block, loops)
    kinds = tree.iter_kinds(block)
    if set(kinds) - {"S", "R"}:
        raise ScheduleError(
            f"{_WHERE}: {tree.describe(block)} has an ordered or opaque iter var: "
            "expected spatial and reduce ones"
        )
    if loops:
        dependences.check_no_carried_dependence(loops, _WHERE)
    if len(index_map.initial_indices) != len(kinds):
        raise ScheduleError(
            f"{_WHERE}: {tree.describe(block)} has {len(kinds)} iter vars: expected a map "
            f"of {len(kinds)} indices, got {short_repr(index_map)}"
        )
    with state.change(block) as indices:
        extents = iter_extents(indices, block)
        names, final = index_map.dims(size_symbols(block, index_map))
        inverse = _inverse(block, index_map, names, final, extents)
        new_kinds = [
            _kind(block, f, dict(zip(names, kinds, strict=True))) for f in final
        ]
        sizes = _new_extents(names, final, extents)
        _replace(
            state,
            block,
            loops,
            list(zip(new_kinds, sizes, strict=True)),
            inverse,
            indices,
        )


def _check_perfect_nest(block: ir.Operation, loops: Sequence[ir.Operation]) -> None:
    variables = [loop_var(loop) for loop in loops]
    values = tree.bindings(block)
    if any(v not in variables for v in values) or len(set(values)) != len(values):
        raise ScheduleError(
            f"{_WHERE}: the bindings of {tree.describe(block)} are not variables of loops "
            "around it: expected one loop variable for each iter var"
        )
    for loop in loops:
        if len(tree.children(loop)) != 1 or loop_var(loop) not in values:
            raise ScheduleError(
                f"{_WHERE}: {tree.describe(loop)} contains more than "
                f"{tree.describe(block)}, or binds no iter var of it: expected a perfect nest"
            )


def _inverse(
    block: ir.Operation,
    index_map: IndexMap,
    names: Sequence[str],
    final: Sequence[Dim],
    extents: Sequence[Dim],
) -> list[Dim]:
    """The old iter vars in terms of the new ones."""
    found = inversion.invert(final, dict(zip(names, extents, strict=True)))
    if found is None or found.padding:
        raise ScheduleError(
            f"{_WHERE}: the index map {index_map} is not bijective affine on the iter domain of "
            f"{tree.describe(block)}"
        )
    units = {
        n: d
        for n, d, e in zip(names, _equal_new_iters(names, final), extents, strict=True)
        if e == 1
    }
    known = {
        inversion.final_symbol(n): dims.symbol(iter_symbol(n))
        for n in range(len(final))
    }
    values = {**found.values, **{n: d for n, d in units.items() if d is not None}}
    return [substitute(values[n], known) for n in names]


def _equal_new_iters(names: Sequence[str], final: Sequence[Dim]) -> list[Dim | None]:
    """The new iter var equal to each old one, or None."""
    symbols: dict[Dim, str] = {dims.symbol(n): n for n in names}
    places = {symbols[f]: k for k, f in enumerate(final) if f in symbols}
    return [
        dims.symbol(inversion.final_symbol(places[n])) if n in places else None
        for n in names
    ]


def _kind(block: ir.Operation, value: Dim, kinds: dict[str, str]) -> str:
    found = {kinds[n] for n in symbols_of(value) if n in kinds}
    if len(found) > 1:
        raise ScheduleError(
            f"{_WHERE}: {tree.describe(block)}: cannot infer the kind of the new iter var "
            f"{value}: expected old ones of a single kind in it"
        )
    return found.pop() if found else "S"


def _new_extents(
    names: Sequence[str], final: Sequence[Dim], extents: Sequence[Dim]
) -> list[Dim]:
    limits = index_ranges(names, extents)
    domains = {n: Interval(0, e - 1) for n, e in zip(names, extents, strict=True)}
    intervals = [regions.evaluate_interval(f, domains, limits) for f in final]
    return [simplify(interval.extent, limits) for interval in intervals]


def _replace(
    state: ScheduleState,
    block: ir.Operation,
    loops: Sequence[ir.Operation],
    axes: Sequence[tuple[str, Dim]],
    inverse: Sequence[Dim],
    indices: IndexSymbols,
) -> None:
    """Replaces the old loops by new ones around the block with the new iter vars."""
    dtype = next(iter(tree.iter_var_dtypes(block)), "int32")
    outermost = loops[0] if loops else block
    insertion_point = edit.insertion_point_before(outermost)
    new_loops: list[ir.Operation] = []
    for number, (_, extent) in enumerate(axes):
        with insertion_point:
            attributes = edit.loop_attributes(f"ax{number}", dtype=dtype)
            new_loops.append(edit.make_loop(indices, extent, attributes))
        insertion_point = edit.insertion_point_before(
            edit.terminator(tree.body(new_loops[-1]))
        )
    conditions = iter_conditions(block, indices, _WHERE)
    if new_loops:
        block.move_before(edit.terminator(tree.body(new_loops[-1])))
    elif loops:
        block.move_before(outermost)
    new = with_iter_vars(
        state,
        block,
        [IterVarSpec(kind, e, f"v{n}", dtype) for n, (kind, e) in enumerate(axes)],
        [indices.of(loop_var(loop)) for loop in new_loops],
        inverse,
        indices,
    )
    if loops:
        state.erase(loops[0])
    bindings = {
        iter_symbol(n): indices.of(loop_var(loop)) for n, loop in enumerate(new_loops)
    }
    values = [substitute(value, bindings) for value in inverse]
    predicates.set_predicate(
        new, substitute_iters(conditions, dict(enumerate(values))), indices
    )
    edit.rematerialize_all(tree.function_of(new))
    simplify_accesses(new)

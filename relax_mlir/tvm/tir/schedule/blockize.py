"""The ``blockize`` primitive: turns a loop nest, or sibling blocks, into one block.

The iter domain is divided (subspace division): each binding is an outer part times the extent
of an inner part, plus the inner part; inner loops bind the inner parts, outer loops the outer
ones.

Source: S. Feng et al., "TensorIR: An Abstraction for Automatic Tensorized Program
Optimization", ASPLOS 2023, section 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.errors import ScheduleError
from relax_mlir.ir.traversal import own_operations
from relax_mlir.rewrite import patterns
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.symbols import substitute, symbols_of
from relax_mlir.tvm.tir.schedule import (
    affine,
    dependences,
    edit,
    legality,
    predicates,
    tree,
)
from relax_mlir.tvm.tir.schedule.decompose import iter_vars_of, set_init_predicate
from relax_mlir.tvm.tir.schedule.edit import IterVarSpec
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols, fold_single_values
from relax_mlir.tvm.tir.schedule.new_axes import iter_symbol, with_iter_vars
from relax_mlir.tvm.tir.schedule.predicates import Condition
from relax_mlir.tvm.tir.schedule.state import (
    ScheduleState,
    limits_at,
    loop_bounds,
    loop_var,
)

__all__ = ["blockize_blocks", "blockize_loop"]


@dataclass(frozen=True)
class _SubBinding:
    """The outer or inner part of a divided iter var: its extent and its binding."""

    extent: Dim
    value: Dim


@dataclass(frozen=True)
class _Division:
    """The subspace division of a block's bindings and predicate.

    Attributes:
        starts: the least value of each iter var, added to its two parts.
    """

    outer: Sequence[_SubBinding]
    inner: Sequence[_SubBinding]
    starts: Sequence[Dim]
    outer_conditions: Sequence[Condition]
    inner_conditions: Sequence[Condition]


def blockize_loop(
    state: ScheduleState,
    loop: ir.Operation,
    indices: IndexSymbols,
    *,
    preserve_unit_iters: bool,
) -> ir.Operation:
    """Turn a loop nest into a block; see :meth:`Schedule.blockize`."""
    block = only_block(loop, "blockize")
    inner_loops = [
        o for o in tree.enclosing_loops(block) if o == loop or loop in tree.ancestors(o)
    ]
    if tree.init_block_of(block) is not None:
        legality.check_init_self_contained(block, inner_loops, "blockize")
        dependences.check_init_hoist(block, inner_loops, "blockize")
    division = _divide(block, inner_loops, indices, keep_units=preserve_unit_iters)
    name = f"{tree.block_name(block)}_o"
    outer = _outer_block(loop, block, division, name, indices)
    if tree.init_block_of(block) is not None:
        _create_outer_init(outer, block, inner_loops, division, indices)
    edit.move_before(loop, edit.terminator(tree.body(outer)))
    _inner_block(state, block, outer, division, indices)
    edit.rematerialize_all(outer)
    return outer


def only_block(loop: ir.Operation, where: str) -> ir.Operation:
    """The only block in a loop nest.

    Raises:
        ScheduleError: the nest contains more than one block.
    """
    inner = loop
    while not tree.is_block(inner):
        below = tree.children(inner)
        if len(below) != 1:
            raise ScheduleError(
                f"{where}: {tree.describe(loop)} contains {len(tree.blocks_below(loop))} "
                "blocks: expected only one child block"
            )
        (inner,) = below
    return inner


def _divide(
    block: ir.Operation,
    inner_loops: Sequence[ir.Operation],
    indices: IndexSymbols,
    *,
    keep_units: bool,
) -> _Division:
    """Divides the bindings of a block into parts bound by outer and inner loops.

    Raises:
        ScheduleError: the bindings are not divisible.
    """
    extents = legality.loop_extents(indices, block)
    inside = {indices.symbol(loop_var(o)) for o in inner_loops}
    limits = limits_at(indices, block)
    starts = tree.iter_var_mins(block)
    values = [
        indices.of(v) - s for v, s in zip(tree.bindings(block), starts, strict=True)
    ]
    conditions = predicates.block_conditions(block, indices)
    outer_conditions, inner_conditions = _divide_conditions(conditions, extents, inside)
    pairs = None
    if outer_conditions is not None and inner_conditions is not None:
        is_affine = not legality.nonzero_loop_mins(indices, block) and affine.is_affine(
            values, extents, limits, predicates=[c.slack for c in conditions]
        )
        pairs = [
            _divide_binding(v, extents, inside) if is_affine else None for v in values
        ]
        sizes = [axis.extent for axis in iter_vars_of(block, indices)]
        pairs = [
            _divide_trivially(v, e, inside) if pair is None else pair
            for v, e, pair in zip(values, sizes, pairs, strict=True)
        ]
    if pairs is None or any(pair is None for pair in pairs):
        raise ScheduleError(
            f"blockize: the bindings of {tree.describe(block)} can not be blockized by "
            f"the loops starting at {_describe_first(inner_loops)}: expected bindings of the form "
            "outer loops times the extent of inner loops plus inner loops"
        )
    found = [pair for pair in pairs if pair is not None]
    if not keep_units:
        found = [
            tuple(
                _SubBinding(p.extent, fold_single_values(p.value, limits)) for p in pair
            )
            for pair in found
        ]
    outer, inner = [p for p, _ in found], [p for _, p in found]
    return _Division(
        outer, inner, starts, outer_conditions or [], inner_conditions or []
    )


def _describe_first(loops: Sequence[ir.Operation]) -> str:
    return tree.describe(loops[0]) if loops else "none"


def _divide_conditions(
    conditions: Sequence[Condition], extents: Mapping[str, Dim], inside: set[str]
) -> tuple[list[Condition] | None, list[Condition] | None]:
    outer: list[Condition] = []
    inner: list[Condition] = []
    for condition in conditions:
        used = {n for n in symbols_of(condition.slack) if n in extents}
        if condition.value is not None or (used & inside and used - inside):
            return None, None
        (inner if used & inside else outer).append(condition)
    return outer, inner


def _divide_binding(
    value: Dim, extents: Mapping[str, Dim], inside: set[str]
) -> tuple[_SubBinding, _SubBinding] | None:
    """Divides an affine binding into an outer and an inner part, or returns None."""
    splits = affine.iter_splits_of(value, extents)
    if splits is None:
        return None
    inner = [d for d in splits if d.source in inside]
    inner_extent: Dim = 1
    inner_value: Dim = 0
    for split in inner:
        inner_extent = inner_extent * split.extent
        inner_value = inner_value + split.scale * affine.split_value(split, extents)
    if (
        any(not _divides(split.scale, inner_extent) for split in inner)
        and inner_extent != 1
    ):
        return None
    outer, rest = dims.divide(value - inner_value, inner_extent)
    if rest != 0:
        return None
    outer_extent: Dim = 1
    for split in splits:
        if split not in inner:
            outer_extent = outer_extent * split.extent
    if len(inner) == len(splits) and outer != 0:
        return None
    return _SubBinding(outer_extent, outer), _SubBinding(inner_extent, inner_value)


def _divides(divisor: Dim, size: Dim) -> bool:
    return divisor == 1 or dims.divide(size, divisor)[1] == 0


def _divide_trivially(
    value: Dim, extent: Dim, inside: set[str]
) -> tuple[_SubBinding, _SubBinding] | None:
    """The parts of a binding that uses loops of only one side."""
    used = set(symbols_of(value))
    one = _SubBinding(1, 0)
    if not used & inside:
        return _SubBinding(extent, value), one
    return None if used - inside else (one, _SubBinding(extent, value))


def _outer_iters(axes: Sequence[IterVarSpec], division: _Division) -> list[IterVarSpec]:
    return [
        IterVarSpec(axis.kind, part.extent, f"{axis.name}_o", axis.dtype)
        for axis, part in zip(axes, division.outer, strict=True)
    ]


def _inner_iters(
    axes: Sequence[IterVarSpec], division: _Division
) -> list[tuple[int, IterVarSpec]]:
    """The inner iter vars of extent other than 1, with the numbers of the old ones."""
    return [
        (n, IterVarSpec(axis.kind, part.extent, f"{axis.name}_i", axis.dtype))
        for n, (axis, part) in enumerate(zip(axes, division.inner, strict=True))
        if part.extent != 1
    ]


def _outer_block(
    statement: ir.Operation,
    block: ir.Operation,
    division: _Division,
    name: str,
    indices: IndexSymbols,
) -> ir.Operation:
    """Creates an empty block with the outer iter vars in front of a statement."""
    axes = _outer_iters(iter_vars_of(block, indices), division)
    with edit.insertion_point_before(statement):
        values = [indices.emit(part.value) for part in division.outer]
        made = edit.make_block(name, axes, values, indices.emit)
        edit.create_region(made, 1)
    predicates.set_predicate(made, division.outer_conditions, indices)
    return made


def _old_iters(
    outer: Sequence[ir.Value],
    numbers: Mapping[int, int],
    division: _Division,
    indices: IndexSymbols,
) -> list[Dim]:
    """The old iter vars as expressions of the outer and inner ones.

    Args:
        outer: the iter vars of the outer block.
        numbers: the number of the inner iter var, by that of the old one.
    """
    found: list[Dim] = []
    for n, (part, start) in enumerate(
        zip(division.inner, division.starts, strict=True)
    ):
        high = indices.of(outer[n])
        if n not in numbers:
            found.append(start + high)
            continue
        low = start + dims.symbol(iter_symbol(numbers[n]))
        found.append(low if division.outer[n].extent == 1 else high * part.extent + low)
    return found


def _inner_block(
    state: ScheduleState,
    block: ir.Operation,
    outer: ir.Operation,
    division: _Division,
    indices: IndexSymbols,
) -> ir.Operation:
    axes = _inner_iters(iter_vars_of(block, indices), division)
    numbers = {n: new for new, (n, _) in enumerate(axes)}
    made = with_iter_vars(
        state,
        block,
        [axis for _, axis in axes],
        [division.inner[n].value for n, _ in axes],
        _old_iters(list(tree.body(outer).arguments), numbers, division, indices),
        indices,
        keep_init=False,
    )
    predicates.set_predicate(made, division.inner_conditions, indices)
    return made


def _create_outer_init(
    outer: ir.Operation,
    block: ir.Operation,
    loops: Sequence[ir.Operation],
    division: _Division,
    indices: IndexSymbols,
) -> None:
    """Creates the init block of the outer block: loops over the inner spatial iter vars."""
    init = tree.init_block_of(block)
    assert init is not None
    init_iters = [
        (n, IterVarSpec(axis.kind, axis.extent, f"{axis.name}_init", axis.dtype))
        for n, axis in _inner_iters(iter_vars_of(block, indices), division)
        if axis.kind == "S" and patterns.has_uses(init.arguments[n])
    ]
    region = edit.create_region(outer, 0)
    values = [division.inner[n].value for n, _ in init_iters]
    used = _init_loops_of(block, division, values, loops, indices)
    insertion_point, copies, first = _copy_loops(region, loops, used, indices)
    with insertion_point:
        made = edit.make_block(
            f"{tree.block_name(block)}_init",
            [axis for _, axis in init_iters],
            [indices.emit(substitute(v, copies)) for v in values],
            indices.emit,
        )
    numbers = {n: new for new, (n, _) in enumerate(init_iters)}
    old = _old_iters(list(region.arguments), numbers, division, indices)
    _clone_init(init, edit.create_region(made, 1), old, indices)
    set_init_predicate(made, division.inner_conditions, copies, first, indices)


def _init_loops_of(
    block: ir.Operation,
    division: _Division,
    values: Sequence[Dim],
    loops: Sequence[ir.Operation],
    indices: IndexSymbols,
) -> set[str]:
    """The loops of the init block: neither reduce loops nor loops of one iteration.

    Args:
        values: the bindings of its iter vars.
    """
    pairs = zip(tree.iter_kinds(block), division.inner, strict=True)
    reduce_loops = {n for kind, p in pairs if kind != "S" for n in symbols_of(p.value)}
    units = {
        indices.symbol(loop_var(loop))
        for loop in loops
        if loop_bounds(indices, loop)[1] == 1
    }
    condition_loops = {
        n for c in division.inner_conditions for n in symbols_of(c.slack)
    }
    return {n for v in values for n in symbols_of(v)} | (
        condition_loops - reduce_loops - units
    )


def _copy_loops(
    region: ir.Block,
    loops: Sequence[ir.Operation],
    used: set[str],
    indices: IndexSymbols,
) -> tuple[ir.InsertionPoint, dict[str, Dim], dict[str, Dim]]:
    """Copies the used loops.

    Returns:
        The innermost insertion point, the copied loop variables, and the lower bounds of the
        other loops.
    """
    insertion_point = edit.insertion_point_before(edit.terminator(region))
    copies: dict[str, Dim] = {}
    first: dict[str, Dim] = {}
    for loop in loops:
        name = indices.symbol(loop_var(loop))
        low, extent = (
            substitute(d, copies | first) for d in loop_bounds(indices, loop)
        )
        if name not in used:
            first[name] = low
            continue
        with insertion_point:
            made = edit.make_loop(indices, extent, edit.attributes_of(loop), low)
        copies[name] = indices.of(loop_var(made))
        insertion_point = edit.insertion_point_before(edit.terminator(tree.body(made)))
    return insertion_point, copies, first


def _clone_init(
    init: ir.Block, target: ir.Block, old: Sequence[Dim], indices: IndexSymbols
) -> None:
    known: dict[str, Dim] = {
        iter_symbol(n): indices.of(a) for n, a in enumerate(target.arguments)
    }
    with edit.insertion_point_before(edit.terminator(target)):
        mapping: dict[ir.Value, ir.Value] = {
            argument: indices.emit(substitute(value, known))
            for argument, value in zip(init.arguments, old, strict=True)
        }
        *operations, _ = own_operations(init)
        for op in operations:
            patterns.clone(op, mapping)


def blockize_blocks(
    state: ScheduleState,
    blocks: Sequence[ir.Operation],
    *,
    preserve_unit_iters: bool,
) -> ir.Operation:
    """Turn sibling blocks into one block; see :meth:`Schedule.blockize`."""
    ancestor = _common_ancestor(blocks)
    statements_of_blocks = [tree.child_containing(ancestor, block) for block in blocks]
    statements = tree.statements(statements_of_blocks[0].block)
    numbers = [
        n for n, statement in enumerate(statements) if statement in statements_of_blocks
    ]
    first, last = numbers[0], numbers[-1]
    is_consecutive = numbers == list(range(first, last + 1))
    if not is_consecutive or any(top not in statements for top in statements_of_blocks):
        raise ScheduleError(
            "blockize: expected consecutive blocks, got others "
            f"between {tree.describe(blocks[0])} and {tree.describe(blocks[-1])}"
        )
    for block in blocks:
        if tree.init_block_of(block) is not None:
            raise ScheduleError(
                f"blockize: {tree.describe(block)} has an init block (`T.init`): expected "
                "none when several blocks become one"
            )
    with state.change(ancestor) as indices:
        divisions = _divisions(
            ancestor, blocks, indices, keep_units=preserve_unit_iters
        )
        widest = max(range(len(blocks)), key=lambda n: len(divisions[n].outer))
        names = "_".join(map(tree.block_name, blocks))
        moved = statements[first : last + 1]
        outer = _outer_block(
            moved[0], blocks[widest], divisions[widest], f"outer_{names}_", indices
        )
        end = edit.terminator(tree.body(outer))
        for statement in moved:
            edit.move_before(statement, end)
        for block, division in zip(blocks, divisions, strict=True):
            _inner_block(state, block, outer, division, indices)
        edit.rematerialize_all(outer)
        return outer


def _common_ancestor(blocks: Sequence[ir.Operation]) -> ir.Operation:
    """The innermost common ancestor of blocks."""
    if not blocks:
        raise ScheduleError("blockize: expected at least one block, got none")
    for block in blocks:
        legality.check_not_root(block, "blockize")
        if tree.scope_of(block) != tree.scope_of(blocks[0]):
            raise ScheduleError("blockize: expected blocks of one scope")
    around = [list(tree.ancestors(block)) for block in blocks]
    shared = [a for a in around[0] if all(a in others for others in around)]
    return next(a for a in shared if not tree.is_predicate(a))


def _divisions(
    ancestor: ir.Operation,
    blocks: Sequence[ir.Operation],
    indices: IndexSymbols,
    *,
    keep_units: bool,
) -> list[_Division]:
    found: list[_Division] = []
    for block in blocks:
        inner = [
            o for o in tree.enclosing_loops(block) if ancestor in tree.ancestors(o)
        ]
        found.append(_divide(block, inner, indices, keep_units=keep_units))
    for block, division in zip(blocks, found, strict=True):
        common = zip(division.outer, found[0].outer, strict=False)
        if any(a != b for a, b in common):
            raise ScheduleError(
                f"blockize: the outer iter vars of {tree.describe(block)} differ from those "
                f"of {tree.describe(blocks[0])}: expected the same"
            )
    return found

"""The primitive that makes one block of all that a loop, or several blocks, do.

The axes of a block are divided: each is an outer axis times the extent of an inner one,
plus the inner one; loops inside make up the inner axis, those outside the outer one.

Source: S. Feng et al., "TensorIR: An Abstraction for Automatic Tensorized Program
Optimization", ASPLOS 2023, section 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir import rewriting
from relax_mlir.dialects import dims
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import (
    affine,
    dependences,
    edit,
    legality,
    predicates,
    tree,
)
from relax_mlir.tir.schedule.decompose import axes_of, set_start_predicate
from relax_mlir.tir.schedule.edit import Axis
from relax_mlir.tir.schedule.indices import Indices, without_units
from relax_mlir.tir.schedule.new_axes import axis_symbol, with_axes
from relax_mlir.tir.schedule.predicates import Condition
from relax_mlir.tir.schedule.state import (
    ScheduleState,
    limits_at,
    loop_bounds,
    loop_var,
)
from relax_mlir.traversal import own_operations

__all__ = ["blockize_blocks", "blockize_loop"]


@dataclass(frozen=True)
class _Part:
    """Half of an axis: how many values it takes, and what it is at a point."""

    extent: Dim
    value: Dim


@dataclass(frozen=True)
class _Division:
    """The axes of a block in two halves, and so its predicate.

    Attributes:
        starts: what is added to the two halves of an axis.
    """

    outer: Sequence[_Part]
    inner: Sequence[_Part]
    starts: Sequence[Dim]
    outer_conditions: Sequence[Condition]
    inner_conditions: Sequence[Condition]


def blockize_loop(
    state: ScheduleState,
    loop: ir.Operation,
    indices: Indices,
    *,
    preserve_unit_iters: bool,
) -> ir.Operation:
    """Make a block of what a loop does; see :meth:`Schedule.blockize`."""
    block = only_block(loop, "blockize")
    inner_loops = [
        o for o in tree.enclosing_loops(block) if o == loop or loop in tree.ancestors(o)
    ]
    if tree.init_of(block) is not None:
        legality.check_start_contained(block, inner_loops, "blockize")
        dependences.check_start_hoisted(block, inner_loops, "blockize")
    division = _divide(block, inner_loops, indices, keep_units=preserve_unit_iters)
    name = f"{tree.block_name(block)}_o"
    outer = _outer_block(loop, block, division, name, indices)
    if tree.init_of(block) is not None:
        _outer_start(outer, block, inner_loops, division, indices)
    edit.move_before(loop, edit.terminator(tree.body(outer)))
    _inner_block(state, block, outer, division, indices)
    edit.localise(outer)
    return outer


def only_block(loop: ir.Operation, where: str) -> ir.Operation:
    """The block that is all that a loop holds.

    Raises:
        ScheduleError: it holds something else.
    """
    inner = loop
    while not tree.is_block(inner):
        below = tree.children(inner)
        if len(below) != 1:
            raise ScheduleError(
                f"{where}: {tree.describe(loop)} holds {len(tree.blocks_below(loop))} "
                "blocks: expected only one child block"
            )
        (inner,) = below
    return inner


def _divide(
    block: ir.Operation,
    inner_loops: Sequence[ir.Operation],
    indices: Indices,
    *,
    keep_units: bool,
) -> _Division:
    """The axes of a block divided into what loops outside and inside make of them.

    Raises:
        ScheduleError: they are not such sums.
    """
    extents = legality.loop_extents(indices, block)
    inside = {indices.symbol(loop_var(o)) for o in inner_loops}
    limits = limits_at(indices, block)
    starts = tree.axis_starts(block)
    values = [
        indices.of(v) - s for v, s in zip(tree.bindings(block), starts, strict=True)
    ]
    conditions = predicates.block_conditions(block, indices)
    outer_if, inner_if = _divided_conditions(conditions, extents, inside)
    pairs = None
    if outer_if is not None and inner_if is not None:
        is_affine = not legality.loop_starts(indices, block) and affine.is_affine(
            values, extents, limits, predicates=[c.slack for c in conditions]
        )
        pairs = [_parts(v, extents, inside) if is_affine else None for v in values]
        sizes = [axis.extent for axis in axes_of(block, indices)]
        pairs = [
            _trivial_parts(v, e, inside) if pair is None else pair
            for v, e, pair in zip(values, sizes, pairs, strict=True)
        ]
    if pairs is None or any(pair is None for pair in pairs):
        raise ScheduleError(
            f"blockize: the bindings of {tree.describe(block)} can not be blockized by "
            f"the loops starting at {_first(inner_loops)}: expected axes that "
            "are outer loops times the extent of inner loops plus those"
        )
    found = [pair for pair in pairs if pair is not None]
    if not keep_units:
        found = [
            tuple(_Part(p.extent, without_units(p.value, limits)) for p in pair)
            for pair in found
        ]
    outer, inner = [p for p, _ in found], [p for _, p in found]
    return _Division(outer, inner, starts, outer_if or [], inner_if or [])


def _first(loops: Sequence[ir.Operation]) -> str:
    return tree.describe(loops[0]) if loops else "none"


def _divided_conditions(
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


def _parts(
    value: Dim, extents: Mapping[str, Dim], inside: set[str]
) -> tuple[_Part, _Part] | None:
    """An affine value as an outer and an inner part, or None."""
    digits = affine.digits_of(value, extents)
    if digits is None:
        return None
    inner = [d for d in digits if d.source in inside]
    size: Dim = 1
    low: Dim = 0
    for digit in inner:
        size = size * digit.extent
        low = low + digit.scale * affine.value_of(digit, extents)
    if any(not _divides(digit.scale, size) for digit in inner) and size != 1:
        return None
    high, rest = dims.divide(value - low, size)
    if rest != 0:
        return None
    count: Dim = 1
    for digit in digits:
        if digit not in inner:
            count = count * digit.extent
    if len(inner) == len(digits) and high != 0:
        return None
    return _Part(count, high), _Part(size, low)


def _divides(divisor: Dim, size: Dim) -> bool:
    return divisor == 1 or dims.divide(size, divisor)[1] == 0


def _trivial_parts(
    value: Dim, extent: Dim, inside: set[str]
) -> tuple[_Part, _Part] | None:
    """A value that mentions loops of one side alone."""
    used = set(symbols_of(value))
    one = _Part(1, 0)
    if not used & inside:
        return _Part(extent, value), one
    return None if used - inside else (one, _Part(extent, value))


def _outer_axes(axes: Sequence[Axis], division: _Division) -> list[Axis]:
    return [
        Axis(axis.kind, part.extent, f"{axis.name}_o", axis.dtype)
        for axis, part in zip(axes, division.outer, strict=True)
    ]


def _inner_axes(axes: Sequence[Axis], division: _Division) -> list[tuple[int, Axis]]:
    """The axes that more than one value is left of, with their old numbers."""
    return [
        (n, Axis(axis.kind, part.extent, f"{axis.name}_i", axis.dtype))
        for n, (axis, part) in enumerate(zip(axes, division.inner, strict=True))
        if part.extent != 1
    ]


def _outer_block(
    statement: ir.Operation,
    block: ir.Operation,
    division: _Division,
    name: str,
    indices: Indices,
) -> ir.Operation:
    """An empty block with the outer axes, in front of a statement."""
    axes = _outer_axes(axes_of(block, indices), division)
    with edit.point_before(statement):
        values = [indices.emit(part.value) for part in division.outer]
        made = edit.make_block(name, axes, values, indices.emit)
        edit.open_region(made, 1)
    predicates.set_predicate(made, division.outer_conditions, indices)
    return made


def _old_axes(
    outer: Sequence[ir.Value],
    numbers: Mapping[int, int],
    division: _Division,
    indices: Indices,
) -> list[Dim]:
    """What the axes of the old block are in the inner one.

    Args:
        outer: the axes of the outer block.
        numbers: the number of the inner axis for that of an old axis.
    """
    found: list[Dim] = []
    for n, (part, start) in enumerate(
        zip(division.inner, division.starts, strict=True)
    ):
        high = indices.of(outer[n])
        if n not in numbers:
            found.append(start + high)
            continue
        low = start + dims.symbol(axis_symbol(numbers[n]))
        found.append(low if division.outer[n].extent == 1 else high * part.extent + low)
    return found


def _inner_block(
    state: ScheduleState,
    block: ir.Operation,
    outer: ir.Operation,
    division: _Division,
    indices: Indices,
) -> ir.Operation:
    axes = _inner_axes(axes_of(block, indices), division)
    numbers = {n: new for new, (n, _) in enumerate(axes)}
    made = with_axes(
        state,
        block,
        [axis for _, axis in axes],
        [division.inner[n].value for n, _ in axes],
        _old_axes(list(tree.body(outer).arguments), numbers, division, indices),
        indices,
        keep_init=False,
    )
    predicates.set_predicate(made, division.inner_conditions, indices)
    return made


def _outer_start(
    outer: ir.Operation,
    block: ir.Operation,
    loops: Sequence[ir.Operation],
    division: _Division,
    indices: Indices,
) -> None:
    """Loops over the inner spatial axes around the start value, in the outer block."""
    start = tree.init_of(block)
    assert start is not None
    wanted = [
        (n, Axis(axis.kind, axis.extent, f"{axis.name}_init", axis.dtype))
        for n, axis in _inner_axes(axes_of(block, indices), division)
        if axis.kind == "S" and rewriting.has_uses(start.arguments[n])
    ]
    region = edit.open_region(outer, 0)
    values = [division.inner[n].value for n, _ in wanted]
    used = _used_by_start(block, division, values, loops, indices)
    place, copies, first = _start_loops(region, loops, used, indices)
    with place:
        made = edit.make_block(
            f"{tree.block_name(block)}_init",
            [axis for _, axis in wanted],
            [indices.emit(substitute(v, copies)) for v in values],
            indices.emit,
        )
    numbers = {n: new for new, (n, _) in enumerate(wanted)}
    old = _old_axes(list(region.arguments), numbers, division, indices)
    _copy_start(start, edit.open_region(made, 1), old, indices)
    set_start_predicate(made, division.inner_conditions, copies, first, indices)


def _used_by_start(
    block: ir.Operation,
    division: _Division,
    values: Sequence[Dim],
    loops: Sequence[ir.Operation],
    indices: Indices,
) -> set[str]:
    """The loops that the start value goes over: not those of reduce axes, nor of one step.

    Args:
        values: its axes.
    """
    pairs = zip(tree.kinds_of(block), division.inner, strict=True)
    reduced = {n for kind, p in pairs if kind != "S" for n in symbols_of(p.value)}
    units = {
        indices.symbol(loop_var(loop))
        for loop in loops
        if loop_bounds(indices, loop)[1] == 1
    }
    asked = {n for c in division.inner_conditions for n in symbols_of(c.slack)}
    return {n for v in values for n in symbols_of(v)} | (asked - reduced - units)


def _start_loops(
    region: ir.Block,
    loops: Sequence[ir.Operation],
    used: set[str],
    indices: Indices,
) -> tuple[ir.InsertionPoint, dict[str, Dim], dict[str, Dim]]:
    """Copies of the loops that are used; where they end, and what they stand for.

    Returns:
        Also where the other loops begin.
    """
    place = edit.point_before(edit.terminator(region))
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
        with place:
            made = edit.make_loop(indices, extent, edit.attributes_of(loop), low)
        copies[name] = indices.of(loop_var(made))
        place = edit.point_before(edit.terminator(tree.body(made)))
    return place, copies, first


def _copy_start(
    start: ir.Block, target: ir.Block, old: Sequence[Dim], indices: Indices
) -> None:
    known: dict[str, Dim] = {
        axis_symbol(n): indices.of(a) for n, a in enumerate(target.arguments)
    }
    with edit.point_before(edit.terminator(target)):
        mapping: dict[ir.Value, ir.Value] = {
            argument: indices.emit(substitute(value, known))
            for argument, value in zip(start.arguments, old, strict=True)
        }
        *operations, _ = own_operations(start)
        for op in operations:
            rewriting.clone(op, mapping)


def blockize_blocks(
    state: ScheduleState,
    blocks: Sequence[ir.Operation],
    *,
    preserve_unit_iters: bool,
) -> ir.Operation:
    """Make a block of what blocks do; see :meth:`Schedule.blockize`."""
    place = _common_place(blocks)
    tops = [tree.child_of(place, block) for block in blocks]
    statements = tree.statements(tops[0].block)
    numbers = [n for n, statement in enumerate(statements) if statement in tops]
    first, last = numbers[0], numbers[-1]
    is_gapless = numbers == list(range(first, last + 1))
    if not is_gapless or any(top not in statements for top in tops):
        raise ScheduleError(
            "blockize: expected blocks that stand one after the other, got others "
            f"between {tree.describe(blocks[0])} and {tree.describe(blocks[-1])}"
        )
    for block in blocks:
        if tree.init_of(block) is not None:
            raise ScheduleError(
                f"blockize: {tree.describe(block)} has a start value (`T.init`): expected "
                "none where several blocks become one"
            )
    with state.change(place) as indices:
        divisions = _divisions(place, blocks, indices, keep_units=preserve_unit_iters)
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
        edit.localise(outer)
        return outer


def _common_place(blocks: Sequence[ir.Operation]) -> ir.Operation:
    """The innermost loop or block around all of these."""
    if not blocks:
        raise ScheduleError("blockize: expected at least one block, got none")
    for block in blocks:
        legality.check_not_root(block, "blockize")
        if tree.scope_of(block) != tree.scope_of(blocks[0]):
            raise ScheduleError("blockize: expected blocks of one scope")
    around = [list(tree.ancestors(block)) for block in blocks]
    shared = [a for a in around[0] if all(a in others for others in around)]
    return next(a for a in shared if not tree.is_where(a))


def _divisions(
    place: ir.Operation,
    blocks: Sequence[ir.Operation],
    indices: Indices,
    *,
    keep_units: bool,
) -> list[_Division]:
    found: list[_Division] = []
    for block in blocks:
        inner = [o for o in tree.enclosing_loops(block) if place in tree.ancestors(o)]
        found.append(_divide(block, inner, indices, keep_units=keep_units))
    for block, division in zip(blocks, found, strict=True):
        common = zip(division.outer, found[0].outer, strict=False)
        if any(a != b for a, b in common):
            raise ScheduleError(
                f"blockize: the outer axes of {tree.describe(block)} are not those of "
                f"{tree.describe(blocks[0])}: expected the same"
            )
    return found

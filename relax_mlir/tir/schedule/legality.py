"""The conditions under which primitives keep what a program computes.

They are those of TensorIR: complete and reduction blocks, affine bindings, stage
pipelines.

Source: S. Feng et al., "TensorIR: An Abstraction for Automatic Tensorized Program
Optimization", ASPLOS 2023, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from relax_mlir.dialects import dims
from relax_mlir.dialects.dim_bounds import bounds
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import accesses, affine, predicates, regions, tree
from relax_mlir.tir.schedule.indices import Indices, Limits, simplify, without_units
from relax_mlir.tir.schedule.state import (
    extents_of,
    limits_at,
    loop_bounds,
    loop_var,
)
from relax_mlir.traversal import own_operations

__all__ = [
    "bottoms_at",
    "check_axis_sizes",
    "check_bound_in_scope",
    "check_complete",
    "check_complete_or_reduction",
    "check_not_output",
    "check_not_root",
    "check_outside_init",
    "check_reduces_inside",
    "check_reduction",
    "check_self_contained",
    "check_stage_pipeline",
    "check_start_contained",
    "has_affine_bindings",
    "is_box_inside",
    "is_complete",
    "is_inside",
    "is_reduction",
    "loop_extents",
    "loop_starts",
    "loop_used_inside",
    "not_complete",
    "not_reduction",
    "run_within",
    "within_buffer",
]


def loop_extents(indices: Indices, block: ir.Operation) -> dict[str, Dim]:
    """How many steps the loops around a block have, by their symbols."""
    return {
        indices.symbol(loop_var(loop)): loop_bounds(indices, loop)[1]
        for loop in tree.enclosing_loops(block)
    }


def loop_starts(indices: Indices, block: ir.Operation) -> dict[str, Dim]:
    """Where those loops around a block begin that do not at 0, by their symbols."""
    starts = {
        indices.symbol(loop_var(loop)): loop_bounds(indices, loop)[0]
        for loop in tree.enclosing_loops(block)
    }
    return {name: low for name, low in starts.items() if low != 0}


def has_affine_bindings(
    block: ir.Operation,
    *,
    below: ir.Operation | None = None,
    may_overlap: bool | None = None,
) -> bool:
    """Whether the loops around a block visit each of its points once.

    Args:
        below: look at this loop and those inside it alone; others then stand still.
        may_overlap: whether points may be visited again, as in tiles that overlap; left
            out, they may where others stand still.
    """
    if tree.is_function(block):
        return True
    indices = Indices()
    extents = loop_extents(indices, block)
    if below is not None:
        loops = tree.enclosing_loops(block)
        inner = loops[loops.index(below) :]
        names = {indices.symbol(loop_var(loop)) for loop in inner}
        extents = {n: e for n, e in extents.items() if n in names}
    found = predicates.block_conditions(block, indices)
    if any(c.value is not None for c in found):
        return False
    limits = limits_at(indices, block)
    values = [without_units(indices.of(v), limits) for v in tree.bindings(block)]
    # Loops as if they began at 0.
    steps = {n: dims.symbol(n) + low for n, low in loop_starts(indices, block).items()}
    limits |= {n: (0, bounds(extents[n] - 1, limits)[1]) for n in steps if n in extents}
    return affine.is_affine(
        [substitute(value, steps) for value in values],
        extents,
        limits,
        predicates=[substitute(c.slack, steps) for c in found],
        may_overlap=below is not None if may_overlap is None else may_overlap,
    )


def _dominates(block: ir.Operation, root: ir.Operation | None) -> bool:
    """Whether it alone writes what it writes, among the blocks of its scope.

    Args:
        root: look at the blocks in this statement alone.
    """
    scope = tree.scope_of(block) if root is None or root == block else root
    return all(
        accesses.writers_of(scope, buffer) == [block]
        for buffer in accesses.buffers_written(block)
    )


def not_complete(block: ir.Operation, root: ir.Operation | None = None) -> str | None:
    """Which condition of a complete block fails, or None."""
    if tree.is_function(block):
        return None
    if set(tree.kinds_of(block)) - {"S"}:
        return "all its axes are spatial"
    if not _dominates(block, root):
        return "no other block of its scope writes what it writes"
    read = accesses.buffers_read(block)
    if any(b in read for b in accesses.buffers_written(block)):
        return "it does not read what it writes"
    return None


def is_complete(block: ir.Operation) -> bool:
    """Whether each element that a block writes is written whole by one point."""
    return not_complete(block) is None


def not_reduction(block: ir.Operation, root: ir.Operation | None = None) -> str | None:
    """Which condition of a reduction block fails, or None."""
    if tree.is_function(block) or tree.init_of(block) is None:
        return "it has a start value (`T.init`)"
    if not has_affine_bindings(block):
        return "its bindings are quasi-affine: each loop is a digit of one axis"
    if set(tree.kinds_of(block)) - {"S", "R"}:
        return "its axes are spatial or reduce axes"
    if not _dominates(block, root):
        return "no other block of its scope writes what it writes"
    if _indexes_by_reduce_axis(block):
        return "no reduce axis is part of where it writes"
    return None


def _indexes_by_reduce_axis(block: ir.Operation) -> bool:
    indices = Indices()
    kinds = tree.kinds_of(block)
    reduce_axes = {
        indices.symbol(tree.body(block).arguments[n])
        for n, kind in enumerate(kinds)
        if kind == "R"
    }
    own = accesses.own_buffers(block)
    for access in accesses.accesses_in(tree.body(block)):
        if not access.is_write or access.is_opaque or access.buffer in own:
            continue
        for dim in access.indices(indices):
            if reduce_axes & set(symbols_of(dim)):
                return True
    return False


def is_reduction(block: ir.Operation) -> bool:
    """Whether a block combines values into each element it writes."""
    return not_reduction(block) is None


def check_not_root(block: ir.Operation, where: str) -> None:
    """Refuse the block that stands for all of a program.

    Raises:
        ScheduleError: it is that.
    """
    if tree.is_function(block):
        raise ScheduleError(
            f"{where}: expected a block inside the program, got the root"
        )


def check_outside_init(statements: Sequence[ir.Operation], where: str) -> None:
    """Refuse statements of the start value of their scope, which sees no new buffer of it.

    Raises:
        ScheduleError: one stands there.
    """
    for statement in statements:
        scope = tree.scope_of(statement)
        if tree.region_in(scope, statement) != tree.body(scope):
            raise ScheduleError(
                f"{where}: {tree.describe(statement)} computes the start value of "
                f"{tree.describe(scope)}, which can not use a buffer of its body: expected "
                "a statement of the body. Hint: `decompose_reduction` moves it out"
            )


def check_axis_starts(
    block: ir.Operation, where: str, *, may_be_above_0: bool = False
) -> None:
    """Refuse a block with an axis that does not start at 0, or of no fixed size.

    Args:
        may_be_above_0: whether a positive number is allowed as well.

    Raises:
        ScheduleError: it has one.
    """
    check_axis_sizes(block, where)
    starts = zip(tree.axis_names(block), tree.axis_starts(block), strict=True)
    for name, start in starts:
        is_above = may_be_above_0 and isinstance(start, int) and start > 0
        if start != 0 and not is_above:
            raise ScheduleError(
                f"{where}: axis `{name}` of {tree.describe(block)} starts at {start}: "
                f"expected 0{' or more' if may_be_above_0 else ''}"
            )


def check_axis_sizes(block: ir.Operation, where: str) -> None:
    """Refuse a block whose axes take other values in each step of a loop around it.

    Raises:
        ScheduleError: the size of an axis depends on variables around the block, or the
            bounds of a loop around it on another one, as in loops over a triangle.
    """
    indices = Indices()
    sizes = extents_of(indices, block)
    for name, size in zip(tree.axis_names(block), sizes, strict=True):
        if not indices.is_size(size):
            raise ScheduleError(
                f"{where}: the size of axis `{name}` of {tree.describe(block)} depends on "
                "variables around the block: expected one for all its points"
            )
    loops = tree.enclosing_loops(block)
    counters = {indices.symbol(loop_var(loop)) for loop in loops}
    for loop in loops:
        bounds_of_loop = loop_bounds(indices, loop)
        if any(counters.intersection(symbols_of(dim)) for dim in bounds_of_loop):
            raise ScheduleError(
                f"{where}: the bounds of {tree.describe(loop)} around "
                f"{tree.describe(block)} depend on a loop around it: expected loops over "
                "a box"
            )
    _check_axes_covered(block, indices, where)


def _check_axes_covered(block: ir.Operation, indices: Indices, where: str) -> None:
    """Refuse a block with an axis whose first or last value no step of the loops takes."""
    parent = tree.parent_of(block)
    limits, tops = limits_at(indices, parent), tops_at(indices, parent)
    starts = bottoms_at(indices, parent)
    domains = {name: regions.Run(starts[name], top) for name, top in tops.items()}
    axes = zip(
        tree.axis_names(block),
        tree.bindings(block),
        tree.axis_starts(block),
        extents_of(indices, block),
        strict=True,
    )
    for name, value, start, extent in axes:
        run = regions.interval(indices.of(value), domains, limits)
        missing = start - run.low, run.high - start - extent + 1
        if not all(predicates.is_never_negative(d, limits, tops) for d in missing):
            raise ScheduleError(
                f"{where}: loops take axis `{name}` of {tree.describe(block)} from {run.low} "
                f"to {run.high} alone: expected all of its values, from {start} to "
                f"{start + extent - 1}"
            )


def check_bound_in_scope(block: ir.Operation, where: str) -> None:
    """Refuse a block of which a step of what is around its scope visits a part.

    Raises:
        ScheduleError: an axis depends on a variable from outside of the scope.
    """
    for _, name in _bound_outside(block):
        raise _bound_error(block, name, where)


def _bound_error(block: ir.Operation, name: str, where: str) -> ScheduleError:
    return ScheduleError(
        f"{where}: axis `{name}` of {tree.describe(block)} depends on variables from "
        f"outside of {tree.describe(tree.scope_of(block))}: expected axes that loops "
        "inside of it go over"
    )


def _bound_outside(block: ir.Operation) -> list[tuple[str, str]]:
    """The kinds and names of axes that depend on a variable from outside of the scope."""
    indices = Indices()
    indices.add_sizes(tree.function_of(block))
    own = {indices.symbol(loop_var(loop)) for loop in tree.enclosing_loops(block)}
    axes = zip(
        tree.kinds_of(block), tree.axis_names(block), tree.bindings(block), strict=True
    )
    return [
        (kind, name)
        for kind, name, value in axes
        if any(
            symbol not in own and not indices.is_size(dims.symbol(symbol))
            for symbol in symbols_of(indices.of(value))
        )
    ]


def check_complete(block: ir.Operation, where: str) -> None:
    """Refuse what is no complete block.

    Raises:
        ScheduleError: a condition fails; says which.
    """
    problem = not_complete(block)
    if problem is not None:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} is not a complete block: expected that "
            f"{problem}"
        )


def check_reduction(block: ir.Operation, where: str) -> None:
    """Refuse what is no reduction block.

    Raises:
        ScheduleError: a condition fails; says which.
    """
    problem = not_reduction(block)
    if problem is not None:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} is not a reduction block: expected that "
            f"{problem}"
        )
    check_reduces_inside(block, where)


def check_reduces_inside(block: ir.Operation, where: str) -> None:
    """Refuse a reduction that goes on in the next step of what is around its scope.

    Raises:
        ScheduleError: a reduce axis depends on a variable from outside of the scope.
    """
    for kind, name in _bound_outside(block):
        if kind == "R":
            raise _bound_error(block, name, where)


def check_complete_or_reduction(
    block: ir.Operation, where: str, root: ir.Operation | None = None
) -> None:
    """Refuse what is neither.

    Args:
        root: look at the blocks in this statement alone; by default, at the whole scope.

    Raises:
        ScheduleError: says what it would have to be for each.
    """
    incomplete, unreduced = not_complete(block, root), not_reduction(block, root)
    if incomplete is not None and unreduced is not None:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} is neither a complete block nor a "
            f"reduction block: for the first expected that {incomplete}, for the second "
            f"that {unreduced}"
        )


def check_self_contained(block: ir.Operation, where: str) -> None:
    """Refuse to move a block whose inside uses loops around it other than by axes.

    Raises:
        ScheduleError: it does.
    """
    used = loop_used_inside(block)
    if used is not None:
        raise _used_inside(block, used, where)


def check_start_contained(
    block: ir.Operation, loops: Sequence[ir.Operation], where: str
) -> None:
    """Refuse to move a start value that uses loops other than by axes.

    Args:
        loops: those that it leaves.

    Raises:
        ScheduleError: it does.
    """
    start = tree.init_of(block)
    listed = own_operations(start) if start is not None else ()
    inside = [op for first in listed for op in tree.subtree(first.operation)]
    used = _loop_used(inside, loops)
    if used is not None:
        raise _used_inside(block, used, where)


def loop_used_inside(block: ir.Operation) -> ir.Operation | None:
    """A loop around a block whose variable its inside uses, if there is one."""
    return _loop_used(tree.subtree(block)[1:], tree.enclosing_loops(block))


def _loop_used(
    inside: Sequence[ir.Operation], loops: Sequence[ir.Operation]
) -> ir.Operation | None:
    operands = {v for op in inside for v in op.operands}
    return next((loop for loop in loops if loop_var(loop) in operands), None)


def _used_inside(block: ir.Operation, loop: ir.Operation, where: str) -> ScheduleError:
    return ScheduleError(
        f"{where}: {tree.describe(block)} uses the variable of {tree.describe(loop)} "
        "inside: expected axes that are bound to it"
    )


def check_not_output(block: ir.Operation, where: str) -> None:
    """Refuse a block whose results are seen outside of its scope.

    Raises:
        ScheduleError: it is one.
    """
    if accesses.is_output(block):
        raise ScheduleError(
            f"{where}: {tree.describe(block)} is an output block: expected one that "
            "writes only buffers that its scope allocates"
        )


def check_stage_pipeline(scope: ir.Operation, where: str) -> None:
    """Refuse scopes in which a block reads what a later one writes.

    Raises:
        ScheduleError: there is such a pair, or a block surely reads elements that no
            other writes.
    """
    blocks = accesses.scope_children(scope)
    written = [accesses.buffers_written(block) for block in blocks]
    for number, block in enumerate(blocks):
        read = accesses.buffers_read_with_conditions(block)
        for later, found in zip(
            blocks[number + 1 :], written[number + 1 :], strict=True
        ):
            clash = [b for b in found if b in read]
            if clash:
                raise ScheduleError(
                    f"{where}: {tree.describe(scope)} is no stage pipeline: "
                    f"{tree.describe(block)} reads `{accesses.buffer_name(clash[0])}` "
                    f"before {tree.describe(later)} writes it"
                )
    for buffer in accesses.own_buffers(scope):
        _check_covered(scope, buffer, where)


def _check_covered(scope: ir.Operation, buffer: ir.Value, where: str) -> None:
    """Refuse reads of elements that the blocks of a scope surely do not write."""
    indices = Indices()
    made = regions.regions_in(scope, buffer, indices, is_write=True)
    read = regions.regions_in(scope, buffer, indices, is_write=False)
    shape = accesses.buffer_shape(buffer)
    for number, size in enumerate(shape if made and read else ()):
        ends = (*_ends(made, number), *_ends(read, number), size)
        known = [n for n in ends if isinstance(n, int)]
        if len(known) < len(ends):
            continue
        first, last, low, high, count = known
        low, high = max(low, 0), min(high, count - 1)
        if low < first or high > last:
            raise ScheduleError(
                f"{where}: {tree.describe(scope)} is no stage pipeline: its blocks read "
                f"`{accesses.buffer_name(buffer)}` from {low} to {high} in dimension "
                f"{number} and write it from {first} to {last}: expected that they write "
                "what they read"
            )


def is_inside(
    inner: regions.Run, outer: regions.Run, limits: Limits, tops: Mapping[str, Dim]
) -> bool:
    """Whether a run surely goes no further than another."""
    gaps = (inner.low - outer.low, outer.high - inner.high)
    return all(predicates.is_never_negative(g, limits, dict(tops)) for g in gaps)


def is_box_inside(
    inner: Sequence[regions.Run],
    outer: Sequence[regions.Run],
    limits: Limits,
    tops: Mapping[str, Dim],
) -> bool:
    """Whether a box surely goes no further than another in any dimension."""
    pairs = zip(inner, outer, strict=True)
    return all(is_inside(*pair, limits, tops) for pair in pairs)


def _ends(box: Sequence[regions.Run] | None, number: int) -> tuple[Dim, Dim]:
    assert box is not None
    return box[number].low, box[number].high


def tops_at(indices: Indices, op: ir.Operation) -> dict[str, Dim]:
    """The greatest values of the variables around an operation, and of its own."""
    found: dict[str, Dim] = {}
    for around in [op, *tree.ancestors(op)]:
        if tree.is_loop(around):
            low, extent = loop_bounds(indices, around)
            found[indices.symbol(loop_var(around))] = low + extent - 1
        elif tree.is_block(around):
            found |= _axis_tops(indices, around)
    return found


def bottoms_at(indices: Indices, op: ir.Operation) -> dict[str, Dim]:
    """The least values of the variables around an operation, and of its own."""
    found: dict[str, Dim] = {}
    for around in [op, *tree.ancestors(op)]:
        if tree.is_loop(around):
            found[indices.symbol(loop_var(around))] = loop_bounds(indices, around)[0]
        elif tree.is_block(around):
            for region in (r for r in around.regions if len(r.blocks)):
                names = map(indices.symbol, region.blocks[0].arguments)
                found.update(zip(names, tree.axis_starts(around), strict=True))
    return found


def _axis_tops(indices: Indices, block: ir.Operation) -> dict[str, Dim]:
    found: dict[str, Dim] = {}
    starts, extents = tree.axis_starts(block), extents_of(indices, block)
    for region in (r for r in block.regions if len(r.blocks)):
        names = map(indices.symbol, region.blocks[0].arguments)
        tops = (s + e - 1 for s, e in zip(starts, extents, strict=True))
        found.update(zip(names, tops, strict=True))
    return found


def drop_proved(
    conditions: list[predicates.Condition], indices: Indices, op: ir.Operation
) -> list[predicates.Condition]:
    """The conditions that may fail at an operation."""
    limits, tops = limits_at(indices, op), tops_at(indices, op)
    return [c for c in conditions if not predicates.is_proved(c, limits, tops)]


def within_buffer(
    box: Sequence[regions.Run], buffer: ir.Value, place: ir.Operation, indices: Indices
) -> list[regions.Run]:
    """The part of a box, as seen from a place, that lies in a buffer."""
    limits, tops = limits_at(indices, place), tops_at(indices, place)
    shape = accesses.buffer_shape(buffer)
    return [run_within(r, s, limits, tops) for r, s in zip(box, shape, strict=True)]


def run_within(
    run: regions.Run, size: Dim, limits: Limits, tops: dict[str, Dim]
) -> regions.Run:
    """The part of a run that lies in a dimension of a buffer."""
    low, high, last = run.low, run.high, size - 1
    if not predicates.is_never_negative(low, limits, tops):
        low = dims.maximum(low, 0)
    if not predicates.is_never_negative(last - high, limits, tops):
        high = dims.minimum(high, last)
    return regions.Run(simplify(low, limits), simplify(high, limits))

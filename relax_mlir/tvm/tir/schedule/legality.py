"""Legality conditions of schedule primitives.

They are those of TensorIR: complete and reduction blocks, affine bindings, stage
pipelines.

Source: S. Feng et al., "TensorIR: An Abstraction for Automatic Tensorized Program
Optimization", ASPLOS 2023, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from relax_mlir.errors import ScheduleError
from relax_mlir.ir.traversal import own_operations
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.bounds import bounds
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.symbols import substitute, symbols_of
from relax_mlir.tvm.tir.schedule import accesses, affine, predicates, regions, tree
from relax_mlir.tvm.tir.schedule.indices import (
    IndexSymbols,
    Limits,
    fold_single_values,
    simplify,
)
from relax_mlir.tvm.tir.schedule.state import (
    iter_extents,
    limits_at,
    loop_bounds,
    loop_var,
)

__all__ = [
    "check_bindings_in_scope",
    "check_complete",
    "check_complete_or_reduction",
    "check_init_self_contained",
    "check_iter_domain",
    "check_not_output",
    "check_not_root",
    "check_outside_init",
    "check_reduction",
    "check_reduction_in_scope",
    "check_self_contained",
    "check_stage_pipeline",
    "clip_to_buffer",
    "clip_to_extent",
    "complete_block_violation",
    "has_affine_bindings",
    "is_box_inside",
    "is_complete",
    "is_interval_inside",
    "is_reduction",
    "loop_extents",
    "loop_used_inside",
    "lower_bounds_at",
    "nonzero_loop_mins",
    "reduction_block_violation",
]


def loop_extents(indices: IndexSymbols, block: ir.Operation) -> dict[str, Dim]:
    """The trip counts of the loops around a block, by their symbols."""
    return {
        indices.symbol(loop_var(loop)): loop_bounds(indices, loop)[1]
        for loop in tree.enclosing_loops(block)
    }


def nonzero_loop_mins(indices: IndexSymbols, block: ir.Operation) -> dict[str, Dim]:
    """The nonzero lower bounds of the loops around a block, by their symbols."""
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
    ignores_predicate: bool = False,
) -> bool:
    """Whether block bindings are affine: the loops visit each block instance once.

    Args:
        below: consider only this loop and those inside it; outer loops are fixed.
        may_overlap: whether instances may be visited again, as in overlapping tiles; by
            default, they may if ``below`` is given.
        ignores_predicate: whether to count the instances that the predicate excludes.
    """
    if tree.is_function(block):
        return True
    indices = IndexSymbols()
    extents = loop_extents(indices, block)
    if below is not None:
        loops = tree.enclosing_loops(block)
        inner = loops[loops.index(below) :]
        names = {indices.symbol(loop_var(loop)) for loop in inner}
        extents = {n: e for n, e in extents.items() if n in names}
    conditions = (
        [] if ignores_predicate else predicates.block_conditions(block, indices)
    )
    if any(c.value is not None for c in conditions):
        return False
    limits = limits_at(indices, block)
    values = [fold_single_values(indices.of(v), limits) for v in tree.bindings(block)]
    # Loops normalised to start at 0.
    normalised = {
        n: dims.symbol(n) + low for n, low in nonzero_loop_mins(indices, block).items()
    }
    limits |= {
        n: (0, bounds(extents[n] - 1, limits)[1]) for n in normalised if n in extents
    }
    return affine.is_affine(
        [substitute(value, normalised) for value in values],
        extents,
        limits,
        predicates=[substitute(c.slack, normalised) for c in conditions],
        may_overlap=below is not None if may_overlap is None else may_overlap,
    )


def _is_dominant(block: ir.Operation, root: ir.Operation | None) -> bool:
    """Dominance: whether a block is the only writer, in its scope, of what it writes.

    Args:
        root: consider only the blocks in this statement.
    """
    scope = tree.scope_of(block) if root is None or root == block else root
    return all(
        accesses.writers_of(scope, buffer) == [block]
        for buffer in accesses.buffers_written(block)
    )


def complete_block_violation(
    block: ir.Operation, root: ir.Operation | None = None
) -> str | None:
    """The condition of a complete block that fails, or None."""
    if tree.is_function(block):
        return None
    if set(tree.iter_kinds(block)) - {"S"}:
        return "all its iter vars are spatial"
    if not _is_dominant(block, root):
        return "no other block of its scope writes what it writes"
    read = accesses.buffers_read(block)
    if any(b in read for b in accesses.buffers_written(block)):
        return "it does not read what it writes"
    return None


def is_complete(block: ir.Operation) -> bool:
    """Whether a block is a complete block."""
    return complete_block_violation(block) is None


def reduction_block_violation(
    block: ir.Operation, root: ir.Operation | None = None
) -> str | None:
    """The condition of a reduction block that fails, or None."""
    if tree.is_function(block) or tree.init_block_of(block) is None:
        return "it has an init block (`T.init`)"
    if not has_affine_bindings(block):
        return "its bindings are quasi-affine: each loop is a digit of one iter var"
    if set(tree.iter_kinds(block)) - {"S", "R"}:
        return "its iter vars are spatial or reduce ones"
    if not _is_dominant(block, root):
        return "no other block of its scope writes what it writes"
    if _indexes_by_reduce_iter(block):
        return "no index of its writes depends on a reduce iter var"
    return None


def _indexes_by_reduce_iter(block: ir.Operation) -> bool:
    indices = IndexSymbols()
    kinds = tree.iter_kinds(block)
    reduce_iters = {
        indices.symbol(tree.body(block).arguments[n])
        for n, kind in enumerate(kinds)
        if kind == "R"
    }
    own = accesses.allocated_buffers(block)
    for access in accesses.accesses_in(tree.body(block)):
        if not access.is_write or access.is_opaque or access.buffer in own:
            continue
        for dim in access.indices(indices):
            if reduce_iters & set(symbols_of(dim)):
                return True
    return False


def is_reduction(block: ir.Operation) -> bool:
    """Whether a block is a reduction block."""
    return reduction_block_violation(block) is None


def check_not_root(block: ir.Operation, where: str) -> None:
    """Reject the root block.

    Raises:
        ScheduleError: it is the root block.
    """
    if tree.is_function(block):
        raise ScheduleError(
            f"{where}: expected a block inside the function, got the root"
        )


def check_outside_init(statements: Sequence[ir.Operation], where: str) -> None:
    """Reject statements in an init block, which cannot use buffers allocated in the body.

    Raises:
        ScheduleError: one is in an init block.
    """
    for statement in statements:
        scope = tree.scope_of(statement)
        if tree.region_containing(scope, statement) != tree.body(scope):
            raise ScheduleError(
                f"{where}: {tree.describe(statement)} is in the init block of "
                f"{tree.describe(scope)}, which cannot use a buffer of its body: expected "
                "a statement of the body. Hint: `decompose_reduction` moves it out"
            )


def check_iter_mins(
    block: ir.Operation, where: str, *, may_be_above_0: bool = False
) -> None:
    """Reject iter vars whose domain does not start at 0 or is not loop-invariant.

    Args:
        may_be_above_0: whether a positive constant is allowed as well.

    Raises:
        ScheduleError: there is one.
    """
    check_iter_domain(block, where)
    starts = zip(tree.iter_var_names(block), tree.iter_var_mins(block), strict=True)
    for name, start in starts:
        is_above = may_be_above_0 and isinstance(start, int) and start > 0
        if start != 0 and not is_above:
            raise ScheduleError(
                f"{where}: axis `{name}` of {tree.describe(block)} starts at {start}: "
                f"expected 0{' or more' if may_be_above_0 else ''}"
            )


def check_iter_domain(block: ir.Operation, where: str) -> None:
    """Reject blocks whose iter domain varies with the loops around them.

    Raises:
        ScheduleError: an extent depends on variables around the block, or loop bounds depend
            on an outer loop, as in a triangular nest.
    """
    indices = IndexSymbols()
    sizes = iter_extents(indices, block)
    for name, size in zip(tree.iter_var_names(block), sizes, strict=True):
        if not indices.is_size(size):
            raise ScheduleError(
                f"{where}: the extent of axis `{name}` of {tree.describe(block)} depends on "
                "variables around the block: expected one extent for all its instances"
            )
    loops = tree.enclosing_loops(block)
    loop_symbols = {indices.symbol(loop_var(loop)) for loop in loops}
    for loop in loops:
        bounds_of_loop = loop_bounds(indices, loop)
        if any(loop_symbols.intersection(symbols_of(dim)) for dim in bounds_of_loop):
            raise ScheduleError(
                f"{where}: the bounds of {tree.describe(loop)} around "
                f"{tree.describe(block)} depend on a loop around it: expected a "
                "rectangular loop nest"
            )
    _check_domain_covered(block, indices, where)


def _check_domain_covered(
    block: ir.Operation, indices: IndexSymbols, where: str
) -> None:
    """Reject blocks whose loops may leave out instances.

    The first and the last value of each iter var have to be bound, and the bindings have to
    take every combination of the values between them, except those that a predicate excludes.
    """
    parent = tree.parent_of(block)
    limits, upper_bounds = limits_at(indices, parent), upper_bounds_at(indices, parent)
    starts = lower_bounds_at(indices, parent)
    domains = {
        name: regions.Interval(starts[name], top) for name, top in upper_bounds.items()
    }
    axes = zip(
        tree.iter_var_names(block),
        tree.bindings(block),
        tree.iter_var_mins(block),
        iter_extents(indices, block),
        strict=True,
    )
    for name, value, start, extent in axes:
        interval = regions.evaluate_interval(indices.of(value), domains, limits)
        uncovered = start - interval.low, interval.high - start - extent + 1
        if not all(
            predicates.is_nonnegative(d, limits, upper_bounds) for d in uncovered
        ):
            raise ScheduleError(
                f"{where}: loops bind axis `{name}` of {tree.describe(block)} to {interval.low} "
                f"to {interval.high} only: expected its whole domain, from {start} to "
                f"{start + extent - 1}"
            )
    # Predicates either bound fused loops, or exclude instances of complete loops.
    if not any(
        has_affine_bindings(block, may_overlap=True, ignores_predicate=ignores)
        for ignores in (False, True)
    ):
        raise ScheduleError(
            f"{where}: the loops around {tree.describe(block)} may leave out instances of it: "
            "expected affine bindings, which bind its iter vars to their whole domain"
        )


def check_bindings_in_scope(block: ir.Operation, where: str) -> None:
    """Reject blocks whose bindings depend on variables outside the scope.

    Such a block executes only part of its iter domain per instance of its scope.

    Raises:
        ScheduleError: there is such a binding.
    """
    for _, name in _iters_bound_outside(block):
        raise _binding_error(block, name, where)


def _binding_error(block: ir.Operation, name: str, where: str) -> ScheduleError:
    return ScheduleError(
        f"{where}: axis `{name}` of {tree.describe(block)} depends on variables from "
        f"outside of {tree.describe(tree.scope_of(block))}: expected bindings to loops "
        "inside it"
    )


def _iters_bound_outside(block: ir.Operation) -> list[tuple[str, str]]:
    """The kinds and names of iter vars bound to variables from outside the scope."""
    indices = IndexSymbols()
    indices.add_size_symbols(tree.function_of(block))
    own = {indices.symbol(loop_var(loop)) for loop in tree.enclosing_loops(block)}
    axes = zip(
        tree.iter_kinds(block),
        tree.iter_var_names(block),
        tree.bindings(block),
        strict=True,
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
    """Reject blocks that are not complete.

    Raises:
        ScheduleError: names the condition that fails.
    """
    problem = complete_block_violation(block)
    if problem is not None:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} is not a complete block: expected that "
            f"{problem}"
        )


def check_reduction(block: ir.Operation, where: str) -> None:
    """Reject blocks that are not reduction blocks.

    Raises:
        ScheduleError: names the condition that fails.
    """
    problem = reduction_block_violation(block)
    if problem is not None:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} is not a reduction block: expected that "
            f"{problem}"
        )
    check_reduction_in_scope(block, where)


def check_reduction_in_scope(block: ir.Operation, where: str) -> None:
    """Reject reductions that continue across instances of their scope.

    Raises:
        ScheduleError: a reduce iter var is bound to a variable from outside the scope.
    """
    for kind, name in _iters_bound_outside(block):
        if kind == "R":
            raise _binding_error(block, name, where)


def check_complete_or_reduction(
    block: ir.Operation, where: str, root: ir.Operation | None = None
) -> None:
    """Reject blocks that are neither complete nor reduction blocks.

    Args:
        root: consider only the blocks in this statement; by default, the whole scope.

    Raises:
        ScheduleError: names the failing condition of each.
    """
    incomplete, unreduced = (
        complete_block_violation(block, root),
        reduction_block_violation(block, root),
    )
    if incomplete is not None and unreduced is not None:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} is neither a complete block nor a "
            f"reduction block: for the first expected that {incomplete}, for the second "
            f"that {unreduced}"
        )


def check_self_contained(block: ir.Operation, where: str) -> None:
    """Reject moving a block whose body uses loop variables other than through iter vars.

    Raises:
        ScheduleError: it does.
    """
    used = loop_used_inside(block)
    if used is not None:
        raise _loop_use_error(block, used, where)


def check_init_self_contained(
    block: ir.Operation, loops: Sequence[ir.Operation], where: str
) -> None:
    """Reject moving an init block that uses loop variables other than through iter vars.

    Args:
        loops: those that it leaves.

    Raises:
        ScheduleError: it does.
    """
    start = tree.init_block_of(block)
    listed = own_operations(start) if start is not None else ()
    inside = [op for first in listed for op in tree.subtree(first.operation)]
    used = _loop_used(inside, loops)
    if used is not None:
        raise _loop_use_error(block, used, where)


def loop_used_inside(block: ir.Operation) -> ir.Operation | None:
    """The first loop around a block whose variable its body uses directly, or None."""
    return _loop_used(tree.subtree(block)[1:], tree.enclosing_loops(block))


def _loop_used(
    inside: Sequence[ir.Operation], loops: Sequence[ir.Operation]
) -> ir.Operation | None:
    operands = {v for op in inside for v in op.operands}
    return next((loop for loop in loops if loop_var(loop) in operands), None)


def _loop_use_error(
    block: ir.Operation, loop: ir.Operation, where: str
) -> ScheduleError:
    return ScheduleError(
        f"{where}: {tree.describe(block)} uses the variable of {tree.describe(loop)} "
        "inside: expected iter vars bound to it"
    )


def check_not_output(block: ir.Operation, where: str) -> None:
    """Reject output blocks.

    Raises:
        ScheduleError: it is one.
    """
    if accesses.is_output(block):
        raise ScheduleError(
            f"{where}: {tree.describe(block)} is an output block: expected one that "
            "writes only buffers allocated in its scope"
        )


def check_stage_pipeline(scope: ir.Operation, where: str) -> None:
    """Reject scopes that are not stage pipelines.

    Raises:
        ScheduleError: a block reads what a later one writes, or reads elements that no block
            writes.
    """
    blocks = accesses.child_blocks(scope)
    written = [accesses.buffers_written(block) for block in blocks]
    for number, block in enumerate(blocks):
        read = accesses.buffers_read_with_predicates(block)
        for later, found in zip(
            blocks[number + 1 :], written[number + 1 :], strict=True
        ):
            clash = [b for b in found if b in read]
            if clash:
                raise ScheduleError(
                    f"{where}: {tree.describe(scope)} is not a stage pipeline: "
                    f"{tree.describe(block)} reads `{accesses.buffer_name(clash[0])}` "
                    f"before {tree.describe(later)} writes it"
                )
    for buffer in accesses.allocated_buffers(scope):
        _check_covered(scope, buffer, where)


def _check_covered(scope: ir.Operation, buffer: ir.Value, where: str) -> None:
    """Reject reads of elements that the blocks of a scope provably do not write."""
    indices = IndexSymbols()
    written = regions.block_box(scope, buffer, indices, is_write=True)
    read = regions.block_box(scope, buffer, indices, is_write=False)
    shape = accesses.buffer_shape(buffer)
    for number, size in enumerate(shape if written and read else ()):
        ends = (*_ends(written, number), *_ends(read, number), size)
        known = [n for n in ends if isinstance(n, int)]
        if len(known) < len(ends):
            continue
        first, last, low, high, count = known
        low, high = max(low, 0), min(high, count - 1)
        if low < first or high > last:
            raise ScheduleError(
                f"{where}: {tree.describe(scope)} is not a stage pipeline: its blocks read "
                f"`{accesses.buffer_name(buffer)}` from {low} to {high} in dimension "
                f"{number} and write it from {first} to {last}: expected that they write "
                "what they read"
            )


def is_interval_inside(
    inner: regions.Interval,
    outer: regions.Interval,
    limits: Limits,
    upper_bounds: Mapping[str, Dim],
) -> bool:
    """Whether an interval provably lies inside another."""
    gaps = (inner.low - outer.low, outer.high - inner.high)
    return all(predicates.is_nonnegative(g, limits, dict(upper_bounds)) for g in gaps)


def is_box_inside(
    inner: Sequence[regions.Interval],
    outer: Sequence[regions.Interval],
    limits: Limits,
    upper_bounds: Mapping[str, Dim],
) -> bool:
    """Whether a box provably lies inside another in every dimension."""
    pairs = zip(inner, outer, strict=True)
    return all(is_interval_inside(*pair, limits, upper_bounds) for pair in pairs)


def _ends(box: Sequence[regions.Interval] | None, number: int) -> tuple[Dim, Dim]:
    assert box is not None
    return box[number].low, box[number].high


def upper_bounds_at(indices: IndexSymbols, op: ir.Operation) -> dict[str, Dim]:
    """The greatest values of the variables in scope at an operation, and of its own."""
    found: dict[str, Dim] = {}
    for around in [op, *tree.ancestors(op)]:
        if tree.is_loop(around):
            low, extent = loop_bounds(indices, around)
            found[indices.symbol(loop_var(around))] = low + extent - 1
        elif tree.is_block(around):
            found |= _axis_tops(indices, around)
    return found


def lower_bounds_at(indices: IndexSymbols, op: ir.Operation) -> dict[str, Dim]:
    """The least values of the variables in scope at an operation, and of its own."""
    found: dict[str, Dim] = {}
    for around in [op, *tree.ancestors(op)]:
        if tree.is_loop(around):
            found[indices.symbol(loop_var(around))] = loop_bounds(indices, around)[0]
        elif tree.is_block(around):
            for region in (r for r in around.regions if len(r.blocks)):
                names = map(indices.symbol, region.blocks[0].arguments)
                found.update(zip(names, tree.iter_var_mins(around), strict=True))
    return found


def _axis_tops(indices: IndexSymbols, block: ir.Operation) -> dict[str, Dim]:
    found: dict[str, Dim] = {}
    starts, extents = tree.iter_var_mins(block), iter_extents(indices, block)
    for region in (r for r in block.regions if len(r.blocks)):
        names = map(indices.symbol, region.blocks[0].arguments)
        upper_bounds = (s + e - 1 for s, e in zip(starts, extents, strict=True))
        found.update(zip(names, upper_bounds, strict=True))
    return found


def unproved_conditions(
    conditions: list[predicates.Condition], indices: IndexSymbols, op: ir.Operation
) -> list[predicates.Condition]:
    """The conditions that are not proved to hold at an operation."""
    limits, upper_bounds = limits_at(indices, op), upper_bounds_at(indices, op)
    return [c for c in conditions if not predicates.is_proved(c, limits, upper_bounds)]


def clip_to_buffer(
    box: Sequence[regions.Interval],
    buffer: ir.Value,
    scope_or_loop: ir.Operation,
    indices: IndexSymbols,
) -> list[regions.Interval]:
    """The intersection of a box, as seen from a location, with a buffer."""
    limits, upper_bounds = (
        limits_at(indices, scope_or_loop),
        upper_bounds_at(indices, scope_or_loop),
    )
    shape = accesses.buffer_shape(buffer)
    return [
        clip_to_extent(r, s, limits, upper_bounds)
        for r, s in zip(box, shape, strict=True)
    ]


def clip_to_extent(
    interval: regions.Interval, size: Dim, limits: Limits, upper_bounds: dict[str, Dim]
) -> regions.Interval:
    """The intersection of an interval with a dimension of a buffer."""
    low, high, last = interval.low, interval.high, size - 1
    if not predicates.is_nonnegative(low, limits, upper_bounds):
        low = dims.maximum(low, 0)
    if not predicates.is_nonnegative(last - high, limits, upper_bounds):
        high = dims.minimum(high, last)
    return regions.Interval(simplify(low, limits), simplify(high, limits))

"""Dependence analysis: the legality tests of primitives that change execution order.

Two accesses depend on one another if both access an element and one of them writes it: flow
(RAW), anti (WAR) or output (WAW) dependence. A loop carries a dependence if its source and
sink are in two of its iterations.

May-access regions are over-approximated by bounding boxes, ignoring predicates; must-write
regions are under-approximated.

Source: R. Allen and K. Kennedy, "Optimizing Compilers for Modern Architectures", 2001,
chapters 2, 5 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, takewhile

from mlir import ir

from relax_mlir.dialects.tir import attribute_names
from relax_mlir.errors import ScheduleError
from relax_mlir.objects.read.guard_patterns import defining_op
from relax_mlir.objects.write.memref import base_buffer
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.bounds import bounds, is_known_le
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.intervals import Range
from relax_mlir.symbolic.limits import is_le
from relax_mlir.symbolic.monomials import terms_of
from relax_mlir.symbolic.symbols import substitute, symbols_of
from relax_mlir.tvm.tir.schedule import (
    accesses,
    affine,
    legality,
    predicates,
    regions,
    tree,
)
from relax_mlir.tvm.tir.schedule.accesses import Access
from relax_mlir.tvm.tir.schedule.indices import (
    IndexSymbols,
    Limits,
    fold_single_values,
    simplify,
)
from relax_mlir.tvm.tir.schedule.regions import Interval
from relax_mlir.tvm.tir.schedule.state import (
    iter_extents,
    limits_at,
    loop_bounds,
    loop_var,
)

__all__ = [
    "are_iterations_disjoint",
    "carrying_loops",
    "check_block_order",
    "check_delay",
    "check_fusion",
    "check_hoist",
    "check_init_hoist",
    "check_injective_writes",
    "check_loop_order",
    "check_no_carried_dependence",
    "check_no_control_dependence",
    "check_no_interference",
    "check_parallel",
    "check_recomputation",
    "check_reuse_across_iterations",
    "independent_loops",
    "is_idempotent",
    "is_region_covered",
    "must_write_region",
    "preserved_loops",
]

_MAX_BOXES = 8  # compared at once
# The storage scopes of buffers that the iterations of a thread-bound loop do not share.
_PRIVATE_SCOPES = {
    "threadIdx": ("local",),
    "vthread": ("local",),
    "blockIdx": ("local", "shared", "shared.dyn"),
}


@dataclass(frozen=True)
class _StatementAccess:
    """An access and the statement it belongs to.

    Attributes:
        statement: the outermost block below the analysed loop that contains the access; the
            operation itself if it computes a bound or a predicate between blocks.
        access: the access.
    """

    statement: ir.Operation
    access: Access


# Loop-carried dependences.


def carrying_loops(
    found: Sequence[Access], nest: Sequence[ir.Operation], indices: IndexSymbols
) -> list[ir.Operation]:
    """The loops of a nest that may carry a dependence between some accesses.

    Iterations that differ in one of the other loops provably access disjoint elements.

    Args:
        found: accesses of one buffer inside the nest.
        nest: nested loops, outermost first; loops around the nest are fixed.
    """
    nontrivial = [loop for loop in nest if loop_bounds(indices, loop)[1] != 1]
    determining: list[ir.Operation] = []
    while True:
        next_loop = next(
            (
                loop
                for loop in nontrivial
                if loop not in determining
                and _determine_elements(found, [*determining, loop], nest, indices)
            ),
            None,
        )
        if next_loop is None:
            return [loop for loop in nontrivial if loop not in determining]
        determining.append(next_loop)


def _determine_elements(
    found: Sequence[Access],
    loops: Sequence[ir.Operation],
    nest: Sequence[ir.Operation],
    indices: IndexSymbols,
) -> bool:
    """Whether two iterations of loops access disjoint elements, for all values of other loops.

    Either the bounding boxes of the iterations are disjoint; or the boxes of single instances
    are, over these loops and all other loops that the indices depend on.
    """
    inside = set(tree.subtree(nest[-1])) - {nest[-1]}
    fixed = {op for op in inside if not tree.is_loop(op)}
    others = [loop for loop in nest if loop not in loops]
    iteration_box = _hull(found, inside, others, nest, indices)
    if iteration_box is not None and _have_disjoint_boxes(
        iteration_box, loops, indices
    ):
        return True
    instance_box = _hull(found, fixed, [], nest, indices)
    if instance_box is None:
        return False
    mentioned = {
        n
        for interval in instance_box
        for d in (interval.low, interval.high)
        for n in symbols_of(d)
    }
    around = tree.enclosing_loops(nest[0])
    more = [
        loop
        for loop in [*around, *others, *filter(tree.is_loop, inside)]
        if indices.symbol(loop_var(loop)) in mentioned
    ]
    return bool(more) and _have_disjoint_boxes(instance_box, [*loops, *more], indices)


def _hull(
    found: Sequence[Access],
    inside: Container[ir.Operation],
    relaxed: Container[ir.Operation],
    nest: Sequence[ir.Operation],
    indices: IndexSymbols,
) -> list[Interval] | None:
    """The bounding box of accesses; None if there are too many distinct ones."""
    boxes: list[list[Interval]] = []
    for access in found:
        box = regions.accessed_box(
            access, indices, inside.__contains__, relaxes=relaxed.__contains__
        )
        if box not in boxes:
            boxes.append(box)
    if len(boxes) > _MAX_BOXES:
        return None
    return regions.bounding_box(boxes, limits_at(indices, nest[-1]))


def _have_disjoint_boxes(
    box: Sequence[Interval], loops: Sequence[ir.Operation], indices: IndexSymbols
) -> bool:
    """Whether the boxes of any two iterations of loops are disjoint."""
    loop_ranges = [
        (indices.symbol(loop_var(loop)), *loop_bounds(indices, loop)) for loop in loops
    ]
    names = {name for name, _, _ in loop_ranges}
    if any(names & {*symbols_of(low), *symbols_of(e)} for _, low, e in loop_ranges):
        return False
    limits: dict[str, Range] = {}
    for loop in loops:
        limits |= limits_at(indices, loop)
    return _are_disjoint_from_bounds(box, loop_ranges, limits)


def _are_disjoint_from_bounds(
    box: Sequence[Interval], loop_ranges: Sequence[tuple[str, Dim, Dim]], limits: Limits
) -> bool:
    """Whether the boxes of any two iterations are disjoint, for loops from any lower bound.

    Args:
        loop_ranges: symbol, lower bound and trip count of each loop.
        limits: value ranges of other symbols.
    """
    found = dict(limits)
    from_0: dict[str, Dim] = {}
    for name, low, extent in loop_ranges:
        from_0 |= {name: dims.symbol(name) + low} if low != 0 else {}
        found[name] = 0, bounds(extent - 1, found)[1]
    shifted = [
        interval.map_ends(lambda end: substitute(end, from_0)) for interval in box
    ]
    return are_iterations_disjoint(
        shifted, {name: e for name, _, e in loop_ranges}, found
    )


def are_iterations_disjoint(
    box: Sequence[Interval], steps: Mapping[str, Dim], limits: Limits
) -> bool:
    """Whether the boxes of any two iterations are disjoint.

    Args:
        steps: the trip counts of loop symbols, each from 0.
    """
    ends = [
        fold_single_values(end, limits)
        for interval in box
        for end in (interval.low, interval.high)
    ]
    ends, steps = affine.with_fused_sums(ends, steps, limits)
    found: list[affine.IterSplit] = []
    for low, high in zip(ends[::2], ends[1::2], strict=True):
        if not set(steps) & {*symbols_of(low), *symbols_of(high)}:
            continue
        digits = _determined_splits(low, high, steps, limits)
        if digits is None:
            digits = _determined_splits(-high, -low, steps, limits)
        if digits is None:
            return False
        found += digits
    for name, extent in steps.items():
        ordered = affine.ordered_splits([d for d in found if d.source == name], extent)
        if not ordered or ordered[0].lower_factor != 1:
            return False
    return True


def _determined_splits(
    low: Dim, high: Dim, steps: Mapping[str, Dim], limits: Limits
) -> list[affine.IterSplit] | None:
    """The iter splits of loops that any element of an interval determines, or None."""
    digits = affine.iter_splits_of(low, steps)
    if digits is None or not affine.is_uniquely_decomposable(digits):
        return None
    width = simplify(high - low, limits)
    determines_all = all(is_known_le(width + 1, d.scale) for d in digits)
    return digits if determines_all else None


def _accesses_by_buffer(
    scope_or_loop: ir.Operation,
) -> Iterator[tuple[ir.Value, list[_StatementAccess]]]:
    """The accesses below a loop or a scope in program order, by buffer.

    Buffers allocated inside a loop are private to an iteration, and are omitted.
    """
    found: dict[ir.Value, list[_StatementAccess]] = {}
    own = (
        accesses.allocated_buffers(scope_or_loop) if tree.is_loop(scope_or_loop) else []
    )
    for access in accesses.accesses_in(scope_or_loop):
        if access.buffer in own:
            continue
        around = list(
            takewhile(lambda o: o != scope_or_loop, tree.ancestors(access.op))
        )
        blocks = [o for o in around if tree.is_block(o)]
        statement = blocks[-1] if blocks else access.op
        found.setdefault(access.buffer, []).append(_StatementAccess(statement, access))
    yield from found.items()


# Must-write regions.


def must_write_region(
    access: Access, scope_or_loop: ir.Operation, indices: IndexSymbols
) -> list[Interval] | None:
    """The region that a store provably writes completely in each iteration of a loop or scope.

    Args:
        scope_or_loop: a loop or a scope around the store.

    Returns:
        None if unknown: the region has gaps, or the store is conditional.
    """
    inside = set(tree.subtree(scope_or_loop)) - {scope_or_loop}
    around = list(takewhile(inside.__contains__, tree.ancestors(access.op)))
    if access.is_opaque or _is_in_init(access, scope_or_loop):
        return None
    values = list(access.indices(indices))
    slacks: list[Dim] = []
    extents: dict[str, Dim] = {}
    limits = limits_at(indices, access.op)
    for op in around:
        known: dict[str, Dim] = {}
        if tree.is_loop(op):
            low, extent = loop_bounds(indices, op)
            name = indices.symbol(loop_var(op))
            extents[name], known = extent, {name: dims.symbol(name) + low}
            limits[name] = 0, bounds(extent - 1, limits)[1]
        elif tree.is_block(op):
            known = regions.binding_values(op, indices)
        elif tree.is_predicate(op):
            found = predicates.conditions_of(op.operands[0], indices)
            left = legality.unproved_conditions(found, indices, tree.parent_of(op))
            if any(c.value is not None for c in left):
                return None
            slacks += [c.slack for c in left]
        else:
            return None
        values = [substitute(v, known) for v in values]
        slacks = [substitute(s, known) for s in slacks]
        extents = {n: substitute(e, known) for n, e in extents.items()}
    box = regions.accessed_box(access, indices, inside.__contains__)
    fused_values, fused_extents, fused_slacks = affine.with_fused_predicates(
        values, extents, slacks, limits
    )
    if fused_extents != extents:
        if not all(
            is_le(1, fused_extents[name], limits)
            or any(_has_linear_term(value, name) for value in fused_values)
            for name in fused_extents.keys() - extents.keys()
        ):
            return None  # the fused loop may have no iteration
        limits |= {n: (0, bounds(e - 1, limits)[1]) for n, e in fused_extents.items()}
        domains = {n: Interval(0, e - 1) for n, e in fused_extents.items()}
        box = [regions.evaluate_interval(v, domains, limits) for v in fused_values]
    if not _form_a_product(fused_values, fused_slacks, fused_extents, limits, indices):
        return None
    return _clipped(box, fused_values, fused_slacks, fused_extents, limits)


def _has_linear_term(value: Dim, name: str) -> bool:
    """Whether a loop is a linear term of an index, whose interval is empty if the loop is."""
    linear = {monomial for monomial, _ in terms_of(dims.symbol(name))}
    return any(monomial in linear for monomial, _ in terms_of(value))


def _is_in_init(access: Access, root: ir.Operation) -> bool:
    """Whether an access is in the init block of a block between it and ``root``, inclusive."""
    inner = access.op
    for around in tree.ancestors(access.op):
        init = tree.init_block_of(around) if tree.is_block(around) else None
        if init is not None and inner.block == init:
            return True
        if around == root:
            break
        inner = around
    return False


def _form_a_product(
    values: Sequence[Dim],
    slacks: Sequence[Dim],
    extents: Mapping[str, Dim],
    limits: Limits,
    indices: IndexSymbols,
) -> bool:
    """Whether loops from 0 take the indices to the Cartesian product of their ranges."""
    used = {name for dim in (*values, *slacks) for name in symbols_of(dim)}
    outer = used - extents.keys()
    if any(not isinstance(indices.values[n].owner, ir.Block) for n in outer):
        return False  # an index is loaded from memory
    if any(extents.keys() & set(symbols_of(e)) for e in extents.values()):
        return False
    nondecreasing = [
        -v if affine.is_decreasing(v, extents) else v
        for v in (simplify(value, limits) for value in values)
    ]
    return affine.is_affine(nondecreasing, extents, limits, may_overlap=True)


def _clipped(
    box: Sequence[Interval],
    values: Sequence[Dim],
    slacks: Sequence[Dim],
    extents: Mapping[str, Dim],
    limits: Limits,
) -> list[Interval] | None:
    """The part of a box where predicates hold, each of which bounds one index."""
    intervals = list(box)
    for slack in slacks:
        # The bound with the fewest variables, none of them a loop variable.
        found = [
            (len(set(symbols_of(bound))), number, is_top, bound)
            for number, value in enumerate(values)
            for is_top, bound in (
                (True, simplify(slack + value, limits)),
                (False, simplify(value - slack, limits)),
            )
            if not extents.keys() & set(symbols_of(bound))
        ]
        if not found:
            return None
        _, number, is_top, bound = min(found, key=lambda choice: choice[:2])
        interval = intervals[number]
        intervals[number] = (
            Interval(interval.low, dims.minimum(interval.high, bound))
            if is_top
            else Interval(dims.maximum(interval.low, bound), interval.high)
        )
    return [
        interval.map_ends(lambda end: simplify(end, limits)) for interval in intervals
    ]


def is_region_covered(
    reads: Sequence[Access],
    writer: ir.Operation,
    scope_or_loop: ir.Operation,
    indices: IndexSymbols,
    *,
    include_out_of_bounds: bool = False,
) -> bool:
    """Region cover: whether a block provably writes, per iteration, all that is read there.

    Args:
        reads: accesses of one buffer, all of them after the block.
        include_out_of_bounds: whether the block must also write what a predicated read would
            access outside the buffer.
    """
    if not reads:
        return True
    buffer = reads[0].buffer
    inside = set(tree.subtree(scope_or_loop)) - {scope_or_loop}
    limits, upper_bounds = (
        limits_at(indices, scope_or_loop),
        legality.upper_bounds_at(indices, scope_or_loop),
    )
    stores = [a for a in _accesses_of(writer, buffer) if a.is_write]
    must_write = [must_write_region(a, scope_or_loop, indices) for a in stores]

    def is_written(access: Access) -> bool:
        # Two bounding boxes of the read; either may be tighter in a dimension.
        boxes = [regions.accessed_box(access, indices, inside.__contains__)]
        domain_box = _domain_box(access, tree.scope_of(writer), indices)
        boxes += [] if domain_box is None else [domain_box]
        if not include_out_of_bounds:
            boxes = [
                legality.clip_to_buffer(box, buffer, scope_or_loop, indices)
                for box in boxes
            ]
        return any(
            all(
                any(
                    legality.is_interval_inside(read, written, limits, upper_bounds)
                    for read in read_intervals
                )
                for written, *read_intervals in zip(region, *boxes, strict=True)
            )
            for region in must_write
            if region is not None
        )

    return all(map(is_written, reads))


def _domain_box(
    access: Access, scope: ir.Operation, indices: IndexSymbols
) -> list[Interval] | None:
    """The box that an access touches over the whole iter domain of its block.

    It is tight where a predicate cuts off the loops around the block.

    Returns:
        None for an access outside the blocks of the scope.
    """
    outer = list(tree.ancestors(access.op))
    block = next(
        (o for o in outer if tree.is_block(o) and tree.scope_of(o) == scope), None
    )
    if block is None:
        return None
    inside = set(tree.subtree(block)) - {block}
    box = regions.accessed_box(access, indices, inside.__contains__)
    iter_vars = tree.region_containing(block, access.op).arguments
    domain = {
        indices.symbol(iter_var): Interval(start, start + extent - 1)
        for iter_var, start, extent in zip(
            iter_vars,
            tree.iter_var_mins(block),
            iter_extents(indices, block),
            strict=True,
        )
    }
    return regions.box_over_domain(box, domain, limits_at(indices, block))


def is_idempotent(
    writer: ir.Operation, buffer: ir.Value, nest: Sequence[ir.Operation]
) -> bool:
    """Whether a block writes the same value to an element in every iteration that writes it.

    The element determines the block instance, or the block copies the same element of
    another buffer; inputs are loop-invariant; and no other block writes the buffer, which is
    allocated in the scope and so has no earlier value.
    """
    indices = IndexSymbols()
    if legality.loop_used_inside(writer) is not None:
        return False
    if not _is_sole_writer(writer, buffer):
        return False
    if not (legality.is_complete(writer) or _reduces_within(writer, nest)):
        return False
    in_loop = [
        b
        for b in accesses.child_blocks(tree.scope_of(writer))
        if nest[0] in tree.enclosing_loops(b)
    ]
    changed = {w for b in in_loop for w in accesses.buffers_written(b)}
    if changed.intersection(accesses.buffers_read(writer)):
        return False
    axes = zip(tree.iter_kinds(writer), iter_extents(indices, writer), strict=True)
    wanted = {n for n, (kind, e) in enumerate(axes) if kind == "S" and e != 1}
    found = accesses.accesses_in(writer)
    read = {a.buffer for a in found if not a.is_write}
    for made in accesses.buffers_written(writer):
        if made != buffer and made not in read:
            continue
        if all(_is_copy(a, indices) for a in found if a.buffer == made):
            continue
        index_iters = {_iter_vars_of(a, writer) for a in found if a.buffer == made}
        if len(index_iters) != 1 or not wanted <= {*(index_iters.pop() or ())}:
            return False
    return True


def _is_copy(access: Access, indices: IndexSymbols) -> bool:
    """Whether an access stores an element that is loaded at the same indices."""
    if access.is_opaque or not access.is_write:
        return False
    load = defining_op(access.op.operands[0], "memref.load")
    if load is None or base_buffer(load.operands[0]) != load.operands[0]:
        return False
    loaded = tuple(map(indices.of, list(load.operands)[1:]))
    return access.indices(indices) == loaded


def _iter_vars_of(access: Access, block: ir.Operation) -> tuple[int | None, ...] | None:
    """The iter var that each index of an access is; None for other indices."""
    if access.is_opaque:
        return None
    count = len(tree.iter_kinds(block))
    arguments = [a for r in block.regions for b in r.blocks for a in b.arguments]
    return tuple(
        arguments.index(v) % count if v in arguments else None
        for v in access.index_values
    )


def _reduces_within(writer: ir.Operation, nest: Sequence[ir.Operation]) -> bool:
    """Whether a block completes its reductions in each iteration of a nest around it."""
    indices = IndexSymbols()
    loops = tree.enclosing_loops(writer)
    names = [indices.symbol(loop_var(loop)) for loop in loops]
    number = loops.index(nest[-1]) + 1
    reduce_loops = _loops_of_iters(writer, indices, "R")
    used = reduce_loops | _loops_of_iters(writer, indices, "S")
    repeating = [
        loop
        for loop, name in zip(loops[number:], names[number:], strict=True)
        if name not in used and loop_bounds(indices, loop)[1] != 1
    ]
    return (
        tree.init_block_of(writer) is not None
        and not set(tree.iter_kinds(writer)) - {"S", "R"}
        and tree.predicate_of(writer) is None
        and not reduce_loops.intersection(names[:number])
        and not repeating
        and number < len(loops)
        and legality.has_affine_bindings(writer, below=loops[number], may_overlap=False)
    )


def _is_sole_writer(writer: ir.Operation, buffer: ir.Value) -> bool:
    scope = tree.scope_of(writer)
    is_own = buffer in accesses.allocated_buffers(scope)
    return is_own and accesses.writers_of(scope, buffer) == [writer]


def _loops_of_iters(block: ir.Operation, indices: IndexSymbols, kinds: str) -> set[str]:
    """The loop symbols in the bindings of iter vars of some kinds."""
    pairs = zip(tree.bindings(block), tree.iter_kinds(block), strict=True)
    return {n for v, k in pairs if k in kinds for n in symbols_of(indices.of(v))}


# Reordered and parallel loops.


def check_no_carried_dependence(nest: Sequence[ir.Operation], where: str) -> None:
    """Reject loops that carry a dependence; required to run iterations in any order.

    Args:
        nest: nested loops, outermost first.

    Raises:
        ScheduleError: a statement may access an element written in another iteration.
    """
    _check_pairs(nest, where, lambda carrying: not carrying)


def check_parallel(loop: ir.Operation, thread: str, where: str) -> None:
    """Reject a loop that carries a dependence; required to run its iterations concurrently.

    Args:
        thread: the thread that the loop is bound to; empty if it is none. Every statement
            completes in all iterations of ``threadIdx`` before the next one starts.

    Raises:
        ScheduleError: a statement may access an element written in another iteration.
    """
    _check_pairs(
        [loop],
        where,
        lambda carrying: not carrying,
        private=_PRIVATE_SCOPES.get(thread.partition(".")[0]),
        concurrent=True,
        in_lockstep=thread.startswith("threadIdx"),
    )


def check_loop_order(
    nest: Sequence[ir.Operation], order: Sequence[ir.Operation], where: str
) -> None:
    """Reject loop orders that may reverse a dependence.

    Args:
        nest: nested loops, outermost first.
        order: the same loops in the new order.

    Raises:
        ScheduleError: two loops that carry a dependence between the same two accesses are
            interchanged.
    """

    def is_kept(carrying: Sequence[ir.Operation]) -> bool:
        return list(carrying) == [loop for loop in order if loop in carrying]

    _check_pairs(nest, where, is_kept)


def _check_pairs(
    nest: Sequence[ir.Operation],
    where: str,
    allows: Callable[[Sequence[ir.Operation]], bool],
    *,
    private: Sequence[str] | None = None,
    concurrent: bool = False,
    in_lockstep: bool = False,
) -> None:
    """Reject loop-carried dependences, unless the reordering preserves the result.

    Args:
        private: for thread-bound loops, the storage scopes of buffers of which each
            iteration has its own.
        concurrent: whether iterations may run at the same time.
        in_lockstep: whether these are threads that synchronise between statements.
    """
    indices = IndexSymbols()
    for buffer, found in _accesses_by_buffer(nest[-1]):
        written = any(t.access.is_write for t in found)
        if not written or allows(
            carrying_loops([t.access for t in found], nest, indices)
        ):
            continue
        is_shared = private is None or accesses.storage_scope(buffer) not in private
        if not is_shared and _is_private(buffer, found, nest[-1], indices):
            continue
        # Concurrent iterations may read partial results of the same reduction.
        allows_reductions = not concurrent or (
            _is_used_within(buffer, found, nest[-1])
            and (private is None or not is_shared)
        )
        for first, second in combinations_with_replacement(found, 2):
            if not (first.access.is_write or second.access.is_write):
                continue
            carrying = carrying_loops([first.access, second.access], nest, indices)
            if (
                allows(carrying)
                or _is_reduction(
                    first, second, carrying, indices, in_lockstep=in_lockstep
                )
                or _is_redundant_write(
                    first,
                    second,
                    nest,
                    indices,
                    in_lockstep=in_lockstep and is_shared,
                    allows_reductions=allows_reductions,
                )
            ):
                continue
            writer, other = (
                (first, second) if first.access.is_write else (second, first)
            )
            raise ScheduleError(
                f"{where}: {_describe(other.statement)} may touch elements of "
                f"`{accesses.buffer_name(buffer)}` that {_describe(writer.statement)} writes "
                f"in another iteration of {tree.describe(carrying[0])}: expected "
                "independent iterations"
            )


def _describe(statement: ir.Operation) -> str:
    return (
        tree.describe(statement)
        if tree.is_block(statement)
        else "a predicate or a bound"
    )


def _is_reduction(
    first: _StatementAccess,
    second: _StatementAccess,
    carrying: Sequence[ir.Operation],
    indices: IndexSymbols,
    *,
    in_lockstep: bool,
) -> bool:
    """Whether iterations are updates of a reduction, which may be reordered.

    A tuple reduction such as argmax breaks ties by the first value, so only threads, which
    break them arbitrarily, may reorder it.
    """
    block = first.statement
    if second.statement != block or not tree.is_block(block):
        return False
    if len(accesses.buffers_written(block)) > 1 and not in_lockstep:
        return False
    loops = {indices.symbol(loop_var(loop)) for loop in carrying}
    reduce_loops = _loops_of_iters(block, indices, "R")
    if not loops <= reduce_loops - _loops_of_iters(block, indices, "SCO"):
        return False
    found = _accesses_of(block, first.access.buffer)
    if any(a.is_opaque for a in found):
        return True  # the reduce iter var of an intrinsic is trusted
    updates = [a for a in found if not _is_in_init(a, block)]
    update_indices = [
        {a.indices(indices) for a in updates if a.is_write == is_write}
        for is_write in (True, False)
    ]
    return len(update_indices[0]) == 1 and update_indices[0] == update_indices[1]


def _is_redundant_write(
    first: _StatementAccess,
    second: _StatementAccess,
    nest: Sequence[ir.Operation],
    indices: IndexSymbols,
    *,
    in_lockstep: bool,
    allows_reductions: bool,
) -> bool:
    """Whether every iteration that writes an element writes the same value before reading it.

    Args:
        first, second: accesses in program order.
        in_lockstep: whether an iteration may read what another one writes.
        allows_reductions: whether the writer may update an element several times.
    """
    writer, other = first, second
    if not writer.access.is_write:
        if writer.statement != other.statement:
            return False
        writer, other = other, writer
    if not tree.is_block(writer.statement) or not is_idempotent(
        writer.statement, writer.access.buffer, nest
    ):
        return False
    if not (allows_reductions or legality.is_complete(writer.statement)):
        return False
    if other.access.is_write or other.statement == writer.statement or in_lockstep:
        return True
    scope_or_loop = tree.innermost_common_ancestor(writer.statement, [other.statement])
    return is_region_covered([other.access], writer.statement, scope_or_loop, indices)


def _is_private(
    buffer: ir.Value,
    found: Sequence[_StatementAccess],
    loop: ir.Operation,
    indices: IndexSymbols,
) -> bool:
    """Whether an iteration only reads from a buffer of its own what it has written."""
    if not _is_used_within(buffer, found, loop):
        return False
    for number, statement_access in enumerate(found):
        writers = [
            t.statement
            for t in found[:number]
            if t.access.is_write
            and tree.is_block(t.statement)
            and t.statement != statement_access.statement
        ]
        if not (
            statement_access.access.is_write
            or (
                tree.is_block(statement_access.statement)
                and _reduces_within(statement_access.statement, [loop])
                and _reads_partial_result(
                    statement_access.access, statement_access.statement, indices
                )
            )
            or any(
                is_region_covered(
                    [statement_access.access],
                    w,
                    tree.innermost_common_ancestor(w, [statement_access.statement]),
                    indices,
                )
                for w in writers
            )
        ):
            return False
    return True


def _reads_partial_result(
    access: Access, block: ir.Operation, indices: IndexSymbols
) -> bool:
    """Whether a reduction block reads the element that it updates, after its init block."""
    if _is_in_init(access, block):
        return False
    stored = {
        a.indices(indices)
        for a in _accesses_of(block, access.buffer)
        if a.is_write and not _is_in_init(a, block)
    }
    return stored == {access.indices(indices)}


def _is_used_within(
    buffer: ir.Value, found: Sequence[_StatementAccess], loop: ir.Operation
) -> bool:
    """Whether a buffer is allocated, and all its accesses are the given ones of a loop."""
    return not isinstance(buffer.owner, ir.Block) and len(found) == len(
        _accesses_of(tree.function_of(loop), buffer)
    )


# Blocks that move to another loop.


def check_delay(block: ir.Operation, where: str) -> None:
    """Reject delaying a block to its consumers if its inputs are overwritten before.

    That is so if an earlier block in a common loop writes them again in the next iteration: the
    loop carries an anti-dependence (WAR). A prefix sum is such a pair.

    Raises:
        ScheduleError: an input may change after the last read of the block.
    """
    scope, loops = tree.scope_of(block), tree.enclosing_loops(block)
    blocks = accesses.child_blocks(scope)
    indices = IndexSymbols()
    written = accesses.buffers_written(block)
    results = [
        t
        for buffer, found in _accesses_by_buffer(scope)
        for t in found
        if buffer in written and not t.access.is_write and t.statement != block
    ]
    before = blocks[: blocks.index(block)]
    for carried in _carried_inputs(block, before, loops, indices):
        if not all(
            _inputs_stay_valid(block, result, carried.accesses, carried.loops, indices)
            for result in results
        ):
            raise ScheduleError(
                f"{where}: {tree.describe(carried.writer)} may overwrite "
                f"`{accesses.buffer_name(carried.buffer)}` in each iteration of "
                f"{tree.describe(carried.loops[0])}, after {tree.describe(block)} has "
                f"read it: expected that {tree.describe(block)} may be computed later"
            )


@dataclass(frozen=True)
class _CarriedInput:
    """An input of a block that another block may overwrite in each iteration.

    Attributes:
        writer: the other block.
        buffer: the input.
        accesses: the reads of the block, and the writes of the other one.
        loops: the loops around both.
    """

    writer: ir.Operation
    buffer: ir.Value
    accesses: Sequence[Access]
    loops: Sequence[ir.Operation]


def _carried_inputs(
    block: ir.Operation,
    others: Sequence[ir.Operation],
    loops: Sequence[ir.Operation],
    indices: IndexSymbols,
) -> Iterator[_CarriedInput]:
    """The inputs of a block that other blocks may overwrite in each iteration of loops."""
    reads = [a for a in accesses.accesses_with_predicates(block) if not a.is_write]
    for other in others:
        shared = [loop for loop in loops if loop in tree.enclosing_loops(other)]
        for buffer in accesses.buffers_written(other) if shared else ():
            found = [a for a in reads if a.buffer == buffer]
            if not found or is_idempotent(other, buffer, shared):
                continue
            found += [a for a in _accesses_of(other, buffer) if a.is_write]
            if carrying_loops(found, shared, indices):
                yield _CarriedInput(other, buffer, found, shared)


def _inputs_stay_valid(
    block: ir.Operation,
    result: _StatementAccess,
    found: Sequence[Access],
    shared: Sequence[ir.Operation],
    indices: IndexSymbols,
) -> bool:
    """Whether the inputs of a block do not change until its result is read.

    Args:
        found: the reads of the block, and the writes of an earlier block, of one buffer.
        shared: the loops around both.
    """
    around = set(tree.ancestors(result.statement))
    left = [loop for loop in shared if loop not in around]
    if len(left) < len(shared) and not is_region_covered(
        [result.access],
        block,
        tree.innermost_common_ancestor(block, [result.statement]),
        indices,
    ):
        return False  # it may read the result of an earlier iteration
    if not left:
        return True
    # In the other loops it recomputes the same values, and the last iteration counts.
    moving = _loops_used(block, left)
    return not any(loop in moving for loop in carrying_loops(found, left, indices))


def _loops_used(
    block: ir.Operation, loops: Sequence[ir.Operation]
) -> list[ir.Operation]:
    """The loops on which a block, its bindings, predicates and inner loops depend.

    All of them if it depends on loaded values.
    """
    used, loads = accesses.transitive_operands(block)
    if loads:
        return list(loops)
    return [loop for loop in loops if loop_var(loop) in used]


def _accesses_of(block: ir.Operation, buffer: ir.Value) -> list[Access]:
    return [a for a in accesses.accesses_in(block) if a.buffer == buffer]


def check_block_order(
    block: ir.Operation, last: Sequence[ir.Operation], where: str
) -> None:
    """Reject moving a block within its scope past a dependence.

    Args:
        last: the blocks up to which it moves; itself if it moves forward.

    Raises:
        ScheduleError: an earlier block reads what it writes (WAR), or a later one writes
            what it reads.
    """
    scope = tree.scope_of(block)
    blocks = accesses.child_blocks(scope)
    number = blocks.index(block)
    read = accesses.buffers_read_with_predicates(block)
    pairs = [(o, block, accesses.buffers_written(block)) for o in blocks[:number]]
    # In a loop, what follows the last block precedes its next iteration.
    contained = {
        op for b in last for op in tree.subtree(tree.child_containing(scope, b))
    }
    end = max(
        (n for n, other in enumerate(blocks) if other in contained), default=number
    )
    passed = blocks[number + 1 : end + 1]
    pairs += [(block, other, accesses.buffers_written(other)) for other in passed]
    for first, second, changed in pairs:
        found = read if first == block else accesses.buffers_read_with_predicates(first)
        clash = [b for b in changed if b in found]
        if clash:
            raise ScheduleError(
                f"{where}: {tree.describe(first)} reads "
                f"`{accesses.buffer_name(clash[0])}` before {tree.describe(second)} writes "
                f"it: expected that {tree.describe(block)} may be computed elsewhere"
            )


def check_hoist(block: ir.Operation, kept: Sequence[ir.Operation], where: str) -> None:
    """Reject hoisting a block out of loops if a loop-carried dependence forbids it.

    A later block in a common loop would run after all iterations of the hoisted block.

    Args:
        kept: the loops that stay around the block.

    Raises:
        ScheduleError: a later block accesses what the block writes in a later iteration, or
            writes what it reads there.
    """
    loops = [loop for loop in tree.enclosing_loops(block) if loop not in kept]
    blocks = accesses.child_blocks(tree.scope_of(block))
    indices = IndexSymbols()
    own = accesses.accesses_with_predicates(block)
    for other in blocks[blocks.index(block) + 1 :]:
        shared = [loop for loop in loops if loop in tree.enclosing_loops(other)]
        for buffer in {a.buffer for a in own} if shared else ():
            own_accesses = [a for a in own if a.buffer == buffer]
            other_accesses = [
                a
                for a in accesses.accesses_with_predicates(other)
                if a.buffer == buffer
            ]
            if not any(a.is_write for a in own_accesses):
                other_accesses = [a for a in other_accesses if a.is_write]
            if other_accesses and carrying_loops(
                [*own_accesses, *other_accesses], shared, indices
            ):
                raise ScheduleError(
                    f"{where}: {tree.describe(other)} accesses "
                    f"`{accesses.buffer_name(buffer)}` in iterations of "
                    f"{tree.describe(shared[0])} before {tree.describe(block)} does in "
                    f"later ones: expected that {tree.describe(block)} can be hoisted "
                    "out of the loop"
                )


def check_no_interference(
    producer: ir.Operation, consumer: ir.Operation, where: str
) -> None:
    """Reject computing a consumer in each iteration of its producer if another block interferes.

    Other blocks are the producer itself, and those between both or in loops around one.

    Raises:
        ScheduleError: another block accesses what the consumer writes, or writes what it
            reads.
    """
    check_no_control_dependence(consumer, where)
    scope_or_loop = tree.innermost_common_ancestor(producer, [consumer])
    ends = [
        tree.child_containing(scope_or_loop, tree.realize_of(o))
        for o in (producer, consumer)
    ]
    statements = tree.statements(ends[0].block)
    first, last = (statements.index(end) for end in ends)
    read = accesses.buffers_read_with_predicates(consumer)
    written = accesses.buffers_written(consumer)
    own = accesses.buffers_written(producer)
    for statement in statements[first : last + 1]:
        for other in (
            [statement] if tree.is_block(statement) else tree.blocks_below(statement)
        ):
            if other == consumer:
                continue
            made = accesses.buffers_written(other)
            used = accesses.buffers_read_with_predicates(other)
            clash = [b for b in made if b in (*read, *written)]
            clash += [b for b in used if b in written]
            if other == producer:
                clash = [b for b in clash if b not in own]
            if clash:
                raise ScheduleError(
                    f"{where}: {tree.describe(other)} is computed between "
                    f"{tree.describe(producer)} and {tree.describe(consumer)}, and uses "
                    f"`{accesses.buffer_name(clash[0])}`, too: expected no such block"
                )


def check_recomputation(
    block: ir.Operation, producers: Sequence[ir.Operation], where: str
) -> None:
    """Reject computing all instances of a block in each iteration of the loops around it.

    Raises:
        ScheduleError: a loop that the bindings depend on carries a dependence on what its
            producers write.
    """
    indices = IndexSymbols()
    loops = tree.enclosing_loops(block)
    for producer in producers:
        shared = [loop for loop in loops if loop in tree.enclosing_loops(producer)]
        dependent_loops = _loops_used(block, shared)
        for buffer in accesses.buffers_written(producer) if dependent_loops else ():
            read = [a for a in _accesses_of(block, buffer) if not a.is_write]
            if not read or is_idempotent(producer, buffer, shared):
                continue
            written = [a for a in _accesses_of(producer, buffer) if a.is_write]
            carrying = carrying_loops([*read, *written], shared, indices)
            if any(loop in dependent_loops for loop in carrying):
                raise ScheduleError(
                    f"{where}: {tree.describe(producer)} overwrites "
                    f"`{accesses.buffer_name(buffer)}` in each iteration of "
                    f"{tree.describe(carrying[0])}: expected that "
                    f"{tree.describe(block)} can be computed in any of them"
                )


def independent_loops(
    producer: ir.Operation, consumer: ir.Operation
) -> list[ir.Operation]:
    """The common loops of two blocks that carry no dependence between them.

    Each iteration accesses elements of its own, so the consumer reads what the producer writes
    in the same iteration.
    """
    indices = IndexSymbols()
    loops = tree.enclosing_loops(producer)
    shared = [loop for loop in tree.enclosing_loops(consumer) if loop in loops]
    remaining = list(shared)
    for buffer in accesses.buffers_written(producer) if shared else ():
        found = _accesses_of(consumer, buffer)
        if found:
            found += _accesses_of(producer, buffer)
            carrying = carrying_loops(found, shared, indices)
            remaining = [loop for loop in remaining if loop not in carrying]
    return remaining


def check_reuse_across_iterations(
    block: ir.Operation, nest: Sequence[ir.Operation], where: str
) -> None:
    """Reject reusing elements that a block computes in an earlier iteration of a nest.

    A circular buffer stands for the buffer it replaces, for which the reuse has been checked.

    Raises:
        ScheduleError: another block may overwrite the inputs in each iteration.
    """
    blocks = accesses.child_blocks(tree.scope_of(block))
    others = [other for other in blocks if other != block]
    for carried in _carried_inputs(block, others, nest, IndexSymbols()):
        if _is_circular(carried.buffer):
            continue
        raise ScheduleError(
            f"{where}: {tree.describe(carried.writer)} may overwrite "
            f"`{accesses.buffer_name(carried.buffer)}` in each iteration of "
            f"{tree.describe(carried.loops[0])}: expected that {tree.describe(block)} "
            "computes an element from the same values in all of them"
        )


def _is_circular(buffer: ir.Value) -> bool:
    owner = buffer.owner
    return not isinstance(owner, ir.Block) and attribute_names.RING in owner.attributes


def preserved_loops(
    block: ir.Operation,
    producers: Sequence[ir.Operation],
    around: Sequence[ir.Operation],
) -> list[ir.Operation]:
    """The loops around a block that keep their iterations when it moves to its producers.

    An iteration of such a loop executes the same instances as before: the block does not
    depend on the loop, or reads in each iteration what all producers write in it. An iteration
    of another loop executes all instances.

    Args:
        around: the loops around the new position of the block.
    """
    loops = [loop for loop in tree.enclosing_loops(block) if loop in around]
    used = _loops_used(block, loops)
    independent = [independent_loops(producer, block) for producer in producers]
    return [
        loop
        for loop in loops
        if loop not in used
        or (independent and all(loop in found for found in independent))
    ]


def check_injective_writes(block: ir.Operation, where: str) -> None:
    """Reject reordering the instances of a block if two of them access a written element.

    Raises:
        ScheduleError: the indices of the accesses to a buffer that the block writes do not
            determine all spatial iter vars.
    """
    indices = IndexSymbols()
    inside = set(tree.subtree(block)) - {block}
    limits = limits_at(indices, block)
    axes = [
        (n, start, extent)
        for n, (kind, start, extent) in enumerate(
            zip(
                tree.iter_kinds(block),
                tree.iter_var_mins(block),
                iter_extents(indices, block),
                strict=True,
            )
        )
        if kind != "R" and extent != 1
    ]
    iter_vars = tree.body(block).arguments
    iter_ranges = [(indices.symbol(iter_vars[n]), start, e) for n, start, e in axes]
    allocated = accesses.allocated_buffers(block)
    boxes_by_buffer: dict[ir.Value, list[list[Interval]]] = {}
    for access in accesses.accesses_in(block):
        region_iters = tree.region_containing(block, access.op).arguments
        same: dict[str, Dim] = {
            indices.symbol(theirs): dims.symbol(indices.symbol(ours))
            for theirs, ours in zip(region_iters, iter_vars, strict=True)
        }
        box = regions.accessed_box(access, indices, inside.__contains__)
        moved = [
            interval.map_ends(lambda end, s=same: substitute(end, s))
            for interval in box
        ]
        boxes_by_buffer.setdefault(access.buffer, []).append(moved)
    for buffer in accesses.buffers_written(block):
        if buffer in allocated:
            continue
        box = regions.bounding_box(boxes_by_buffer[buffer], limits)
        if box is None or not _are_disjoint_from_bounds(box, iter_ranges, limits):
            raise ScheduleError(
                f"{where}: several instances of {tree.describe(block)} may write the same "
                f"element of `{accesses.buffer_name(buffer)}`, or read what another one "
                "writes: expected that each accesses elements of its own"
            )


def check_no_control_dependence(block: ir.Operation, where: str) -> None:
    """Reject moving a block whose results control what its scope executes.

    Raises:
        ScheduleError: a predicate, a bound or a binding outside all blocks reads them.
    """
    scope = tree.scope_of(block)
    written = accesses.buffers_written(block)
    for access in accesses.accesses_in(scope):
        is_outside = tree.scope_of(access.op) == scope and not access.is_write
        is_read = is_outside and access.op.name != "tir.address"
        if is_read and access.buffer in written:
            raise ScheduleError(
                f"{where}: a predicate or a bound reads "
                f"`{accesses.buffer_name(access.buffer)}`, which {tree.describe(block)} "
                "writes: expected that only blocks read it"
            )


# Hoisted init blocks.


def check_init_hoist(
    block: ir.Operation, loops: Sequence[ir.Operation], where: str
) -> None:
    """Reject hoisting the initialisation of elements out of loops if the difference is visible.

    Args:
        block: initialises the elements, then updates them.
        loops: those around the block that the initialisation leaves.

    Raises:
        ScheduleError: an iteration may access what another one initialises, or another block
            reads what this one has not provably written in the same iteration.
    """
    indices = IndexSymbols()
    reduce_loops = _loops_of_iters(block, indices, "R") - _loops_of_iters(
        block, indices, "SCO"
    )
    for buffer in accesses.buffers_written(block):
        found = _accesses_of(block, buffer)
        carrying = carrying_loops(found, loops, indices) if loops else []
        moving = [
            o for o in carrying if indices.symbol(loop_var(o)) not in reduce_loops
        ]
        is_same = legality.is_complete(block) and is_idempotent(block, buffer, loops)
        if moving and not is_same:
            raise ScheduleError(
                f"{where}: {tree.describe(block)} may access elements of "
                f"`{accesses.buffer_name(buffer)}` that it writes in another iteration of "
                f"{tree.describe(moving[0])}: expected that each iteration has elements "
                "of its own"
            )
        _check_initialised_first(block, loops, buffer, where, indices)


def _check_initialised_first(
    block: ir.Operation,
    loops: Sequence[ir.Operation],
    buffer: ir.Value,
    where: str,
    indices: IndexSymbols,
) -> None:
    """Reject other blocks in the loops that may access elements before their initialisation."""
    before = True
    for accessed, found in _accesses_by_buffer(loops[0]) if loops else ():
        if accessed != buffer:
            continue
        for statement_access in found:
            if statement_access.statement == block:
                before = False
                continue
            if (
                before
                or statement_access.access.is_write
                or not is_region_covered(
                    [statement_access.access],
                    block,
                    tree.innermost_common_ancestor(block, [statement_access.statement]),
                    indices,
                )
            ):
                verb = "write" if statement_access.access.is_write else "read"
                raise ScheduleError(
                    f"{where}: {_describe(statement_access.statement)} may {verb} "
                    f"`{accesses.buffer_name(buffer)}` before {tree.describe(block)} "
                    f"initialises it: expected no such block in "
                    f"{tree.describe(loops[0])}"
                )


# Loop fusion.


def check_fusion(nests: Sequence[Sequence[ir.Operation]], where: str) -> None:
    """Reject fusing consecutive loop nests that a fusion-preventing dependence connects.

    Raises:
        ScheduleError: an iteration may access what another iteration of another nest writes.
    """
    indices = IndexSymbols()
    first = [indices.symbol(loop_var(loop)) for loop in nests[0]]
    accesses_by_buffer: dict[ir.Value, list[tuple[int, bool, list[Interval]]]] = {}
    for number, nest in enumerate(nests):
        inside = set(tree.subtree(nest[-1])) - {nest[-1]}
        own = [indices.symbol(loop_var(loop)) for loop in nest]
        same: dict[str, Dim] = dict(zip(own, map(dims.symbol, first), strict=True))
        for access in accesses.accesses_in(nest[-1]):
            box = regions.accessed_box(access, indices, inside.__contains__)
            moved = [
                interval.map_ends(lambda end, s=same: substitute(end, s))
                for interval in box
            ]
            accesses_by_buffer.setdefault(access.buffer, []).append(
                (number, access.is_write, moved)
            )
    found_extents = {
        name: loop_bounds(indices, loop)[1]
        for name, loop in zip(first, nests[0], strict=True)
    }
    steps = {name: extent for name, extent in found_extents.items() if extent != 1}
    limits = limits_at(indices, nests[0][-1])
    for buffer, found in accesses_by_buffer.items():
        is_shared = len({number for number, _, _ in found}) > 1
        if not is_shared or not any(is_write for _, is_write, _ in found):
            continue
        (_, _, box), *others = found
        if any(o != box for _, _, o in others) or not are_iterations_disjoint(
            box, steps, limits
        ):
            raise ScheduleError(
                f"{where}: {tree.describe(nests[0][-1])} and the loops after it share "
                f"`{accesses.buffer_name(buffer)}`, and one writes it: expected that an "
                "iteration accesses elements of its own, the same in each of the loops"
            )

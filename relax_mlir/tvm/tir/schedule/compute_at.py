"""The ``compute_at`` and ``reverse_compute_at`` primitives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from relax_mlir.errors import ScheduleError
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.bounds import is_known_le
from relax_mlir.symbolic.dims import Dim
from relax_mlir.tvm.tir.schedule import (
    accesses,
    affine,
    dependences,
    edit,
    legality,
    regions,
    tree,
)
from relax_mlir.tvm.tir.schedule.axis_conditions import (
    domain_conditions,
    iter_conditions,
    substitute_iters,
)
from relax_mlir.tvm.tir.schedule.decompose import symbols_of_iters
from relax_mlir.tvm.tir.schedule.indices import (
    IndexSymbols,
    Limits,
    fold_single_values,
    simplify,
)
from relax_mlir.tvm.tir.schedule.predicates import is_nonnegative, set_predicate
from relax_mlir.tvm.tir.schedule.regions import Interval
from relax_mlir.tvm.tir.schedule.state import (
    ScheduleState,
    iter_extents,
    limits_at,
    loop_bounds,
    loop_var,
)

__all__ = ["compute_at"]


@dataclass(frozen=True)
class _Move:
    """A block to move, its target loop, and its consumers or producers.

    Attributes:
        is_reverse: whether it moves to its producers.
        others: its consumers, or its producers.
    """

    block: ir.Operation
    loop: ir.Operation
    is_reverse: bool
    others: Sequence[ir.Operation]

    @property
    def where(self) -> str:
        """The name of the primitive, for messages."""
        return "reverse_compute_at" if self.is_reverse else "compute_at"


def compute_at(
    state: ScheduleState,
    block: ir.Operation,
    loop: ir.Operation,
    *,
    is_reverse: bool,
    preserve_unit_loops: bool,
    index: int,
) -> None:
    """Move a block under a loop; see :meth:`Schedule.compute_at`."""
    find = accesses.producers_of if is_reverse else accesses.consumers_of
    where = "reverse_compute_at" if is_reverse else "compute_at"
    legality.check_not_root(block, where)
    move = _Move(block, loop, is_reverse, find(block))
    _check(move)
    position = _position(move, index)
    with state.change(block) as indices:
        domains = _required_domains(move, indices)
        _move_into_loops(
            state, move, position, domains, indices, keep_unit_loops=preserve_unit_loops
        )
        if is_reverse:
            _check_reduces_once(move)


def _check(move: _Move) -> None:
    block, loop, where = move.block, move.loop, move.where
    scope = tree.scope_of(block)
    if tree.scope_of(loop) != scope:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} and {tree.describe(loop)} are not under "
            "the same block scope"
        )
    if tree.region_containing(scope, loop) != tree.region_containing(scope, block):
        raise ScheduleError(
            f"{where}: either {tree.describe(block)} or {tree.describe(loop)} is in the "
            f"init block of {tree.describe(scope)}: expected both in its body"
        )
    legality.check_stage_pipeline(scope, where)
    root = tree.child_containing(scope, block)
    for other in tree.blocks_below(root) or [block]:
        legality.check_complete_or_reduction(other, where, root)
    if loop in tree.enclosing_loops(block):
        raise ScheduleError(
            f"{where}: {tree.describe(loop)} is an ancestor of block "
            f"`{tree.block_name(block)}`: expected a loop that is not around it"
        )
    dependences.check_no_control_dependence(block, where)
    dependences.check_injective_writes(block, where)
    if move.is_reverse:
        around = [*tree.enclosing_loops(loop), loop]
        preserved = dependences.preserved_loops(block, move.others, around)
        dependences.check_hoist(block, preserved, where)
        dependences.check_recomputation(block, move.others, where)
    else:
        legality.check_not_output(block, where)
        dependences.check_delay(block, where)
    legality.check_self_contained(block, where)
    legality.check_reduction_in_scope(block, where)
    legality.check_iter_mins(block, where, may_be_above_0=True)
    _check_other_writers(move, scope)


def _check_other_writers(move: _Move, scope: ir.Operation) -> None:
    """Reject moving a block whose results other blocks update more than once."""
    written = accesses.buffers_written(move.block)
    writers = [b for w in written for b in accesses.writers_of(scope, w)]
    for other in writers:
        if other == move.block or (move.is_reverse and other in move.others):
            continue
        indices = IndexSymbols()
        spatial_only = symbols_of_iters(other, indices, "S") - symbols_of_iters(
            other, indices, "R"
        )
        around = [*tree.enclosing_loops(move.loop), move.loop]
        writes_once = all(
            indices.symbol(loop_var(loop)) in spatial_only for loop in around
        )
        if other not in move.others or not writes_once:
            raise ScheduleError(
                f"{move.where}: {tree.describe(other)} updates what "
                f"{tree.describe(move.block)} writes: expected that it reads that, and "
                f"only loops of its spatial axes at and around {tree.describe(move.loop)}"
            )


def _position(move: _Move, index: int) -> int:
    """The index of the statement in the loop that the block is inserted before."""
    statements = tree.children(move.loop)
    producers = _statement_indices(statements, accesses.producers_of(move.block))
    consumers = _statement_indices(statements, accesses.consumers_of(move.block))
    covered = producers if move.is_reverse else consumers
    if len(covered) != len(move.others):
        kind = "producer" if move.is_reverse else "consumer"
        outside = len(move.others) - len(covered)
        raise ScheduleError(
            f"{move.where}: requires all the {kind}(s) of {tree.describe(move.block)} "
            f"under {tree.describe(move.loop)}: {outside} of {len(move.others)} are not"
        )
    if move.is_reverse:
        _check_consumers_behind(move)
    first = max(producers, default=-1) + 1
    last = min(consumers, default=len(statements))
    if index == -1:
        return last
    if index == -2:
        return first
    if not first <= index <= last:
        raise ScheduleError(
            f"{move.where}: expected an index from {first} to {last}, got {index}"
        )
    return index


def _check_consumers_behind(move: _Move) -> None:
    """Reject moving a block behind one of its consumers."""
    listed = tree.subtree(tree.scope_of(move.loop))
    position_of_loop = listed.index(move.loop)
    for consumer in accesses.consumers_of(move.block):
        if listed.index(consumer) < position_of_loop:
            raise ScheduleError(
                f"{move.where}: {tree.describe(consumer)} reads the result of "
                f"{tree.describe(move.block)} and comes before {tree.describe(move.loop)}"
            )


def _check_reduces_once(move: _Move) -> None:
    """Reject a moved reduction that would combine some values several times.

    The loops from the first reduce loop on must visit each instance once. Loops around those
    repeat whole reductions, including the initialisation.
    """
    indices = IndexSymbols()
    reduce_loops = symbols_of_iters(move.block, indices, "R")
    used = reduce_loops | symbols_of_iters(move.block, indices, "S")
    loops = tree.enclosing_loops(move.block)
    names = [indices.symbol(loop_var(loop)) for loop in loops]
    first = next(
        (n for n, name in enumerate(names) if name in reduce_loops), len(loops)
    )
    repeating = [
        loop
        for loop, name in list(zip(loops, names, strict=True))[first:]
        if name not in used and loop_bounds(indices, loop)[1] != 1
    ]
    if first == len(loops) or (
        not repeating
        and legality.has_affine_bindings(
            move.block, below=loops[first], may_overlap=False
        )
    ):
        return
    raise ScheduleError(
        f"{move.where}: {tree.describe(move.block)} would combine some values several times "
        f"under {tree.describe(move.loop)}: expected loops that visit each of its "
        "instances once"
    )


def _statement_indices(
    statements: Sequence[ir.Operation], blocks: Sequence[ir.Operation]
) -> list[int]:
    """The indices of the statements that contain blocks, one for each block."""
    found: list[int] = []
    for block in blocks:
        around = {block, *tree.ancestors(block)}
        found += [n for n, statement in enumerate(statements) if statement in around]
    return found


def _required_domains(move: _Move, indices: IndexSymbols) -> list[Interval]:
    """The required iter domain of the block in one iteration of the target loop."""
    block = move.block
    limits = limits_at(indices, move.loop)
    ends = _axis_ends(block, indices)
    names = [indices.symbol(a) for a in tree.body(block).arguments]
    iter_domain = [
        Interval(start, end - 1)
        for start, end in zip(tree.iter_var_mins(block), ends, strict=True)
    ]
    found = _solve_buffers(move, move.loop, names, ends, indices)
    if move.is_reverse and found:
        _check_domain_covered(move)
    domains: list[Interval] = []
    for name, interval in zip(names, iter_domain, strict=True):
        intervals = regions.bounding_box([[r] for r in found.get(name, [])], limits)
        domains.append(intervals[0] if intervals else interval)
    return domains


def _solve_buffers(
    move: _Move,
    around: ir.Operation,
    names: Sequence[str],
    ends: Sequence[Dim],
    indices: IndexSymbols,
) -> dict[str, list[Interval]]:
    """The required intervals of iter vars by shared buffer, in one iteration of ``around``."""
    block, limits = move.block, limits_at(indices, around)
    found: dict[str, list[Interval]] = {}
    for buffer in _shared_buffers(move):
        required = _required(move, around, buffer, indices)
        provided = regions.block_box(
            block, buffer, indices, is_write=not move.is_reverse
        )
        if required is None or provided is None:
            continue
        sizes = dict(zip(names, ends, strict=True))
        if move.is_reverse and not _reads_invertibly(provided, sizes):
            raise _not_invertible(move, buffer)
        solved = _solve(provided, required, sizes, limits)
        for name, interval in solved.items():
            found.setdefault(name, []).append(interval)
    return found


def _check_domain_covered(move: _Move) -> None:
    """Reject moving a consumer some of whose instances read nothing that producers write.

    No iteration of the target loop contains such instances: a predicate guards the read of
    padding, or an iteration of a common loop writes only a part of what each iteration reads.
    """
    block, indices = move.block, IndexSymbols()
    scope_or_loop = tree.innermost_common_ancestor(block, move.others)
    for buffer in _shared_buffers(move):
        reads = [
            access
            for access in accesses.accesses_in(block)
            if access.buffer == buffer and not access.is_write
        ]
        writers = [o for o in move.others if buffer in accesses.buffers_written(o)]
        if any(
            dependences.is_region_covered(
                reads, writer, scope_or_loop, indices, include_out_of_bounds=True
            )
            for writer in writers
        ):
            return
    raise ScheduleError(
        f"{move.where}: the producers of {tree.describe(block)} may not write all that it "
        f"reads in an iteration of {tree.describe(scope_or_loop)}: expected that they cover "
        "its whole domain"
    )


def _axis_ends(block: ir.Operation, indices: IndexSymbols) -> list[Dim]:
    """The exclusive upper bounds of the iter domain of a block."""
    starts, extents = tree.iter_var_mins(block), iter_extents(indices, block)
    return [s + e for s, e in zip(starts, extents, strict=True)]


def _reads_invertibly(box: Sequence[Interval], extents: Mapping[str, Dim]) -> bool:
    """Whether each consumer instance reads one element, which determines the instance."""
    for interval in box:
        splits = affine.iter_splits_of(interval.low, extents)
        if (
            interval.low != interval.high
            or splits is None
            or not affine.is_uniquely_decomposable(splits)
        ):
            return False
    return True


def _not_invertible(move: _Move, buffer: ir.Value) -> ScheduleError:
    return ScheduleError(
        f"{move.where}: {tree.describe(move.block)} reads elements of "
        f"`{accesses.buffer_name(buffer)}` from more than one iteration of "
        f"{tree.describe(move.loop)}: expected one element for each instance, at indices "
        "that are invertible in its iter vars"
    )


def _shared_buffers(move: _Move) -> list[ir.Value]:
    """The buffers that carry the dependences between the block and the others."""
    if move.is_reverse:
        written = [b for o in move.others for b in accesses.buffers_written(o)]
        return [b for b in accesses.buffers_read(move.block) if b in written]
    read = [b for o in move.others for b in accesses.buffers_read(o)]
    return [b for b in accesses.buffers_written(move.block) if b in read]


def _required(
    move: _Move, around: ir.Operation, buffer: ir.Value, indices: IndexSymbols
) -> list[Interval] | None:
    """The region that the others access in one iteration of a loop, or in a scope."""
    limits = limits_at(indices, around)
    is_root = tree.is_function(around)
    outside = {around, *(() if is_root else tree.ancestors(around))}
    relaxes = regions.relaxed_thread_loops(buffer)
    boxes: list[list[Interval]] = []
    for other in move.others:
        for access in accesses.accesses_in(other):
            if access.buffer != buffer or access.is_write != move.is_reverse:
                continue
            boxes.append(
                regions.accessed_box(
                    access,
                    indices,
                    lambda op: op not in outside,
                    relaxes=relaxes if not move.is_reverse else lambda op: False,
                )
            )
    return regions.bounding_box(boxes, limits)


def _solve(
    provided: Sequence[Interval],
    required: Sequence[Interval],
    extents: Mapping[str, Dim],
    limits: Limits,
) -> dict[str, Interval]:
    """Solves for the iter domain at which the provided region covers the required one."""
    by_source: dict[str, list[tuple[affine.IterSplit, Interval]]] = {}
    for required_interval, provided_interval in zip(required, provided, strict=True):
        splits = affine.iter_splits_of(provided_interval.low, extents)
        if not splits:
            continue
        constant = _constant_part(provided_interval.low, splits, extents)
        shifted = required_interval.map_ends(lambda end, by=constant: end - by)
        splits = affine.nontrivial_splits(splits)
        if all(is_known_le(d.scale, 0) for d in splits):
            splits = [replace(d, scale=-d.scale) for d in splits]
            shifted = Interval(-shifted.high, -shifted.low)
        is_single = len(splits) == 1 and is_known_le(0, splits[0].scale)
        if not (is_single or affine.is_uniquely_decomposable(splits)):
            continue  # the index constrains no single iter var
        for split in splits:
            interval = _split_interval(split, splits, shifted, limits)
            by_source.setdefault(split.source, []).append((split, interval))
    known = {name: _combine_splits(p, extents[name]) for name, p in by_source.items()}
    return {
        name: interval.map_ends(lambda end: simplify(end, limits))
        for name, interval in known.items()
        if interval is not None
    }


def _combine_splits(
    splits: Sequence[tuple[affine.IterSplit, Interval]], extent: Dim
) -> Interval | None:
    """The interval of an iter var from those of its iter splits; None if unconstrained.

    Splits less significant than those known take all values.
    """
    ordered = affine.ordered_splits([split for split, _ in splits], extent)
    if ordered is None:
        return None
    intervals = dict(splits)
    low: Dim = 0
    high: Dim = ordered[0].lower_factor - 1
    for split in ordered:
        interval = intervals[split]
        low, high = (
            low + split.lower_factor * interval.low,
            high + split.lower_factor * interval.high,
        )
    return Interval(low, high)


def _constant_part(
    dim: Dim, splits: Sequence[affine.IterSplit], extents: Mapping[str, Dim]
) -> Dim:
    """The part of an expression that is not in its splits."""
    for split in splits:
        dim = dim - split.scale * affine.split_value(split, extents)
    return dim


def _split_interval(
    split: affine.IterSplit,
    splits: Sequence[affine.IterSplit],
    need: Interval,
    limits: Limits,
) -> Interval:
    """The interval of a split when a sum of splits covers the needed interval."""
    quotient = need.map_ends(lambda end: dims.floordiv(end, split.scale))
    if (len(splits) == 1 and split.lower_factor == 1) or _is_leading(split, splits):
        return quotient
    symbol = dims.symbol("relax.place")
    remainder = dims.mod(symbol, split.extent)
    return regions.evaluate_interval(remainder, {"relax.place": quotient}, limits)


def _is_leading(split: affine.IterSplit, splits: Sequence[affine.IterSplit]) -> bool:
    """Whether a split has the greatest scale of an index."""
    scales = [d.scale for d in splits]
    if not all(isinstance(s, int) for s in scales):
        return len(splits) == 1
    return split.scale == max(scales)  # pyright: ignore[reportArgumentType]


def _move_into_loops(
    state: ScheduleState,
    move: _Move,
    position: int,
    domains: Sequence[Interval],
    indices: IndexSymbols,
    *,
    keep_unit_loops: bool,
) -> None:
    """Creates loops over the domains and moves the block into them."""
    block, loop = move.block, move.loop
    statements = tree.children(loop)
    target = (
        statements[position]
        if position < len(statements)
        else edit.terminator(tree.body(loop))
    )
    limits, upper_bounds = (
        limits_at(indices, loop),
        legality.upper_bounds_at(indices, loop),
    )
    ends = _axis_ends(block, indices)
    iter_domain = [
        Interval(start, end - 1)
        for start, end in zip(tree.iter_var_mins(block), ends, strict=True)
    ]
    intervals = [
        _clamp(r, w, limits, upper_bounds)
        for r, w in zip(domains, iter_domain, strict=True)
    ]
    with edit.insertion_point_before(target):
        values, inner = _make_loops(
            block, intervals, indices, limits, keep_unit_loops=keep_unit_loops
        )
    conditions = iter_conditions(block, indices, move.where)
    old = tree.realize_of(block)
    if inner is not None:
        target = edit.terminator(tree.body(inner))
    outer = _outermost_alone(old)
    block.move_before(target)
    _set_bindings(block, values, indices)
    edit.rematerialize_operands(block)
    if outer != block:
        state.erase(outer)
    around = limits_at(indices, tree.parent_of(block))
    values = [fold_single_values(v, around) for v in values]
    bounds = domain_conditions(values, iter_domain) + substitute_iters(
        conditions, dict(enumerate(values))
    )
    found = legality.unproved_conditions(bounds, indices, tree.parent_of(block))
    set_predicate(block, [c.canonical() for c in found], indices)
    edit.rematerialize_all(loop)


def _outermost_alone(op: ir.Operation) -> ir.Operation:
    """The outermost ancestor loop of an operation that contains nothing else."""
    while True:
        around = tree.parent_of(op)
        is_scope = tree.is_block(around) or tree.is_function(around)
        if is_scope or len(tree.children(around)) > 1:
            return op
        op = around


def _make_loops(
    block: ir.Operation,
    intervals: Sequence[Interval],
    indices: IndexSymbols,
    limits: Limits,
    *,
    keep_unit_loops: bool,
) -> tuple[list[Dim], ir.Operation | None]:
    """Loops ``ax0``, ``ax1``, ... over intervals; the bindings, and the innermost loop."""
    values: list[Dim] = []
    inner: ir.Operation | None = None
    count = 0
    for interval, dtype in zip(intervals, tree.iter_var_dtypes(block), strict=True):
        extent = fold_single_values(simplify(interval.extent, limits), limits)
        start = fold_single_values(interval.low, limits)
        if extent == 1 and not keep_unit_loops:
            values.append(start)
            continue
        insertion_point = (
            ir.InsertionPoint.current
            if inner is None
            else edit.insertion_point_before(edit.terminator(tree.body(inner)))
        )
        with insertion_point:
            attributes = edit.loop_attributes(f"ax{count}", dtype=dtype)
            inner = edit.make_loop(indices, extent, attributes)
        count += 1
        values.append(start + indices.of(loop_var(inner)))
    return values, inner


def _set_bindings(
    block: ir.Operation, values: Sequence[Dim], indices: IndexSymbols
) -> None:
    """Set the bindings of a block."""
    first = len(block.operands) - len(values)
    with edit.insertion_point_before(block):
        for number, value in enumerate(values):
            block.operands[first + number] = indices.emit(value)


def _clamp(
    interval: Interval,
    iter_domain: Interval,
    limits: Limits,
    upper_bounds: Mapping[str, Dim],
) -> Interval:
    """An interval clamped to the iter domain, if that gives constants or the whole domain."""
    known = dict(upper_bounds)
    least, top = iter_domain.low, iter_domain.high
    low = least if is_nonnegative(least - interval.low, limits, known) else interval.low
    high = top if is_nonnegative(interval.high - top, limits, known) else interval.high
    if (low, high) == (least, top) or (isinstance(low, int) and isinstance(high, int)):
        return Interval(low, high)
    return interval

"""Primitives that move a block into the loops of its consumers, or of its producers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from relax_mlir.dialects import dims
from relax_mlir.dialects.dim_bounds import is_known_le
from relax_mlir.dialects.dims import Dim
from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import (
    accesses,
    affine,
    dependences,
    edit,
    legality,
    regions,
    tree,
)
from relax_mlir.tir.schedule.axis_conditions import (
    at_axes,
    axis_bounds,
    axis_conditions,
)
from relax_mlir.tir.schedule.decompose import symbols_in
from relax_mlir.tir.schedule.indices import Indices, Limits, simplify, without_units
from relax_mlir.tir.schedule.predicates import (
    is_never_negative,
    set_predicate,
)
from relax_mlir.tir.schedule.regions import Run
from relax_mlir.tir.schedule.state import (
    ScheduleState,
    extents_of,
    limits_at,
    loop_bounds,
    loop_var,
)

__all__ = ["compute_at"]


@dataclass(frozen=True)
class _Move:
    """A block, where it goes, and whom it has to serve.

    Attributes:
        is_reverse: whether it goes to its producers.
        others: its consumers, or its producers.
    """

    block: ir.Operation
    loop: ir.Operation
    is_reverse: bool
    others: Sequence[ir.Operation]

    @property
    def where(self) -> str:
        """The primitive, for messages."""
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
        domains = _domains(move, indices)
        _place(state, move, position, domains, indices, keep=preserve_unit_loops)
        if is_reverse:
            _check_sums_once(move)


def _check(move: _Move) -> None:
    block, loop, where = move.block, move.loop, move.where
    scope = tree.scope_of(block)
    if tree.scope_of(loop) != scope:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} and {tree.describe(loop)} are not under "
            "the same block scope"
        )
    if tree.region_in(scope, loop) != tree.region_in(scope, block):
        raise ScheduleError(
            f"{where}: either {tree.describe(block)} or {tree.describe(loop)} computes the "
            f"start value of {tree.describe(scope)}: expected both in its body"
        )
    legality.check_stage_pipeline(scope, where)
    root = tree.child_of(scope, block)
    for other in tree.blocks_below(root) or [block]:
        legality.check_complete_or_reduction(other, where, root)
    if loop in tree.enclosing_loops(block):
        raise ScheduleError(
            f"{where}: {tree.describe(loop)} is an ancestor of block "
            f"`{tree.block_name(block)}`: expected a loop that is not around it"
        )
    dependences.check_unconditional(block, where)
    dependences.check_writes_once(block, where)
    if move.is_reverse:
        around = [*tree.enclosing_loops(loop), loop]
        kept = dependences.kept_loops(block, move.others, around)
        dependences.check_computed_earlier(block, kept, where)
        dependences.check_recomputed(block, move.others, where)
    else:
        legality.check_not_output(block, where)
        dependences.check_computed_later(block, where)
    legality.check_self_contained(block, where)
    legality.check_reduces_inside(block, where)
    legality.check_axis_starts(block, where, may_be_above_0=True)
    _check_other_writers(move, scope)


def _check_other_writers(move: _Move, scope: ir.Operation) -> None:
    """What another block goes on to change is written once for each of its elements."""
    written = accesses.buffers_written(move.block)
    writers = [b for w in written for b in accesses.writers_of(scope, w)]
    for other in writers:
        if other == move.block or (move.is_reverse and other in move.others):
            continue
        indices = Indices()
        moves_on = symbols_in(other, indices, "S") - symbols_in(other, indices, "R")
        around = [*tree.enclosing_loops(move.loop), move.loop]
        once = all(indices.symbol(loop_var(loop)) in moves_on for loop in around)
        if other not in move.others or not once:
            raise ScheduleError(
                f"{move.where}: {tree.describe(other)} goes on with what "
                f"{tree.describe(move.block)} writes: expected that it reads that, and "
                f"loops of its spatial axes alone at and around {tree.describe(move.loop)}"
            )


def _position(move: _Move, index: int) -> int:
    """The number of the statement in the loop that the block comes before."""
    statements = tree.children(move.loop)
    producers = _places(statements, accesses.producers_of(move.block))
    consumers = _places(statements, accesses.consumers_of(move.block))
    visited = producers if move.is_reverse else consumers
    if len(visited) != len(move.others):
        kind = "producer" if move.is_reverse else "consumer"
        missing = len(move.others) - len(visited)
        raise ScheduleError(
            f"{move.where}: requires all the {kind}(s) of {tree.describe(move.block)} "
            f"under {tree.describe(move.loop)}: {missing} of {len(move.others)} are not"
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
    """Refuse to move a block behind one that reads its result."""
    listed = tree.subtree(tree.scope_of(move.loop))
    place = listed.index(move.loop)
    for consumer in accesses.consumers_of(move.block):
        if listed.index(consumer) < place:
            raise ScheduleError(
                f"{move.where}: {tree.describe(consumer)} reads the result of "
                f"{tree.describe(move.block)} and comes before {tree.describe(move.loop)}"
            )


def _check_sums_once(move: _Move) -> None:
    """Refuse a reduction that has moved to where it combines some values several times.

    Each point of it is visited once by the loops from the first one on that a reduce axis
    depends on. Loops around those repeat whole reductions, from the start value on.
    """
    indices = Indices()
    reduced = symbols_in(move.block, indices, "R")
    used = reduced | symbols_in(move.block, indices, "S")
    loops = tree.enclosing_loops(move.block)
    names = [indices.symbol(loop_var(loop)) for loop in loops]
    first = next((n for n, name in enumerate(names) if name in reduced), len(loops))
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
        f"under {tree.describe(move.loop)}: expected loops that visit each of its points "
        "once"
    )


def _places(
    statements: Sequence[ir.Operation], blocks: Sequence[ir.Operation]
) -> list[int]:
    """Which statements hold blocks, once for each block that one holds."""
    found: list[int] = []
    for block in blocks:
        around = {block, *tree.ancestors(block)}
        found += [n for n, statement in enumerate(statements) if statement in around]
    return found


def _domains(move: _Move, indices: Indices) -> list[Run]:
    """What values the axes of the block take at one step of the loop."""
    block = move.block
    limits = limits_at(indices, move.loop)
    tops = _axis_ends(block, indices)
    names = [indices.symbol(a) for a in tree.body(block).arguments]
    whole = [
        Run(start, end - 1)
        for start, end in zip(tree.axis_starts(block), tops, strict=True)
    ]
    found = _solved(move, move.loop, names, tops, indices)
    if move.is_reverse and found:
        _check_all_points(move)
    domains: list[Run] = []
    for name, run in zip(names, whole, strict=True):
        runs = regions.hull([[r] for r in found.get(name, [])], limits)
        domains.append(runs[0] if runs else run)
    return domains


def _solved(
    move: _Move,
    around: ir.Operation,
    names: Sequence[str],
    tops: Sequence[Dim],
    indices: Indices,
) -> dict[str, list[Run]]:
    """The values of axes that each shared buffer asks for, at one step of ``around``."""
    block, limits = move.block, limits_at(indices, around)
    found: dict[str, list[Run]] = {}
    for buffer in _shared_buffers(move):
        required = _required(move, around, buffer, indices)
        provided = regions.regions_in(
            block, buffer, indices, is_write=not move.is_reverse
        )
        if required is None or provided is None:
            continue
        sizes = dict(zip(names, tops, strict=True))
        if move.is_reverse and not _reads_points(provided, sizes):
            raise _reads_more(move, buffer)
        solved = _solve(provided, required, sizes, limits)
        for name, run in solved.items():
            found.setdefault(name, []).append(run)
    return found


def _check_all_points(move: _Move) -> None:
    """Refuse to move a consumer some of whose points read nothing that producers write.

    Such points are in no step of the loop, as where a condition guards the read of padding,
    or where a step of a loop around both writes a part alone of what each step reads.
    """
    block, indices = move.block, Indices()
    place = tree.common_place(block, move.others)
    for buffer in _shared_buffers(move):
        read = [
            access
            for access in accesses.accesses_in(block)
            if access.buffer == buffer and not access.is_write
        ]
        writers = [o for o in move.others if buffer in accesses.buffers_written(o)]
        if any(
            dependences.is_covered(read, w, place, indices, by_all=True)
            for w in writers
        ):
            return
    raise ScheduleError(
        f"{move.where}: the producers of {tree.describe(block)} may not write all that it "
        f"reads in a step of {tree.describe(place)}: expected that they write something "
        "for each point"
    )


def _axis_ends(block: ir.Operation, indices: Indices) -> list[Dim]:
    """What the axes of a block are below."""
    starts, extents = tree.axis_starts(block), extents_of(indices, block)
    return [s + e for s, e in zip(starts, extents, strict=True)]


def _reads_points(box: Sequence[Run], extents: Mapping[str, Dim]) -> bool:
    """Whether each point of a consumer reads one element, which says what point it is."""
    for run in box:
        digits = affine.digits_of(run.low, extents)
        if run.low != run.high or digits is None or not affine.are_separate(digits):
            return False
    return True


def _reads_more(move: _Move, buffer: ir.Value) -> ScheduleError:
    return ScheduleError(
        f"{move.where}: {tree.describe(move.block)} reads elements of "
        f"`{accesses.buffer_name(buffer)}` that more than one step of "
        f"{tree.describe(move.loop)} makes: expected one element a point, at indices "
        "that its axes are digits of"
    )


def _shared_buffers(move: _Move) -> list[ir.Value]:
    """The buffers through which the block depends on the others."""
    if move.is_reverse:
        written = [b for o in move.others for b in accesses.buffers_written(o)]
        return [b for b in accesses.buffers_read(move.block) if b in written]
    read = [b for o in move.others for b in accesses.buffers_read(o)]
    return [b for b in accesses.buffers_written(move.block) if b in read]


def _required(
    move: _Move, around: ir.Operation, buffer: ir.Value, indices: Indices
) -> list[Run] | None:
    """The box that the others touch at one step of a loop, or of a scope, around them."""
    limits = limits_at(indices, around)
    is_root = tree.is_function(around)
    outside = {around, *(() if is_root else tree.ancestors(around))}
    relaxes = regions.crosses_threads(buffer)
    boxes: list[list[Run]] = []
    for other in move.others:
        for access in accesses.accesses_in(other):
            if access.buffer != buffer or access.is_write != move.is_reverse:
                continue
            boxes.append(
                regions.region_of(
                    access,
                    indices,
                    lambda op: op not in outside,
                    relaxes=relaxes if not move.is_reverse else lambda op: False,
                )
            )
    return regions.hull(boxes, limits)


def _solve(
    provided: Sequence[Run],
    required: Sequence[Run],
    extents: Mapping[str, Dim],
    limits: Limits,
) -> dict[str, Run]:
    """The values of axes at which what is provided covers what is required."""
    parts: dict[str, list[tuple[affine.Digit, Run]]] = {}
    for need, give in zip(required, provided, strict=True):
        digits = affine.digits_of(give.low, extents)
        if not digits:
            continue
        start = _constant_part(give.low, digits, extents)
        moved = need.mapped(lambda end, by=start: end - by)
        digits = affine.counting(digits)
        if all(is_known_le(d.scale, 0) for d in digits):
            digits = [replace(d, scale=-d.scale) for d in digits]
            moved = Run(-moved.high, -moved.low)
        is_one = len(digits) == 1 and is_known_le(0, digits[0].scale)
        if not (is_one or affine.are_separate(digits)):
            continue  # the index says nothing of an axis alone
        for digit in digits:
            run = _digit_run(digit, digits, moved, limits)
            parts.setdefault(digit.source, []).append((digit, run))
    known = {name: _composed(p, extents[name]) for name, p in parts.items()}
    return {
        name: run.mapped(lambda end: simplify(end, limits))
        for name, run in known.items()
        if run is not None
    }


def _composed(parts: Sequence[tuple[affine.Digit, Run]], extent: Dim) -> Run | None:
    """The values of an axis whose digits go over runs; None for any.

    Digits below those that are known take all values.
    """
    ordered = affine.chained([digit for digit, _ in parts], extent)
    if ordered is None:
        return None
    runs = dict(parts)
    low: Dim = 0
    high: Dim = ordered[0].lower - 1
    for digit in ordered:
        run = runs[digit]
        low, high = low + digit.lower * run.low, high + digit.lower * run.high
    return Run(low, high)


def _constant_part(
    dim: Dim, digits: Sequence[affine.Digit], extents: Mapping[str, Dim]
) -> Dim:
    """What an expression adds to its digits."""
    for digit in digits:
        dim = dim - digit.scale * affine.value_of(digit, extents)
    return dim


def _digit_run(
    digit: affine.Digit, digits: Sequence[affine.Digit], need: Run, limits: Limits
) -> Run:
    """The values that a digit takes where a sum of digits goes over what is needed."""
    quotient = need.mapped(lambda end: dims.floordiv(end, digit.scale))
    if (len(digits) == 1 and digit.lower == 1) or _is_leading(digit, digits):
        return quotient
    symbol = dims.symbol("relax.place")
    place = dims.mod(symbol, digit.extent)
    return regions.interval(place, {"relax.place": quotient}, limits)


def _is_leading(digit: affine.Digit, digits: Sequence[affine.Digit]) -> bool:
    """Whether no other digit of an index counts more."""
    scales = [d.scale for d in digits]
    if not all(isinstance(s, int) for s in scales):
        return len(digits) == 1
    return digit.scale == max(scales)  # pyright: ignore[reportArgumentType]


def _place(
    state: ScheduleState,
    move: _Move,
    position: int,
    domains: Sequence[Run],
    indices: Indices,
    *,
    keep: bool,
) -> None:
    """Make loops over the domains, and put the block into them."""
    block, loop = move.block, move.loop
    statements = tree.children(loop)
    target = (
        statements[position]
        if position < len(statements)
        else edit.terminator(tree.body(loop))
    )
    limits, tops = limits_at(indices, loop), legality.tops_at(indices, loop)
    ends = _axis_ends(block, indices)
    whole = [
        Run(start, end - 1)
        for start, end in zip(tree.axis_starts(block), ends, strict=True)
    ]
    runs = [_clamped(r, w, limits, tops) for r, w in zip(domains, whole, strict=True)]
    with edit.point_before(target):
        values, inner = _make_loops(block, runs, indices, limits, keep=keep)
    left_out = axis_conditions(block, indices, move.where)
    old = tree.realize_of(block)
    if inner is not None:
        target = edit.terminator(tree.body(inner))
    outer = _outermost_alone(old)
    block.move_before(target)
    _set_bindings(block, values, indices)
    edit.bring_operands(block)
    if outer != block:
        state.erase(outer)
    around = limits_at(indices, tree.parent_of(block))
    values = [without_units(v, around) for v in values]
    bounds = axis_bounds(values, whole) + at_axes(left_out, dict(enumerate(values)))
    found = legality.drop_proved(bounds, indices, tree.parent_of(block))
    set_predicate(block, [c.tidy() for c in found], indices)
    edit.localise(loop)


def _outermost_alone(op: ir.Operation) -> ir.Operation:
    """The outermost loop around that holds nothing else."""
    while True:
        around = tree.parent_of(op)
        keeps = tree.is_block(around) or tree.is_function(around)
        if keeps or len(tree.children(around)) > 1:
            return op
        op = around


def _make_loops(
    block: ir.Operation,
    runs: Sequence[Run],
    indices: Indices,
    limits: Limits,
    *,
    keep: bool,
) -> tuple[list[Dim], ir.Operation | None]:
    """Loops ``ax0``, ``ax1``, ... over runs; returns the axes, and the innermost loop."""
    values: list[Dim] = []
    inner: ir.Operation | None = None
    count = 0
    for run, dtype in zip(runs, tree.axis_dtypes(block), strict=True):
        extent = without_units(simplify(run.extent, limits), limits)
        start = without_units(run.low, limits)
        if extent == 1 and not keep:
            values.append(start)
            continue
        place = (
            ir.InsertionPoint.current
            if inner is None
            else edit.point_before(edit.terminator(tree.body(inner)))
        )
        with place:
            attributes = edit.loop_attributes(f"ax{count}", dtype=dtype)
            inner = edit.make_loop(indices, extent, attributes)
        count += 1
        values.append(start + indices.of(loop_var(inner)))
    return values, inner


def _set_bindings(block: ir.Operation, values: Sequence[Dim], indices: Indices) -> None:
    """Say what the axes of a block are."""
    first = len(block.operands) - len(values)
    with edit.point_before(block):
        for number, value in enumerate(values):
            block.operands[first + number] = indices.emit(value)


def _clamped(run: Run, whole: Run, limits: Limits, tops: Mapping[str, Dim]) -> Run:
    """A run without what an axis does not reach, if that leaves numbers or all of it."""
    known = dict(tops)
    least, top = whole.low, whole.high
    low = least if is_never_negative(least - run.low, limits, known) else run.low
    high = top if is_never_negative(run.high - top, limits, known) else run.high
    if (low, high) == (least, top) or (isinstance(low, int) and isinstance(high, int)):
        return Run(low, high)
    return run

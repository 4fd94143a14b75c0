"""Dependences between accesses, which primitives ask for before they change an order.

Two accesses depend on one another where both touch an element and one of them writes it: a
flow dependence is read after write, an anti-dependence write after read, an output
dependence write after write. A loop carries a dependence if that is so in two of its steps.

What may be touched is over-approximated, by boxes and without conditions; what is surely
written is under-approximated.

Source: R. Allen and K. Kennedy, "Optimizing Compilers for Modern Architectures", 2001,
chapters 2, 5 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, takewhile

from mlir import ir

from relax_mlir.dialects import dims
from relax_mlir.dialects.dim_bounds import bounds, is_known_le
from relax_mlir.dialects.dim_limits import is_le
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.intervals import Range
from relax_mlir.dialects.monomials import terms_of
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.dialects.tir import marks
from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import (
    accesses,
    affine,
    legality,
    predicates,
    regions,
    tree,
)
from relax_mlir.tir.schedule.accesses import Access
from relax_mlir.tir.schedule.indices import Indices, Limits, simplify, without_units
from relax_mlir.tir.schedule.regions import Run
from relax_mlir.tir.schedule.state import (
    extents_of,
    limits_at,
    loop_bounds,
    loop_var,
)

__all__ = [
    "are_disjoint",
    "carrying_loops",
    "check_alone",
    "check_computed_earlier",
    "check_computed_later",
    "check_fusion",
    "check_keeps_order",
    "check_none_carried",
    "check_recomputed",
    "check_reordered",
    "check_same_in_all_steps",
    "check_start_hoisted",
    "check_unconditional",
    "check_writes_once",
    "is_covered",
    "is_idempotent",
    "kept_loops",
    "surely_written",
    "tied_loops",
]

_MOST_BOXES = 8  # that are compared at once


@dataclass(frozen=True)
class _Touch:
    """An access of a statement.

    Attributes:
        unit: the block that is executed as a whole; or the operation itself, where it is
            part of a bound or a condition between blocks.
        access: the access.
    """

    unit: ir.Operation
    access: Access


# Which loops carry a dependence.


def carrying_loops(
    found: Sequence[Access], nest: Sequence[ir.Operation], indices: Indices
) -> list[ir.Operation]:
    """The loops of a nest that may carry a dependence between some accesses.

    Steps in which one of the others differs surely touch no element in common.

    Args:
        found: accesses of one buffer inside of the nest.
        nest: loops around one another, outermost first; those around them stand still.
    """
    longer = [loop for loop in nest if loop_bounds(indices, loop)[1] != 1]
    telling: list[ir.Operation] = []
    while True:
        more = next(
            (
                loop
                for loop in longer
                if loop not in telling
                and _tell_elements(found, [*telling, loop], nest, indices)
            ),
            None,
        )
        if more is None:
            return [loop for loop in longer if loop not in telling]
        telling.append(more)


def _tell_elements(
    found: Sequence[Access],
    loops: Sequence[ir.Operation],
    nest: Sequence[ir.Operation],
    indices: Indices,
) -> bool:
    """Whether two steps of loops have no element in common, whatever other loops do.

    The boxes of the steps have none; or each step of those and of all loops that places
    mention, around them or inside, has elements of its own.
    """
    inside = set(tree.subtree(nest[-1])) - {nest[-1]}
    held = {op for op in inside if not tree.is_loop(op)}
    others = [loop for loop in nest if loop not in loops]
    wider = _hull(found, inside, others, nest, indices)
    if wider is not None and _have_own(wider, loops, indices):
        return True
    points = _hull(found, held, [], nest, indices)
    if points is None:
        return False
    mentioned = {
        n for run in points for d in (run.low, run.high) for n in symbols_of(d)
    }
    around = tree.enclosing_loops(nest[0])
    more = [
        loop
        for loop in [*around, *others, *filter(tree.is_loop, inside)]
        if indices.symbol(loop_var(loop)) in mentioned
    ]
    return bool(more) and _have_own(points, [*loops, *more], indices)


def _hull(
    found: Sequence[Access],
    inside: Container[ir.Operation],
    relaxed: Container[ir.Operation],
    nest: Sequence[ir.Operation],
    indices: Indices,
) -> list[Run] | None:
    """The box around accesses; None for too many different ones."""
    boxes: list[list[Run]] = []
    for access in found:
        box = regions.region_of(
            access, indices, inside.__contains__, relaxes=relaxed.__contains__
        )
        if box not in boxes:
            boxes.append(box)
    if len(boxes) > _MOST_BOXES:
        return None
    return regions.hull(boxes, limits_at(indices, nest[-1]))


def _have_own(
    box: Sequence[Run], loops: Sequence[ir.Operation], indices: Indices
) -> bool:
    """Whether the boxes of two steps of loops have no element in common."""
    counted = [
        (indices.symbol(loop_var(loop)), *loop_bounds(indices, loop)) for loop in loops
    ]
    names = {name for name, _, _ in counted}
    if any(names & {*symbols_of(low), *symbols_of(e)} for _, low, e in counted):
        return False
    limits: dict[str, Range] = {}
    for loop in loops:
        limits |= limits_at(indices, loop)
    return _are_disjoint_from_0(box, counted, limits)


def _are_disjoint_from_0(
    box: Sequence[Run], counted: Sequence[tuple[str, Dim, Dim]], limits: Limits
) -> bool:
    """Whether the boxes of any two steps have no element in common.

    Args:
        counted: symbols, where each begins, and how many values it takes.
        limits: of other symbols.
    """
    found = dict(limits)
    from_0: dict[str, Dim] = {}
    for name, low, extent in counted:
        from_0 |= {name: dims.symbol(name) + low} if low != 0 else {}
        found[name] = 0, bounds(extent - 1, found)[1]
    moved = [run.mapped(lambda end: substitute(end, from_0)) for run in box]
    return are_disjoint(moved, {name: e for name, _, e in counted}, found)


def are_disjoint(box: Sequence[Run], steps: Mapping[str, Dim], limits: Limits) -> bool:
    """Whether the boxes of any two steps have no element in common.

    Args:
        steps: how many values symbols take, each from 0 on.
    """
    ends = [without_units(end, limits) for run in box for end in (run.low, run.high)]
    ends, steps = affine.with_divided_sums(ends, steps, limits)
    found: list[affine.Digit] = []
    for low, high in zip(ends[::2], ends[1::2], strict=True):
        if not set(steps) & {*symbols_of(low), *symbols_of(high)}:
            continue
        digits = _told_digits(low, high, steps, limits)
        if digits is None:
            digits = _told_digits(-high, -low, steps, limits)
        if digits is None:
            return False
        found += digits
    for name, extent in steps.items():
        ordered = affine.chained([d for d in found if d.source == name], extent)
        if not ordered or ordered[0].lower != 1:
            return False
    return True


def _told_digits(
    low: Dim, high: Dim, steps: Mapping[str, Dim], limits: Limits
) -> list[affine.Digit] | None:
    """The digits of steps that any element of a run tells, or None."""
    digits = affine.digits_of(low, steps)
    if digits is None or not affine.are_separate(digits):
        return None
    width = simplify(high - low, limits)
    tells_all = all(is_known_le(width + 1, d.scale) for d in digits)
    return digits if tells_all else None


def _touches(place: ir.Operation) -> Iterator[tuple[ir.Value, list[_Touch]]]:
    """What statements inside a loop or a scope touch, in order, by buffer.

    Buffers that a block inside allocates are new in each step.
    """
    found: dict[ir.Value, list[_Touch]] = {}
    own = accesses.own_buffers(place) if tree.is_loop(place) else []
    for access in accesses.accesses_in(place):
        if access.buffer in own:
            continue
        around = list(takewhile(lambda o: o != place, tree.ancestors(access.op)))
        blocks = [o for o in around if tree.is_block(o)]
        unit = blocks[-1] if blocks else access.op
        found.setdefault(access.buffer, []).append(_Touch(unit, access))
    yield from found.items()


# What is surely written.


def surely_written(
    access: Access, place: ir.Operation, indices: Indices
) -> list[Run] | None:
    """The box of which a store surely writes every element, in each step of a place.

    Args:
        place: a loop or a scope around the store.

    Returns:
        None where that is not known: there are gaps, or conditions.
    """
    inside = set(tree.subtree(place)) - {place}
    around = list(takewhile(inside.__contains__, tree.ancestors(access.op)))
    if access.is_opaque or _is_of_start(access, place):
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
            known = regions.axis_values(op, indices)
        elif tree.is_where(op):
            found = predicates.conditions_of(op.operands[0], indices)
            left = legality.drop_proved(found, indices, tree.parent_of(op))
            if any(c.value is not None for c in left):
                return None
            slacks += [c.slack for c in left]
        else:
            return None
        values = [substitute(v, known) for v in values]
        slacks = [substitute(s, known) for s in slacks]
        extents = {n: substitute(e, known) for n, e in extents.items()}
    box = regions.region_of(access, indices, inside.__contains__)
    composed, cut, bounding = affine.with_composites(values, extents, slacks, limits)
    if cut != extents:
        if not all(
            is_le(1, cut[n], limits) or any(_counts(v, n) for v in composed)
            for n in cut.keys() - extents.keys()
        ):
            return None  # there may be no step
        limits |= {n: (0, bounds(e - 1, limits)[1]) for n, e in cut.items()}
        runs = {n: Run(0, e - 1) for n, e in cut.items()}
        box = [regions.interval(v, runs, limits) for v in composed]
    if not _are_products(composed, bounding, cut, limits, indices):
        return None
    return _clipped(box, composed, bounding, cut, limits)


def _counts(value: Dim, name: str) -> bool:
    """Whether an index counts on with a loop, so that it has no value if there is no step."""
    counted = {monomial for monomial, _ in terms_of(dims.symbol(name))}
    return any(monomial in counted for monomial, _ in terms_of(value))


def _is_of_start(access: Access, root: ir.Operation) -> bool:
    """Whether an access is part of the start value of a block, below an operation or it."""
    inner = access.op
    for around in tree.ancestors(access.op):
        start = tree.init_of(around) if tree.is_block(around) else None
        if start is not None and inner.block == start:
            return True
        if around == root:
            break
        inner = around
    return False


def _are_products(
    values: Sequence[Dim],
    slacks: Sequence[Dim],
    extents: Mapping[str, Dim],
    limits: Limits,
    indices: Indices,
) -> bool:
    """Whether loops from 0 on take indices to each combination of values in their runs."""
    used = {name for dim in (*values, *slacks) for name in symbols_of(dim)}
    outer = used - extents.keys()
    if any(not isinstance(indices.values[n].owner, ir.Block) for n in outer):
        return False  # an index is loaded
    if any(extents.keys() & set(symbols_of(e)) for e in extents.values()):
        return False
    rising = [
        -v if affine.is_falling(v, extents) else v
        for v in (simplify(value, limits) for value in values)
    ]
    return affine.is_affine(rising, extents, limits, may_overlap=True)


def _clipped(
    box: Sequence[Run],
    values: Sequence[Dim],
    slacks: Sequence[Dim],
    extents: Mapping[str, Dim],
    limits: Limits,
) -> list[Run] | None:
    """The part of a box in which conditions hold, each a bound of one index."""
    runs = list(box)
    for slack in slacks:
        # The bound that depends on the fewest variables, and on none of the loops.
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
        run = runs[number]
        runs[number] = (
            Run(run.low, dims.minimum(run.high, bound))
            if is_top
            else Run(dims.maximum(run.low, bound), run.high)
        )
    return [run.mapped(lambda end: simplify(end, limits)) for run in runs]


def is_covered(
    reads: Sequence[Access],
    writer: ir.Operation,
    place: ir.Operation,
    indices: Indices,
    *,
    by_all: bool = False,
) -> bool:
    """Whether a block surely writes, in each step of a place, all that is read there.

    Args:
        reads: accesses of one buffer, all of them behind the block.
        by_all: reads that a condition keeps inside of the buffer count as well.
    """
    if not reads:
        return True
    buffer = reads[0].buffer
    inside = set(tree.subtree(place)) - {place}
    limits, tops = limits_at(indices, place), legality.tops_at(indices, place)
    stores = [a for a in _accesses_of(writer, buffer) if a.is_write]
    sure = [surely_written(a, place, indices) for a in stores]

    def is_written(access: Access) -> bool:
        # Two boxes around what is read, of which either may be the closer one.
        boxes = [regions.region_of(access, indices, inside.__contains__)]
        of_points = _box_of_points(access, tree.scope_of(writer), indices)
        boxes += [] if of_points is None else [of_points]
        if not by_all:
            boxes = [legality.within_buffer(b, buffer, place, indices) for b in boxes]
        return any(
            all(
                any(legality.is_inside(run, made, limits, tops) for run in runs)
                for made, *runs in zip(surely, *boxes, strict=True)
            )
            for surely in sure
            if surely is not None
        )

    return all(map(is_written, reads))


def _box_of_points(
    access: Access, scope: ir.Operation, indices: Indices
) -> list[Run] | None:
    """The box that an access touches while its block goes over all of its points.

    Loops that are cut off by a condition visit no others.

    Returns:
        None for an access outside of the blocks of the scope.
    """
    outer = list(tree.ancestors(access.op))
    block = next(
        (o for o in outer if tree.is_block(o) and tree.scope_of(o) == scope), None
    )
    if block is None:
        return None
    inside = set(tree.subtree(block)) - {block}
    box = regions.region_of(access, indices, inside.__contains__)
    names = [
        indices.symbol(axis) for axis in tree.region_in(block, access.op).arguments
    ]
    starts, extents = tree.axis_starts(block), extents_of(indices, block)
    domain = {
        name: Run(start, start + extent - 1)
        for name, start, extent in zip(names, starts, extents, strict=True)
    }
    return regions.over_domain(box, domain, limits_at(indices, block))


def is_idempotent(
    writer: ir.Operation, buffer: ir.Value, nest: Sequence[ir.Operation]
) -> bool:
    """Whether a block writes the same value to an element in whatever step it writes it.

    The element stands for one point of it, which is computed of what no step changes; and
    nobody else writes the buffer, whose elements have no value before.
    """
    indices = Indices()
    if legality.loop_used_inside(writer) is not None:
        return False
    if not _is_sole_writer(writer, buffer):
        return False
    if not (legality.is_complete(writer) or _sums_in_step(writer, nest)):
        return False
    in_loop = [
        b
        for b in accesses.scope_children(tree.scope_of(writer))
        if nest[0] in tree.enclosing_loops(b)
    ]
    changed = {w for b in in_loop for w in accesses.buffers_written(b)}
    if changed.intersection(accesses.buffers_read(writer)):
        return False
    axes = zip(tree.kinds_of(writer), extents_of(indices, writer), strict=True)
    wanted = {n for n, (kind, e) in enumerate(axes) if kind == "S" and e != 1}
    found = accesses.accesses_in(writer)
    read = {a.buffer for a in found if not a.is_write}
    for made in accesses.buffers_written(writer):
        if made != buffer and made not in read:
            continue
        places = {_place_in(a, writer) for a in found if a.buffer == made}
        if len(places) != 1 or not wanted <= {*(places.pop() or ())}:
            return False
    return True


def _place_in(access: Access, block: ir.Operation) -> tuple[int | None, ...] | None:
    """The axis of a block that each index of an access is, if it is one."""
    if access.is_opaque:
        return None
    count = len(tree.kinds_of(block))
    arguments = [a for r in block.regions for b in r.blocks for a in b.arguments]
    return tuple(
        arguments.index(v) % count if v in arguments else None
        for v in access.index_values
    )


def _sums_in_step(writer: ir.Operation, nest: Sequence[ir.Operation]) -> bool:
    """Whether a block makes whole sums in each step of loops around it."""
    indices = Indices()
    loops = tree.enclosing_loops(writer)
    names = [indices.symbol(loop_var(loop)) for loop in loops]
    number = loops.index(nest[-1]) + 1
    reduced = _loops_of_axes(writer, indices, "R")
    used = reduced | _loops_of_axes(writer, indices, "S")
    repeating = [
        loop
        for loop, name in zip(loops[number:], names[number:], strict=True)
        if name not in used and loop_bounds(indices, loop)[1] != 1
    ]
    return (
        tree.init_of(writer) is not None
        and not set(tree.kinds_of(writer)) - {"S", "R"}
        and tree.guard_of(writer) is None
        and not reduced.intersection(names[:number])
        and not repeating
        and number < len(loops)
        and legality.has_affine_bindings(writer, below=loops[number], may_overlap=False)
    )


def _is_sole_writer(writer: ir.Operation, buffer: ir.Value) -> bool:
    scope = tree.scope_of(writer)
    is_own = buffer in accesses.own_buffers(scope)
    return is_own and accesses.writers_of(scope, buffer) == [writer]


def _loops_of_axes(block: ir.Operation, indices: Indices, kinds: str) -> set[str]:
    """The symbols that the bindings of axes of some kinds mention."""
    pairs = zip(tree.bindings(block), tree.kinds_of(block), strict=True)
    return {n for v, k in pairs if k in kinds for n in symbols_of(indices.of(v))}


# Loops whose steps change their order.


def check_none_carried(
    nest: Sequence[ir.Operation], where: str, *, in_lockstep: bool = False
) -> None:
    """Refuse loops that carry a dependence: their steps are to run in any order, or at once.

    Args:
        nest: loops around one another, outermost first.
        in_lockstep: whether all steps complete a statement before one begins the next, as
            threads do that wait for one another.

    Raises:
        ScheduleError: a statement may touch what one writes in another step.
    """
    _check_pairs(nest, where, lambda carrying: not carrying, in_lockstep=in_lockstep)


def check_reordered(
    nest: Sequence[ir.Operation], order: Sequence[ir.Operation], where: str
) -> None:
    """Refuse an order of loops in which dependences might point backwards.

    Args:
        nest: loops around one another, outermost first.
        order: the same loops as they shall be.

    Raises:
        ScheduleError: loops that carry a dependence between the same two accesses would
            change their order.
    """

    def is_kept(carrying: Sequence[ir.Operation]) -> bool:
        return list(carrying) == [loop for loop in order if loop in carrying]

    _check_pairs(nest, where, is_kept)


def _check_pairs(
    nest: Sequence[ir.Operation],
    where: str,
    allows: Callable[[Sequence[ir.Operation]], bool],
    *,
    in_lockstep: bool = False,
) -> None:
    """Refuse what loops carry between two accesses, unless it changes nothing."""
    indices = Indices()
    for buffer, found in _touches(nest[-1]):
        written = any(t.access.is_write for t in found)
        if not written or allows(
            carrying_loops([t.access for t in found], nest, indices)
        ):
            continue
        if in_lockstep and _is_private(buffer, found, nest[-1], indices):
            continue
        for first, second in combinations_with_replacement(found, 2):
            if not (first.access.is_write or second.access.is_write):
                continue
            carrying = carrying_loops([first.access, second.access], nest, indices)
            if (
                allows(carrying)
                or _is_reduction(
                    first, second, carrying, indices, in_lockstep=in_lockstep
                )
                or _changes_nothing(
                    first, second, nest, indices, in_lockstep=in_lockstep
                )
            ):
                continue
            writer, other = (
                (first, second) if first.access.is_write else (second, first)
            )
            raise ScheduleError(
                f"{where}: {_describe(other.unit)} may touch elements of "
                f"`{accesses.buffer_name(buffer)}` that {_describe(writer.unit)} writes "
                f"in another step of {tree.describe(carrying[0])}: expected steps that do "
                "not depend on one another"
            )


def _describe(unit: ir.Operation) -> str:
    return tree.describe(unit) if tree.is_block(unit) else "a condition or a bound"


def _is_reduction(
    first: _Touch,
    second: _Touch,
    carrying: Sequence[ir.Operation],
    indices: Indices,
    *,
    in_lockstep: bool,
) -> bool:
    """Whether steps combine values into an element, for which a reduce axis takes any order.

    Of several buffers together, as of a maximum and its place, the first of equal values
    counts; threads take any.
    """
    block = first.unit
    if second.unit != block or not tree.is_block(block):
        return False
    if len(accesses.buffers_written(block)) > 1 and not in_lockstep:
        return False
    loops = {indices.symbol(loop_var(loop)) for loop in carrying}
    reduced = _loops_of_axes(block, indices, "R")
    if not loops <= reduced - _loops_of_axes(block, indices, "SCO"):
        return False
    found = _accesses_of(block, first.access.buffer)
    if any(a.is_opaque for a in found):
        return True  # an intrinsic is taken at its word
    updates = [a for a in found if not _is_of_start(a, block)]
    places = [
        {a.indices(indices) for a in updates if a.is_write == is_write}
        for is_write in (True, False)
    ]
    return len(places[0]) == 1 and places[0] == places[1]


def _changes_nothing(
    first: _Touch,
    second: _Touch,
    nest: Sequence[ir.Operation],
    indices: Indices,
    *,
    in_lockstep: bool,
) -> bool:
    """Whether each step that writes an element writes the same, before it reads it.

    Args:
        first, second: accesses in the order in which they stand.
        in_lockstep: whether one step may read what another one writes.
    """
    writer, other = first, second
    if not writer.access.is_write:
        if writer.unit != other.unit:
            return False
        writer, other = other, writer
    if not tree.is_block(writer.unit) or not is_idempotent(
        writer.unit, writer.access.buffer, nest
    ):
        return False
    if other.access.is_write or other.unit == writer.unit or in_lockstep:
        return True
    place = tree.common_place(writer.unit, [other.unit])
    return is_covered([other.access], writer.unit, place, indices)


def _is_private(
    buffer: ir.Value, found: Sequence[_Touch], loop: ir.Operation, indices: Indices
) -> bool:
    """Whether threads have a buffer each, and write what they read of it before."""
    if accesses.storage_scope(buffer) != "local":
        return False
    if len(_accesses_of(tree.function_of(loop), buffer)) != len(found):
        return False
    for number, touch in enumerate(found):
        writers = [
            t.unit
            for t in found[:number]
            if t.access.is_write and tree.is_block(t.unit) and t.unit != touch.unit
        ]
        if not (
            touch.access.is_write
            or (tree.is_block(touch.unit) and _sums_in_step(touch.unit, [loop]))
            or any(
                is_covered(
                    [touch.access], w, tree.common_place(w, [touch.unit]), indices
                )
                for w in writers
            )
        ):
            return False
    return True


# Blocks that are computed somewhere else.


def check_computed_later(block: ir.Operation, where: str) -> None:
    """Refuse to compute a block where its results are read, if it then reads other values.

    That is so where a block in front of it, in a loop around both, writes what it reads
    anew in the next step: the loop carries an anti-dependence. A prefix sum is such a pair.

    Raises:
        ScheduleError: elements may change, after the block has read them for the last time.
    """
    scope, loops = tree.scope_of(block), tree.enclosing_loops(block)
    blocks = accesses.scope_children(scope)
    indices = Indices()
    made = accesses.buffers_written(block)
    results = [
        t
        for buffer, found in _touches(scope)
        for t in found
        if buffer in made and not t.access.is_write and t.unit != block
    ]
    before = blocks[: blocks.index(block)]
    for change in _changes_between_steps(block, before, loops, indices):
        if not all(
            _keeps_values(block, result, change.found, change.shared, indices)
            for result in results
        ):
            raise ScheduleError(
                f"{where}: {tree.describe(change.writer)} may overwrite "
                f"`{accesses.buffer_name(change.buffer)}` in each step of "
                f"{tree.describe(change.shared[0])}, after {tree.describe(block)} has "
                f"read it: expected that {tree.describe(block)} may be computed later"
            )


@dataclass(frozen=True)
class _Change:
    """What a block reads, and another one may write anew in each step.

    Attributes:
        writer: the other block.
        buffer: what it writes.
        found: the reads of the block, and the writes of the other one, of the buffer.
        shared: the loops around both.
    """

    writer: ir.Operation
    buffer: ir.Value
    found: Sequence[Access]
    shared: Sequence[ir.Operation]


def _changes_between_steps(
    block: ir.Operation,
    others: Sequence[ir.Operation],
    loops: Sequence[ir.Operation],
    indices: Indices,
) -> Iterator[_Change]:
    """What some blocks may change, from step to step of loops, of what a block reads."""
    read = [a for a in accesses.accesses_with_conditions(block) if not a.is_write]
    for other in others:
        shared = [loop for loop in loops if loop in tree.enclosing_loops(other)]
        for buffer in accesses.buffers_written(other) if shared else ():
            found = [a for a in read if a.buffer == buffer]
            if not found or is_idempotent(other, buffer, shared):
                continue
            found += [a for a in _accesses_of(other, buffer) if a.is_write]
            if carrying_loops(found, shared, indices):
                yield _Change(other, buffer, found, shared)


def _keeps_values(
    block: ir.Operation,
    result: _Touch,
    found: Sequence[Access],
    shared: Sequence[ir.Operation],
    indices: Indices,
) -> bool:
    """Whether what a block reads changes no more before its result is read.

    Args:
        found: the reads of the block, and the writes of one in front of it, of a buffer.
        shared: the loops around both.
    """
    around = set(tree.ancestors(result.unit))
    left = [loop for loop in shared if loop not in around]
    if len(left) < len(shared) and not is_covered(
        [result.access], block, tree.common_place(block, [result.unit]), indices
    ):
        return False  # it may be the result of an earlier step
    if not left:
        return True
    # In the other loops it computes the same again, and the last step counts.
    moving = _loops_used(block, left)
    return not any(loop in moving for loop in carrying_loops(found, left, indices))


def _loops_used(
    block: ir.Operation, loops: Sequence[ir.Operation]
) -> list[ir.Operation]:
    """The loops on which a block, its axes, its conditions and inner loops depend.

    All of them, where it depends on what was read from memory.
    """
    seen, loads = accesses.operands_around(block)
    if loads:
        return list(loops)
    return [loop for loop in loops if loop_var(loop) in seen]


def _accesses_of(block: ir.Operation, buffer: ir.Value) -> list[Access]:
    return [a for a in accesses.accesses_in(block) if a.buffer == buffer]


def check_keeps_order(
    block: ir.Operation, last: Sequence[ir.Operation], where: str
) -> None:
    """Refuse to compute a block somewhere else in its scope than where it stands.

    Args:
        last: the blocks up to which it is computed; itself if it moves forward.

    Raises:
        ScheduleError: another block reads, in front of it, what it writes; or writes,
            behind it, what it reads.
    """
    scope = tree.scope_of(block)
    blocks = accesses.scope_children(scope)
    number = blocks.index(block)
    read = accesses.buffers_read_with_conditions(block)
    pairs = [(o, block, accesses.buffers_written(block)) for o in blocks[:number]]
    # In a loop, what stands behind the last one comes before its next step.
    held = {op for b in last for op in tree.subtree(tree.child_of(scope, b))}
    end = max((n for n, other in enumerate(blocks) if other in held), default=number)
    behind = blocks[number + 1 : end + 1]
    pairs += [(block, other, accesses.buffers_written(other)) for other in behind]
    for first, second, changed in pairs:
        found = read if first == block else accesses.buffers_read_with_conditions(first)
        clash = [b for b in changed if b in found]
        if clash:
            raise ScheduleError(
                f"{where}: {tree.describe(first)} reads "
                f"`{accesses.buffer_name(clash[0])}` before {tree.describe(second)} writes "
                f"it: expected that {tree.describe(block)} may be computed elsewhere"
            )


def check_computed_earlier(
    block: ir.Operation, kept: Sequence[ir.Operation], where: str
) -> None:
    """Refuse to compute a block before the loops around it, if others see that.

    Another block behind it, in a loop around both, would come after all of its steps: the
    loop carries a dependence on a later step of the block.

    Args:
        kept: the loops that stay around it.

    Raises:
        ScheduleError: another block may touch what it writes in a later step, or write
            what it reads then.
    """
    loops = [loop for loop in tree.enclosing_loops(block) if loop not in kept]
    blocks = accesses.scope_children(tree.scope_of(block))
    indices = Indices()
    own = accesses.accesses_with_conditions(block)
    for other in blocks[blocks.index(block) + 1 :]:
        shared = [loop for loop in loops if loop in tree.enclosing_loops(other)]
        for buffer in {a.buffer for a in own} if shared else ():
            mine = [a for a in own if a.buffer == buffer]
            theirs = [
                a
                for a in accesses.accesses_with_conditions(other)
                if a.buffer == buffer
            ]
            if not any(a.is_write for a in mine):
                theirs = [a for a in theirs if a.is_write]
            if theirs and carrying_loops([*mine, *theirs], shared, indices):
                raise ScheduleError(
                    f"{where}: {tree.describe(other)} touches "
                    f"`{accesses.buffer_name(buffer)}` in steps of "
                    f"{tree.describe(shared[0])} before {tree.describe(block)} does in "
                    f"later ones: expected that {tree.describe(block)} may be computed "
                    "before the loop"
                )


def check_alone(producer: ir.Operation, consumer: ir.Operation, where: str) -> None:
    """Refuse to compute a consumer in each step of its producer, if others see that.

    Others are the producer itself, and blocks between both or in loops around one of them.

    Raises:
        ScheduleError: another one touches what the consumer writes, or writes what it
            reads.
    """
    check_unconditional(consumer, where)
    place = tree.common_place(producer, [consumer])
    ends = [tree.child_of(place, tree.realize_of(o)) for o in (producer, consumer)]
    statements = tree.statements(ends[0].block)
    first, last = (statements.index(end) for end in ends)
    read = accesses.buffers_read_with_conditions(consumer)
    written = accesses.buffers_written(consumer)
    own = accesses.buffers_written(producer)
    for statement in statements[first : last + 1]:
        for other in (
            [statement] if tree.is_block(statement) else tree.blocks_below(statement)
        ):
            if other == consumer:
                continue
            made = accesses.buffers_written(other)
            used = accesses.buffers_read_with_conditions(other)
            clash = [b for b in made if b in (*read, *written)]
            clash += [b for b in used if b in written]
            if other == producer:
                clash = [b for b in clash if b not in own]
            if clash:
                raise ScheduleError(
                    f"{where}: {tree.describe(other)} is computed between "
                    f"{tree.describe(producer)} and {tree.describe(consumer)}, and uses "
                    f"`{accesses.buffer_name(clash[0])}`, too"
                )


def check_recomputed(
    block: ir.Operation, producers: Sequence[ir.Operation], where: str
) -> None:
    """Refuse to compute all points of a block in each step of loops around it.

    Raises:
        ScheduleError: such a loop, which tells points of the block, carries a dependence
            on what its producers write.
    """
    indices = Indices()
    loops = tree.enclosing_loops(block)
    for producer in producers:
        shared = [loop for loop in loops if loop in tree.enclosing_loops(producer)]
        moving = _loops_used(block, shared)
        for buffer in accesses.buffers_written(producer) if moving else ():
            read = [a for a in _accesses_of(block, buffer) if not a.is_write]
            if not read or is_idempotent(producer, buffer, shared):
                continue
            made = [a for a in _accesses_of(producer, buffer) if a.is_write]
            carrying = carrying_loops([*read, *made], shared, indices)
            if any(loop in moving for loop in carrying):
                raise ScheduleError(
                    f"{where}: {tree.describe(producer)} writes "
                    f"`{accesses.buffer_name(buffer)}` anew in each step of "
                    f"{tree.describe(carrying[0])}: expected that "
                    f"{tree.describe(block)} may be computed in any of them"
                )


def tied_loops(producer: ir.Operation, consumer: ir.Operation) -> list[ir.Operation]:
    """The loops around two blocks in whose steps one reads what the other writes there.

    Each step of them has elements of its own.
    """
    indices = Indices()
    loops = tree.enclosing_loops(producer)
    shared = [loop for loop in tree.enclosing_loops(consumer) if loop in loops]
    tied = list(shared)
    for buffer in accesses.buffers_written(producer) if shared else ():
        found = _accesses_of(consumer, buffer)
        if found:
            found += _accesses_of(producer, buffer)
            carrying = carrying_loops(found, shared, indices)
            tied = [loop for loop in tied if loop not in carrying]
    return tied


def check_same_in_all_steps(
    block: ir.Operation, nest: Sequence[ir.Operation], where: str
) -> None:
    """Refuse to keep what a block computed in an earlier step of loops around it.

    The elements of a ring that was made of a buffer stand for those of the buffer, of which
    this was asked before.

    Raises:
        ScheduleError: another block may write what it reads anew in each step.
    """
    blocks = accesses.scope_children(tree.scope_of(block))
    others = [other for other in blocks if other != block]
    for change in _changes_between_steps(block, others, nest, Indices()):
        if _is_ring(change.buffer):
            continue
        raise ScheduleError(
            f"{where}: {tree.describe(change.writer)} may write "
            f"`{accesses.buffer_name(change.buffer)}` anew in each step of "
            f"{tree.describe(change.shared[0])}: expected that {tree.describe(block)} "
            "computes an element of the same values in each of them"
        )


def _is_ring(buffer: ir.Value) -> bool:
    owner = buffer.owner
    return not isinstance(owner, ir.Block) and marks.RING in owner.attributes


def kept_loops(
    block: ir.Operation,
    producers: Sequence[ir.Operation],
    around: Sequence[ir.Operation],
) -> list[ir.Operation]:
    """The loops around a block that keep its steps apart when it moves to its producers.

    Each step of such a loop computes the same points as before: the block does not depend
    on the loop, or reads in each step what all producers write in it. In the steps of other
    loops, it computes all points.

    Args:
        around: the loops around the place that it moves to.
    """
    loops = [loop for loop in tree.enclosing_loops(block) if loop in around]
    used = _loops_used(block, loops)
    tied = [tied_loops(producer, block) for producer in producers]
    return [
        loop
        for loop in loops
        if loop not in used or (tied and all(loop in each for each in tied))
    ]


def check_writes_once(block: ir.Operation, where: str) -> None:
    """Refuse to compute the points of a block in another order, if some share an element.

    Raises:
        ScheduleError: the places of what it writes, and reads of that, do not tell all
            spatial axes.
    """
    indices = Indices()
    inside = set(tree.subtree(block)) - {block}
    limits = limits_at(indices, block)
    axes = [
        (n, start, extent)
        for n, (kind, start, extent) in enumerate(
            zip(
                tree.kinds_of(block),
                tree.axis_starts(block),
                extents_of(indices, block),
                strict=True,
            )
        )
        if kind != "R" and extent != 1
    ]
    arguments = tree.body(block).arguments
    counted = [(indices.symbol(arguments[n]), start, e) for n, start, e in axes]
    own = accesses.own_buffers(block)
    touched: dict[ir.Value, list[list[Run]]] = {}
    for access in accesses.accesses_in(block):
        region = tree.region_in(block, access.op).arguments
        same: dict[str, Dim] = {
            indices.symbol(theirs): dims.symbol(indices.symbol(ours))
            for theirs, ours in zip(region, arguments, strict=True)
        }
        box = regions.region_of(access, indices, inside.__contains__)
        moved = [run.mapped(lambda end, s=same: substitute(end, s)) for run in box]
        touched.setdefault(access.buffer, []).append(moved)
    for buffer in accesses.buffers_written(block):
        if buffer in own:
            continue
        box = regions.hull(touched[buffer], limits)
        if box is None or not _are_disjoint_from_0(box, counted, limits):
            raise ScheduleError(
                f"{where}: several points of {tree.describe(block)} may write the same "
                f"element of `{accesses.buffer_name(buffer)}`, or read what another one "
                "writes: expected that each has elements of its own"
            )


def check_unconditional(block: ir.Operation, where: str) -> None:
    """Refuse to compute a block elsewhere whose results decide what its scope executes.

    Raises:
        ScheduleError: a condition, a bound or an axis outside of all blocks reads them.
    """
    scope = tree.scope_of(block)
    written = accesses.buffers_written(block)
    for access in accesses.accesses_in(scope):
        is_outside = tree.scope_of(access.op) == scope and not access.is_write
        is_read = is_outside and access.op.name != "tir.address"
        if is_read and access.buffer in written:
            raise ScheduleError(
                f"{where}: a condition or a bound reads "
                f"`{accesses.buffer_name(access.buffer)}`, which {tree.describe(block)} "
                "writes: expected that blocks alone read it"
            )


# Start values that come first.


def check_start_hoisted(
    block: ir.Operation, loops: Sequence[ir.Operation], where: str
) -> None:
    """Refuse to write the first values of elements in front of loops, if that is seen.

    Args:
        block: writes them, and then others to the same elements.
        loops: those around the block that the first values are written in front of.

    Raises:
        ScheduleError: a step may touch what another one writes first, or another block
            what this one has not surely written before in the same step.
    """
    indices = Indices()
    reduced = _loops_of_axes(block, indices, "R") - _loops_of_axes(
        block, indices, "SCO"
    )
    for buffer in accesses.buffers_written(block):
        found = _accesses_of(block, buffer)
        carrying = carrying_loops(found, loops, indices) if loops else []
        moving = [o for o in carrying if indices.symbol(loop_var(o)) not in reduced]
        is_same = legality.is_complete(block) and is_idempotent(block, buffer, loops)
        if moving and not is_same:
            raise ScheduleError(
                f"{where}: {tree.describe(block)} may touch elements of "
                f"`{accesses.buffer_name(buffer)}` that it writes in another step of "
                f"{tree.describe(moving[0])}: expected that each step has elements of its "
                "own"
            )
        _check_seen_later(block, loops, buffer, where, indices)


def _check_seen_later(
    block: ir.Operation,
    loops: Sequence[ir.Operation],
    buffer: ir.Value,
    where: str,
    indices: Indices,
) -> None:
    """Refuse blocks beside one that may see elements before it has written them."""
    before = True
    for touched, found in _touches(loops[0]) if loops else ():
        if touched != buffer:
            continue
        for touch in found:
            if touch.unit == block:
                before = False
                continue
            if (
                before
                or touch.access.is_write
                or not is_covered(
                    [touch.access],
                    block,
                    tree.common_place(block, [touch.unit]),
                    indices,
                )
            ):
                verb = "write" if touch.access.is_write else "read"
                raise ScheduleError(
                    f"{where}: {_describe(touch.unit)} may {verb} "
                    f"`{accesses.buffer_name(buffer)}` before {tree.describe(block)} sets "
                    f"it to its start value: expected no such block in "
                    f"{tree.describe(loops[0])}"
                )


# Loops that become one.


def check_fusion(nests: Sequence[Sequence[ir.Operation]], where: str) -> None:
    """Refuse to fuse nests one after the other that depend on another step of each other.

    Raises:
        ScheduleError: a step may touch what one of another nest touches in another step.
    """
    indices = Indices()
    first = [indices.symbol(loop_var(loop)) for loop in nests[0]]
    touched: dict[ir.Value, list[tuple[int, bool, list[Run]]]] = {}
    for number, nest in enumerate(nests):
        inside = set(tree.subtree(nest[-1])) - {nest[-1]}
        own = [indices.symbol(loop_var(loop)) for loop in nest]
        same: dict[str, Dim] = dict(zip(own, map(dims.symbol, first), strict=True))
        for access in accesses.accesses_in(nest[-1]):
            box = regions.region_of(access, indices, inside.__contains__)
            moved = [run.mapped(lambda end, s=same: substitute(end, s)) for run in box]
            touched.setdefault(access.buffer, []).append(
                (number, access.is_write, moved)
            )
    found_extents = {
        name: loop_bounds(indices, loop)[1]
        for name, loop in zip(first, nests[0], strict=True)
    }
    steps = {name: extent for name, extent in found_extents.items() if extent != 1}
    limits = limits_at(indices, nests[0][-1])
    for buffer, found in touched.items():
        is_shared = len({number for number, _, _ in found}) > 1
        if not is_shared or not any(is_write for _, is_write, _ in found):
            continue
        (_, _, box), *others = found
        if any(o != box for _, _, o in others) or not are_disjoint(box, steps, limits):
            raise ScheduleError(
                f"{where}: {tree.describe(nests[0][-1])} and those behind it share "
                f"`{accesses.buffer_name(buffer)}`, and one writes it: expected that a "
                "step touches elements of its own, the same in each of the loops"
            )

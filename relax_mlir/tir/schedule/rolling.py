"""The primitive that keeps a buffer in a ring while tiles move over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import dims
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.monomials import Monomial, terms_of
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.dialects.tir import marks
from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import (
    accesses,
    affine,
    dependences,
    edit,
    legality,
    predicates,
    regions,
    tree,
)
from relax_mlir.tir.schedule.axis_conditions import axis_conditions
from relax_mlir.tir.schedule.buffers import retyped
from relax_mlir.tir.schedule.cache import only_writer
from relax_mlir.tir.schedule.indices import Indices, replaced
from relax_mlir.tir.schedule.predicates import Condition
from relax_mlir.tir.schedule.regions import Run
from relax_mlir.tir.schedule.state import (
    ScheduleState,
    limits_at,
    loop_bounds,
    loop_var,
)

__all__ = ["rolling_buffer"]

_WHERE = "rolling_buffer"


@dataclass(frozen=True)
class _Overlap:
    """How far the tiles of one dimension overlap.

    Attributes:
        axis: the dimension.
        loop: the loop that moves the tile.
        count: how many elements two tiles have in common.
    """

    axis: int
    loop: ir.Operation
    count: int


@dataclass(frozen=True)
class _Ring:
    """What of a buffer is kept.

    Attributes:
        buffer: the buffer.
        axis: the dimension that becomes a ring.
        extent: the size of that.
        overlaps: where elements of the tile before are kept.
    """

    buffer: ir.Value
    axis: int
    extent: int
    overlaps: Sequence[_Overlap]


def rolling_buffer(state: ScheduleState, block: ir.Operation, number: int) -> None:
    """Keep what is made of a buffer in a ring; see :meth:`Schedule.rolling_buffer`."""
    legality.check_not_root(block, _WHERE)
    buffer = accesses.buffer_of(block, number, _WHERE, is_write=True)
    scope = tree.scope_of(block)
    legality.check_not_output(block, _WHERE)
    _check_dependences(scope, block, buffer)
    readers = [r for r in accesses.readers_of(scope, buffer) if r != block]
    place = _common_loop(block, readers)
    loops = tree.enclosing_loops(block)
    nest = loops[: loops.index(place) + 1]
    dependences.check_same_in_all_steps(block, nest, _WHERE)
    with state.change(block) as indices:
        _check_predicate(block, indices)
        ring = _ring(block, buffer, place, indices)
        _check_reads(ring, block, readers, place, indices)
        _skip_what_is_kept(ring, block, place, indices)
        for user in [block, *readers]:
            _turn(ring, user, indices)
        shape = list(accesses.buffer_shape(buffer))
        shape[ring.axis] = ring.extent
        mark = {marks.RING: ir.UnitAttr.get()}
        retyped(state, buffer, indices, shape=shape, changed=mark)


def _check_dependences(
    scope: ir.Operation, block: ir.Operation, buffer: ir.Value
) -> None:
    only_writer(scope, buffer, _WHERE)
    if accesses.has_opaque_access(scope, buffer):
        raise ScheduleError(
            f"{_WHERE}: buffer `{accesses.buffer_name(buffer)}` is used by its address or "
            "through `match_buffer`: expected plain reads and writes of its elements"
        )
    siblings = accesses.scope_children(scope)
    for other in siblings[: siblings.index(block)]:
        if buffer in accesses.buffers_read(other):
            raise ScheduleError(
                f"{_WHERE}: {tree.describe(other)} reads "
                f"`{accesses.buffer_name(buffer)}` before {tree.describe(block)} writes it"
            )


def _check_predicate(block: ir.Operation, indices: Indices) -> None:
    """Refuse predicates that leave out elements in some steps alone."""
    axis_conditions(block, indices, _WHERE)
    bound = [indices.of(value) for value in tree.bindings(block)]
    used = {name for value in bound for name in symbols_of(value)}
    loops = {indices.symbol(loop_var(o)) for o in tree.enclosing_loops(block)}
    for condition in predicates.block_conditions(block, indices):
        if set(symbols_of(condition.slack)) & (loops - used):
            raise ScheduleError(
                f"{_WHERE}: the predicate of {tree.describe(block)} leaves out steps of "
                "loops that none of its axes depends on: expected that each step makes "
                "its tile"
            )


def _common_loop(block: ir.Operation, readers: Sequence[ir.Operation]) -> ir.Operation:
    """The innermost loop around a block that holds all its readers, too."""
    for loop in reversed(tree.enclosing_loops(block)):
        if all(loop in tree.ancestors(reader) for reader in readers):
            return loop
    raise ScheduleError(
        f"{_WHERE}: {tree.describe(block)} and its readers stand under no common loop: "
        "expected a block that is computed at a loop of its readers"
    )


def _box(
    block: ir.Operation,
    buffer: ir.Value,
    place: ir.Operation,
    indices: Indices,
    *,
    is_write: bool,
) -> list[Run]:
    """What a block touches of a buffer in one step of a loop."""
    inside = set(tree.subtree(place)) - {place}
    boxes = [
        regions.region_of(access, indices, lambda op: op in inside)
        for access in accesses.accesses_in(block)
        if access.buffer == buffer and access.is_write == is_write
    ]
    found = regions.hull(boxes, limits_at(indices, place))
    assert found is not None
    return found


def _ring(
    block: ir.Operation, buffer: ir.Value, place: ir.Operation, indices: Indices
) -> _Ring:
    loops = {indices.symbol(loop_var(o)): o for o in tree.enclosing_loops(block)}
    box = _box(block, buffer, place, indices, is_write=True)
    overlaps: list[_Overlap] = []
    for axis, run in enumerate(box):
        found = None if isinstance(run.low, int) else _step(run.low)
        if not isinstance(run.low, int) and (found is None or found[0] not in loops):
            raise _unmatched(block, buffer, box)
        if found is not None and isinstance(run.extent, int):
            name, stride = found
            if run.extent > stride:
                overlaps.append(_Overlap(axis, loops[name], run.extent - stride))
    for loop in loops.values():
        rolling = [o for o in overlaps if o.loop == loop]
        if rolling:
            _check_order(overlaps)
            extent = box[rolling[0].axis].extent
            assert isinstance(extent, int)
            return _Ring(buffer, rolling[0].axis, extent, overlaps)
    raise _unmatched(block, buffer, box)


def _step(low: Dim) -> tuple[str, int] | None:
    """The loop of ``loop * step // number``, and the step that it takes, rounded up."""
    parts = [_part(monomial, factor) for monomial, factor in terms_of(low)]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or len({name for name, _ in known}) != 1:
        return None
    return known[0][0], sum(step for _, step in known)


def _part(monomial: Monomial, factor: int) -> tuple[str, int] | None:
    if len(monomial) != 1 or factor <= 0:
        return None
    (atom,) = monomial
    if atom.op == "symbol":
        return atom.text, factor
    if atom.op != "floordiv" or factor != 1 or not isinstance(atom.args[1], int):
        return None
    inner = _step(atom.args[0])
    return None if inner is None else (inner[0], -(-inner[1] // atom.args[1]))


def _unmatched(
    block: ir.Operation, buffer: ir.Value, box: Sequence[Run]
) -> ScheduleError:
    return ScheduleError(
        f"{_WHERE}: {tree.describe(block)} writes tiles of "
        f"`{accesses.buffer_name(buffer)}` that do not roll: expected at least one "
        "dimension in which they begin at a multiple of a loop and overlap, got extents "
        f"{[run.extent for run in box]}"
    )


def _check_order(overlaps: Sequence[_Overlap]) -> None:
    for loop in (overlap.loop for overlap in overlaps):
        if tree.kind_of(loop) not in ("serial", "unrolled"):
            raise ScheduleError(
                f"{_WHERE}: {tree.describe(loop)} is {tree.kind_of(loop)}: expected a "
                "serial loop, whose steps find what those before made"
            )


def _check_reads(
    ring: _Ring,
    block: ir.Operation,
    readers: Sequence[ir.Operation],
    place: ir.Operation,
    indices: Indices,
) -> None:
    """Refuse readers of what the ring no longer holds."""
    made = _box(block, ring.buffer, place, indices, is_write=True)[ring.axis]
    limits, tops = limits_at(indices, place), legality.tops_at(indices, place)
    for reader in readers:
        read = _box(reader, ring.buffer, place, indices, is_write=False)[ring.axis]
        if not legality.is_inside(read, made, limits, tops):
            raise ScheduleError(
                f"{_WHERE}: {tree.describe(reader)} reads more of "
                f"`{accesses.buffer_name(ring.buffer)}` than {tree.describe(block)} makes "
                f"in a step of {tree.describe(place)}"
            )


def _skip_what_is_kept(
    ring: _Ring, block: ir.Operation, step: ir.Operation, indices: Indices
) -> None:
    """Let a block leave out what the tile before made."""
    written = [
        a for a in accesses.accesses_in(block) if a.is_write and a.buffer == ring.buffer
    ]
    place = written[0].indices(indices)
    known = regions.axis_values(block, indices)
    limits = limits_at(indices, tree.parent_of(block))
    found = predicates.block_conditions(block, indices)
    _check_whole([substitute(p, known) for p in place], block, step, indices)
    with edit.point_before(tree.realize_of(block)):
        for overlap in ring.overlaps:
            name = indices.symbol(loop_var(overlap.loop))
            value = substitute(place[overlap.axis], known)
            if not set(symbols_of(value)) <= set(limits):
                raise ScheduleError(
                    f"{_WHERE}: {tree.describe(block)} writes "
                    f"`{accesses.buffer_name(ring.buffer)}` in loops of its own: expected "
                    "one element at each point of its axes"
                )
            first = replaced(value, {name: 0}, limits)
            is_first = Condition("lt", dims.symbol(name), 1)
            is_new = Condition("le", overlap.count, first)
            sides = [
                predicates.emit_conditions([c], indices) for c in (is_first, is_new)
            ]
            either = emit("arith.ori", sides[0].type, *sides)
            found.append(Condition("", value=either))
    predicates.set_predicate(block, found, indices)


def _check_whole(
    place: Sequence[Dim], block: ir.Operation, step: ir.Operation, indices: Indices
) -> None:
    """Refuse tiles of which a step does not make each element."""
    loops = tree.enclosing_loops(block)
    inner = loops[loops.index(step) + 1 :]
    extents = {indices.symbol(loop_var(o)): loop_bounds(indices, o)[1] for o in inner}
    limits = limits_at(indices, tree.parent_of(block))
    if not affine.is_affine(place, extents, limits, may_overlap=True):
        raise ScheduleError(
            f"{_WHERE}: {tree.describe(block)} may leave out elements of a tile in a step "
            f"of {tree.describe(step)}: expected indices that count up in its loops one "
            "by one"
        )


def _turn(ring: _Ring, user: ir.Operation, indices: Indices) -> None:
    """Let a block count the indices of the ring around it."""
    arguments = {indices.symbol(a): n for n, a in enumerate(tree.body(user).arguments)}
    kinds = list(tree.kinds_of(user))
    for access in accesses.accesses_in(user):
        if access.buffer != ring.buffer:
            continue
        number = ring.axis + (2 if access.is_write else 1)
        old = indices.of(access.op.operands[number])
        for name in symbols_of(old):
            if name in arguments and kinds[arguments[name]] == "S":
                kinds[arguments[name]] = "O"
        with edit.point_before(access.op):
            access.op.operands[number] = indices.emit(dims.mod(old, ring.extent))
    user.attributes["kinds"] = ir.StringAttr.get("".join(kinds))

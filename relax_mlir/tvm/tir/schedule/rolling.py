"""The ``rolling_buffer`` primitive: circular buffers for overlapping tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.tir import attribute_names
from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.errors import ScheduleError
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.monomials import Monomial, terms_of
from relax_mlir.symbolic.symbols import substitute, symbols_of
from relax_mlir.tvm.tir.schedule import (
    accesses,
    affine,
    dependences,
    edit,
    legality,
    predicates,
    regions,
    tree,
)
from relax_mlir.tvm.tir.schedule.axis_conditions import iter_conditions
from relax_mlir.tvm.tir.schedule.buffers import replace_buffer_type
from relax_mlir.tvm.tir.schedule.cache import only_writer
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols, substitute_and_simplify
from relax_mlir.tvm.tir.schedule.predicates import Condition
from relax_mlir.tvm.tir.schedule.regions import Interval
from relax_mlir.tvm.tir.schedule.state import (
    ScheduleState,
    limits_at,
    loop_bounds,
    loop_var,
)

__all__ = ["rolling_buffer"]

_WHERE = "rolling_buffer"


@dataclass(frozen=True)
class _Overlap:
    """The overlap of consecutive tiles in one dimension.

    Attributes:
        axis: the dimension.
        loop: the loop that moves the tile.
        count: the number of elements that consecutive tiles share.
    """

    axis: int
    loop: ir.Operation
    count: int


@dataclass(frozen=True)
class _CircularBuffer:
    """The circular buffer that replaces a buffer.

    Attributes:
        buffer: the buffer.
        axis: the circular dimension.
        extent: its new size.
        overlaps: the overlaps with the previous tile.
    """

    buffer: ir.Value
    axis: int
    extent: int
    overlaps: Sequence[_Overlap]


def rolling_buffer(state: ScheduleState, block: ir.Operation, number: int) -> None:
    """Make a buffer circular; see :meth:`Schedule.rolling_buffer`."""
    legality.check_not_root(block, _WHERE)
    buffer = accesses.buffer_at_index(block, number, _WHERE, is_write=True)
    scope = tree.scope_of(block)
    legality.check_not_output(block, _WHERE)
    _check_dependences(scope, block, buffer)
    readers = [r for r in accesses.readers_of(scope, buffer) if r != block]
    common_loop = _common_loop(block, readers)
    loops = tree.enclosing_loops(block)
    nest = loops[: loops.index(common_loop) + 1]
    dependences.check_reuse_across_iterations(block, nest, _WHERE)
    with state.change(block) as indices:
        _check_predicate(block, indices)
        circular = _circular_buffer(block, buffer, common_loop, indices)
        _check_reads(circular, block, readers, common_loop, indices)
        _predicate_new_elements(circular, block, common_loop, indices)
        dependences.check_injective_writes(block, _WHERE)
        for user in [block, *readers]:
            _wrap_indices(circular, user, indices)
        shape = list(accesses.buffer_shape(buffer))
        shape[circular.axis] = circular.extent
        mark = {attribute_names.RING: ir.UnitAttr.get()}
        replace_buffer_type(state, buffer, indices, shape=shape, changed=mark)


def _check_dependences(
    scope: ir.Operation, block: ir.Operation, buffer: ir.Value
) -> None:
    only_writer(scope, buffer, _WHERE)
    if accesses.has_opaque_access(scope, buffer):
        raise ScheduleError(
            f"{_WHERE}: buffer `{accesses.buffer_name(buffer)}` is used by its address or "
            "through `match_buffer`: expected plain reads and writes of its elements"
        )
    siblings = accesses.child_blocks(scope)
    for other in siblings[: siblings.index(block)]:
        if buffer in accesses.buffers_read(other):
            raise ScheduleError(
                f"{_WHERE}: {tree.describe(other)} reads "
                f"`{accesses.buffer_name(buffer)}` before {tree.describe(block)} writes it"
            )


def _check_predicate(block: ir.Operation, indices: IndexSymbols) -> None:
    """Reject predicates that exclude elements only in some iterations."""
    iter_conditions(block, indices, _WHERE)
    bindings = [indices.of(value) for value in tree.bindings(block)]
    used = {name for value in bindings for name in symbols_of(value)}
    loops = {indices.symbol(loop_var(o)) for o in tree.enclosing_loops(block)}
    for condition in predicates.block_conditions(block, indices):
        if set(symbols_of(condition.slack)) & (loops - used):
            raise ScheduleError(
                f"{_WHERE}: the predicate of {tree.describe(block)} excludes iterations of "
                "loops that none of its iter vars depends on: expected that each iteration "
                "computes its tile"
            )


def _common_loop(block: ir.Operation, readers: Sequence[ir.Operation]) -> ir.Operation:
    """The innermost loop around a block and all its readers."""
    for loop in reversed(tree.enclosing_loops(block)):
        if all(loop in tree.ancestors(reader) for reader in readers):
            return loop
    raise ScheduleError(
        f"{_WHERE}: {tree.describe(block)} and its readers have no common loop: "
        "expected a block that is computed at a loop of its readers"
    )


def _box(
    block: ir.Operation,
    buffer: ir.Value,
    loop: ir.Operation,
    indices: IndexSymbols,
    *,
    is_write: bool,
) -> list[Interval]:
    """The box that a block accesses in one iteration of a loop."""
    inside = set(tree.subtree(loop)) - {loop}
    boxes = [
        regions.accessed_box(access, indices, lambda op: op in inside)
        for access in accesses.accesses_in(block)
        if access.buffer == buffer and access.is_write == is_write
    ]
    found = regions.bounding_box(boxes, limits_at(indices, loop))
    assert found is not None
    return found


def _circular_buffer(
    block: ir.Operation,
    buffer: ir.Value,
    common_loop: ir.Operation,
    indices: IndexSymbols,
) -> _CircularBuffer:
    loops = {indices.symbol(loop_var(o)): o for o in tree.enclosing_loops(block)}
    box = _box(block, buffer, common_loop, indices, is_write=True)
    overlaps: list[_Overlap] = []
    for axis, interval in enumerate(box):
        found = None if isinstance(interval.low, int) else _loop_stride(interval.low)
        if not isinstance(interval.low, int) and (
            found is None or found[0] not in loops
        ):
            raise _unmatched(block, buffer, box)
        if found is not None and isinstance(interval.extent, int):
            name, stride = found
            if interval.extent > stride:
                overlaps.append(_Overlap(axis, loops[name], interval.extent - stride))
    for loop in loops.values():
        rolling = [o for o in overlaps if o.loop == loop]
        if rolling:
            _check_order(overlaps)
            extent = box[rolling[0].axis].extent
            assert isinstance(extent, int)
            return _CircularBuffer(buffer, rolling[0].axis, extent, overlaps)
    raise _unmatched(block, buffer, box)


def _loop_stride(low: Dim) -> tuple[str, int] | None:
    """The loop and the stride, rounded up, of an expression ``loop * stride // divisor``."""
    strides = [_term_stride(monomial, factor) for monomial, factor in terms_of(low)]
    known = [part for part in strides if part is not None]
    if len(known) < len(strides) or len({name for name, _ in known}) != 1:
        return None
    return known[0][0], sum(step for _, step in known)


def _term_stride(monomial: Monomial, factor: int) -> tuple[str, int] | None:
    if len(monomial) != 1 or factor <= 0:
        return None
    (atom,) = monomial
    if atom.op == "symbol":
        return atom.text, factor
    if atom.op != "floordiv" or factor != 1 or not isinstance(atom.args[1], int):
        return None
    inner = _loop_stride(atom.args[0])
    return None if inner is None else (inner[0], -(-inner[1] // atom.args[1]))


def _unmatched(
    block: ir.Operation, buffer: ir.Value, box: Sequence[Interval]
) -> ScheduleError:
    return ScheduleError(
        f"{_WHERE}: {tree.describe(block)} writes tiles of "
        f"`{accesses.buffer_name(buffer)}` that do not roll: expected at least one "
        "dimension in which they start at a multiple of a loop variable and overlap, got "
        f"extents {[interval.extent for interval in box]}"
    )


def _check_order(overlaps: Sequence[_Overlap]) -> None:
    for loop in (overlap.loop for overlap in overlaps):
        if tree.loop_kind(loop) not in ("serial", "unrolled"):
            raise ScheduleError(
                f"{_WHERE}: {tree.describe(loop)} is {tree.loop_kind(loop)}: expected a "
                "serial loop, whose iterations read what earlier ones wrote"
            )


def _check_reads(
    circular: _CircularBuffer,
    block: ir.Operation,
    readers: Sequence[ir.Operation],
    common_loop: ir.Operation,
    indices: IndexSymbols,
) -> None:
    """Reject readers of elements that the circular buffer no longer holds."""
    written = _box(block, circular.buffer, common_loop, indices, is_write=True)[
        circular.axis
    ]
    limits, upper_bounds = (
        limits_at(indices, common_loop),
        legality.upper_bounds_at(indices, common_loop),
    )
    for reader in readers:
        read = _box(reader, circular.buffer, common_loop, indices, is_write=False)[
            circular.axis
        ]
        if not legality.is_interval_inside(read, written, limits, upper_bounds):
            raise ScheduleError(
                f"{_WHERE}: {tree.describe(reader)} reads more of "
                f"`{accesses.buffer_name(circular.buffer)}` than {tree.describe(block)} writes "
                f"in an iteration of {tree.describe(common_loop)}"
            )


def _predicate_new_elements(
    circular: _CircularBuffer,
    block: ir.Operation,
    common_loop: ir.Operation,
    indices: IndexSymbols,
) -> None:
    """Predicate a block to compute only elements that the previous tile did not."""
    written = [
        a
        for a in accesses.accesses_in(block)
        if a.is_write and a.buffer == circular.buffer
    ]
    element_indices = written[0].indices(indices)
    known = regions.binding_values(block, indices)
    limits = limits_at(indices, tree.parent_of(block))
    found = predicates.block_conditions(block, indices)
    _check_whole(
        [substitute(p, known) for p in element_indices], block, common_loop, indices
    )
    with edit.insertion_point_before(tree.realize_of(block)):
        for overlap in circular.overlaps:
            name = indices.symbol(loop_var(overlap.loop))
            value = substitute(element_indices[overlap.axis], known)
            if not set(symbols_of(value)) <= set(limits):
                raise ScheduleError(
                    f"{_WHERE}: {tree.describe(block)} writes "
                    f"`{accesses.buffer_name(circular.buffer)}` in loops of its own: expected "
                    "one element in each instance"
                )
            first = substitute_and_simplify(value, {name: 0}, limits)
            is_first = Condition("lt", dims.symbol(name), 1)
            is_new = Condition("le", overlap.count, first)
            alternatives = [
                predicates.emit_conditions([c], indices) for c in (is_first, is_new)
            ]
            is_needed = emit("arith.ori", alternatives[0].type, *alternatives)
            found.append(Condition("", value=is_needed))
    predicates.set_predicate(block, found, indices)


def _check_whole(
    element_indices: Sequence[Dim],
    block: ir.Operation,
    common_loop: ir.Operation,
    indices: IndexSymbols,
) -> None:
    """Reject tiles that an iteration does not write completely."""
    loops = tree.enclosing_loops(block)
    inner = loops[loops.index(common_loop) + 1 :]
    extents = {indices.symbol(loop_var(o)): loop_bounds(indices, o)[1] for o in inner}
    limits = limits_at(indices, tree.parent_of(block))
    if not affine.is_affine(element_indices, extents, limits, may_overlap=True):
        raise ScheduleError(
            f"{_WHERE}: {tree.describe(block)} may leave out elements of a tile in an "
            f"iteration of {tree.describe(common_loop)}: expected indices without gaps in its loops"
        )


def _wrap_indices(
    circular: _CircularBuffer, user: ir.Operation, indices: IndexSymbols
) -> None:
    """Reduce the indices of a block modulo the size of the circular buffer."""
    arguments = {indices.symbol(a): n for n, a in enumerate(tree.body(user).arguments)}
    kinds = list(tree.iter_kinds(user))
    for access in accesses.accesses_in(user):
        if access.buffer != circular.buffer:
            continue
        number = circular.axis + (2 if access.is_write else 1)
        old = indices.of(access.op.operands[number])
        for name in symbols_of(old):
            if name in arguments and kinds[arguments[name]] == "S":
                kinds[arguments[name]] = "O"
        with edit.insertion_point_before(access.op):
            access.op.operands[number] = indices.emit(dims.mod(old, circular.extent))
    user.attributes["kinds"] = ir.StringAttr.get("".join(kinds))

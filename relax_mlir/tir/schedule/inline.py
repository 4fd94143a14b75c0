"""Primitives that put a block into those that read it, or into the one that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir import rewriting
from relax_mlir.dialects import dims
from relax_mlir.dialects.dim_bounds import is_known_le
from relax_mlir.dialects.dims import Dim
from relax_mlir.errors import ScheduleError
from relax_mlir.indexing import constant_of
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
from relax_mlir.tir.schedule.indices import (
    Indices,
    Limits,
    emit_constant,
    replaced,
    simplify,
)
from relax_mlir.tir.schedule.predicates import Condition
from relax_mlir.tir.schedule.state import ScheduleState, extents_of, limits_at
from relax_mlir.traversal import only_store, own_operations

__all__ = ["check_inline", "compute_inline", "reverse_compute_inline"]


@dataclass(frozen=True)
class _Statement:
    """The one store that a block consists of.

    Attributes:
        computation: what computes its value and its indices.
        store: the store.
    """

    computation: Sequence[ir.OpView]
    store: ir.Operation

    @property
    def value(self) -> ir.Value:
        """What is stored."""
        return self.store.operands[0]

    @property
    def buffer(self) -> ir.Value:
        """Where to."""
        return self.store.operands[1]

    @property
    def index_values(self) -> list[ir.Value]:
        """Where in it."""
        return list(self.store.operands)[2:]


def _only_store(block: ir.Operation, where: str) -> _Statement:
    """The store that is all that a block does.

    Raises:
        ScheduleError: it does something else.
    """
    *operations, _ = own_operations(tree.body(block))
    store = only_store(tree.body(block))
    is_plain = all(
        tree.is_pure(op.operation)
        or op.operation.name in ("memref.load", "memref.store", "scf.if")
        for op in operations
    )
    if store is None or not is_plain or tree.init_of(block) is not None:
        raise ScheduleError(
            f"{where}: {tree.describe(block)}: expected a body that is one store of an "
            "element, without a start value"
        )
    rest = [op for op in operations if op != store]
    return _Statement(rest, store.operation)


def _check_plain_access(block: ir.Operation, buffer: ir.Value, where: str) -> None:
    scope = tree.scope_of(block)
    if accesses.has_opaque_access(scope, buffer):
        raise ScheduleError(
            f"{where}: buffer `{accesses.buffer_name(buffer)}` is used by its address or "
            "through `match_buffer`: expected plain reads and writes of its elements"
        )


def _check_only_reads(
    loads: Sequence[ir.Operation], buffer: ir.Value, where: str
) -> None:
    """Refuse other reads of a buffer that nobody writes any more.

    In a loop one may stand in front of the block that writes it.
    """
    for access in accesses.accesses_in(tree.function_of(loads[0])):
        if access.buffer == buffer and not access.is_write and access.op not in loads:
            raise ScheduleError(
                f"{where}: {tree.describe(tree.scope_of(access.op))} reads "
                f"`{accesses.buffer_name(buffer)}`, too: expected a single consumer"
            )


def _check_not_alone(block: ir.Operation, where: str) -> None:
    """A scope must hold something after the block is gone."""
    if len(tree.blocks_below(tree.scope_of(block))) == 1:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} is the only leaf in its scope"
        )


def check_inline(block: ir.Operation) -> tuple[_Statement, dict[ir.Value, int]]:
    """What a block stores, and the dimension that each of its axes is the index of.

    Raises:
        ScheduleError: it cannot be computed where its result is read.
    """
    where = "compute_inline"
    legality.check_not_root(block, where)
    legality.check_complete(block, where)
    written = accesses.buffers_written(block)
    if len(written) != 1:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} writes {len(written)} buffers: expected one"
        )
    legality.check_not_output(block, where)
    _check_plain_access(block, written[0], where)
    dependences.check_keeps_order(block, accesses.consumers_of(block), where)
    dependences.check_computed_later(block, where)
    legality.check_self_contained(block, where)
    _check_not_alone(block, where)
    statement = _only_store(block, where)
    return statement, _axis_places(block, statement, where)


def compute_inline(state: ScheduleState, block: ir.Operation) -> None:
    """Put a block into its consumers; see :meth:`Schedule.compute_inline`."""
    statement, places = check_inline(block)
    with state.change(block):
        _inline_reads(block, statement, places)
        buffer = statement.buffer
        state.erase_alone(tree.realize_of(block))
        erase_unused(buffer)


def _check_no_predicate(block: ir.Operation, where: str) -> None:
    if tree.guard_of(block) is not None:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} has a predicate (`T.where`): expected none"
        )


def _axis_places(
    block: ir.Operation, statement: _Statement, where: str
) -> dict[ir.Value, int]:
    """The dimension of the buffer that each axis of the block is the index of."""
    indices = Indices()
    extents = extents_of(indices, block)
    axes = list(tree.body(block).arguments)
    places: dict[ir.Value, int] = {}
    for number, value in enumerate(statement.index_values):
        if value in axes and value not in places:
            places[value] = number
        elif constant_of(value) is None:
            break
    starts = tree.axis_starts(block)
    domains = zip(axes, starts, extents, strict=True)
    used = [a for a, start, extent in domains if (start, extent) != (0, 1)]
    constants = sum(constant_of(v) is not None for v in statement.index_values)
    if len(places) + constants != len(statement.index_values) or any(
        axis not in places for axis in used
    ):
        raise ScheduleError(
            f"{where}: {tree.describe(block)}: expected a store whose indices are its "
            "axes, each once"
        )
    return places


def _inline_reads(
    block: ir.Operation, statement: _Statement, places: Mapping[ir.Value, int]
) -> None:
    """Compute what a block stores wherever it is read."""
    axes = list(tree.body(block).arguments)
    for use in list(statement.buffer.uses):
        load = use.owner.operation
        if load.name != "memref.load":
            continue
        read = list(load.operands)[1:]
        with ir.InsertionPoint(load), load.location:
            mapping: dict[ir.Value, ir.Value] = {
                a: read[places[a]] if a in places else emit_constant(0) for a in axes
            }
            value = _clone_value(statement, mapping)
        _replace_load(load, value)


def _clone_value(statement: _Statement, mapping: dict[ir.Value, ir.Value]) -> ir.Value:
    """What a statement stores, computed at the insertion point."""
    for op in statement.computation:
        rewriting.clone(op, mapping)
    return mapping.get(statement.value, statement.value)


def _replace_load(load: ir.Operation, value: ir.Value) -> None:
    """Put a value in place of an element that is read; truth values stay such."""
    owner = value.owner
    is_truth = not isinstance(owner, ir.Block) and owner.name == "arith.extui"
    for use in list(load.results[0].uses):
        user = use.owner.operation
        if is_truth and user.name == "arith.cmpi":
            rewriting.replace(user, owner.operands[0])
    rewriting.replace(load, value)


def erase_unused(buffer: ir.Value) -> None:
    """Erase an allocation that nobody uses."""
    owner = buffer.owner
    if not isinstance(owner, ir.Block) and not rewriting.has_uses(buffer):
        rewriting.erase(owner.operation)


def reverse_compute_inline(state: ScheduleState, block: ir.Operation) -> None:
    """Put a block into its producer; see :meth:`Schedule.reverse_compute_inline`."""
    where = "reverse_compute_inline"
    legality.check_not_root(block, where)
    legality.check_axis_starts(block, where)
    legality.check_complete(block, where)
    _check_not_alone(block, where)
    statement = _only_store(block, where)
    producer, loads = _producer(block, where)
    buffer = loads[0].operands[0]
    _check_plain_access(block, buffer, where)
    _check_only_reads(loads, buffer, where)
    dependences.check_keeps_order(block, [block], where)
    dependences.check_unconditional(block, where)
    dependences.check_writes_once(block, where)
    kept = dependences.tied_loops(producer, block)
    dependences.check_computed_earlier(block, kept, where)
    legality.check_self_contained(block, where)
    target = _only_store(producer, where)
    with state.change(block) as indices:
        values, bounds = _inverted(block, loads[0], where, indices)
        _check_no_predicate(block, where)
        _check_covers(producer, target, block, loads[0], indices)
        loads = list(map(_hoisted, loads))
        _leave_out(producer, target, bounds, indices)
        _store_result(block, statement, target, loads, values)
        state.erase_alone(tree.realize_of(block))
        erase_unused(buffer)


def _producer(
    block: ir.Operation, where: str
) -> tuple[ir.Operation, list[ir.Operation]]:
    """The block whose result a block alone reads, and where it reads it."""
    found = accesses.producers_of(block)
    fits = len(found) == 1 and legality.is_complete(found[0])
    if not fits or accesses.consumers_of(found[0]) != [block]:
        raise ScheduleError(
            f"{where}: {tree.describe(block)}: expected a single producer that is a "
            "complete block with a single consumer"
        )
    (producer,) = found
    written = accesses.buffers_written(producer)
    if len(written) != 1 or accesses.is_argument(written[0]):
        raise ScheduleError(
            f"{where}: {tree.describe(producer)} is an output block, or writes more than "
            "one buffer: expected one buffer that the program allocates"
        )
    loads = [a.op for a in accesses.accesses_in(block) if a.buffer == written[0]]
    indices = Indices()
    places = {tuple(indices.of(v) for v in list(op.operands)[1:]) for op in loads}
    if len(places) != 1:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} reads "
            f"`{accesses.buffer_name(written[0])}` at several places: expected one"
        )
    return producer, loads


def _inverted(
    block: ir.Operation, load: ir.Operation, where: str, indices: Indices
) -> tuple[list[Dim], list[tuple[Dim, Dim]]]:
    """The axes of a block as expressions in ``d0``, ``d1``, ..., where it reads.

    Returns:
        The axes; and expressions that are at least 0 and less than a number exactly where
        the block reads.
    """
    extents = extents_of(indices, block)
    names = [indices.symbol(a) for a in tree.body(block).arguments]
    sizes = dict(zip(names, extents, strict=True))
    limits = limits_at(indices, block)
    shape = accesses.buffer_shape(load.operands[0])
    values: dict[str, Dim] = dict.fromkeys(names, 0)
    bounds: list[tuple[Dim, Dim]] = []
    read = [simplify(indices.of(v), limits) for v in list(load.operands)[1:]]
    if not affine.is_affine(read, sizes, limits, may_end_early=True):
        raise _not_invertible(block, where)
    for number, dim in enumerate(read):
        digits = affine.digits_of(dim, sizes) or []
        if not digits and shape[number] != 1:
            raise _not_invertible(block, where)
        start = dim
        for digit in digits:
            start = start - digit.scale * affine.value_of(digit, sizes)
        digits = affine.counting(digits)
        for digit in digits:
            place = dims.floordiv(dims.symbol(f"d{number}") - start, digit.scale)
            others = [d for d in digits if d != digit]
            if any(is_known_le(digit.scale * digit.extent, d.scale) for d in others):
                place = dims.mod(place, digit.extent)
            elif not _is_top(digit, sizes):
                bounds.append((place, digit.extent))
            values[digit.source] = values[digit.source] + digit.lower * place
    if any(values[n] == 0 and sizes[n] != 1 for n in names):
        raise _not_invertible(block, where)
    bounds += [(values[n], sizes[n]) for n in names if values[n] != 0]
    return [values[n] for n in names], bounds


def _is_top(digit: affine.Digit, sizes: Mapping[str, Dim]) -> bool:
    """Whether the bound of an axis is that of a digit, too: the lower ones have theirs."""
    return is_known_le(sizes[digit.source], digit.lower * digit.extent)


def _check_covers(
    producer: ir.Operation,
    target: _Statement,
    block: ir.Operation,
    load: ir.Operation,
    indices: Indices,
) -> None:
    """Refuse a consumer that has points for which its producer makes nothing."""
    made = _box(target.index_values, producer, indices)
    read = _box(list(load.operands)[1:], block, indices)
    limits = limits_at(indices, tree.scope_of(block))
    for wide, narrow in zip(made, read, strict=True):
        ends = (
            Condition("le", wide.low, narrow.low),
            Condition("le", narrow.high, wide.high),
        )
        if not all(predicates.is_proved(end, limits, {}) for end in ends):
            raise ScheduleError(
                f"reverse_compute_inline: {tree.describe(producer)} does not cover what "
                f"{tree.describe(block)} reads: expected indices in {_text(wide)}, got "
                f"{_text(narrow)}"
            )


def _box(
    values: Sequence[ir.Value], block: ir.Operation, indices: Indices
) -> list[regions.Run]:
    """What indices are over all points of a block."""
    names = map(indices.symbol, tree.body(block).arguments)
    extents = extents_of(indices, block)
    domain = {
        name: regions.Run(start, start + extent - 1)
        for name, start, extent in zip(
            names, tree.axis_starts(block), extents, strict=True
        )
    }
    limits = limits_at(indices, block)
    return [regions.interval(indices.of(v), domain, limits) for v in values]


def _text(run: regions.Run) -> str:
    return f"{run.low}..{run.high}"


def _not_invertible(block: ir.Operation, where: str) -> ScheduleError:
    return ScheduleError(
        f"{where}: {tree.describe(block)}: expected reads whose indices are an affine, "
        "invertible map of its axes"
    )


def _leave_out(
    producer: ir.Operation,
    target: _Statement,
    bounds: Sequence[tuple[Dim, Dim]],
    indices: Indices,
) -> None:
    """Let a producer make only what points of its consumer read."""
    limits = limits_at(indices, producer)
    known = {f"d{n}": indices.of(v) for n, v in enumerate(target.index_values)}
    axes = regions.axis_values(producer, indices)
    wanted: list[Condition] = []
    for expression, extent in bounds:
        place = replaced(replaced(expression, known, limits), axes, limits)
        wanted += [Condition("le", 0, place), Condition("lt", place, extent)]
    around = tree.parent_of(tree.realize_of(producer))
    found = legality.drop_proved(wanted, indices, around)
    before = predicates.block_conditions(producer, indices)
    tidied = [c.tidy() for c in found if not _follows(c, before, limits)]
    if tidied:
        added = [predicates.without_quotient(c, tidied) for c in tidied]
        predicates.set_predicate(producer, [*before, *added], indices)


def _follows(condition: Condition, known: Sequence[Condition], limits: Limits) -> bool:
    """Whether a condition holds wherever one of others does."""
    return any(
        predicates.is_never_negative(condition.slack - k.slack, limits, {})
        for k in known
        if k.value is None
    )


def _hoisted(load: ir.Operation) -> ir.Operation:
    """A read that depends on a condition, in front of that: it need not be a read later."""
    body = tree.body(tree.scope_of(load))
    if load.block == body:
        return load
    with ir.InsertionPoint.at_block_begin(body), load.location:
        operands = [edit.copy_of(v, {}) for v in load.operands]
        made = ir.Operation.create(
            load.name, results=[load.results[0].type], operands=operands
        )
    rewriting.replace(load, made.results[0])
    return made


def _store_result(
    block: ir.Operation,
    statement: _Statement,
    target: _Statement,
    loads: Sequence[ir.Operation],
    values: Sequence[Dim],
) -> None:
    """Let the producer store what the consumer makes of its value."""
    indices = Indices()
    limits = limits_at(indices, tree.scope_of(target.store))
    known = {f"d{n}": indices.of(v) for n, v in enumerate(target.index_values)}
    with ir.InsertionPoint(target.store):
        mapping: dict[ir.Value, ir.Value] = {
            load.results[0]: target.value for load in loads
        }
        for axis, dim in zip(tree.body(block).arguments, values, strict=True):
            mapping[axis] = indices.emit(replaced(dim, known, limits))
        for op in statement.computation:
            if op.operation not in loads:
                rewriting.clone(op, mapping)
        operands = [mapping.get(v, v) for v in statement.store.operands]
        ir.Operation.create("memref.store", operands=operands)
    rewriting.erase(target.store)

"""The ``compute_inline`` and ``reverse_compute_inline`` primitives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.analysis.index_maps import constant_of
from relax_mlir.errors import ScheduleError
from relax_mlir.ir.traversal import only_store, own_operations
from relax_mlir.rewrite import patterns
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.bounds import is_known_le
from relax_mlir.symbolic.dims import Dim
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
from relax_mlir.tvm.tir.schedule.indices import (
    IndexSymbols,
    Limits,
    emit_constant,
    simplify,
    substitute_and_simplify,
)
from relax_mlir.tvm.tir.schedule.predicates import Condition
from relax_mlir.tvm.tir.schedule.state import ScheduleState, iter_extents, limits_at

__all__ = ["check_inline", "compute_inline", "reverse_compute_inline"]


@dataclass(frozen=True)
class _Statement:
    """The body of a block that consists of one store.

    Attributes:
        computation: the operations that compute its value and indices.
        store: the store.
    """

    computation: Sequence[ir.OpView]
    store: ir.Operation

    @property
    def value(self) -> ir.Value:
        """The stored value."""
        return self.store.operands[0]

    @property
    def buffer(self) -> ir.Value:
        """The buffer stored to."""
        return self.store.operands[1]

    @property
    def index_values(self) -> list[ir.Value]:
        """The indices of the store."""
        return list(self.store.operands)[2:]


def _single_store(block: ir.Operation, where: str) -> _Statement:
    """The single store of a block.

    Raises:
        ScheduleError: the block does anything else.
    """
    *operations, _ = own_operations(tree.body(block))
    store = only_store(tree.body(block))
    is_plain = all(
        tree.is_pure(op.operation)
        or op.operation.name in ("memref.load", "memref.store", "scf.if")
        for op in operations
    )
    if store is None or not is_plain or tree.init_block_of(block) is not None:
        raise ScheduleError(
            f"{where}: {tree.describe(block)}: expected a body that is one store of an "
            "element, without an init block"
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
    """Reject other reads of a buffer that is about to lose its producer.

    In a loop, one may precede the producer.
    """
    for access in accesses.accesses_in(tree.function_of(loads[0])):
        if access.buffer == buffer and not access.is_write and access.op not in loads:
            raise ScheduleError(
                f"{where}: {tree.describe(tree.scope_of(access.op))} reads "
                f"`{accesses.buffer_name(buffer)}`, too: expected a single consumer"
            )


def _check_not_only_leaf(block: ir.Operation, where: str) -> None:
    """Reject removing the only block of its scope."""
    if len(tree.blocks_below(tree.scope_of(block))) == 1:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} is the only leaf in its scope"
        )


def check_inline(block: ir.Operation) -> tuple[_Statement, dict[ir.Value, int]]:
    """The store of a block, and the buffer dimension that each of its iter vars indexes.

    Raises:
        ScheduleError: the block cannot be inlined into its consumers.
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
    dependences.check_block_order(block, accesses.consumers_of(block), where)
    dependences.check_delay(block, where)
    legality.check_self_contained(block, where)
    _check_not_only_leaf(block, where)
    statement = _single_store(block, where)
    return statement, _dimensions_of_iters(block, statement, where)


def compute_inline(state: ScheduleState, block: ir.Operation) -> None:
    """Inline a block into its consumers; see :meth:`Schedule.compute_inline`."""
    statement, dimensions = check_inline(block)
    with state.change(block):
        _inline_reads(block, statement, dimensions)
        buffer = statement.buffer
        state.erase_with_empty_loops(tree.realize_of(block))
        erase_unused_allocation(buffer)


def _check_no_predicate(block: ir.Operation, where: str) -> None:
    if tree.predicate_of(block) is not None:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} has a predicate (`T.where`): expected none"
        )


def _dimensions_of_iters(
    block: ir.Operation, statement: _Statement, where: str
) -> dict[ir.Value, int]:
    """The buffer dimension that each iter var of the block indexes."""
    indices = IndexSymbols()
    extents = iter_extents(indices, block)
    iters = list(tree.body(block).arguments)
    dimensions: dict[ir.Value, int] = {}
    for number, value in enumerate(statement.index_values):
        if value in iters and value not in dimensions:
            dimensions[value] = number
        elif constant_of(value) is None:
            break
    starts = tree.iter_var_mins(block)
    domains = zip(iters, starts, extents, strict=True)
    used = [a for a, start, extent in domains if (start, extent) != (0, 1)]
    constants = sum(constant_of(v) is not None for v in statement.index_values)
    if len(dimensions) + constants != len(statement.index_values) or any(
        axis not in dimensions for axis in used
    ):
        raise ScheduleError(
            f"{where}: {tree.describe(block)}: expected a store whose indices are its "
            "iter vars, each once"
        )
    return dimensions


def _inline_reads(
    block: ir.Operation, statement: _Statement, dimensions: Mapping[ir.Value, int]
) -> None:
    """Replace every load of the buffer by the computation of the stored value."""
    iters = list(tree.body(block).arguments)
    for use in list(statement.buffer.uses):
        load = use.owner.operation
        if load.name != "memref.load":
            continue
        load_indices = list(load.operands)[1:]
        with ir.InsertionPoint(load), load.location:
            mapping: dict[ir.Value, ir.Value] = {
                a: load_indices[dimensions[a]] if a in dimensions else emit_constant(0)
                for a in iters
            }
            value = _clone_value(statement, mapping)
        _replace_load(load, value)


def _clone_value(statement: _Statement, mapping: dict[ir.Value, ir.Value]) -> ir.Value:
    """Clones the computation of the stored value at the insertion point."""
    for op in statement.computation:
        patterns.clone(op, mapping)
    return mapping.get(statement.value, statement.value)


def _replace_load(load: ir.Operation, value: ir.Value) -> None:
    """Replace a load by a value; a bool stays an ``i1`` in comparisons."""
    owner = value.owner
    is_bool = not isinstance(owner, ir.Block) and owner.name == "arith.extui"
    for use in list(load.results[0].uses):
        user = use.owner.operation
        if is_bool and user.name == "arith.cmpi":
            patterns.replace(user, owner.operands[0])
    patterns.replace(load, value)


def erase_unused_allocation(buffer: ir.Value) -> None:
    """Erase an unused allocation."""
    owner = buffer.owner
    if not isinstance(owner, ir.Block) and not patterns.has_uses(buffer):
        patterns.erase(owner.operation)


def reverse_compute_inline(state: ScheduleState, block: ir.Operation) -> None:
    """Inline a block into its producer; see :meth:`Schedule.reverse_compute_inline`."""
    where = "reverse_compute_inline"
    legality.check_not_root(block, where)
    legality.check_iter_mins(block, where)
    legality.check_complete(block, where)
    _check_not_only_leaf(block, where)
    statement = _single_store(block, where)
    producer, loads = _producer(block, where)
    buffer = loads[0].operands[0]
    _check_plain_access(block, buffer, where)
    _check_only_reads(loads, buffer, where)
    dependences.check_block_order(block, [block], where)
    dependences.check_no_control_dependence(block, where)
    dependences.check_injective_writes(block, where)
    kept = dependences.independent_loops(producer, block)
    dependences.check_hoist(block, kept, where)
    legality.check_self_contained(block, where)
    target = _single_store(producer, where)
    with state.change(block) as indices:
        values, bounds = _inverse_read(block, loads[0], where, indices)
        _check_no_predicate(block, where)
        _check_region_cover(producer, target, block, loads[0], indices)
        loads = list(map(_hoist_load, loads))
        _restrict_producer(producer, target, bounds, indices)
        _store_result(block, statement, target, loads, values)
        state.erase_with_empty_loops(tree.realize_of(block))
        erase_unused_allocation(buffer)


def _producer(
    block: ir.Operation, where: str
) -> tuple[ir.Operation, list[ir.Operation]]:
    """The only producer of a block, and the loads of its result."""
    found = accesses.producers_of(block)
    is_complete = len(found) == 1 and legality.is_complete(found[0])
    if not is_complete or accesses.consumers_of(found[0]) != [block]:
        raise ScheduleError(
            f"{where}: {tree.describe(block)}: expected a single producer that is a "
            "complete block with a single consumer"
        )
    (producer,) = found
    written = accesses.buffers_written(producer)
    if len(written) != 1 or accesses.is_argument(written[0]):
        raise ScheduleError(
            f"{where}: {tree.describe(producer)} is an output block, or writes more than "
            "one buffer: expected one buffer allocated in the function"
        )
    loads = [a.op for a in accesses.accesses_in(block) if a.buffer == written[0]]
    indices = IndexSymbols()
    access_indices = {
        tuple(indices.of(v) for v in list(op.operands)[1:]) for op in loads
    }
    if len(access_indices) != 1:
        raise ScheduleError(
            f"{where}: {tree.describe(block)} reads "
            f"`{accesses.buffer_name(written[0])}` at several indices: expected one access"
        )
    return producer, loads


def _inverse_read(
    block: ir.Operation, load: ir.Operation, where: str, indices: IndexSymbols
) -> tuple[list[Dim], list[tuple[Dim, Dim]]]:
    """The iter vars of a block in terms of the indices ``d0``, ``d1``, ... of its read.

    Returns:
        The iter vars; and pairs of an expression and an extent: the block reads the element
        exactly if each expression is nonnegative and less than its extent.
    """
    extents = iter_extents(indices, block)
    names = [indices.symbol(a) for a in tree.body(block).arguments]
    sizes = dict(zip(names, extents, strict=True))
    limits = limits_at(indices, block)
    shape = accesses.buffer_shape(load.operands[0])
    values: dict[str, Dim] = dict.fromkeys(names, 0)
    bounds: list[tuple[Dim, Dim]] = []
    load_indices = [simplify(indices.of(v), limits) for v in list(load.operands)[1:]]
    if not affine.is_affine(load_indices, sizes, limits, may_end_early=True):
        raise _not_invertible(block, where)
    for number, dim in enumerate(load_indices):
        splits = affine.iter_splits_of(dim, sizes) or []
        if not splits and shape[number] != 1:
            raise _not_invertible(block, where)
        constant = dim
        for split in splits:
            constant = constant - split.scale * affine.split_value(split, sizes)
        splits = affine.nontrivial_splits(splits)
        for split in splits:
            split_value = dims.floordiv(
                dims.symbol(f"d{number}") - constant, split.scale
            )
            other_splits = [d for d in splits if d != split]
            if any(
                is_known_le(split.scale * split.extent, d.scale) for d in other_splits
            ):
                split_value = dims.mod(split_value, split.extent)
            elif not _is_implied_bound(split, sizes):
                bounds.append((split_value, split.extent))
            values[split.source] = (
                values[split.source] + split.lower_factor * split_value
            )
    if any(values[n] == 0 and sizes[n] != 1 for n in names):
        raise _not_invertible(block, where)
    bounds += [(values[n], sizes[n]) for n in names if values[n] != 0]
    return [values[n] for n in names], bounds


def _is_implied_bound(split: affine.IterSplit, sizes: Mapping[str, Dim]) -> bool:
    """Whether the bound of an iter var implies that of a split: others have their own bounds."""
    return is_known_le(sizes[split.source], split.lower_factor * split.extent)


def _check_region_cover(
    producer: ir.Operation,
    target: _Statement,
    block: ir.Operation,
    load: ir.Operation,
    indices: IndexSymbols,
) -> None:
    """Reject consumers with instances that read nothing the producer computes."""
    produced_box = _box(target.index_values, producer, indices)
    required_box = _box(list(load.operands)[1:], block, indices)
    limits = limits_at(indices, tree.scope_of(block))
    for produced, required in zip(produced_box, required_box, strict=True):
        ends = (
            Condition("le", produced.low, required.low),
            Condition("le", required.high, produced.high),
        )
        if not all(predicates.is_proved(end, limits, {}) for end in ends):
            raise ScheduleError(
                f"reverse_compute_inline: {tree.describe(producer)} does not cover what "
                f"{tree.describe(block)} reads: expected indices in {_text(produced)}, got "
                f"{_text(required)}"
            )


def _box(
    values: Sequence[ir.Value], block: ir.Operation, indices: IndexSymbols
) -> list[regions.Interval]:
    """The intervals of indices over the iter domain of a block."""
    names = map(indices.symbol, tree.body(block).arguments)
    extents = iter_extents(indices, block)
    domain = {
        name: regions.Interval(start, start + extent - 1)
        for name, start, extent in zip(
            names, tree.iter_var_mins(block), extents, strict=True
        )
    }
    limits = limits_at(indices, block)
    return [regions.evaluate_interval(indices.of(v), domain, limits) for v in values]


def _text(run: regions.Interval) -> str:
    return f"{run.low}..{run.high}"


def _not_invertible(block: ir.Operation, where: str) -> ScheduleError:
    return ScheduleError(
        f"{where}: {tree.describe(block)}: expected reads whose indices are an affine, "
        "invertible map of its axes"
    )


def _restrict_producer(
    producer: ir.Operation,
    target: _Statement,
    bounds: Sequence[tuple[Dim, Dim]],
    indices: IndexSymbols,
) -> None:
    """Restrict a producer to the elements that its consumer reads."""
    limits = limits_at(indices, producer)
    known = {f"d{n}": indices.of(v) for n, v in enumerate(target.index_values)}
    bindings = regions.binding_values(producer, indices)
    conditions: list[Condition] = []
    for expression, extent in bounds:
        value = substitute_and_simplify(
            substitute_and_simplify(expression, known, limits), bindings, limits
        )
        conditions += [Condition("le", 0, value), Condition("lt", value, extent)]
    around = tree.parent_of(tree.realize_of(producer))
    found = legality.unproved_conditions(conditions, indices, around)
    existing = predicates.block_conditions(producer, indices)
    canonical = [c.canonical() for c in found if not _is_implied(c, existing, limits)]
    if canonical:
        added = [predicates.without_floordiv(c, canonical) for c in canonical]
        predicates.set_predicate(producer, [*existing, *added], indices)


def _is_implied(
    condition: Condition, known: Sequence[Condition], limits: Limits
) -> bool:
    """Whether a condition is implied by one of others."""
    return any(
        predicates.is_nonnegative(condition.slack - k.slack, limits, {})
        for k in known
        if k.value is None
    )


def _hoist_load(load: ir.Operation) -> ir.Operation:
    """Hoist a conditional load in front of its condition; it is later replaced by a value."""
    body = tree.body(tree.scope_of(load))
    if load.block == body:
        return load
    with ir.InsertionPoint.at_block_begin(body), load.location:
        operands = [edit.clone_expression(v, {}) for v in load.operands]
        made = ir.Operation.create(
            load.name, results=[load.results[0].type], operands=operands
        )
    patterns.replace(load, made.results[0])
    return made


def _store_result(
    block: ir.Operation,
    statement: _Statement,
    target: _Statement,
    loads: Sequence[ir.Operation],
    values: Sequence[Dim],
) -> None:
    """Store the value of the consumer in the producer."""
    indices = IndexSymbols()
    limits = limits_at(indices, tree.scope_of(target.store))
    known = {f"d{n}": indices.of(v) for n, v in enumerate(target.index_values)}
    with ir.InsertionPoint(target.store):
        mapping: dict[ir.Value, ir.Value] = {
            load.results[0]: target.value for load in loads
        }
        for axis, dim in zip(tree.body(block).arguments, values, strict=True):
            mapping[axis] = indices.emit(substitute_and_simplify(dim, known, limits))
        for op in statement.computation:
            if op.operation not in loads:
                patterns.clone(op, mapping)
        operands = [mapping.get(v, v) for v in statement.store.operands]
        ir.Operation.create("memref.store", operands=operands)
    patterns.erase(target.store)

"""The ``fuse_reduction_epilogue`` primitive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.analysis.index_maps import constant_of
from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.errors import ScheduleError
from relax_mlir.ir.traversal import only_store, own_operations
from relax_mlir.rewrite import patterns
from relax_mlir.tvm.tir.schedule import accesses, dependences, edit, legality, tree
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols
from relax_mlir.tvm.tir.schedule.reductions import ReductionResult, match_reduction
from relax_mlir.tvm.tir.schedule.state import ScheduleState, iter_extents

__all__ = ["fuse_reduction_epilogue"]

_WHERE = "fuse_reduction_epilogue"
_ADDS = ("arith.addf", "arith.addi")
_MAXIMA = ("arith.maximumf", "arith.maxsi", "arith.maxui")
_MINIMA = ("arith.minimumf", "arith.minsi", "arith.minui")


@dataclass(frozen=True)
class _Epilogue:
    """The epilogue of a reduction: a bias, a bias with ReLU, or a clip.

    Attributes:
        block: the block.
        load: the load of the reduction result.
        store: the store of the epilogue result.
        add: the bias add, if there is one.
        relu: the ReLU, if it applies to the result itself.
    """

    block: ir.Operation
    load: ir.Operation
    store: ir.Operation
    add: ir.Operation | None = None
    relu: ir.Operation | None = None

    @property
    def computation(self) -> list[ir.Operation]:
        """The operations between the load and the store."""
        *operations, _ = own_operations(tree.body(self.block))
        excluded = (self.load, self.store)
        return [op.operation for op in operations if op.operation not in excluded]

    def is_bias_add(self, op: ir.Operation) -> bool:
        """Whether an operation is the bias add."""
        return self.add is not None and op == self.add

    def bias(self) -> ir.Value:
        """The bias."""
        assert self.add is not None
        lhs, rhs = self.add.operands
        return rhs if lhs == self.load.results[0] else lhs


def fuse_reduction_epilogue(
    state: ScheduleState, reduction: ir.Operation, block: ir.Operation
) -> None:
    """Fuse an epilogue into a reduction; see :meth:`Schedule.fuse_reduction_epilogue`."""
    legality.check_not_root(reduction, _WHERE)
    legality.check_not_root(block, _WHERE)
    legality.check_reduction(reduction, _WHERE)
    legality.check_complete(block, _WHERE)
    legality.check_self_contained(block, _WHERE)
    found = match_reduction(reduction, _WHERE)
    if len(found.results) != 1 or found.results[0].combiner.name not in _ADDS:
        raise ScheduleError(
            f"{_WHERE}: {tree.describe(reduction)}: expected a sum with one result"
        )
    (part,) = found.results
    epilogue = _match(reduction, part, block)
    axes = _corresponding_iters(reduction, part, epilogue)
    with state.change(reduction):
        _rewrite_init(reduction, part, epilogue, axes)
        _rewrite_update(reduction, part, epilogue, axes)
        state.erase_with_empty_loops(tree.realize_of(block))


def _match(
    reduction: ir.Operation, part: ReductionResult, block: ir.Operation
) -> _Epilogue:
    if tree.scope_of(block) != tree.scope_of(reduction) or accesses.readers_of(
        tree.scope_of(reduction), part.buffer
    ) not in ([block], [reduction, block]):
        raise ScheduleError(
            f"{_WHERE}: expected that {tree.describe(block)}, and no other block, reads "
            f"what {tree.describe(reduction)} writes"
        )
    legality.check_not_output(reduction, _WHERE)
    dependences.check_no_interference(reduction, block, _WHERE)
    if tree.predicate_of(block) is not None:
        raise ScheduleError(f"{_WHERE}: {tree.describe(block)} has a predicate")
    listed = [op.operation for op in own_operations(tree.body(block))]
    loads = [a.op for a in accesses.accesses_in(block) if a.buffer == part.buffer]
    store = only_store(tree.body(block))
    if len(loads) != 1 or store is None or loads[0] not in listed:
        raise _unmatched(block)
    return _classify(block, loads[0], store.operation)


def _classify(
    block: ir.Operation, load: ir.Operation, store: ir.Operation
) -> _Epilogue:
    value, result = store.operands[0], load.results[0]
    outer = _operands_of(value, _ADDS)
    if result in outer:
        return _Epilogue(block, load, store, value.owner.operation)
    for operand, other in _sides(value, _MAXIMA):
        if result in _operands_of(operand, _ADDS) and _is_zero(other):
            return _Epilogue(block, load, store, operand.owner.operation)
        if operand == result and _is_zero(other):
            return _Epilogue(block, load, store, relu=value.owner.operation)
    for first, second in ((_MINIMA, _MAXIMA), (_MAXIMA, _MINIMA)):
        for inner, _ in _sides(value, first):
            if result in _operands_of(inner, second):
                return _Epilogue(block, load, store)
    raise _unmatched(block)


def _operands_of(value: ir.Value, names: Sequence[str]) -> list[ir.Value]:
    """The operands of the defining operation of a value, if it has one of these names."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in names:
        return []
    return list(owner.operands)


def _sides(value: ir.Value, names: Sequence[str]) -> list[tuple[ir.Value, ir.Value]]:
    """Both orders of the operands of a binary operation with one of these names."""
    found = _operands_of(value, names)
    return [(found[0], found[1]), (found[1], found[0])] if found else []


def _is_zero(value: ir.Value) -> bool:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return False
    return str(owner.attributes["value"]).split(" ")[0] in ("0", "0.000000e+00")


def _unmatched(block: ir.Operation) -> ScheduleError:
    return ScheduleError(
        f"{_WHERE}: {tree.describe(block)}: expected one store of the result with a bias, "
        "of the maximum of that and 0, or of the result clipped to a range"
    )


def _corresponding_iters(
    reduction: ir.Operation, part: ReductionResult, epilogue: _Epilogue
) -> dict[ir.Value, int]:
    """The iter var of the reduction that each iter var of the epilogue corresponds to."""
    store_indices = list(part.store.operands)[2:]
    load_indices = list(epilogue.load.operands)[1:]
    old, new = (list(tree.body(b).arguments) for b in (reduction, epilogue.block))
    sizes = [iter_extents(IndexSymbols(), b) for b in (reduction, epilogue.block)]
    found: dict[ir.Value, int] = {}
    for store_index, index in zip(store_indices, load_indices, strict=True):
        if index in new and index not in found and store_index in old:
            number = old.index(store_index)
            if sizes[0][number] == sizes[1][new.index(index)]:
                found[index] = number
                continue
        if constant_of(store_index) != 0 or constant_of(index) != 0:
            break
    if set(found) != set(new):
        raise ScheduleError(
            f"{_WHERE}: {tree.describe(epilogue.block)}: expected that it reads each "
            f"element that {tree.describe(reduction)} writes once"
        )
    return found


def _rewrite_init(
    reduction: ir.Operation,
    part: ReductionResult,
    epilogue: _Epilogue,
    axes: dict[ir.Value, int],
) -> None:
    """Initialise with the epilogue of the initial value 0."""
    init = tree.init_block_of(reduction)
    assert init is not None
    mapping: dict[ir.Value, ir.Value] = {
        axis: init.arguments[number] for axis, number in axes.items()
    }
    mapping[epilogue.load.results[0]] = part.init.operands[0]
    with edit.insertion_point_before(part.init):
        for op in epilogue.computation:
            if epilogue.is_bias_add(op):
                mapping[op.results[0]] = mapping[epilogue.bias()]
            else:
                patterns.clone(op.opview, mapping)
        if epilogue.relu is not None:
            zero = part.init.operands[0]
            mapping[epilogue.relu.results[0]] = zero
        _store(epilogue, mapping)
    patterns.erase(part.init)
    _erase_dead(init)


def _rewrite_update(
    reduction: ir.Operation,
    part: ReductionResult,
    epilogue: _Epilogue,
    axes: dict[ir.Value, int],
) -> None:
    """Apply the epilogue without the bias to the accumulator in each update."""
    body = tree.body(reduction)
    mapping: dict[ir.Value, ir.Value] = {
        axis: body.arguments[number] for axis, number in axes.items()
    }
    load = part.accumulator.owner.operation
    with edit.insertion_point_before(load):
        store_indices = [
            edit.clone_expression(v, mapping) for v in list(epilogue.store.operands)[2:]
        ]
        accumulator = emit(
            "memref.load",
            load.results[0].type,
            epilogue.store.operands[1],
            *store_indices,
        )
    patterns.replace(load, accumulator)
    combined = part.combiner.results[0]
    mapping[epilogue.load.results[0]] = combined
    if epilogue.add is not None:
        mapping[epilogue.add.results[0]] = combined
    with edit.insertion_point_before(part.store):
        for op in epilogue.computation:
            if not epilogue.is_bias_add(op):
                patterns.clone(op.opview, mapping)
        _store(epilogue, mapping)
    patterns.erase(part.store)
    _erase_dead(body)


def _store(epilogue: _Epilogue, mapping: dict[ir.Value, ir.Value]) -> None:
    operands = [mapping.get(v, v) for v in epilogue.store.operands]
    ir.Operation.create("memref.store", operands=operands)


def _erase_dead(region: ir.Block) -> None:
    patterns.erase_dead(region, lambda op: tree.is_pure(op) or op.name == "memref.load")

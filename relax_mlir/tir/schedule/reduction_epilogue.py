"""The primitive that applies what follows a reduction while it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir import rewriting
from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.errors import ScheduleError
from relax_mlir.indexing import constant_of
from relax_mlir.tir.schedule import accesses, dependences, edit, legality, tree
from relax_mlir.tir.schedule.indices import Indices
from relax_mlir.tir.schedule.reductions import Part, match_reduction
from relax_mlir.tir.schedule.state import ScheduleState, extents_of
from relax_mlir.traversal import only_store, own_operations

__all__ = ["fuse_reduction_epilogue"]

_WHERE = "fuse_reduction_epilogue"
_ADDS = ("arith.addf", "arith.addi")
_MAXIMA = ("arith.maximumf", "arith.maxsi", "arith.maxui")
_MINIMA = ("arith.minimumf", "arith.minsi", "arith.minui")


@dataclass(frozen=True)
class _Epilogue:
    """What follows a reduction: a bias, a bias and a rectifier, or a range.

    Attributes:
        block: the block.
        load: where it reads the result.
        store: where it writes its own.
        add: the sum with the bias, if there is one.
        rectifier: the maximum with 0, if it is of the result itself.
    """

    block: ir.Operation
    load: ir.Operation
    store: ir.Operation
    add: ir.Operation | None = None
    rectifier: ir.Operation | None = None

    @property
    def computation(self) -> list[ir.Operation]:
        """What it computes of the result."""
        *operations, _ = own_operations(tree.body(self.block))
        left_out = (self.load, self.store)
        return [op.operation for op in operations if op.operation not in left_out]

    def is_sum(self, op: ir.Operation) -> bool:
        """Whether an operation is the sum with the bias."""
        return self.add is not None and op == self.add

    def bias(self) -> ir.Value:
        """What is added to the result."""
        assert self.add is not None
        lhs, rhs = self.add.operands
        return rhs if lhs == self.load.results[0] else lhs


def fuse_reduction_epilogue(
    state: ScheduleState, reduction: ir.Operation, block: ir.Operation
) -> None:
    """Apply an epilogue in a reduction; see :meth:`Schedule.fuse_reduction_epilogue`."""
    legality.check_not_root(reduction, _WHERE)
    legality.check_not_root(block, _WHERE)
    legality.check_reduction(reduction, _WHERE)
    legality.check_complete(block, _WHERE)
    legality.check_self_contained(block, _WHERE)
    found = match_reduction(reduction, _WHERE)
    if len(found.parts) != 1 or found.parts[0].combine.name not in _ADDS:
        raise ScheduleError(
            f"{_WHERE}: {tree.describe(reduction)}: expected a sum with one result"
        )
    (part,) = found.parts
    epilogue = _matched(reduction, part, block)
    axes = _axes(reduction, part, epilogue)
    with state.change(reduction):
        _rewrite_start(reduction, part, epilogue, axes)
        _rewrite_update(reduction, part, epilogue, axes)
        state.erase_alone(tree.realize_of(block))


def _matched(reduction: ir.Operation, part: Part, block: ir.Operation) -> _Epilogue:
    if tree.scope_of(block) != tree.scope_of(reduction) or accesses.readers_of(
        tree.scope_of(reduction), part.buffer
    ) not in ([block], [reduction, block]):
        raise ScheduleError(
            f"{_WHERE}: expected that {tree.describe(block)}, and no other block, reads "
            f"what {tree.describe(reduction)} writes"
        )
    legality.check_not_output(reduction, _WHERE)
    dependences.check_alone(reduction, block, _WHERE)
    if tree.guard_of(block) is not None:
        raise ScheduleError(f"{_WHERE}: {tree.describe(block)} has a predicate")
    listed = [op.operation for op in own_operations(tree.body(block))]
    loads = [a.op for a in accesses.accesses_in(block) if a.buffer == part.buffer]
    store = only_store(tree.body(block))
    if len(loads) != 1 or store is None or loads[0] not in listed:
        raise _unmatched(block)
    return _classified(block, loads[0], store.operation)


def _classified(
    block: ir.Operation, load: ir.Operation, store: ir.Operation
) -> _Epilogue:
    value, result = store.operands[0], load.results[0]
    outer = _operands_of(value, _ADDS)
    if result in outer:
        return _Epilogue(block, load, store, value.owner.operation)
    for rectified, other in _sides(value, _MAXIMA):
        if result in _operands_of(rectified, _ADDS) and _is_zero(other):
            return _Epilogue(block, load, store, rectified.owner.operation)
        if rectified == result and _is_zero(other):
            return _Epilogue(block, load, store, rectifier=value.owner.operation)
    for first, second in ((_MINIMA, _MAXIMA), (_MAXIMA, _MINIMA)):
        for inner, _ in _sides(value, first):
            if result in _operands_of(inner, second):
                return _Epilogue(block, load, store)
    raise _unmatched(block)


def _operands_of(value: ir.Value, names: Sequence[str]) -> list[ir.Value]:
    """The operands of what computes a value, if it has one of these names."""
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
        "of the maximum of that and 0, or of the result kept in a range"
    )


def _axes(
    reduction: ir.Operation, part: Part, epilogue: _Epilogue
) -> dict[ir.Value, int]:
    """The axis of the reduction that each axis of the epilogue is."""
    places = list(part.store.operands)[2:]
    read = list(epilogue.load.operands)[1:]
    old, new = (list(tree.body(b).arguments) for b in (reduction, epilogue.block))
    sizes = [extents_of(Indices(), b) for b in (reduction, epilogue.block)]
    found: dict[ir.Value, int] = {}
    for place, index in zip(places, read, strict=True):
        if index in new and index not in found and place in old:
            number = old.index(place)
            if sizes[0][number] == sizes[1][new.index(index)]:
                found[index] = number
                continue
        if constant_of(place) != 0 or constant_of(index) != 0:
            break
    if set(found) != set(new):
        raise ScheduleError(
            f"{_WHERE}: {tree.describe(epilogue.block)}: expected that it reads each "
            f"element that {tree.describe(reduction)} writes once"
        )
    return found


def _rewrite_start(
    reduction: ir.Operation,
    part: Part,
    epilogue: _Epilogue,
    axes: dict[ir.Value, int],
) -> None:
    """The start value, which is 0, is what the epilogue makes of it."""
    start = tree.init_of(reduction)
    assert start is not None
    mapping: dict[ir.Value, ir.Value] = {
        axis: start.arguments[number] for axis, number in axes.items()
    }
    mapping[epilogue.load.results[0]] = part.start.operands[0]
    with edit.point_before(part.start):
        for op in epilogue.computation:
            if epilogue.is_sum(op):
                mapping[op.results[0]] = mapping[epilogue.bias()]
            else:
                rewriting.clone(op.opview, mapping)
        if epilogue.rectifier is not None:
            zero = part.start.operands[0]
            mapping[epilogue.rectifier.results[0]] = zero
        _store(epilogue, mapping)
    rewriting.erase(part.start)
    _sweep(start)


def _rewrite_update(
    reduction: ir.Operation,
    part: Part,
    epilogue: _Epilogue,
    axes: dict[ir.Value, int],
) -> None:
    """Each step applies the epilogue, but for the bias, to what it combined."""
    body = tree.body(reduction)
    mapping: dict[ir.Value, ir.Value] = {
        axis: body.arguments[number] for axis, number in axes.items()
    }
    load = part.so_far.owner.operation
    with edit.point_before(load):
        place = [edit.copy_of(v, mapping) for v in list(epilogue.store.operands)[2:]]
        so_far = emit(
            "memref.load", load.results[0].type, epilogue.store.operands[1], *place
        )
    rewriting.replace(load, so_far)
    combined = part.combine.results[0]
    mapping[epilogue.load.results[0]] = combined
    if epilogue.add is not None:
        mapping[epilogue.add.results[0]] = combined
    with edit.point_before(part.store):
        for op in epilogue.computation:
            if not epilogue.is_sum(op):
                rewriting.clone(op.opview, mapping)
        _store(epilogue, mapping)
    rewriting.erase(part.store)
    _sweep(body)


def _store(epilogue: _Epilogue, mapping: dict[ir.Value, ir.Value]) -> None:
    operands = [mapping.get(v, v) for v in epilogue.store.operands]
    ir.Operation.create("memref.store", operands=operands)


def _sweep(region: ir.Block) -> None:
    rewriting.erase_dead(
        region, lambda op: tree.is_pure(op) or op.name == "memref.load"
    )

"""Vectors that scripts write: loads, stores and runs of numbers as MLIR's vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mlir import ir

from relax_mlir.dialects.tir import RampOp, VectorLoadOp, VectorStoreOp
from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.errors import PassError
from relax_mlir.indexing import constant_of
from relax_mlir.rewriting import erase, replace, walk

__all__ = ["lower_vectors"]

_Place = Callable[[int], ir.Value]


def lower_vectors(root: ir.Operation | ir.OpView) -> None:
    """Lower all vector operations of tir below ``root``.

    Elements that lie side by side are loaded and stored at once, others one by one.

    Raises:
        PassError: the length of a vector is not known, or some lanes are left out.
    """
    for kinds in ((VectorLoadOp, VectorStoreOp), (RampOp,)):
        for op in list(walk(root)):
            if isinstance(op, kinds):
                with ir.InsertionPoint(op), op.location:
                    _LOWERINGS[type(op)](op)


def _lanes(op: ir.OpView, type_: ir.VectorType) -> int:
    if type_.scalable:
        raise PassError(
            f"{op.location}: `{type_}`: expected a vector of known length, got one that "
            "the machine decides"
        )
    return type_.shape[0]


def _check_mask(op: VectorLoadOp | VectorStoreOp) -> None:
    for mask in op.mask:
        owner = mask.owner
        is_splat = not isinstance(owner, ir.Block) and owner.name == "vector.broadcast"
        if is_splat and constant_of(owner.operands[0]) in (1, -1):
            continue
        raise PassError(
            f"{op.location}: a predicate of lanes has no lowering for a CPU: expected "
            "all lanes"
        )


def _lower_load(op: VectorLoadOp) -> None:
    _check_mask(op)
    type_ = ir.VectorType(op.result.type)
    lanes = _lanes(op, type_)
    first = _run_start(op.places)
    if first is not None:
        made = emit("vector.load", type_, op.buffer, *op.indices, first)
        replace(op, made)
        return
    place, made = _places(op.places), _zeros(type_)
    for lane in range(lanes):
        indices = (*op.indices, place(lane))
        value = emit("memref.load", type_.element_type, op.buffer, *indices)
        made = _insert(value, made, lane)
    replace(op, made)


def _lower_store(op: VectorStoreOp) -> None:
    _check_mask(op)
    type_ = ir.VectorType(op.value.type)
    lanes = _lanes(op, type_)
    first = _run_start(op.places)
    if first is not None:
        operands = [op.value, op.buffer, *op.indices, first]
        ir.Operation.create("vector.store", operands=operands)
        erase(op)
        return
    place = _places(op.places)
    for lane in range(lanes):
        operands = [_extract(op.value, lane), op.buffer, *op.indices, place(lane)]
        ir.Operation.create("memref.store", operands=operands)
    erase(op)


def _lower_ramp(op: RampOp) -> None:
    type_ = ir.VectorType(op.result.type)
    number = ir.IntegerType(type_.element_type)
    steps = [ir.IntegerAttr.get(number, n) for n in range(_lanes(op, type_))]
    lanes = ir.DenseElementsAttr.get(steps, type_)
    counted = emit("arith.constant", type_, value=lanes)
    stride = emit("vector.broadcast", type_, op.stride)
    base = emit("vector.broadcast", type_, op.base)
    scaled = emit("arith.muli", type_, counted, stride)
    replace(op, emit("arith.addi", type_, base, scaled))


def _ramp_of(places: ir.Value) -> RampOp | None:
    """The run of numbers that places are, if they are one."""
    owner = places.owner
    if not isinstance(owner, ir.Block) and owner.name == "arith.index_cast":
        owner = owner.operands[0].owner
    view = owner.opview if isinstance(owner, ir.Operation) else owner
    return view if isinstance(view, RampOp) else None


def _run_start(places: ir.Value) -> ir.Value | None:
    """The first of places that lie side by side."""
    ramp = _ramp_of(places)
    if ramp is None or constant_of(ramp.stride) != 1:
        return None
    return emit("arith.index_cast", ir.IndexType.get(), ramp.base)


def _places(places: ir.Value) -> _Place:
    """Where each lane lies."""
    ramp = _ramp_of(places)
    if ramp is None:
        return lambda lane: _extract(places, lane)
    index = ir.IndexType.get()
    base, stride = (
        emit("arith.index_cast", index, v) for v in (ramp.base, ramp.stride)
    )

    def place(lane: int) -> ir.Value:
        count = emit("arith.constant", index, value=ir.IntegerAttr.get(index, lane))
        return emit("arith.addi", index, base, emit("arith.muli", index, count, stride))

    return place


def _zeros(type_: ir.VectorType) -> ir.Value:
    element = type_.element_type
    if isinstance(element, ir.FloatType):
        zero: ir.Attribute = ir.FloatAttr.get(element, 0.0)
    else:
        zero = ir.IntegerAttr.get(element, 0)
    splat = ir.DenseElementsAttr.get_splat(type_, zero)
    return emit("arith.constant", type_, value=splat)


def _at(lane: int) -> Mapping[str, ir.Attribute]:
    return {"static_position": ir.DenseI64ArrayAttr.get([lane])}


def _extract(vector: ir.Value, lane: int) -> ir.Value:
    element = ir.VectorType(vector.type).element_type
    return emit("vector.extract", element, vector, **_at(lane))


def _insert(value: ir.Value, vector: ir.Value, lane: int) -> ir.Value:
    return emit("vector.insert", vector.type, value, vector, **_at(lane))


_LOWERINGS: Mapping[type, Callable[..., None]] = {
    VectorLoadOp: _lower_load,
    VectorStoreOp: _lower_store,
    RampOp: _lower_ramp,
}

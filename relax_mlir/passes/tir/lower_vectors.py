"""Lowering of tir vector operations to the MLIR vector dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mlir import ir

from relax_mlir.analysis.index_maps import constant_of
from relax_mlir.dialects.tir import RampOp, VectorLoadOp, VectorStoreOp
from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.errors import PassError
from relax_mlir.ir.traversal import walk
from relax_mlir.rewrite.patterns import erase, replace

__all__ = ["lower_vectors"]

_LaneIndex = Callable[[int], ir.Value]


def lower_vectors(root: ir.Operation | ir.OpView) -> None:
    """Lowers all tir vector operations below ``root``.

    Contiguous elements become vector loads and stores, others scalar ones.

    Raises:
        PassError: a vector is scalable, or an access is predicated.
    """
    for kinds in ((VectorLoadOp, VectorStoreOp), (RampOp,)):
        for op in list(walk(root)):
            if isinstance(op, kinds):
                with ir.InsertionPoint(op), op.location:
                    _LOWERINGS[type(op)](op)


def _lanes(op: ir.OpView, type_: ir.VectorType) -> int:
    if type_.scalable:
        raise PassError(
            f"{op.location}: `{type_}`: expected a vector of fixed length, got a scalable "
            "vector"
        )
    return type_.shape[0]


def _check_mask(op: VectorLoadOp | VectorStoreOp) -> None:
    for mask in op.mask:
        owner = mask.owner
        is_splat = not isinstance(owner, ir.Block) and owner.name == "vector.broadcast"
        if is_splat and constant_of(owner.operands[0]) in (1, -1):
            continue
        raise PassError(
            f"{op.location}: a predicated vector access has no lowering: expected a mask "
            "of all lanes"
        )


def _lower_load(op: VectorLoadOp) -> None:
    _check_mask(op)
    type_ = ir.VectorType(op.result.type)
    lanes = _lanes(op, type_)
    first = _contiguous_start(op.places)
    if first is not None:
        made = emit("vector.load", type_, op.buffer, *op.indices, first)
        replace(op, made)
        return
    place, made = _lane_index(op.places), _zeros(type_)
    for lane in range(lanes):
        indices = (*op.indices, place(lane))
        value = emit("memref.load", type_.element_type, op.buffer, *indices)
        made = _insert(value, made, lane)
    replace(op, made)


def _lower_store(op: VectorStoreOp) -> None:
    _check_mask(op)
    type_ = ir.VectorType(op.value.type)
    lanes = _lanes(op, type_)
    first = _contiguous_start(op.places)
    if first is not None:
        operands = [op.value, op.buffer, *op.indices, first]
        ir.Operation.create("vector.store", operands=operands)
        erase(op)
        return
    place = _lane_index(op.places)
    for lane in range(lanes):
        operands = [_extract(op.value, lane), op.buffer, *op.indices, place(lane)]
        ir.Operation.create("memref.store", operands=operands)
    erase(op)


def _lower_ramp(op: RampOp) -> None:
    type_ = ir.VectorType(op.result.type)
    number = ir.IntegerType(type_.element_type)
    steps = [ir.IntegerAttr.get(number, n) for n in range(_lanes(op, type_))]
    lanes = ir.DenseElementsAttr.get(steps, type_)
    iota = emit("arith.constant", type_, value=lanes)
    stride = emit("vector.broadcast", type_, op.stride)
    base = emit("vector.broadcast", type_, op.base)
    scaled = emit("arith.muli", type_, iota, stride)
    replace(op, emit("arith.addi", type_, base, scaled))


def _ramp_of(places: ir.Value) -> RampOp | None:
    """The ramp that some lane indices are, or None."""
    owner = places.owner
    if not isinstance(owner, ir.Block) and owner.name == "arith.index_cast":
        owner = owner.operands[0].owner
    view = owner.opview if isinstance(owner, ir.Operation) else owner
    return view if isinstance(view, RampOp) else None


def _contiguous_start(places: ir.Value) -> ir.Value | None:
    """The first of contiguous lane indices, or None."""
    ramp = _ramp_of(places)
    if ramp is None or constant_of(ramp.stride) != 1:
        return None
    return emit("arith.index_cast", ir.IndexType.get(), ramp.base)


def _lane_index(places: ir.Value) -> _LaneIndex:
    """The index of each lane."""
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

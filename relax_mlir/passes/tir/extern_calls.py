"""Lowering of calls of C functions from tensor programs."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import AddressOp, CallOp
from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import walk
from relax_mlir.rewrite.patterns import erase, has_uses

__all__ = ["lower_extern_calls"]

_EXTERN = frozenset({"call_extern", "call_pure_extern"})


def lower_extern_calls(module: IRModule, function: func.FuncOp) -> None:
    """Lowers ``call_extern`` to calls of functions that the module declares.

    Pointers and indices are passed as 64-bit integers, which C ABIs pass in the same registers
    as pointers.

    Raises:
        PassError: a callee is called with different types, or an argument has no C type.
    """
    calls = [op for op in walk(function) if isinstance(op, CallOp)]
    for op in calls:
        if op.callee.value in _EXTERN:
            _lower(module, op)
    pointers = [
        op
        for op in reversed(list(walk(function)))
        if isinstance(op, AddressOp) or _is_access(op)
    ]
    for op in pointers:
        if not any(map(has_uses, op.operation.results)):
            _erase(op)


def _lower(module: IRModule, op: CallOp) -> None:
    name, *_ = op.literals
    if not isinstance(name, ir.StringAttr):
        raise PassError(f"{op.location}: `T.call_extern`: expected a name, got {name}")
    with ir.InsertionPoint(op), op.location:
        operands = [_argument(v) for v in tensors.tuple_elements(op.args)]
        types = [_c_type(r.type) for r in op.operation.results]
        signature = ir.FunctionType.get([v.type for v in operands], types)
        _declare(module, name.value, signature, op.location)
        call = func.CallOp(types, name.value, operands)
    if types:
        op.operation.results[0].replace_all_uses_with(call.operation.results[0])
    _erase(op)


def _declare(
    module: IRModule, name: str, signature: ir.FunctionType, where: ir.Location
) -> None:
    for known in module.func_ops():
        if known.name.value == name:
            if known.type != signature:
                raise PassError(
                    f"{where}: `{name}`: expected types {known.type} as in another call, "
                    f"got {signature}"
                )
            return
    with ir.InsertionPoint.at_block_begin(module.mlir.body):
        func.FuncOp(name, signature, visibility="private")


def _c_type(type_: ir.Type) -> ir.Type:
    is_plain = isinstance(type_, (ir.IntegerType, ir.F32Type, ir.F64Type))
    return type_ if is_plain else ir.IntegerType.get_signless(64)


def _argument(value: ir.Value) -> ir.Value:
    owner = value.owner
    if not isinstance(owner, ir.Block):
        if isinstance(owner.opview, AddressOp):
            return _address(owner.opview)
        if _is_access(owner.opview):
            return _access(owner.opview)
    if isinstance(value.type, ir.IndexType):
        return _as_i64(value)
    if not isinstance(value.type, (ir.IntegerType, ir.F32Type, ir.F64Type)):
        raise PassError(
            f"{value.location}: `T.call_extern`: expected numbers and addresses of "
            f"buffers as arguments, got `{value.type}`"
        )
    return value


def _is_access(op: ir.OpView) -> bool:
    return isinstance(op, CallOp) and op.callee.value == "tvm_access_ptr"


def _access(op: CallOp) -> ir.Value:
    """The address of ``buffer.access_ptr(...)``: that of the buffer plus an offset."""
    pointer, offset, *_ = tensors.tuple_elements(op.args)
    owner = pointer.owner
    if isinstance(owner, ir.Block) or not isinstance(owner.opview, AddressOp):
        raise PassError(f"{op.location}: `access_ptr`: expected a buffer's")
    start = _address(owner.opview)
    return _add(start, _as_i64(offset), _item_bytes(owner.opview.buffer.type))


def _address(op: AddressOp) -> ir.Value:
    buffer, index = op.buffer, ir.IndexType.get()
    found = _emit("memref.extract_aligned_pointer_as_index", index, buffer)
    total = _as_i64(found)
    type_ = ir.MemRefType(buffer.type)
    for axis, place in enumerate(op.indices):
        step: ir.Value = _as_i64(place)
        for inner in range(axis + 1, type_.rank):
            step = _emit("arith.muli", step.type, step, _size(buffer, inner))
        total = _add(total, step, _item_bytes(type_))
    return total


def _size(buffer: ir.Value, axis: int) -> ir.Value:
    size = ir.MemRefType(buffer.type).shape[axis]
    if size >= 0:
        return _constant(size)
    number = _emit(
        "arith.constant",
        ir.IndexType.get(),
        value=ir.IntegerAttr.get(ir.IndexType.get(), axis),
    )
    return _as_i64(_emit("memref.dim", ir.IndexType.get(), buffer, number))


def _item_bytes(type_: ir.Type) -> int:
    element = ir.MemRefType(type_).element_type
    return (element.width + 7) // 8


def _add(start: ir.Value, count: ir.Value, scale: int) -> ir.Value:
    scaled = _emit("arith.muli", count.type, count, _constant(scale))
    return _emit("arith.addi", start.type, start, scaled)


def _constant(number: int) -> ir.Value:
    i64 = ir.IntegerType.get_signless(64)
    return _emit("arith.constant", i64, value=ir.IntegerAttr.get(i64, number))


def _as_i64(value: ir.Value) -> ir.Value:
    i64 = ir.IntegerType.get_signless(64)
    if value.type == i64:
        return value
    if isinstance(value.type, ir.IndexType):
        return _emit("arith.index_cast", i64, value)
    return _emit("arith.extsi", i64, value)


def _emit(
    name: str, result: ir.Type, *operands: ir.Value, **attributes: ir.Attribute
) -> ir.Value:
    return ir.Operation.create(
        name, results=[result], operands=list(operands), attributes=attributes
    ).results[0]


def _erase(op: ir.OpView) -> None:
    """Erases an operation and the tuple pack of its arguments."""
    packs = [v.owner for v in op.operands if isinstance(v.type, ir.TupleType)]
    erase(op)
    for pack in packs:
        if not has_uses(pack.results[0]):
            erase(pack.opview)

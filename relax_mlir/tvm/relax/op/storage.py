"""Memory operators: allocation, release and views, as emitted by the memory planner."""

from __future__ import annotations

from typing import Any

from relax_mlir.objects.expr import (
    Call,
    DataTypeImm,
    Expr,
    ExternFunc,
    Op,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    convert,
)
from relax_mlir.objects.infer.storage import infer_storage
from relax_mlir.tvm.relax.op.namespaces import builtin, memory, vm

__all__ = ["builtin", "memory", "vm"]


def _shape(shape: Any) -> Expr:
    return shape if isinstance(shape, Expr) else ShapeExpr(shape)


def _dtype(dtype: Any) -> Expr:
    return dtype if isinstance(dtype, Expr) else DataTypeImm(dtype)


def _string_imm(text: Any) -> Expr:
    return text if isinstance(text, Expr) else StringImm(text)


def _prim_value(number: Any) -> Expr:
    return number if isinstance(number, Expr) else PrimValue(number)


def _call(name: str, args: list[Expr]) -> Call:
    return Call(Op.of(name), args).with_struct_info(infer_storage(name, args))


def alloc_tensor(
    shape: Any, dtype: Any, runtime_device_index: Any, storage_scope: Any = "global"
) -> Call:
    """Allocate an uninitialized tensor."""
    args = [_shape(shape), _dtype(dtype), _prim_value(runtime_device_index)]
    return _call("relax.builtin.alloc_tensor", [*args, _string_imm(storage_scope)])


def stop_lift_params(x: Expr) -> Call:
    """The identity; ``LiftTransformParams`` does not lift computations past it."""
    return _call("relax.builtin.stop_lift_params", [x])


def alloc_storage(
    size: Any, virtual_device_index: Any, storage_scope: Any, dtype: Any
) -> Call:
    """Allocate a storage; ``size`` in bytes."""
    args = [_shape(size), _prim_value(virtual_device_index), _string_imm(storage_scope)]
    return _call("relax.memory.alloc_storage", [*args, _dtype(dtype)])


def memory_alloc_tensor(
    storage: Expr, offset: Any, shape: Any, dtype: Any, runtime_device_ind: Any = 0
) -> Call:
    """Create a tensor in a storage; ``offset`` in bytes."""
    args = [storage, _prim_value(offset), _shape(shape), _dtype(dtype)]
    args.append(_prim_value(runtime_device_ind))
    return _call("relax.memory.alloc_tensor", args)


def kill_storage(storage: Expr) -> Call:
    """Free a storage."""
    return _call("relax.memory.kill_storage", [storage])


def kill_tensor(tensor: Expr) -> Call:
    """End the lifetime of a tensor."""
    return _call("relax.memory.kill_tensor", [tensor])


def view(
    data: Expr, shape: Any = None, dtype: Any = None, relative_byte_offset: Any = None
) -> Call:
    """Reinterpret the memory of a tensor with another shape, dtype or byte offset."""
    args = [
        data,
        Tuple(()) if shape is None else _shape(shape),
        Tuple(()) if dtype is None else _dtype(dtype),
        Tuple(())
        if relative_byte_offset is None
        else _prim_value(relative_byte_offset),
    ]
    return _call("relax.memory.view", args)


def ensure_zero_offset(data: Expr) -> Call:
    """The tensor, copied if its byte offset is not zero."""
    return _call("relax.memory.ensure_zero_offset", [data])


def vm_alloc_storage(
    shape: Any, runtime_device_index: Any, dtype: Any, storage_scope: Any = "global"
) -> Call:
    """Allocate a storage of the virtual machine for a tensor of this shape."""
    args = [_shape(shape), _prim_value(runtime_device_index), _dtype(dtype)]
    return _call("relax.vm.alloc_storage", [*args, _string_imm(storage_scope)])


def vm_alloc_tensor(
    storage: Expr, offset: Any, shape: Any, dtype: Any, runtime_device_ind: Any = 0
) -> Call:
    """Create a tensor of the virtual machine in a storage; ``offset`` in bytes."""
    args = [storage, _prim_value(offset), _shape(shape), _dtype(dtype)]
    args.append(_prim_value(runtime_device_ind))
    return _call("relax.vm.alloc_tensor", args)


def kill_object(obj: Expr) -> Call:
    """End the lifetime of an object."""
    return _call("relax.vm.kill_object", [obj])


def call_tir_dyn(func: Any, args: Any) -> Call:
    """Call a PrimFunc on allocated tensors; ``args`` also holds symbolic sizes."""
    callee = ExternFunc(func) if isinstance(func, str) else func
    packed = args if isinstance(args, Expr) else Tuple([convert(a) for a in args])
    return _call("relax.vm.call_tir_dyn", [callee, packed])


builtin.alloc_tensor = alloc_tensor
builtin.stop_lift_params = stop_lift_params
memory.alloc_storage = alloc_storage
memory.alloc_tensor = memory_alloc_tensor
memory.kill_storage = kill_storage
memory.kill_tensor = kill_tensor
memory.view = view
memory.ensure_zero_offset = ensure_zero_offset
vm.alloc_storage = vm_alloc_storage
vm.alloc_tensor = vm_alloc_tensor
vm.kill_object = kill_object
vm.call_tir_dyn = call_tir_dyn

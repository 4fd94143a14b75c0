"""Builder functions of calls, closures, effects, shape values and device operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from relax_mlir.errors import OperatorError
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import instance_of, mapping_of
from relax_mlir.objects.expr import (
    Attrs,
    Call,
    Expr,
    ExternFunc,
    GlobalVar,
    Op,
    ShapeExpr,
    StringImm,
    Tuple,
    const,
    convert,
)
from relax_mlir.objects.expr.struct_info import (
    ObjectStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    VDevice,
)

__all__ = [
    "assert_op",
    "call_builtin_with_ctx",
    "call_dps_packed",
    "call_inplace_packed",
    "call_pure_packed",
    "call_py_func",
    "call_tir",
    "call_tir_inplace",
    "call_tir_with_grad",
    "hint_on_device",
    "invoke_closure",
    "invoke_pure_closure",
    "make_closure",
    "null_value",
    "print",
    "shape_of",
    "shape_to_tensor",
    "size",
    "tensor_to_shape",
    "to_vdevice",
    "wrap_param",
]


def _arguments(args: Any) -> Expr:
    """The arguments of a call as one tuple expression, or a variable of tuple type."""
    if isinstance(args, (tuple, list)):
        return Tuple(args)
    expr = convert(args)
    is_tuple = isinstance(expr.struct_info_or_none(), TupleStructInfo)
    return expr if is_tuple or isinstance(expr, Tuple) else Tuple([expr])


def _info(info: Any) -> StructInfo:
    found = getattr(info, "as_struct_info", lambda: info)()
    return instance_of(found, StructInfo, "`out_sinfo`", "struct info of a result")


def _infos(infos: Any) -> list[StructInfo]:
    if infos is None:
        return []
    is_list = isinstance(infos, (list, tuple))
    return [_info(info) for info in infos] if is_list else [_info(infos)]


def _result(info: Any, shape: Any = None, dtype: Any = None) -> StructInfo:
    """Struct info of a call's result, also from TVM's older shape and dtype arguments."""
    if info is None:
        info = shape
    is_shape = isinstance(info, ShapeExpr) or (
        isinstance(info, (tuple, list)) and dtype is not None
    )
    if is_shape:
        return _of_shapes(info, dtype)
    infos = _infos(info)
    return infos[0] if len(infos) == 1 else TupleStructInfo(infos)


def _of_shapes(shape: Any, dtype: Any) -> StructInfo:
    many = isinstance(shape, (tuple, list)) and any(
        isinstance(s, (tuple, list, ShapeExpr)) for s in shape
    )
    if not many:
        return TensorStructInfo(shape, dtype)
    dtypes = dtype if isinstance(dtype, (tuple, list)) else [dtype] * len(shape)
    pairs = zip(shape, dtypes, strict=True)
    return TupleStructInfo([TensorStructInfo(s, d) for s, d in pairs])


def _tir_vars(tir_vars: Any) -> list[Expr]:
    if tir_vars is None:
        return []
    return [tir_vars if isinstance(tir_vars, ShapeExpr) else ShapeExpr(tir_vars)]


def call_tir(
    gvar: Any,
    args: Any,
    out_sinfo: Any = None,
    tir_vars: Any = None,
    *,
    out_ty: Any = None,
    dtype: Any = None,
    shape: Any = None,
) -> Call:
    """Call a PrimFunc in destination-passing style; the outputs are new tensors.

    Args:
        gvar: the PrimFunc; a string names a packed function, as for ``call_dps_packed``.
        args: input tensors.
        out_sinfo: struct info of the result, or a list of it; or a shape, with ``dtype``.
        tir_vars: values of scalar parameters that are in no input or output shape.
        out_ty: TVM's newer name of ``out_sinfo``.
        dtype: element type, if the result is given as a shape.
        shape: TVM's older name of ``out_sinfo``, for a shape.
    """
    info = _result(out_ty if out_ty is not None else out_sinfo, shape, dtype)
    if isinstance(gvar, (str, ExternFunc)):
        return call_dps_packed(gvar, args, info)
    args = [gvar, _arguments(args), *_tir_vars(tir_vars)]
    return Call(Op.of("relax.call_tir"), args, None, [info])


def call_tir_with_grad(
    gvar: GlobalVar,
    args: Any,
    out_sinfo: Any = None,
    te_grad_name: str = "",
    te_grad_kwargs: Mapping[str, Any] | None = None,
    tir_vars: Any = None,
    *,
    out_ty: Any = None,
) -> Call:
    """``call_tir`` with the name of the TE function that computes its gradient."""
    info = _result(out_ty if out_ty is not None else out_sinfo)
    named = mapping_of(te_grad_kwargs, "`te_grad_kwargs`")
    attrs = Attrs({"te_grad_name": te_grad_name, "te_grad_kwargs": named})
    args = [gvar, _arguments(args), *_tir_vars(tir_vars)]
    return Call(Op.of("relax.call_tir_with_grad"), args, attrs, [info])


def call_tir_inplace(
    gvar: GlobalVar,
    args: Any,
    inplace_indices: Any,
    out_sinfo: Any = None,
    tir_vars: Any = None,
    *,
    out_ty: Any = None,
) -> Call:
    """``call_tir`` that reuses memory of some inputs for its results.

    Args:
        gvar, args, out_sinfo, tir_vars, out_ty: as for ``call_tir``.
        inplace_indices: per result, the index of the overwritten input; -1 for a new tensor.
    """
    info = _result(out_ty if out_ty is not None else out_sinfo)
    indices = _inplace_indices(inplace_indices)
    overwritten = [index for index in indices if index >= 0]
    if len(set(overwritten)) < len(overwritten):
        raise ValueError(
            "call_tir_inplace: expected each input to be overwritten by one result at "
            f"most, got {indices}"
        )
    args = [gvar, _arguments(args), *_tir_vars(tir_vars)]
    attrs = {"inplace_indices": indices}
    return Call(Op.of("relax.call_tir_inplace"), args, attrs, [info])


def _inplace_indices(indices: Any) -> tuple[int, ...]:
    listed = indices if isinstance(indices, (list, tuple)) else [indices]
    wrong = [i for i in listed if not isinstance(i, (int, np.integer, prim.IntImm))]
    if wrong:
        kind = type(wrong[0]).__name__
        raise TypeError(f"`inplace_indices`: expected indices of inputs, got {kind}")
    return tuple(int(i) for i in listed)


def _callee(function: Any) -> Expr:
    return ExternFunc(function) if isinstance(function, str) else function


def call_dps_packed(
    func: Any,
    args: Any,
    out_sinfo: Any = None,
    *,
    out_ty: Any = None,
    dtype: Any = None,
) -> Call:
    """Call a packed function in destination-passing style; the outputs are new tensors.

    Args:
        func: name of the function.
        args: inputs; the output tensors are passed after them.
        out_sinfo: struct info of the result, or a list of it.
        out_ty: TVM's newer name of ``out_sinfo``.
        dtype: element type, if the result is given as a shape.
    """
    info = _result(out_ty if out_ty is not None else out_sinfo, dtype=dtype)
    args = [_callee(func), _arguments(args)]
    return Call(Op.of("relax.call_dps_packed"), args, None, [info])


def call_pure_packed(
    func: Any, *args: Any, sinfo_args: Any = None, ty_args: Any = None
) -> Call:
    """Call a packed function without side effects that returns its result."""
    infos = _infos(sinfo_args if ty_args is None else ty_args)
    call_args = [_callee(func), *map(convert, args)]
    return Call(Op.of("relax.call_pure_packed"), call_args, None, infos)


def call_inplace_packed(
    func: Any,
    *args: Any,
    inplace_indices: Any,
    sinfo_args: Any = None,
    ty_args: Any = None,
) -> Call:
    """Call a packed function that overwrites some of its inputs with its results."""
    infos = _infos(sinfo_args if ty_args is None else ty_args)
    attrs = {"inplace_indices": _inplace_indices(inplace_indices)}
    call_args = [_callee(func), *map(convert, args)]
    return Call(Op.of("relax.call_inplace_packed"), call_args, attrs, infos)


def call_py_func(
    func_name: Any, args: Any, out_sinfo: Any = None, *, out_ty: Any = None
) -> Call:
    """Call a Python function of the module."""
    info = _result(out_ty if out_ty is not None else out_sinfo)
    name = StringImm(func_name) if isinstance(func_name, str) else func_name
    return Call(Op.of("relax.call_py_func"), [name, _arguments(args)], None, [info])


def call_builtin_with_ctx(
    func: Any, args: Any, *, sinfo_args: Any = None, ty_args: Any = None
) -> Call:
    """Call a packed function that takes the virtual machine's context first."""
    infos = _infos(sinfo_args if ty_args is None else ty_args)
    call_args = [_callee(func), _arguments(args)]
    return Call(Op.of("relax.call_builtin_with_ctx"), call_args, None, infos)


def make_closure(func: Expr, args: Any) -> Call:
    """Create a closure of a function and its captured values."""
    call = Call(Op.of("relax.make_closure"), [func, _arguments(args)])
    return call.with_struct_info(ObjectStructInfo())


def invoke_closure(
    closure: Expr, args: Any, sinfo_args: Any = None, *, ty_args: Any = None
) -> Call:
    """Call a closure."""
    infos = _infos(sinfo_args if ty_args is None else ty_args)
    return Call(Op.of("relax.invoke_closure"), [closure, _arguments(args)], None, infos)


def invoke_pure_closure(
    closure: Expr, args: Any, sinfo_args: Any = None, *, ty_args: Any = None
) -> Call:
    """Call a closure without side effects."""
    infos = _infos(sinfo_args if ty_args is None else ty_args)
    call_args = [closure, _arguments(args)]
    return Call(Op.of("relax.invoke_pure_closure"), call_args, None, infos)


def wrap_param(data: Expr, dtype: Any = "float32") -> Call:
    """Give a parameter another element type, until `ToMixedPrecision` unwraps it."""
    info = instance_of(data, Expr, "`wrap_param`", "a tensor").struct_info_or_none()
    if not isinstance(info, TensorStructInfo):
        raise TypeError(f"`wrap_param`: expected a tensor, got {info}")
    wrapped = info.replace(dtype=str(dtype))
    call = Call(Op.of("relax.wrap_param"), [data], {"dtype": str(dtype)})
    return call.with_struct_info(wrapped)


def null_value() -> Call:
    """The null object."""
    return Call(Op.of("relax.null_value"), [], None, [ObjectStructInfo()])


def print(*values: Any, format: str | Expr = "") -> Call:
    """Print values at run time.

    Args:
        values: the values; a leading string is the format.
        format: format string with a ``{}`` per value.
    """
    values_ = list(values)
    has_format = not isinstance(format, str) or format
    if values_ and isinstance(values_[0], str) and not has_format:
        format = values_.pop(0)
    text = StringImm(format) if isinstance(format, str) else format
    call_args = [text, *map(convert, values_)]
    return Call(Op.of("relax.print"), call_args, None, [TupleStructInfo([])])


def assert_op(condition: Any, format_args: Any = None, format: Any = "") -> Call:
    """Assert a condition at run time."""
    if isinstance(condition, bool):
        condition = const(condition)
    listed = [] if format_args is None else format_args
    listed = listed if isinstance(listed, (list, tuple)) else [listed]
    text = StringImm(format) if isinstance(format, str) else format
    call_args = [convert(condition), text, *map(convert, listed)]
    return Call(Op.of("relax.assert_op"), call_args, None, [TupleStructInfo([])])


def _tensor_info(expr: Expr, name: str) -> TensorStructInfo | None:
    """Struct info of a tensor argument; None if it has none, or that of any object.

    Raises:
        OperatorError: the argument is not a tensor.
    """
    where = f"`relax.{name}`"
    info = instance_of(expr, Expr, where, "a tensor").struct_info_or_none()
    if info is None or isinstance(info, TensorStructInfo):
        return info
    if type(info) is ObjectStructInfo:
        return None
    raise OperatorError(f"`relax.{name}`: expected a tensor, got {info}")


def _shape_info(info: TensorStructInfo | None) -> StructInfo:
    if info is None:
        return ShapeStructInfo()
    if isinstance(info.shape, ShapeExpr):
        return ShapeStructInfo(info.shape.values)
    return ShapeStructInfo(ndim=info.ndim)


def shape_of(expr: Expr) -> Call:
    """The shape of a tensor as a shape value."""
    info = _shape_info(_tensor_info(expr, "shape_of"))
    return Call(Op.of("relax.shape_of"), [expr]).with_struct_info(info)


def tensor_to_shape(expr: Expr) -> Call:
    """Convert an integer vector to a shape value.

    Raises:
        OperatorError: it is not a vector.
    """
    info = _tensor_info(expr, "tensor_to_shape")
    length = -1
    if info is not None:
        if info.ndim != 1:
            raise OperatorError(
                f"`relax.tensor_to_shape`: expected a vector, got {info}"
            )
        size = info.shape.values[0] if isinstance(info.shape, ShapeExpr) else None
        length = int(size) if isinstance(size, prim.IntImm) else -1
    call = Call(Op.of("relax.tensor_to_shape"), [expr])
    return call.with_struct_info(ShapeStructInfo(ndim=length))


def shape_to_tensor(expr: Expr) -> Call:
    """Convert a shape value to an int64 vector.

    Raises:
        OperatorError: it is not a shape.
    """
    where = "`relax.shape_to_tensor`"
    info = instance_of(expr, Expr, where, "a shape").struct_info_or_none()
    if isinstance(info, (TensorStructInfo, TupleStructInfo)):
        raise OperatorError(f"`relax.shape_to_tensor`: expected a shape, got {info}")
    ndim = getattr(info, "ndim", -1)
    sizes = TensorStructInfo(dtype="int64", ndim=1)
    if ndim >= 0:
        sizes = sizes.replace(shape=[ndim])
    call = Call(Op.of("relax.shape_to_tensor"), [expr])
    return call.with_struct_info(sizes)


def size(expr: Expr) -> Call:
    """The number of elements of a tensor."""
    _tensor_info(expr, "size")
    call = Call(Op.of("relax.size"), [expr])
    return call.with_struct_info(TensorStructInfo((), "int64"))


def to_vdevice(data: Expr, dst_vdevice: Any) -> Call:
    """Copy a tensor to another device."""
    kinds = (str, VDevice)
    where, what = "to_vdevice: `dst_vdevice`", "a device or its name"
    device = instance_of(dst_vdevice, kinds, where, what)
    return Call(Op.of("relax.to_vdevice"), [data], {"dst_vdevice": str(device)})


# DLPack device types.
_DEVICES = {1: "cpu", 2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm"}


def hint_on_device(
    data: Expr,
    dst_vdevice: Any = None,
    memory_scope: str = "global",
    *,
    device_type: int | None = None,
    index: int = 0,
) -> Call:
    """Hint that a tensor is expected on a device.

    Args:
        data: the tensor.
        dst_vdevice: the device; alternatively ``device_type`` (DLPack's) and ``index``.
        memory_scope: memory scope on the device.

    Raises:
        OperatorError: the device type is unknown.
    """
    if device_type is not None:
        where = "`relax.hint_on_device`"
        if instance_of(device_type, int, where, "a device type") not in _DEVICES:
            raise OperatorError(
                f"`relax.hint_on_device`: expected a device type of {list(_DEVICES)}, got "
                f"{device_type}"
            )
        dst_vdevice = f"{_DEVICES[int(device_type)]}:{index}"
    attrs = {"dst_vdevice": str(dst_vdevice), "memory_scope": memory_scope}
    return Call(Op.of("relax.hint_on_device"), [data], attrs)

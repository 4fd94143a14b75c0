"""Conversion between struct info and MLIR types.

``R.Tensor(("n", 4), "float32")`` is ``tensor<?x4xf32, #relax.shape<["n", "4"]>>``. A tensor
of known rank and unknown shape has no encoding, one of unknown rank is unranked, one of
unknown element type has elements of ``!relax.unknown``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from mlir import ir

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.errors import IRError
from relax_mlir.objects import prim
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeExpr,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    VDevice,
)
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.objects.prim.type_text import (
    is_prim_expr_text,
    parse_prim_expr,
    prim_expr_text,
)
from relax_mlir.symbolic.symbols import parse

__all__ = ["from_mlir", "to_mlir"]

_DYNAMIC = ir.ShapedType.get_dynamic_size()


def to_mlir(info: StructInfo, symbols: Symbols) -> ir.Type:
    """The MLIR type of struct info; needs a current context.

    Raises:
        ValueError: a size is negative or not expressible, or an element type is unknown.
    """
    if isinstance(info, TensorStructInfo):
        return _tensor_to_mlir(info, symbols)
    if isinstance(info, TupleStructInfo):
        return ir.TupleType.get_tuple([to_mlir(f, symbols) for f in info.fields])
    if isinstance(info, ShapeStructInfo):
        if info.values is None:
            return ir.Type.parse(
                f"!relax.sizes<{'unit' if info.ndim < 0 else info.ndim}>"
            )
        return ir.Type.parse(f"!relax.sizes<{_shape_text(info.values, symbols)}>")
    if isinstance(info, PrimStructInfo):
        scalar = dtypes.dtype(info.dtype).tensor_type
        value = "" if info.value is None else f', "{_prim_text(info.value, symbols)}"'
        return ir.Type.parse(f"!relax.prim<[{scalar}{value}]>")
    if isinstance(info, FuncStructInfo):
        return _function_to_mlir(info, symbols)
    return ir.Type.parse("!relax.object")


def _prim_text(value: PrimExpr, symbols: Symbols) -> str:
    if isinstance(value, prim.FloatImm):
        return repr(value.value)
    try:
        return str(symbols.dim(value))
    except ValueError:
        return prim_expr_text(value, symbols.name)


def _shape_text(values: Sequence[PrimExpr], symbols: Symbols) -> str:
    return json.dumps([str(dim) for dim in symbols.dims(values)])


def _tensor_to_mlir(info: TensorStructInfo, symbols: Symbols) -> ir.Type:
    if info.dtype == "void":
        element = ir.Type.parse("!relax.unknown")
    else:
        element = dtypes.dtype(info.dtype).tensor_type
    if info.ndim < 0:
        return ir.UnrankedTensorType.get(element)
    device = None if info.vdevice is None else str(info.vdevice)
    if not isinstance(info.shape, ShapeExpr):
        encoding = (
            None if device is None else tensors.shape_and_device_attr(None, device)
        )
        return ir.RankedTensorType.get([_DYNAMIC] * info.ndim, element, encoding)
    dims = symbols.dims(info.shape.values)
    if device is not None:
        sizes = [d if isinstance(d, int) else _DYNAMIC for d in dims]
        return ir.RankedTensorType.get(
            sizes, element, tensors.shape_and_device_attr(dims, device)
        )
    if info.dtype != "void":
        return tensors.tensor_type(dims, dtypes.dtype(info.dtype))
    known = all(isinstance(d, int) for d in dims)
    if any(isinstance(d, int) and d < 0 for d in dims):
        raise ValueError(f"expected sizes from 0 up, got {shapes.format_shape(dims)}")
    sizes = [d if isinstance(d, int) else _DYNAMIC for d in dims]
    return ir.RankedTensorType.get(
        sizes, element, None if known else tensors.shape_attr(dims)
    )


def _function_to_mlir(info: FuncStructInfo, symbols: Symbols) -> ir.Type:
    ret = to_mlir(info.ret, symbols)
    pure = "true" if info.purity else "false"
    if info.params is None:
        return ir.Type.parse(f"!relax.callable<[{ret}, {pure}]>")
    params = ", ".join(str(to_mlir(p, symbols)) for p in info.params)
    return ir.Type.parse(f"!relax.callable<[[{params}], {ret}, {pure}]>")


def from_mlir(type_: ir.Type, symbols: Symbols) -> StructInfo:
    """The struct info of an MLIR type.

    Raises:
        IRError: the type is not that of a Relax value.
    """
    if isinstance(type_, ir.RankedTensorType):
        return _ranked_from_mlir(type_, symbols)
    if isinstance(type_, ir.UnrankedTensorType):
        return TensorStructInfo(dtype=_dtype_name(type_.element_type))
    if isinstance(type_, ir.TupleType):
        fields = (type_.get_type(i) for i in range(type_.num_types))
        return TupleStructInfo([from_mlir(f, symbols) for f in fields])
    text = str(type_)
    for prefix, read in _READERS.items():
        if text.startswith(prefix):
            parameter = ir.Attribute.parse(
                text.removeprefix(prefix).removeprefix("<").removesuffix(">") or "unit",
                context=type_.context,
            )
            return read(parameter, symbols)
    raise IRError(
        f"type `{type_}`: expected a tensor, a tuple, or a type of the dialect relax"
    )


def _dtype_name(element: ir.Type) -> str:
    return (
        "void" if str(element) == "!relax.unknown" else dtypes.from_mlir(element).name
    )


def _ranked_from_mlir(type_: ir.RankedTensorType, symbols: Symbols) -> StructInfo:
    dtype = _dtype_name(type_.element_type)
    place = tensors.device_of(type_)
    device = None if place is None else VDevice.parse(place)
    try:
        dims = tensors.shape_of(type_)
    except ValueError:
        return TensorStructInfo(dtype=dtype, vdevice=device, ndim=type_.rank)
    return TensorStructInfo(ShapeExpr(symbols.exprs(dims)), dtype, device)


def _read_sizes(parameter: ir.Attribute, symbols: Symbols) -> StructInfo:
    if isinstance(parameter, ir.ArrayAttr):
        dims = [parse(a.value) for a in map(ir.StringAttr, parameter)]
        return ShapeStructInfo(symbols.exprs(dims))
    is_rank = isinstance(parameter, ir.IntegerAttr)
    return ShapeStructInfo(ndim=parameter.value if is_rank else -1)


def _read_prim(parameter: ir.Attribute, symbols: Symbols) -> StructInfo:
    scalar, *value = ir.ArrayAttr(parameter)
    dtype = dtypes.from_mlir(ir.TypeAttr(scalar).value).name
    if not value:
        return PrimStructInfo(dtype)
    text = ir.StringAttr(value[0]).value
    if is_prim_expr_text(text):
        return PrimStructInfo(dtype, parse_prim_expr(text, symbols.var))
    if dtype.startswith(("float", "bfloat")):
        return PrimStructInfo(dtype, prim.const(float(text), dtype))
    return PrimStructInfo(dtype, prim.cast(dtype, symbols.expr(parse(text))))


def _read_callable(parameter: ir.Attribute, symbols: Symbols) -> StructInfo:
    *params, ret, pure = ir.ArrayAttr(parameter)
    result = from_mlir(ir.TypeAttr(ret).value, symbols)
    is_pure = ir.BoolAttr(pure).value
    if not params:
        return FuncStructInfo.opaque_func(ret=result, purity=is_pure)
    types = [ir.TypeAttr(t).value for t in ir.ArrayAttr(params[0])]
    return FuncStructInfo([from_mlir(t, symbols) for t in types], result, is_pure)


_READERS: dict[str, Callable[[ir.Attribute, Symbols], StructInfo]] = {
    "!relax.sizes": _read_sizes,
    "!relax.prim": _read_prim,
    "!relax.callable": _read_callable,
    "!relax.object": lambda parameter, symbols: ObjectStructInfo(),
}

"""Legalization rules of tensor creation and of triangular parts."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Call, Expr, PrimValue, ShapeExpr, const
from relax_mlir.objects.expr.struct_info import ShapeStructInfo
from relax_mlir.objects.prim import intrinsics
from relax_mlir.tvm import te, topi
from relax_mlir.tvm.relax.transform.legalize_ops.calls import (
    LegalizeFunc,
    scalar_value,
    tensor_info,
)

__all__ = ["RULES"]


def _full(name: str, fill: float | None) -> LegalizeFunc:
    """A rule for a constant tensor of ``fill``, or of the second argument."""

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        value: Any = fill
        if fill is None:
            value = scalar_value(call.args[1])
            value = call.args[1] if value is None else value
        shape = _dims_of(builder, call.args[0])
        dtype = tensor_info(call).dtype
        return builder.call_te(topi.full, shape, dtype, value, primfunc_name_hint=name)

    return rule


def _dims_of(builder: BlockBuilder, like: Expr) -> list[Any]:
    """Returns the dimensions of a shape, or of a tensor's shape; new symbols if unknown."""
    info = like.struct_info
    shape = like if isinstance(info, ShapeStructInfo) else tensor_info(like).shape
    if isinstance(shape, ShapeExpr):
        return list(shape.values)
    assert isinstance(info, ShapeStructInfo)
    shape_var = builder.emit(like)
    sizes = [prim.Var(f"s{i}", "int64") for i in range(info.ndim)]
    builder.match_cast(shape_var, ShapeStructInfo(sizes))
    return sizes


def _triangle(name: str, *, upper: bool) -> LegalizeFunc:
    def rule(builder: BlockBuilder, call: Call) -> Expr:
        x, *rest = call.args
        k = rest[0] if rest else PrimValue(0)
        return builder.call_te(topi.trilu, x, k, upper=upper, primfunc_name_hint=name)

    return rule


def _arange(builder: BlockBuilder, call: Call) -> Expr:
    bounds = [getattr(a, "value", None) for a in call.args]
    constants: list[Any] = [getattr(bound_expr, "value", None) for bound_expr in bounds]
    dtype = tensor_info(call).dtype
    if None not in constants:
        return const(np.arange(*constants, dtype=dtype), dtype)
    return builder.call_te(topi.arange, *bounds, dtype, primfunc_name_hint="arange")


def _shape_to_tensor(builder: BlockBuilder, call: Call) -> Expr:
    info = call.args[0].struct_info
    if not isinstance(info, ShapeStructInfo) or info.values is None:
        return call
    sizes = info.values
    symbolic = [s for s in sizes if not isinstance(s, prim.IntImm)]

    def shape_to_tensor(*values: Any) -> te.Tensor:
        remaining = iter(values)
        dims = [s if isinstance(s, prim.IntImm) else next(remaining) for s in sizes]

        def element(i: Any) -> Any:
            chosen: Any = prim.const(0, "int64")
            for axis in reversed(range(len(dims))):
                size = prim.Cast("int64", dims[axis])
                chosen = intrinsics.if_then_else(i == axis, size, chosen)
            return chosen

        return te.compute((len(dims),), element, "shape_to_tensor")

    return builder.call_te(shape_to_tensor, *symbolic)


RULES: Mapping[str, LegalizeFunc] = {
    "full": _full("full", None),
    "full_like": _full("full", None),
    "ones": _full("ones", 1.0),
    "ones_like": _full("ones", 1.0),
    "zeros": _full("zeros", 0.0),
    "zeros_like": _full("zeros", 0.0),
    "tril": _triangle("tril", upper=False),
    "triu": _triangle("triu", upper=True),
    "arange": _arange,
    "shape_to_tensor": _shape_to_tensor,
}

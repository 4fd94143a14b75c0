"""Rules of operators that make tensors, and of those that keep a triangle."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from relax_mlir import te, topi
from relax_mlir.objects import functions, prim
from relax_mlir.objects.expr import Call, Expr, PrimValue, ShapeExpr, const
from relax_mlir.objects.struct_info import ShapeStructInfo
from relax_mlir.relax.block_builder import BlockBuilder
from relax_mlir.relax.transform.legalize_ops.calls import (
    LegalizeFunc,
    number,
    tensor_info,
)

__all__ = ["RULES"]


def _full(name: str, fill: float | None) -> LegalizeFunc:
    """One number everywhere: ``fill``, or the second argument."""

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        value: Any = fill
        if fill is None:
            value = number(call.args[1])
            value = call.args[1] if value is None else value
        shape = _sizes(builder, call.args[0])
        dtype = tensor_info(call).dtype
        return builder.call_te(topi.full, shape, dtype, value, primfunc_name_hint=name)

    return rule


def _sizes(builder: BlockBuilder, like: Expr) -> list[Any]:
    """The sizes that a shape has, or the shape of a tensor; new ones if unknown."""
    info = like.struct_info
    shape = like if isinstance(info, ShapeStructInfo) else tensor_info(like).shape
    if isinstance(shape, ShapeExpr):
        return list(shape.values)
    assert isinstance(info, ShapeStructInfo)
    known = builder.emit(like)
    sizes = [prim.Var(f"s{i}", "int64") for i in range(info.ndim)]
    builder.match_cast(known, ShapeStructInfo(sizes))
    return sizes


def _triangle(name: str, *, upper: bool) -> LegalizeFunc:
    def rule(builder: BlockBuilder, call: Call) -> Expr:
        x, *rest = call.args
        k = rest[0] if rest else PrimValue(0)
        return builder.call_te(topi.trilu, x, k, upper=upper, primfunc_name_hint=name)

    return rule


def _plain(expr: Expr) -> Any:
    value = number(expr)
    return expr if value is None else value


def _eye(builder: BlockBuilder, call: Call) -> Expr:
    rows, *rest = map(_plain, call.args)
    columns = rest[0] if rest else rows
    diagonal = rest[1] if len(rest) > 1 else 0
    return _call_eye(builder, call, (rows, columns, diagonal), "eye")


def _eye_like(builder: BlockBuilder, call: Call) -> Expr:
    x, *rest = call.args
    shape = tensor_info(x).shape
    assert isinstance(shape, ShapeExpr)
    diagonal = _plain(rest[0]) if rest else 0
    return _call_eye(builder, call, (*shape.values, diagonal), "eye_like")


def _call_eye(
    builder: BlockBuilder, call: Call, sizes: tuple[Any, ...], name: str
) -> Expr:
    dtype = tensor_info(call).dtype
    return builder.call_te(topi.eye, *sizes, dtype, primfunc_name_hint=name)


def _arange(builder: BlockBuilder, call: Call) -> Expr:
    bounds = [getattr(a, "value", None) for a in call.args]
    numbers: list[Any] = [getattr(bound, "value", None) for bound in bounds]
    dtype = tensor_info(call).dtype
    if None not in numbers:
        return const(np.arange(*numbers, dtype=dtype), dtype)
    return builder.call_te(topi.arange, *bounds, dtype, primfunc_name_hint="arange")


def _shape_to_tensor(builder: BlockBuilder, call: Call) -> Expr:
    info = call.args[0].struct_info
    if not isinstance(info, ShapeStructInfo) or info.values is None:
        return call
    sizes = info.values
    symbolic = [s for s in sizes if not isinstance(s, prim.IntImm)]

    def shape_to_tensor(*given: Any) -> te.Tensor:
        own = iter(given)
        terms = [s if isinstance(s, prim.IntImm) else next(own) for s in sizes]

        def element(i: Any) -> Any:
            chosen: Any = prim.const(0, "int64")
            for place in reversed(range(len(terms))):
                size = prim.Cast("int64", terms[place])
                chosen = functions.if_then_else(i == place, size, chosen)
            return chosen

        return te.compute((len(terms),), element, "shape_to_tensor")

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
    "eye": _eye,
    "eye_like": _eye_like,
    "arange": _arange,
    "shape_to_tensor": _shape_to_tensor,
}

"""Helpers of legalization rules: scalars, tuple fields, calls of ``topi``."""

from collections.abc import Callable
from typing import Any

from relax_mlir.errors import short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import (
    Call,
    Constant,
    Expr,
    Tuple,
    TupleGetItem,
    Var,
)
from relax_mlir.objects.expr.struct_info import TensorStructInfo, TupleStructInfo

__all__ = [
    "LegalizeFunc",
    "scalar_literal",
    "scalar_value",
    "te_rule",
    "tensor_info",
    "tuple_fields",
]

LegalizeFunc = Callable[[BlockBuilder, Call], Expr]


def te_rule(
    te_func: Callable[..., Any], name: str | None = None, *attrs: str
) -> LegalizeFunc:
    """A rule that passes the arguments of a call, then some attributes, to a TE function.

    Args:
        te_func: builds the tensor program.
        name: of the program; by default that of ``te_func``.
        *attrs: attributes of the call that ``te_func`` takes after the arguments.
    """
    hint = name or te_func.__name__

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        values = [call.attrs[attr] for attr in attrs]
        return builder.call_te(te_func, *call.args, *values, primfunc_name_hint=hint)

    return rule


def scalar_value(expr: Expr) -> bool | int | float | None:
    """Returns the value of a rank-0 constant; None for other expressions."""
    if isinstance(expr, Constant) and expr.array.ndim == 0:
        return expr.array.item()
    return None


def scalar_literal(expr: Expr) -> Any:
    """Returns a rank-0 constant as a literal of its type; other expressions as they are."""
    value = scalar_value(expr)
    if value is None:
        return expr
    return prim.const(value, tensor_info(expr).dtype)


def tensor_info(expr: Expr) -> TensorStructInfo:
    """Returns the struct info of a tensor.

    Raises:
        TypeError: the expression is not a tensor.
    """
    info = expr.struct_info
    if not isinstance(info, TensorStructInfo):
        raise TypeError(
            f"LegalizeOps: expected a tensor, got `{short_repr(expr)}` of {info}"
        )
    return info


def tuple_fields(builder: BlockBuilder, value: Expr) -> list[Expr]:
    """Returns the fields of a tuple; emits the projections unless it is written out."""
    info = value.struct_info
    while isinstance(value, Var):
        bound = builder.lookup_binding(value)
        if not isinstance(bound, (Tuple, Var)):
            break
        value = bound
    if isinstance(value, Tuple):
        return list(value.fields)
    assert isinstance(info, TupleStructInfo)
    return [builder.emit(TupleGetItem(value, i)) for i in range(len(info.fields))]

"""What the rules of all families share: scalars, fields of tuples, calls of ``topi``."""

from collections.abc import Callable
from typing import Any

from relax_mlir.errors import shown
from relax_mlir.objects import prim
from relax_mlir.objects.expr import (
    Call,
    Constant,
    Expr,
    Tuple,
    TupleGetItem,
    Var,
)
from relax_mlir.objects.struct_info import TensorStructInfo, TupleStructInfo
from relax_mlir.relax.block_builder import BlockBuilder

__all__ = ["LegalizeFunc", "fields_of", "literal", "number", "passing", "tensor_info"]

LegalizeFunc = Callable[[BlockBuilder, Call], Expr]


def passing(
    te_func: Callable[..., Any], name: str | None = None, *attrs: str
) -> LegalizeFunc:
    """A rule that passes the arguments of a call, then some attributes.

    Args:
        te_func: makes the program.
        name: of the program; by default that of ``te_func``.
        *attrs: attributes of the call that ``te_func`` takes after the arguments.
    """
    hint = name or te_func.__name__

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        values = [call.attrs[attr] for attr in attrs]
        return builder.call_te(te_func, *call.args, *values, primfunc_name_hint=hint)

    return rule


def number(expr: Expr) -> bool | int | float | None:
    """The number that a constant of rank 0 holds; None for other expressions."""
    if isinstance(expr, Constant) and expr.array.ndim == 0:
        return expr.array.item()
    return None


def literal(expr: Expr) -> Any:
    """A constant of rank 0 as a literal of its type; other expressions as they are."""
    value = number(expr)
    if value is None:
        return expr
    return prim.const(value, tensor_info(expr).dtype)


def tensor_info(expr: Expr) -> TensorStructInfo:
    """What is known of a tensor.

    Raises:
        TypeError: it is none.
    """
    info = expr.struct_info
    if not isinstance(info, TensorStructInfo):
        raise TypeError(
            f"LegalizeOps: expected a tensor, got `{shown(expr)}` of {info}"
        )
    return info


def fields_of(builder: BlockBuilder, value: Expr) -> list[Expr]:
    """The elements of a tuple, which are taken out of it unless it is written out."""
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

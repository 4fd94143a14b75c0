"""``relax.expr``: the expression classes of Relax, and shape helpers."""

from __future__ import annotations

from typing import Any

from relax_mlir.errors import BuilderError, short_repr
from relax_mlir.objects.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExternFunc,
    GlobalVar,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    const,
)
from relax_mlir.objects.expr.struct_info import StructInfo, TensorStructInfo
from relax_mlir.objects.function import Function

__all__ = [
    "Binding",
    "BindingBlock",
    "Call",
    "Constant",
    "DataTypeImm",
    "DataflowBlock",
    "DataflowVar",
    "Expr",
    "ExternFunc",
    "Function",
    "GlobalVar",
    "If",
    "MatchCast",
    "PrimValue",
    "SeqExpr",
    "ShapeExpr",
    "StringImm",
    "Tuple",
    "TupleGetItem",
    "Var",
    "VarBinding",
    "const",
    "get_shape_of",
    "make_shape",
]


def get_shape_of(expr: Expr) -> Expr:
    """The shape of a tensor: from its struct info if known, else a ``shape_of`` call.

    Raises:
        RuntimeError: it is not a tensor, or has no struct info.
    """
    info = expr.struct_info_or_none()
    if not isinstance(info, TensorStructInfo):
        raise BuilderError(
            f"get_shape_of: `{expr}`: expected a tensor, got "
            f"{'one without struct info' if info is None else info}"
        )
    return info.shape if info.shape is not None else Call("relax.shape_of", [expr])


def make_shape(shape: Any) -> ShapeExpr:  # Any: it is checked
    """Convert a list or a tuple of sizes to a shape expression.

    Raises:
        TypeError: ``shape`` is neither.
    """
    if isinstance(shape, (list, tuple)):
        return ShapeExpr(shape)
    raise TypeError(
        f"make_shape: expected a list or a tuple of sizes, got {short_repr(shape)}"
    )


def _update_struct_info(expr: Expr, struct_info: StructInfo | None) -> None:
    """Set the struct info of an expression that is not bound yet."""
    expr._struct_info = struct_info


_update_type = _update_struct_info

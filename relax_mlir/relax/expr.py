"""The expressions of Relax under the name that TVM's module has, and shapes of them."""

from __future__ import annotations

from typing import Any

from relax_mlir.errors import BuilderError, shown
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
from relax_mlir.objects.function import Function
from relax_mlir.objects.struct_info import StructInfo, TensorStructInfo

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
    """The shape of a tensor: its sizes where they are known, else a call that asks.

    Raises:
        RuntimeError: it is no tensor, or nothing is known of it.
    """
    info = expr.struct_info_or_none()
    if not isinstance(info, TensorStructInfo):
        raise BuilderError(
            f"get_shape_of: `{expr}`: expected a tensor, got "
            f"{'what nothing is known of' if info is None else info}"
        )
    return info.shape if info.shape is not None else Call("relax.shape_of", [expr])


def make_shape(shape: Any) -> ShapeExpr:  # Any: it is checked
    """Sizes, in a list or a tuple, as an expression.

    Raises:
        TypeError: they are neither.
    """
    if isinstance(shape, (list, tuple)):
        return ShapeExpr(shape)
    raise TypeError(
        f"make_shape: expected a list or a tuple of sizes, got {shown(shape)}"
    )


def _update_struct_info(expr: Expr, struct_info: StructInfo | None) -> None:
    """Say what is known of an expression that stands nowhere."""
    expr._struct_info = struct_info


_update_type = _update_struct_info

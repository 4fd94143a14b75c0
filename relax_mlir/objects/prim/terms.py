"""Annotated parameter types that accept scalar expressions and Python numbers."""

from typing import Annotated, Any

import numpy as np

from relax_mlir.objects.prim.constants import StringImm
from relax_mlir.objects.prim.expr import NUMBERS, PrimExpr
from relax_mlir.support.argument_types import ValueCondition

__all__ = ["PrimExprLike", "PrimExprLikes"]


def _is_prim_expr_like(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "biuf"
    is_scalar = isinstance(value, (PrimExpr, *NUMBERS)) or hasattr(
        type(value), "as_prim_expr"
    )
    return is_scalar and not isinstance(value, StringImm)


def _are_prim_expr_like(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_prim_expr_like, value))
    if isinstance(value, np.ndarray):
        return value.ndim <= 1 and value.dtype.kind in "biuf"
    has_elements = hasattr(value, "__len__") and hasattr(value, "__iter__")
    is_text = isinstance(value, (str, bytes, bytearray, dict, set, type))
    return _is_prim_expr_like(value) or (has_elements and not is_text)


PrimExprLike = Annotated[
    Any, ValueCondition("a number or a scalar expression", _is_prim_expr_like)
]
PrimExprLikes = Annotated[
    Any,
    ValueCondition(
        "numbers or scalar expressions, one or several", _are_prim_expr_like
    ),
]

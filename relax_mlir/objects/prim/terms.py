"""Types of parameters that take scalar expressions and numbers alike."""

from typing import Annotated, Any

import numpy as np

from relax_mlir.argument_types import Holds
from relax_mlir.objects.prim.constants import StringImm
from relax_mlir.objects.prim.expr import NUMBERS, PrimExpr

__all__ = ["Term", "Terms"]


def _is_term(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "biuf"
    is_scalar = isinstance(value, (PrimExpr, *NUMBERS)) or hasattr(
        type(value), "as_prim_expr"
    )
    return is_scalar and not isinstance(value, StringImm)


def _are_terms(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_term, value))
    if isinstance(value, np.ndarray):
        return value.ndim <= 1 and value.dtype.kind in "biuf"
    has_elements = hasattr(value, "__len__") and hasattr(value, "__iter__")
    is_text = isinstance(value, (str, bytes, bytearray, dict, set, type))
    return _is_term(value) or (has_elements and not is_text)


Term = Annotated[Any, Holds("a number or a scalar expression", _is_term)]
Terms = Annotated[
    Any, Holds("numbers or scalar expressions, one or several", _are_terms)
]

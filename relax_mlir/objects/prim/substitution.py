"""Substitution of variables in scalar expressions."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from relax_mlir.objects.prim.constants import convert
from relax_mlir.objects.prim.expr import PrimExpr
from relax_mlir.objects.prim.variables import Var

__all__ = ["substitute"]


def substitute(expr: PrimExpr, values: Mapping[Var, Any]) -> PrimExpr:
    """``expr`` with its variables replaced by ``values``; variables compare by identity."""
    if isinstance(expr, Var):
        for var, value in values.items():
            if var is expr:
                return convert(value)
        return expr
    children = expr.children()
    if not children:
        return expr
    new = tuple(substitute(child, values) for child in children)
    if all(map(operator.is_, new, children)):
        return expr
    return expr.with_children(new)

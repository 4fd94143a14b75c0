"""Structural equality and post-order traversal of scalar expressions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from relax_mlir.objects.prim.constants import FloatImm, IntImm
from relax_mlir.objects.prim.expr import PrimExpr

__all__ = ["post_order", "structurally_equal"]


def structurally_equal(a: Any, b: Any) -> bool:
    """Structural equality; variables compare by identity."""
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, PrimExpr):
        return isinstance(a, PrimExpr) and isinstance(b, PrimExpr) and _equal_imm(a, b)
    if isinstance(a, FloatImm):
        return a.value == b.value and _sign(a) == _sign(b)  # -0.0 differs from 0.0
    if isinstance(a, IntImm):
        return a.value == b.value
    if a.key() != b.key():
        return False
    theirs, ours = a.children(), b.children()
    return len(theirs) == len(ours) and all(map(structurally_equal, theirs, ours))


def _sign(number: FloatImm) -> float:
    return math.copysign(1.0, number.value)


def _equal_imm(a: PrimExpr, b: PrimExpr) -> bool:
    numbers = (IntImm, FloatImm)
    return isinstance(a, numbers) and isinstance(b, numbers) and a.value == b.value


def post_order(expr: PrimExpr) -> Iterator[PrimExpr]:
    """All subexpressions in post-order: operands first."""
    for child in expr.children():
        yield from post_order(child)
    yield expr

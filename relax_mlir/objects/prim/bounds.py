"""Constant integer bounds of scalar expressions (interval analysis)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from relax_mlir.objects import prim
from relax_mlir.objects.prim import IntImm, PrimExpr, Var
from relax_mlir.objects.prim.operations import rounded

__all__ = ["INDEX_TYPES", "Bounds", "assuming", "bounds", "is_assuming"]

INDEX_TYPES = ("int32", "int64")  # do not overflow; others wrap around
Bounds = tuple[float, float]
_ANY: Bounds = (-math.inf, math.inf)
_ASSUMED: ContextVar[Mapping[Var, Bounds]] = ContextVar("_ASSUMED")


@contextmanager
def assuming(known: Mapping[Var, Bounds]) -> Iterator[None]:
    """Adds variable bounds, as (lower, upper), to the analysis inside the scope."""
    token = _ASSUMED.set({**_ASSUMED.get({}), **known})
    try:
        yield
    finally:
        _ASSUMED.reset(token)


def is_assuming() -> bool:
    """Whether any variable bounds are assumed in the current scope."""
    return bool(_ASSUMED.get({}))


def bounds(expr: PrimExpr) -> Bounds:
    """Lower and upper bound of an expression; infinite where unknown."""
    if isinstance(expr, IntImm):
        return expr.value, expr.value
    if isinstance(expr, Var):
        return _ASSUMED.get({}).get(expr, _ANY)
    if isinstance(expr, (prim.FloorMod, prim.Mod)) and isinstance(expr.b, IntImm):
        return _remainder_bounds(expr, expr.b.value)
    if isinstance(expr, (prim.Min, prim.Max, prim.Add, prim.Sub)):
        return _wrapped_bounds(
            expr, _binary_bounds(expr, bounds(expr.a), bounds(expr.b))
        )
    if isinstance(expr, (prim.Mul, prim.FloorDiv)) and isinstance(expr.b, IntImm):
        return _wrapped_bounds(expr, _scaled_bounds(expr, bounds(expr.a), expr.b.value))
    return _ANY


def _wrapped_bounds(expr: PrimExpr, exact: Bounds) -> Bounds:
    """Bounds of the exact result as bounds of the typed one; unknown if it may wrap."""
    if expr.dtype in INDEX_TYPES:
        return exact
    is_kept = not any(map(math.isinf, exact)) and all(
        rounded(end, expr.dtype) == end for end in exact
    )
    return exact if is_kept else _ANY


def _remainder_bounds(expr: prim.BinaryExpr, constant: int) -> Bounds:
    if constant == 0:
        return _ANY
    low, high = bounds(expr.a)
    size = abs(constant) - 1
    if isinstance(expr, prim.FloorMod):  # with the sign of the divisor
        least, greatest = (0, size) if constant > 0 else (-size, 0)
        is_whole = low >= least and high <= greatest
        return (low, high) if is_whole else (least, greatest)
    return max(-size, min(low, 0)), min(size, max(high, 0))


def _binary_bounds(expr: prim.BinaryExpr, a: Bounds, b: Bounds) -> Bounds:
    if isinstance(expr, prim.Add):
        return a[0] + b[0], a[1] + b[1]
    if isinstance(expr, prim.Sub):
        return a[0] - b[1], a[1] - b[0]
    choose = min if isinstance(expr, prim.Min) else max
    return choose(a[0], b[0]), choose(a[1], b[1])


def _scaled_bounds(expr: prim.BinaryExpr, a: Bounds, constant: int) -> Bounds:
    """Bounds of an expression times or divided by a constant."""
    if constant == 0:
        return (0, 0) if isinstance(expr, prim.Mul) else _ANY
    ends = [_scaled_end(expr, value, constant) for value in a]
    return min(ends), max(ends)


def _scaled_end(expr: prim.BinaryExpr, value: float, constant: int) -> float:
    if math.isinf(value):
        return value if constant > 0 else -value
    return value * constant if isinstance(expr, prim.Mul) else value // constant

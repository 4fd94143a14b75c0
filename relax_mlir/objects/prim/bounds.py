"""Constant integer bounds of scalar expressions (interval analysis)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from relax_mlir.objects import prim
from relax_mlir.objects.prim import IntImm, PrimExpr, Var
from relax_mlir.objects.prim.operations import rounded
from relax_mlir.symbolic import intervals
from relax_mlir.symbolic.intervals import UNBOUNDED, Range

__all__ = ["INDEX_TYPES", "assuming", "bounds", "is_assuming"]

INDEX_TYPES = ("int32", "int64")  # do not overflow; others wrap around
_ASSUMED: ContextVar[Mapping[Var, Range]] = ContextVar("_ASSUMED")


@contextmanager
def assuming(known: Mapping[Var, Range]) -> Iterator[None]:
    """Adds variable bounds, as (lower, upper), to the analysis inside the scope."""
    token = _ASSUMED.set({**_ASSUMED.get({}), **known})
    try:
        yield
    finally:
        _ASSUMED.reset(token)


def is_assuming() -> bool:
    """Whether any variable bounds are assumed in the current scope."""
    return bool(_ASSUMED.get({}))


def bounds(expr: PrimExpr) -> Range:
    """Lower and upper bound of an expression; None where unknown."""
    if isinstance(expr, IntImm):
        return expr.value, expr.value
    if isinstance(expr, Var):
        return _ASSUMED.get({}).get(expr, UNBOUNDED)
    if isinstance(expr, (prim.FloorMod, prim.Mod)):
        return _remainder_bounds(expr)
    combine = _COMBINE.get(type(expr))
    if combine is None or not isinstance(expr, prim.BinaryExpr):
        return UNBOUNDED
    if isinstance(expr, _BY_CONSTANTS) and not isinstance(expr.b, IntImm):
        return UNBOUNDED
    return _wrapped_bounds(expr, combine(bounds(expr.a), bounds(expr.b)))


def _wrapped_bounds(expr: PrimExpr, exact: Range) -> Range:
    """Bounds of the exact result as bounds of the typed one; unknown if it may wrap."""
    if expr.dtype in INDEX_TYPES:
        return exact
    is_kept = all(end is not None and rounded(end, expr.dtype) == end for end in exact)
    return exact if is_kept else UNBOUNDED


def _remainder_bounds(expr: prim.FloorMod | prim.Mod) -> Range:
    """Bounds by a constant divisor, as TVM's ``const_int_bound`` has them."""
    if not isinstance(expr.b, IntImm) or expr.b.value == 0:
        return UNBOUNDED
    divided, divisor = bounds(expr.a), bounds(expr.b)
    if isinstance(expr, prim.Mod):
        return intervals.truncmod(divided, divisor)
    remainders = intervals.floormod(UNBOUNDED, divisor)
    return divided if intervals.contains(remainders, divided) else remainders


_BY_CONSTANTS = (prim.Mul, prim.FloorDiv)  # have bounds if the right side is a constant
_COMBINE: Mapping[type, Callable[[Range, Range], Range]] = {
    prim.Add: intervals.add,
    prim.Sub: intervals.subtract,
    prim.Mul: intervals.product,
    prim.FloorDiv: intervals.floordiv,
    prim.Min: lambda a, b: intervals.minimum([a, b]),
    prim.Max: lambda a, b: intervals.maximum([a, b]),
}

"""The least and the largest value that a scalar term may have."""

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
    """Inside, variables are from their first bound to their second."""
    token = _ASSUMED.set({**_ASSUMED.get({}), **known})
    try:
        yield
    finally:
        _ASSUMED.reset(token)


def is_assuming() -> bool:
    """Whether something is known of variables here."""
    return bool(_ASSUMED.get({}))


def bounds(term: PrimExpr) -> Bounds:
    """The least and the largest value that a term may have; infinite if not known."""
    if isinstance(term, IntImm):
        return term.value, term.value
    if isinstance(term, Var):
        return _ASSUMED.get({}).get(term, _ANY)
    if isinstance(term, (prim.FloorMod, prim.Mod)) and isinstance(term.b, IntImm):
        return _remainder(term, term.b.value)
    if isinstance(term, (prim.Min, prim.Max, prim.Add, prim.Sub)):
        return _in_type(term, _of_two(term, bounds(term.a), bounds(term.b)))
    if isinstance(term, (prim.Mul, prim.FloorDiv)) and isinstance(term.b, IntImm):
        return _in_type(term, _scaled(term, bounds(term.a), term.b.value))
    return _ANY


def _in_type(term: PrimExpr, found: Bounds) -> Bounds:
    """Bounds of exact results as those of a term: none where they may wrap around."""
    if term.dtype in INDEX_TYPES:
        return found
    is_kept = not any(map(math.isinf, found)) and all(
        rounded(end, term.dtype) == end for end in found
    )
    return found if is_kept else _ANY


def _remainder(term: prim.BinaryExpr, number: int) -> Bounds:
    if number == 0:
        return _ANY
    low, high = bounds(term.a)
    size = abs(number) - 1
    if isinstance(term, prim.FloorMod):  # with the sign of the divisor
        least, greatest = (0, size) if number > 0 else (-size, 0)
        is_whole = low >= least and high <= greatest
        return (low, high) if is_whole else (least, greatest)
    return max(-size, min(low, 0)), min(size, max(high, 0))


def _of_two(term: prim.BinaryExpr, a: Bounds, b: Bounds) -> Bounds:
    if isinstance(term, prim.Add):
        return a[0] + b[0], a[1] + b[1]
    if isinstance(term, prim.Sub):
        return a[0] - b[1], a[1] - b[0]
    choose = min if isinstance(term, prim.Min) else max
    return choose(a[0], b[0]), choose(a[1], b[1])


def _scaled(term: prim.BinaryExpr, a: Bounds, number: int) -> Bounds:
    """A term times a number, or divided by it."""
    if number == 0:
        return (0, 0) if isinstance(term, prim.Mul) else _ANY
    ends = [_end(term, value, number) for value in a]
    return min(ends), max(ends)


def _end(term: prim.BinaryExpr, value: float, number: int) -> float:
    if math.isinf(value):
        return value if number > 0 else -value
    return value * number if isinstance(term, prim.Mul) else value // number

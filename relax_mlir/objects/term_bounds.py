"""The least and the largest value that a scalar term may have."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from relax_mlir.objects import prim
from relax_mlir.objects.prim import IntImm, PrimExpr, Var

__all__ = ["Bounds", "assuming", "bounds", "is_assuming"]

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
        return _remainder(term, abs(term.b.value) - 1)
    if isinstance(term, (prim.Min, prim.Max, prim.Add, prim.Sub)):
        return _of_two(term, bounds(term.a), bounds(term.b))
    if isinstance(term, (prim.Mul, prim.FloorDiv)) and isinstance(term.b, IntImm):
        return _scaled(term, bounds(term.a), term.b.value)
    return _ANY


def _remainder(term: prim.BinaryExpr, size: int) -> Bounds:
    low, high = bounds(term.a)
    if isinstance(term, prim.FloorMod):
        is_whole = low >= 0 and high <= size
        return (low, high) if is_whole else (0, size)
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

"""Reasoning about scalars: simplifying and proving, with what is known of variables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import IntImm, PrimExpr, Range, Var
from relax_mlir.objects.simplify import simplify
from relax_mlir.objects.term_bounds import Bounds, assuming, bounds

__all__ = ["Analyzer", "ConstIntBound"]


@dataclass(frozen=True)
class ConstIntBound:
    """What an integer is at least, and at most.

    Attributes:
        min_value, max_value: both may be reached; infinite ends are ``NEG_INF``, ``POS_INF``.
    """

    POS_INF = (1 << 63) - 1
    NEG_INF = -POS_INF

    min_value: int
    max_value: int


def _number(end: float) -> int:
    if math.isinf(end):
        return ConstIntBound.POS_INF if end > 0 else ConstIntBound.NEG_INF
    return int(end)


class Analyzer:
    """Simplifies terms, and proves what it can of them."""

    def __init__(self) -> None:
        self._known: dict[Var, Bounds] = {}
        self._values: dict[Var, PrimExpr] = {}

    def bind(self, var: Var, expr: Any, allow_override: bool = False) -> None:
        """Say what a variable is.

        Args:
            var: the variable.
            expr: its value, or a :class:`Range` that it is in.
            allow_override: of no effect: what is said last holds.
        """
        if not isinstance(expr, Range):
            self._values[var] = prim.convert(expr)
            return
        low, _ = self._bounds(expr.min)
        _, high = self._bounds(expr.min + expr.extent - 1)
        self._known[var] = (low, high)

    def update(
        self, var: Var, info: ConstIntBound, allow_override: bool = False
    ) -> None:
        """Say between which numbers a variable is."""
        ends = (info.min_value, info.max_value)
        low = -math.inf if ends[0] <= ConstIntBound.NEG_INF else ends[0]
        high = math.inf if ends[1] >= ConstIntBound.POS_INF else ends[1]
        self._known[var] = (low, high)

    def simplify(self, expr: Any, steps: int = 2) -> PrimExpr:
        """A term in its plain form, with what is known of the variables in it.

        Args:
            expr: the term.
            steps: of no effect: it is simplified until nothing changes.
        """
        term = prim.substitute(prim.convert(expr), self._values)
        with assuming(self._known):
            return simplify(term)

    rewrite_simplify = canonical_simplify = simplify

    def const_int_bound(self, expr: Any) -> ConstIntBound:
        """What an integer is at least, and at most."""
        low, high = self._bounds(prim.convert(expr))
        return ConstIntBound(_number(low), _number(high))

    def _bounds(self, term: PrimExpr) -> Bounds:
        plain = self.simplify(term)
        with assuming(self._known):
            return bounds(plain)

    def can_prove(self, expr: Any, strength: object = None) -> bool:
        """Whether a condition surely holds."""
        plain = self.simplify(expr)
        return isinstance(plain, IntImm) and bool(plain.value)

    def can_prove_equal(self, lhs: Any, rhs: Any) -> bool:
        """Whether two terms surely are the same number."""
        left, right = self.simplify(lhs), self.simplify(rhs)
        if prim.structurally_equal(left, right):
            return True
        difference = self.simplify(left - right)
        return isinstance(difference, IntImm) and difference.value == 0

    def can_prove_greater_equal(self, expr: Any, lower_bound: int) -> bool:
        """Whether a term surely is ``lower_bound`` or more."""
        return self.const_int_bound(expr).min_value >= lower_bound

    def can_prove_less(self, expr: Any, upper_bound: int) -> bool:
        """Whether a term surely is less than ``upper_bound``."""
        return self.const_int_bound(expr).max_value < upper_bound

    @contextmanager
    def constraint_scope(self, constraint: Any) -> Iterator[None]:
        """Inside, a condition holds: a variable compared with a number, or several."""
        known = dict(self._known)
        for part in _conjuncts(prim.convert(constraint)):
            self._learn(part)
        try:
            yield
        finally:
            self._known = known

    def _learn(self, condition: PrimExpr) -> None:
        plain = self.simplify(condition)
        if not isinstance(plain, (prim.LT, prim.LE, prim.EQ)):
            return
        step = 1 if isinstance(plain, prim.LT) else 0
        low_a, high_a = self._bounds(plain.a)
        low_b, high_b = self._bounds(plain.b)
        if isinstance(plain.a, Var):
            low = low_b if isinstance(plain, prim.EQ) else low_a
            self._known[plain.a] = (max(low_a, low), min(high_a, high_b - step))
        elif isinstance(plain.b, Var):
            high = high_a if isinstance(plain, prim.EQ) else high_b
            self._known[plain.b] = (max(low_b, low_a + step), min(high_b, high))


def _conjuncts(condition: PrimExpr) -> Iterator[PrimExpr]:
    if isinstance(condition, prim.And):
        yield from _conjuncts(condition.a)
        yield from _conjuncts(condition.b)
    else:
        yield condition

"""Arithmetic analyzer: simplifies scalar expressions and proves conditions on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import IntImm, PrimExpr, Range, Var
from relax_mlir.objects.prim.bounds import assuming, bounds
from relax_mlir.objects.prim.simplify import simplify
from relax_mlir.symbolic import intervals

__all__ = ["Analyzer", "ConstIntBound"]


@dataclass(frozen=True)
class ConstIntBound:
    """Inclusive lower and upper bound of an integer expression.

    Attributes:
        min_value, max_value: unbounded ends are ``NEG_INF``, ``POS_INF``.
    """

    POS_INF = (1 << 63) - 1
    NEG_INF = -POS_INF

    min_value: int
    max_value: int


class Analyzer:
    """Simplifies scalar expressions and proves properties of them, given variable ranges."""

    def __init__(self) -> None:
        self._known: dict[Var, intervals.Range] = {}
        self._values: dict[Var, PrimExpr] = {}

    def bind(self, var: Var, expr: Any, allow_override: bool = False) -> None:
        """Bind a variable to a value or to a range.

        Args:
            var: the variable.
            expr: its value, or the :class:`Range` of its values.
            allow_override: ignored; the last binding wins.
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
        """Set the constant bounds of a variable."""
        ends = (info.min_value, info.max_value)
        low = None if ends[0] <= ConstIntBound.NEG_INF else ends[0]
        high = None if ends[1] >= ConstIntBound.POS_INF else ends[1]
        self._known[var] = (low, high)

    def simplify(self, expr: Any, steps: int = 2) -> PrimExpr:
        """The canonical simplified form of an expression under the current bindings.

        Args:
            expr: the expression.
            steps: ignored; rewriting runs to a fixed point.
        """
        expr = prim.substitute(prim.convert(expr), self._values)
        with assuming(self._known):
            return simplify(expr)

    rewrite_simplify = canonical_simplify = simplify

    def const_int_bound(self, expr: Any) -> ConstIntBound:
        """The constant lower and upper bound of an integer expression."""
        low, high = self._bounds(prim.convert(expr))
        return ConstIntBound(
            ConstIntBound.NEG_INF if low is None else low,
            ConstIntBound.POS_INF if high is None else high,
        )

    def _bounds(self, expr: PrimExpr) -> intervals.Range:
        simplified = self.simplify(expr)
        with assuming(self._known):
            return bounds(simplified)

    def can_prove(self, expr: Any, strength: object = None) -> bool:
        """Whether a condition is provably true."""
        simplified = self.simplify(expr)
        return isinstance(simplified, IntImm) and bool(simplified.value)

    def can_prove_equal(self, lhs: Any, rhs: Any) -> bool:
        """Whether two expressions are provably equal."""
        left, right = self.simplify(lhs), self.simplify(rhs)
        if prim.structurally_equal(left, right):
            return True
        difference = self.simplify(left - right)
        return isinstance(difference, IntImm) and difference.value == 0

    def can_prove_greater_equal(self, expr: Any, lower_bound: int) -> bool:
        """Whether an expression is provably at least ``lower_bound``."""
        return self.const_int_bound(expr).min_value >= lower_bound

    def can_prove_less(self, expr: Any, upper_bound: int) -> bool:
        """Whether an expression is provably less than ``upper_bound``."""
        return self.const_int_bound(expr).max_value < upper_bound

    @contextmanager
    def constraint_scope(self, constraint: Any) -> Iterator[None]:
        """Assumes a comparison of a variable, or a conjunction of such, inside the scope."""
        known = dict(self._known)
        for part in _conjuncts(prim.convert(constraint)):
            self._learn(part)
        try:
            yield
        finally:
            self._known = known

    def _learn(self, condition: PrimExpr) -> None:
        simplified = self.simplify(condition)
        if not isinstance(simplified, (prim.LT, prim.LE, prim.EQ)):
            return
        step = 1 if isinstance(simplified, prim.LT) else 0
        a, b = self._bounds(simplified.a), self._bounds(simplified.b)
        is_equal = isinstance(simplified, prim.EQ)
        if isinstance(simplified.a, Var):
            _, high = intervals.subtract(b, (step, step))
            learnt = b if is_equal else (None, high)
            self._known[simplified.a] = intervals.intersection([a, learnt])
        elif isinstance(simplified.b, Var):
            low, _ = intervals.add(a, (step, step))
            learnt = a if is_equal else (low, None)
            self._known[simplified.b] = intervals.intersection([b, learnt])


def _conjuncts(condition: PrimExpr) -> Iterator[PrimExpr]:
    if isinstance(condition, prim.And):
        yield from _conjuncts(condition.a)
        yield from _conjuncts(condition.b)
    else:
        yield condition

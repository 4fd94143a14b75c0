"""Affine forms of integer variables: sums of multiples of variables, plus a constant."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from relax_mlir.symbolic import intervals
from relax_mlir.symbolic.intervals import Range

__all__ = ["AffineForm"]

V = TypeVar("V", bound=Hashable)
W = TypeVar("W", bound=Hashable)


@dataclass(frozen=True)
class AffineForm(Generic[V]):
    """An affine form ``sum(coefficients[v] * v) + constant``.

    A variable is any hashable object: the number of an axis, an SSA value, an expression.

    Attributes:
        coefficients: the nonzero coefficient of each variable, in order of first use.
        constant: the constant term.
    """

    coefficients: Mapping[V, int]
    constant: int = 0

    @property
    def single_variable(self) -> V | None:
        """The variable, if the form is just that variable."""
        if self.constant == 0 and list(self.coefficients.values()) == [1]:
            return next(iter(self.coefficients))
        return None

    def plus(self, other: AffineForm[V], factor: int = 1) -> AffineForm[V]:
        """``self + factor * other``."""
        total = dict(self.coefficients)
        for variable, value in other.coefficients.items():
            total[variable] = total.get(variable, 0) + factor * value
        kept = {variable: value for variable, value in total.items() if value}
        return AffineForm(kept, self.constant + factor * other.constant)

    def shifted(self, offset: int) -> AffineForm[V]:
        """``self + offset``."""
        return AffineForm(self.coefficients, self.constant + offset)

    def scaled(self, factor: int) -> AffineForm[V]:
        """``factor * self``."""
        return AffineForm[V]({}).plus(self, factor)

    def times(self, other: AffineForm[V]) -> AffineForm[V] | None:
        """``self * other``; None if neither is constant."""
        if not other.coefficients:
            return self.scaled(other.constant)
        return other.scaled(self.constant) if not self.coefficients else None

    def restricted(self, keeps: Callable[[V], bool]) -> AffineForm[V]:
        """The form without the terms of some variables.

        Args:
            keeps: whether to keep the term of a variable.
        """
        kept = {v: value for v, value in self.coefficients.items() if keeps(v)}
        return AffineForm(kept, self.constant)

    def substituted(self, form_of: Callable[[V], AffineForm[W]]) -> AffineForm[W]:
        """The form with an affine form substituted for each variable."""
        total = AffineForm[W]({}, self.constant)
        for variable, value in self.coefficients.items():
            total = total.plus(form_of(variable), value)
        return total

    def range_over(self, range_of: Callable[[V], Range]) -> Range:
        """The interval of the values of the form, for intervals of its variables."""
        total: Range = self.constant, self.constant
        for variable, value in self.coefficients.items():
            total = intervals.add(total, intervals.scaled(range_of(variable), value))
        return total

    def determines_variables(
        self,
        span_of: Callable[[V], int | None],
        rest: int | None = 0,
        *,
        needs_every_span: bool = False,
    ) -> bool:
        """Whether the value determines each variable, as a mixed-radix number its digits.

        Each coefficient must exceed the span of the terms of smaller coefficients.

        Args:
            span_of: the greatest minus the least value of a variable; None if unknown.
            rest: the span of a number that is added to the form; None if unknown.
            needs_every_span: whether an unknown span of the variable of the largest
                coefficient is rejected, too.
        """
        span = rest  # of the terms of smaller coefficients
        for variable in sorted(self.coefficients, key=self._magnitude):
            coefficient = self._magnitude(variable)
            if span is None or coefficient <= span:
                return False
            own = span_of(variable)
            span = None if own is None else span + coefficient * own
        return span is not None or not needs_every_span

    def _magnitude(self, variable: V) -> int:
        return abs(self.coefficients[variable])

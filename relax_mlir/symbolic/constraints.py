"""Constraints on symbolic sizes.

Type inference makes assumptions: that ``n`` is 5 where [n] meets [5], that a window fits.
Inside :func:`collect` they are recorded; elsewhere an assumption is only checked not to be
impossible. ``solve`` turns equalities into values of symbols; the remaining constraints
are checked at run time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from relax_mlir.symbolic import bounds, dims, symbols
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.monomials import terms_of

__all__ = [
    "Constraint",
    "are_assumed_equal",
    "assume",
    "collect",
    "current_equalities",
    "is_collecting",
    "require_at_least",
    "require_equal",
    "solve",
    "with_equalities",
]


@dataclass(frozen=True)
class Constraint:
    """A relation of two sizes that must hold at run time."""

    lhs: Dim
    relation: Literal["==", ">="]
    rhs: Dim

    def __str__(self) -> str:
        """Text that ``parse`` reads back."""
        return f"{self.lhs} {self.relation} {self.rhs}"

    @staticmethod
    def parse(text: str) -> "Constraint":
        """Parses a constraint.

        Raises:
            ValueError: the text is not a constraint.
        """
        for relation in ("==", ">="):
            lhs, found, rhs = text.partition(f" {relation} ")
            if found:
                return Constraint(symbols.parse(lhs), relation, symbols.parse(rhs))
        raise ValueError(f"bad constraint: expected `a == b` or `a >= b`, got `{text}`")

    @property
    def equality(self) -> tuple[Dim, Dim]:
        """The two sides of an equivalent equality: ``a >= b`` is ``a == max(a, b)``."""
        if self.relation == "==":
            return self.lhs, self.rhs
        return self.lhs, dims.maximum(self.lhs, self.rhs)

    @staticmethod
    def of_equality(lhs: Dim, rhs: Dim) -> "Constraint":
        """The constraint whose :attr:`equality` two sizes are."""
        excess = rhs - lhs  # max(b - a, 0), which is x - min(y, z) in canonical form
        for monomial, coefficient in terms_of(excess):
            if coefficient == -1 and len(monomial) == 1 and monomial[0].op == "min":
                rest = excess + dims.minimum(*monomial[0].args)
                cases = {rest - argument for argument in monomial[0].args}
                others = cases - {0}
                if len(cases) == 2 and len(others) == 1:
                    return Constraint(lhs, ">=", lhs + others.pop())
        return Constraint(lhs, "==", rhs)

    @property
    def is_certain(self) -> bool:
        """Whether it provably holds for all values of the symbols."""
        if self.relation == "==":
            return symbols.is_known_equal(self.lhs, self.rhs)
        return bounds.is_known_le(self.rhs, self.lhs)

    @property
    def is_impossible(self) -> bool:
        """Whether it provably holds for no values of the symbols."""
        if self.relation == "==":
            return symbols.is_known_unequal(self.lhs, self.rhs)
        return bounds.is_known_le(self.lhs + 1, self.rhs)

    def substituted(self, values: Mapping[str, Dim]) -> "Constraint":
        """The constraint with sizes substituted for symbols."""
        lhs, rhs = (symbols.substitute(d, values) for d in (self.lhs, self.rhs))
        return Constraint(lhs, self.relation, rhs)


# In order of appearance; True for assumed equalities that could also be broadcasts.
_Collected = dict[Constraint, bool]
_collected: ContextVar[_Collected | None] = ContextVar("collected", default=None)


@contextmanager
def collect() -> Iterator[_Collected]:
    """Yields a dictionary whose keys will be the assumptions made inside, in order."""
    found: _Collected = {}
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def is_collecting() -> bool:
    """Whether assumptions are being collected, so that sizes may be assumed to be equal."""
    return _collected.get() is not None


def assume(constraints: Iterable[Constraint], *, may_stretch: bool = False) -> None:
    """Records constraints, unless they are certain, for the enclosing ``collect``.

    Args:
        constraints: the assumptions.
        may_stretch: whether the sizes assumed to be equal could also be broadcast, if one
            of them is 1.
    """
    found = _collected.get()
    if found is None:
        return
    for constraint in constraints:
        if not constraint.is_certain:
            is_new = may_stretch and _may_stretch(constraint)
            found[constraint] = found.get(constraint, False) or is_new


def _may_stretch(constraint: Constraint) -> bool:
    """Whether one of two sizes assumed to be equal may be 1 where the other is not.

    Sizes of the same symbols, as ``8*ceildiv(h, 32)`` and ``4*ceildiv(h, 16)``, are intended
    to be equal.
    """
    sides = (constraint.lhs, constraint.rhs)
    if constraint.relation != "==" or 1 in sides:
        return False
    if all(bounds.is_known_le(2, side) for side in sides):
        return False
    first, second = (set(symbols.symbols_of(side)) for side in sides)
    return first != second


_Classes = frozenset[frozenset[Dim]]
_held: ContextVar[_Classes] = ContextVar("current_equalities", default=frozenset())


@contextmanager
def with_equalities(constraints: Iterable[Constraint]) -> Iterator[None]:
    """Context in which sizes that the constraints equate are considered equal."""
    classes: list[frozenset[Dim]] = []
    for constraint in constraints:
        if constraint.relation == "==":
            pair = frozenset((constraint.lhs, constraint.rhs))
            met = [c for c in classes if c & pair]
            classes = [c for c in classes if c not in met] + [pair.union(*met)]
    token = _held.set(frozenset(classes))
    try:
        yield
    finally:
        _held.reset(token)


def current_equalities() -> _Classes:
    """The equivalence classes of sizes in the current scope."""
    return _held.get()


def are_assumed_equal(a: Dim, b: Dim) -> bool:
    """Whether two sizes are equal in the current scope."""
    return any(a in c and b in c for c in _held.get())


def require_equal(a: Dim, b: Dim) -> None:
    """Assumes that two sizes are equal.

    Raises:
        ValueError: they provably differ.
    """
    if a == b:
        return
    if symbols.is_known_unequal(a, b):
        raise ValueError(f"sizes differ: expected `{a}`, got `{b}`")
    assume([Constraint(a, "==", b)])


def require_multiple(a: Dim, divisor: int, name: str) -> None:
    """Assumes that a size, called ``name`` in messages, is a multiple of a number.

    Raises:
        ValueError: it provably is not, or the number is below 1.
    """
    if divisor < 1:
        raise ValueError(f"{name}: expected a divisor of 1 or more, got {divisor}")
    rest = dims.mod(a, divisor)
    if symbols.is_known_unequal(rest, 0):
        raise ValueError(f"{name}: expected a multiple of {divisor}, got `{a}`")
    require_equal(rest, 0)


def require_at_least(a: Dim, least: Dim) -> None:
    """Assumes a lower bound of a size.

    Raises:
        ValueError: it provably does not hold.
    """
    if bounds.is_known_le(a + 1, least):
        raise ValueError(f"size is too small: expected at least `{least}`, got `{a}`")
    terms = a.terms if isinstance(a, dims.Expr) else ()
    constant = sum(coefficient for monomial, coefficient in terms if not monomial)
    assume([Constraint(a - constant, ">=", least - constant)])


def solve(
    constraints: Iterable[Constraint], order: Sequence[str]
) -> tuple[dict[str, Dim], list[Constraint]]:
    """Solves equalities for symbols, and returns the values and the remaining constraints.

    Args:
        constraints: the constraints.
        order: all symbols; of several candidates, the last one is solved for.

    Raises:
        ValueError: no sizes satisfy them all.
    """
    values: dict[str, Dim] = {}
    left: list[Constraint] = []
    for constraint in constraints:
        now = constraint.substituted(values)
        solved = _solved(now, order) if now.relation == "==" else None
        if solved is None:
            left.append(constraint)
            continue
        values = {n: symbols.substitute(d, solved) for n, d in values.items()} | solved
    remaining: dict[Constraint, None] = {}
    for constraint in left:
        now = constraint.substituted(values)
        if now.is_impossible:
            raise ValueError(
                f"unsatisfiable sizes: expected `{constraint}`, got `{now}`"
            )
        if not now.is_certain:
            remaining[now] = None
    return values, list(remaining)


def _solved(constraint: Constraint, order: Sequence[str]) -> dict[str, Dim] | None:
    """The unique value of one symbol that satisfies an equality, or None."""
    difference = constraint.lhs - constraint.rhs
    names = symbols.symbols_of(difference)
    for name in sorted(names, key=order.index, reverse=True):
        coefficient, offset = dims.divide(difference, dims.symbol(name))
        if not isinstance(coefficient, int) or name in symbols.symbols_of(offset):
            continue
        value, rest = dims.divide(-offset, coefficient) if coefficient else (0, 1)
        if rest == 0 and not bounds.is_known_le(value, -1):
            return {name: value}
    return None

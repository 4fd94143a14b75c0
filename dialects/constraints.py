"""What symbolic sizes must satisfy for a program to make sense.

Inferring types assumes things: that ``n`` is 5 where [n] meets [5], that a window fits.
Whoever infers inside :func:`collect` learns what was assumed; elsewhere an assumption
is only checked for being possible. ``solve`` turns equalities into values of symbols;
the rest is for the runtime to check.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from relax_mlir.dialects import dim_bounds, dims, symbols
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.monomials import terms_of

__all__ = [
    "Constraint",
    "are_held_equal",
    "assume",
    "collect",
    "held",
    "holding",
    "is_open",
    "require_at_least",
    "require_equal",
    "solve",
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
        """The constraint that ``text`` spells.

        Raises:
            ValueError: it spells none.
        """
        for relation in ("==", ">="):
            lhs, found, rhs = text.partition(f" {relation} ")
            if found:
                return Constraint(symbols.parse(lhs), relation, symbols.parse(rhs))
        raise ValueError(f"bad constraint: expected `a == b` or `a >= b`, got `{text}`")

    @property
    def equality(self) -> tuple[Dim, Dim]:
        """The two sides of an equality that says the same: ``a >= b`` is ``a == max(a, b)``."""
        if self.relation == "==":
            return self.lhs, self.rhs
        return self.lhs, dims.maximum(self.lhs, self.rhs)

    @staticmethod
    def of_equality(lhs: Dim, rhs: Dim) -> "Constraint":
        """The constraint whose :attr:`equality` two sizes are."""
        excess = rhs - lhs  # max(b - a, 0), which is x - min(y, z) in canonical form
        for monomial, factor in terms_of(excess):
            if factor == -1 and len(monomial) == 1 and monomial[0].op == "min":
                rest = excess + dims.minimum(*monomial[0].args)
                cases = {rest - argument for argument in monomial[0].args}
                others = cases - {0}
                if len(cases) == 2 and len(others) == 1:
                    return Constraint(lhs, ">=", lhs + others.pop())
        return Constraint(lhs, "==", rhs)

    @property
    def is_certain(self) -> bool:
        """Whether it holds for all values of the symbols, as far as can be told."""
        if self.relation == "==":
            return symbols.is_known_equal(self.lhs, self.rhs)
        return dim_bounds.is_known_le(self.rhs, self.lhs)

    @property
    def is_impossible(self) -> bool:
        """Whether it holds for no values of the symbols, as far as can be told."""
        if self.relation == "==":
            return symbols.is_known_unequal(self.lhs, self.rhs)
        return dim_bounds.is_known_le(self.lhs + 1, self.rhs)

    def substituted(self, values: Mapping[str, Dim]) -> "Constraint":
        """It, with sizes in place of symbols."""
        lhs, rhs = (symbols.substitute(d, values) for d in (self.lhs, self.rhs))
        return Constraint(lhs, self.relation, rhs)


# In order of appearance; True of what a broadcast assumes, where it might stretch instead.
_Collected = dict[Constraint, bool]
_collected: ContextVar[_Collected | None] = ContextVar("collected", default=None)


@contextmanager
def collect() -> Iterator[_Collected]:
    """Give a dictionary whose keys will be what the code inside assumes, in order."""
    found: _Collected = {}
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def is_open() -> bool:
    """Whether someone collects: then two sizes may be assumed to be equal."""
    return _collected.get() is not None


def assume(constraints: Iterable[Constraint], *, may_stretch: bool = False) -> None:
    """Note what must hold, unless it is certain, for the caller that collects it.

    Args:
        constraints: what must hold.
        may_stretch: whether sizes are assumed to be equal that one of size 1 would be
            broadcast to.
    """
    found = _collected.get()
    if found is None:
        return
    for constraint in constraints:
        if not constraint.is_certain:
            is_new = may_stretch and _may_stretch(constraint)
            found[constraint] = found.get(constraint, False) or is_new


def _may_stretch(constraint: Constraint) -> bool:
    """Whether one of two sizes that are taken as equal may be 1 where the other is not.

    Sizes of the same symbols, as ``8*ceildiv(h, 32)`` and ``4*ceildiv(h, 16)``, are meant
    to be equal.
    """
    sides = (constraint.lhs, constraint.rhs)
    if constraint.relation != "==" or 1 in sides:
        return False
    if all(dim_bounds.is_known_le(2, side) for side in sides):
        return False
    first, second = (set(symbols.symbols_of(side)) for side in sides)
    return first != second


_Classes = frozenset[frozenset[Dim]]
_held: ContextVar[_Classes] = ContextVar("held", default=frozenset())


@contextmanager
def holding(constraints: Iterable[Constraint]) -> Iterator[None]:
    """Let sizes count as equal inside that a module's constraints make equal."""
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


def held() -> _Classes:
    """The sizes that are equal here, class by class."""
    return _held.get()


def are_held_equal(a: Dim, b: Dim) -> bool:
    """Whether two sizes are equal by what holds here."""
    return any(a in c and b in c for c in _held.get())


def require_equal(a: Dim, b: Dim) -> None:
    """Assume that two sizes are equal.

    Raises:
        ValueError: they surely are not.
    """
    if a == b:
        return
    if symbols.is_known_unequal(a, b):
        raise ValueError(f"sizes differ: expected `{a}`, got `{b}`")
    assume([Constraint(a, "==", b)])


def require_multiple(a: Dim, divisor: int, name: str) -> None:
    """Assume that a size, called ``name`` in messages, is a multiple of a number.

    Raises:
        ValueError: it surely is none, or the number is below 1.
    """
    if divisor < 1:
        raise ValueError(f"{name}: expected a divisor of 1 or more, got {divisor}")
    rest = dims.mod(a, divisor)
    if symbols.is_known_unequal(rest, 0):
        raise ValueError(f"{name}: expected a multiple of {divisor}, got `{a}`")
    require_equal(rest, 0)


def require_at_least(a: Dim, least: Dim) -> None:
    """Assume that a size is not below another.

    Raises:
        ValueError: it surely is.
    """
    if dim_bounds.is_known_le(a + 1, least):
        raise ValueError(f"size is too small: expected at least `{least}`, got `{a}`")
    terms = a.terms if isinstance(a, dims.Expr) else ()
    constant = sum(factor for monomial, factor in terms if not monomial)
    assume([Constraint(a - constant, ">=", least - constant)])


def solve(
    constraints: Iterable[Constraint], order: Sequence[str]
) -> tuple[dict[str, Dim], list[Constraint]]:
    """Values of symbols that make equalities hold, and what is left to check.

    Args:
        constraints: what must hold.
        order: all symbols; of several that could be solved for, the last one is.

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
            raise ValueError(f"sizes cannot be: expected `{constraint}`, got `{now}`")
        if not now.is_certain:
            remaining[now] = None
    return values, list(remaining)


def _solved(constraint: Constraint, order: Sequence[str]) -> dict[str, Dim] | None:
    """The value of one symbol that makes an equality hold, and is the only one to do so."""
    difference = constraint.lhs - constraint.rhs
    names = symbols.symbols_of(difference)
    for name in sorted(names, key=order.index, reverse=True):
        factor, offset = dims.divide(difference, dims.symbol(name))
        if not isinstance(factor, int) or name in symbols.symbols_of(offset):
            continue
        value, rest = dims.divide(-offset, factor) if factor else (0, 1)
        if rest == 0 and not dim_bounds.is_known_le(value, -1):
            return {name: value}
    return None

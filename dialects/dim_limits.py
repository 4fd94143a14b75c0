"""Expressions simplified by what is known of the values of their symbols.

The canonical form of :mod:`.dims` knows of symbols only that they are not negative; where
they are loop variables, the limits of the loops decide quotients and minima.
"""

from collections.abc import Mapping, Sequence
from math import gcd
from typing import TypeAlias

from relax_mlir.dialects import dims
from relax_mlir.dialects.dim_bounds import Ranges, bounds
from relax_mlir.dialects.dims import Dim, Expr
from relax_mlir.dialects.monomials import Atom, terms_of
from relax_mlir.dialects.symbols import substitute

__all__ = ["Limits", "is_le", "replaced", "simplify", "without_units"]

Limits: TypeAlias = Ranges


def without_units(dim: Dim, limits: Limits) -> Dim:
    """``dim`` with numbers in place of symbols that have one value."""
    known: dict[str, Dim] = {
        n: low for n, (low, high) in limits.items() if low is not None and low == high
    }
    return substitute(dim, known)


def simplify(dim: Dim, limits: Limits) -> Dim:
    """``dim`` with the quotients and minima that the limits of its symbols decide.

    Args:
        dim: an expression.
        limits: inclusive bounds of symbols.
    """
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for monomial, factor in dim.terms:
        term: Dim = factor
        for atom in monomial:
            term = term * _simplified(atom, limits)
        total = total + term
    return total


def _simplified(atom: Atom, limits: Limits) -> Dim:
    if atom.op == "symbol":
        return dims.symbol(atom.text)
    args = [simplify(arg, limits) for arg in atom.args]
    if atom.op == "min":
        return _least(args, limits)
    quotient = dims.floordiv(*args)
    if isinstance(quotient, int) or not _is_quotient(quotient):
        return simplify(quotient, limits)
    (inner,) = quotient.terms[0][0]
    return _bounded_quotient(inner.args[0], inner.args[1], limits)


def _is_quotient(dim: Expr) -> bool:
    ((monomial, factor), *others) = dim.terms
    return (
        not others
        and factor == 1
        and len(monomial) == 1
        and (monomial[0].op == "floordiv")
    )


def _least(args: Sequence[Dim], limits: Limits) -> Dim:
    kept = list(args)
    for arg in args:
        others = [o for o in kept if o is not arg]
        if any(is_le(other, arg, limits) for other in others):
            kept = others
    return dims.minimum(*kept)


def is_le(a: Dim, b: Dim, limits: Limits) -> bool:
    """Whether ``a <= b`` is proved within the limits of symbols."""
    low, _ = bounds(b - a, limits)
    return low is not None and low >= 0


def _bounded_quotient(x: Dim, y: Dim, limits: Limits) -> Dim:
    """``x // y`` where limits decide it, or decide it for a part of the sum."""
    if not isinstance(y, int):
        return dims.floordiv(x, y)
    low, high = bounds(x, limits)
    if low is not None and high is not None and low // y == high // y:
        return low // y
    for step in _common_steps(x, y):
        whole = Expr.of({m: by for m, by in terms_of(x) if by % step == 0})
        low, high = bounds(x - whole, limits)
        if low is None or high is None or low // step != high // step:
            continue
        smaller = dims.divide(whole, step)[0] + low // step
        return simplify(dims.floordiv(smaller, y // step), limits)
    return dims.floordiv(x, y)


def _common_steps(x: Dim, y: int) -> list[int]:
    """Divisors of ``y`` and of some factors of ``x``, greatest first."""
    found = {gcd(by, y) for monomial, by in terms_of(x) if monomial}
    return sorted((step for step in found if step > 1), reverse=True)


def replaced(dim: Dim, values: Mapping[str, Dim], limits: Limits) -> Dim:
    """``dim`` with expressions in place of symbols, simplified."""
    return simplify(substitute(dim, values), limits)

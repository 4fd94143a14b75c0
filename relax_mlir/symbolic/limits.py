"""Simplification of expressions within bounds of their symbols.

The canonical form of :mod:`.dims` only assumes that symbols are non-negative; for loop
variables, the loop bounds decide quotients and minima.
"""

from collections.abc import Mapping, Sequence
from math import gcd
from typing import TypeAlias

from relax_mlir.symbolic import dims
from relax_mlir.symbolic.bounds import Ranges, bounds
from relax_mlir.symbolic.dims import Dim, Expr
from relax_mlir.symbolic.monomials import Atom, terms_of
from relax_mlir.symbolic.symbols import substitute

__all__ = [
    "Limits",
    "fold_single_values",
    "is_le",
    "simplify",
    "substitute_and_simplify",
]

Limits: TypeAlias = Ranges


def fold_single_values(dim: Dim, limits: Limits) -> Dim:
    """``dim`` with numbers substituted for symbols that have a single value."""
    known: dict[str, Dim] = {
        n: low for n, (low, high) in limits.items() if low is not None and low == high
    }
    return substitute(dim, known)


def simplify(dim: Dim, limits: Limits) -> Dim:
    """``dim`` without the quotients and minima that the bounds of its symbols decide.

    Args:
        dim: an expression.
        limits: inclusive bounds of symbols.
    """
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for monomial, coefficient in dim.terms:
        term: Dim = coefficient
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
    ((monomial, coefficient), *others) = dim.terms
    return (
        not others
        and coefficient == 1
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
    """Whether ``a <= b`` is proved within the bounds of symbols."""
    low, _ = bounds(b - a, limits)
    return low is not None and low >= 0


def _bounded_quotient(x: Dim, y: Dim, limits: Limits) -> Dim:
    """``x // y`` if bounds decide it, or decide it for part of the sum."""
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
    """Divisors of ``y`` and of some coefficients of ``x``, greatest first."""
    found = {gcd(by, y) for monomial, by in terms_of(x) if monomial}
    return sorted((step for step in found if step > 1), reverse=True)


def substitute_and_simplify(dim: Dim, values: Mapping[str, Dim], limits: Limits) -> Dim:
    """``dim`` with expressions substituted for symbols, simplified."""
    return simplify(substitute(dim, values), limits)

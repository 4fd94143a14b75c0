"""Monomials of size expressions: products of symbols and calls.

This module names the types of sizes; only ``dims`` creates them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from relax_mlir.symbolic.dims import Dim

_MAX_DEGREE = 64  # against denial of service by model files


@dataclass(frozen=True, slots=True)
class Atom:
    """A factor of a monomial: a symbol, or an irreducible call.

    ``text`` is its canonical text, by which it is compared; for a symbol, its name. The
    arguments of ``floordiv`` are numerator and divisor.
    """

    op: Literal["symbol", "floordiv", "min"] = field(compare=False)
    args: tuple["Dim", ...] = field(compare=False)
    text: str


Monomial: TypeAlias = tuple[Atom, ...]
Term: TypeAlias = tuple[Monomial, int]


def terms_of(dim: "Dim") -> tuple[Term, ...]:
    """The terms of an expression; a number is its constant term."""
    return (((), dim),) if isinstance(dim, int) else dim.terms


def coefficients(dim: "Dim") -> list[int]:
    """The coefficients of the non-constant terms."""
    return [coefficient for monomial, coefficient in terms_of(dim) if monomial]


def atom_order(atom: Atom) -> str:
    """Sort key of the factors of a monomial."""
    return atom.text if atom.op == "symbol" else "~" + atom.text  # sorts after letters


def monomial_order(monomial: Monomial) -> tuple[int, tuple[str, ...]]:
    """Sort key: descending degree, then lexical; multiplication preserves it."""
    return -len(monomial), tuple(map(atom_order, monomial))


def multiply_monomials(a: Monomial, b: Monomial) -> Monomial:
    """The product.

    Raises:
        ValueError: its degree is too high.
    """
    if not a or not b:
        return a or b
    if len(a) + len(b) > _MAX_DEGREE:
        raise ValueError(f"size expression is too large: degree over {_MAX_DEGREE}")
    return tuple(sorted(a + b, key=atom_order))


def divide_monomials(a: Monomial, b: Monomial) -> Monomial | None:
    """The monomial ``a / b``, or None if ``b`` does not divide ``a``."""
    rest = list(a)
    for atom in b:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def extreme_coefficients(
    dims: Iterable["Dim"], pick: Callable[[Iterable[int]], int]
) -> dict[Monomial, int]:
    """All monomials in ``dims``, each with its least or greatest coefficient."""
    found = [dict(terms_of(dim)) for dim in dims]
    monomials = {monomial for terms in found for monomial in terms}
    return {m: pick(terms.get(m, 0) for terms in found) for m in monomials}

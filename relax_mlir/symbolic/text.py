"""Printer of symbolic sizes, with ``max`` and ``mod`` where that is shorter."""

from functools import lru_cache
from typing import TYPE_CHECKING

from relax_mlir.symbolic.monomials import (
    Atom,
    Monomial,
    coefficients,
    divide_monomials,
    extreme_coefficients,
    terms_of,
)

if TYPE_CHECKING:
    from relax_mlir.symbolic.dims import Dim, Expr


def argument_order(dim: "Dim") -> tuple[bool, str]:
    """Sort key of the arguments of a call: expressions before numbers."""
    return isinstance(dim, int), str(dim)


@lru_cache(maxsize=1 << 14)
def text_of(expr: "Expr") -> str:
    """Canonical text, which ``symbols.parse`` reads back."""
    text = ""
    for coefficient, name in _printed_terms(expr):
        sign = " - " if coefficient < 0 else " + "
        size = str(abs(coefficient)) if not name or abs(coefficient) != 1 else ""
        text += sign + size + ("*" if size and name else "") + name
    return text[3:] if text.startswith(" + ") else "-" + text[3:]


def _printed_terms(dim: "Dim") -> list[tuple[int, str]]:
    """The coefficients and texts of the terms to print."""
    for monomial, coefficient in terms_of(dim):
        for atom in monomial:
            assert not isinstance(dim, int)
            rewritten = _as_max_or_mod(
                dim, atom, divide_monomials(monomial, (atom,)), coefficient
            )
            if rewritten is None:
                continue
            by, value, text = rewritten
            rest = dim - by * value
            if len(coefficients(rest)) + 1 < len(terms_of(dim)):
                return [(by, text), *(_printed_terms(rest) if rest != 0 else [])]
    return [
        (coefficient, "*".join(a.text for a in monomial))
        for monomial, coefficient in terms_of(dim)
    ]


def _as_max_or_mod(
    dim: "Expr", atom: Atom, others: Monomial | None, by: int
) -> tuple[int, "Dim", str] | None:
    """A max or mod that contains ``by * others * atom``: its coefficient, value and text."""
    if by > 0:
        return None
    call = dim.of({(atom,): 1})
    if atom.op == "min" and not others:
        total = dim.of(extreme_coefficients(atom.args, max))
        args = sorted((total - arg for arg in atom.args), key=argument_order)
        return -by, total - call, f"max({', '.join(map(str, args))})"
    if atom.op == "floordiv":
        x, y = atom.args
        monomial, coefficient = terms_of(y)[0]
        if monomial == others and by % coefficient == 0:
            return -by // coefficient, x - y * call, f"mod({x}, {y})"
    return None

"""How sizes are spelled: with ``max`` and ``mod`` where that is shorter."""

from functools import lru_cache
from typing import TYPE_CHECKING

from relax_mlir.dialects.monomials import (
    Atom,
    Monomial,
    extreme,
    factors,
    over,
    terms_of,
)

if TYPE_CHECKING:
    from relax_mlir.dialects.dims import Dim, Expr


def argument_order(dim: "Dim") -> tuple[bool, str]:
    """Sort key of the arguments of a call: expressions before numbers."""
    return isinstance(dim, int), str(dim)


@lru_cache(maxsize=1 << 14)
def text_of(expr: "Expr") -> str:
    """Canonical text, which ``symbols.parse`` reads back."""
    text = ""
    for factor, name in _pieces(expr):
        sign = " - " if factor < 0 else " + "
        size = str(abs(factor)) if not name or abs(factor) != 1 else ""
        text += sign + size + ("*" if size and name else "") + name
    return text[3:] if text.startswith(" + ") else "-" + text[3:]


def _pieces(dim: "Dim") -> list[tuple[int, str]]:
    """Coefficients and spellings of the terms to print."""
    for monomial, factor in terms_of(dim):
        for atom in monomial:
            spelled = _respelled(dim, atom, over(monomial, (atom,)), factor)
            if spelled is None:
                continue
            by, value, text = spelled
            rest = dim - by * value
            if len(factors(rest)) + 1 < len(terms_of(dim)):
                return [(by, text), *(_pieces(rest) if rest != 0 else [])]
    return [
        (factor, "*".join(a.text for a in monomial))
        for monomial, factor in terms_of(dim)
    ]


def _respelled(
    dim: "Expr", atom: Atom, others: Monomial | None, by: int
) -> tuple[int, "Dim", str] | None:
    """A max or mod with ``by * others * atom`` in it: its factor, value and text."""
    if by > 0:
        return None
    call = dim.of({(atom,): 1})
    if atom.op == "min" and not others:
        total = dim.of(extreme(atom.args, max))
        args = sorted((total - arg for arg in atom.args), key=argument_order)
        return -by, total - call, f"max({', '.join(map(str, args))})"
    if atom.op == "floordiv":
        x, y = atom.args
        monomial, factor = terms_of(y)[0]
        if monomial == others and by % factor == 0:
            return -by // factor, x - y * call, f"mod({x}, {y})"
    return None

"""Scalar terms as text in types, for those that are no sizes: comparisons, choices, ...

``(EQ (FloorMod n:int64 int64=16) int64=0)``: an operation in parentheses, a variable with
its type, a number with its type before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import quote, unquote

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var

__all__ = ["is_term_text", "parse_term", "term_text"]

_TOKEN = re.compile(r"[()]|[^()\s]+")
_KINDS: dict[str, type[PrimExpr]] = {
    kind.__name__: kind
    for kind in (
        *(prim.Add, prim.Sub, prim.Mul, prim.Div, prim.Mod, prim.FloorDiv),
        *(prim.FloorMod, prim.Min, prim.Max, prim.EQ, prim.NE, prim.LT, prim.LE),
        *(prim.GT, prim.GE, prim.And, prim.Or, prim.Not, prim.Select),
    )
}


def is_term_text(text: str) -> bool:
    """Whether a text is a term's rather than a size's."""
    return text.startswith("(")


def term_text(term: PrimExpr, name: Callable[[Var], str]) -> str:
    """A term as text.

    Args:
        name: what a variable is called.

    Raises:
        ValueError: it holds what has no text.
    """
    if isinstance(term, Var):
        return f"{quote(name(term), safe='')}:{term.dtype}"
    if isinstance(term, (prim.IntImm, prim.FloatImm)):
        return f"{term.dtype}={term.value!r}"
    parts = [term_text(child, name) for child in term.children()]
    if isinstance(term, prim.Call):
        head = f"call {term.dtype} {quote(term.op_name, safe='')}"
    elif isinstance(term, prim.Cast):
        head = f"cast {term.dtype}"
    elif type(term).__name__ in _KINDS:
        head = type(term).__name__
    else:
        raise ValueError(f"`{term}` cannot stand in the type of a value")
    return f"({' '.join([head, *parts])})"


def parse_term(text: str, variable: Callable[[str], Var]) -> PrimExpr:
    """The term that a text spells.

    Args:
        variable: the variable with a name.
    """
    return _parse(iter(_TOKEN.findall(text)), variable)


def _parse(tokens: Iterator[str], variable: Callable[[str], Var]) -> PrimExpr:
    token = next(tokens)
    if token == ")":
        raise StopIteration
    if token != "(":
        return _leaf(token, variable)
    head = next(tokens)
    dtype = next(tokens) if head in ("call", "cast") else ""
    name = unquote(next(tokens)) if head == "call" else ""
    parts = list(_until_end(tokens, variable))
    if head == "call":
        return prim.Call(dtype, name, parts)
    if head == "cast":
        return prim.Cast(dtype, parts[0])
    return _KINDS[head](*parts)


def _until_end(
    tokens: Iterator[str], variable: Callable[[str], Var]
) -> Iterator[PrimExpr]:
    while True:
        try:
            part = _parse(tokens, variable)
        except StopIteration:
            return
        yield part


def _leaf(token: str, variable: Callable[[str], Var]) -> PrimExpr:
    name, _, dtype = token.partition(":")
    if dtype:
        return variable(unquote(name))
    dtype, _, number = token.partition("=")
    if dtype.startswith(("int", "uint", "bool")):
        return prim.IntImm(dtype, int(number))
    return prim.FloatImm(dtype, float(number))

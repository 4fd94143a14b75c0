"""Text form, in types, of scalar expressions that are not canonical dimensions.

S-expressions such as ``(EQ (FloorMod n:int64 int64=16) int64=0)``: a variable is followed
by its type, a constant preceded by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import quote, unquote

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var

__all__ = ["is_prim_expr_text", "parse_prim_expr", "prim_expr_text"]

_TOKEN = re.compile(r"[()]|[^()\s]+")
_KINDS: dict[str, type[PrimExpr]] = {
    kind.__name__: kind
    for kind in (
        *(prim.Add, prim.Sub, prim.Mul, prim.Div, prim.Mod, prim.FloorDiv),
        *(prim.FloorMod, prim.Min, prim.Max, prim.EQ, prim.NE, prim.LT, prim.LE),
        *(prim.GT, prim.GE, prim.And, prim.Or, prim.Not, prim.Select),
    )
}


def is_prim_expr_text(text: str) -> bool:
    """Whether a text is that of a scalar expression rather than of a canonical dimension."""
    return text.startswith("(")


def prim_expr_text(expr: PrimExpr, name: Callable[[Var], str]) -> str:
    """An expression as text.

    Args:
        name: gives the name of a variable.

    Raises:
        ValueError: an operation has no textual form.
    """
    if isinstance(expr, Var):
        return f"{quote(name(expr), safe='')}:{expr.dtype}"
    if isinstance(expr, (prim.IntImm, prim.FloatImm)):
        return f"{expr.dtype}={expr.value!r}"
    parts = [prim_expr_text(child, name) for child in expr.children()]
    if isinstance(expr, prim.Call):
        head = f"call {expr.dtype} {quote(expr.op_name, safe='')}"
    elif isinstance(expr, prim.Cast):
        head = f"cast {expr.dtype}"
    elif type(expr).__name__ in _KINDS:
        head = type(expr).__name__
    else:
        raise ValueError(f"`{expr}` is not supported in the type of a value")
    return f"({' '.join([head, *parts])})"


def parse_prim_expr(text: str, variable: Callable[[str], Var]) -> PrimExpr:
    """The expression of a text that :func:`prim_expr_text` returned.

    Args:
        variable: gives the variable of a name.
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

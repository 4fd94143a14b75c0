"""Prints scalar expressions as TVMScript."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from relax_mlir.objects.prim import (
    BinaryExpr,
    Call,
    Cast,
    Div,
    FloatImm,
    IntImm,
    Not,
    PrimExpr,
    Select,
    SizeVar,
    StringImm,
    Var,
)

__all__ = ["prim_expr_script"]


def prim_expr_script(expr: PrimExpr, outer: int = 0) -> str:
    """An expression as TVMScript.

    Args:
        expr: the expression.
        outer: precedence of the enclosing operator.
    """
    if isinstance(expr, BinaryExpr):
        return _binary_text(expr, outer)
    print_text = _TEXTS.get(type(expr))
    if print_text is not None:
        return print_text(expr)
    script = getattr(expr, "script_text", None)
    if script is not None:
        return script()
    children = getattr(expr, "children", None)
    if children is None:
        raise TypeError(
            f"script: expected a scalar expression, got {type(expr).__name__}"
        )
    return f"{type(expr).__name__}({_list_text(children())})"


def _list_text(exprs: Any) -> str:
    return ", ".join(map(prim_expr_script, exprs))


def _integer_text(expr: IntImm) -> str:
    if expr.dtype == "bool":
        return f"T.bool({bool(expr.value)})"
    plain = expr.dtype in ("int32", "int64")
    return str(expr.value) if plain else f"T.{expr.dtype}({expr.value})"


def _binary_text(expr: BinaryExpr, outer: int) -> str:
    if not expr.symbol:
        name = {"Min": "min", "Max": "max", "Mod": "truncmod"}[type(expr).__name__]
        return f"T.{name}({prim_expr_script(expr.a)}, {prim_expr_script(expr.b)})"
    if isinstance(expr, Div) and expr.is_integer:
        return f"T.Div({prim_expr_script(expr.a)}, {prim_expr_script(expr.b)})"
    left = prim_expr_script(expr.a, expr.precedence)
    right = prim_expr_script(expr.b, expr.precedence + 1)
    text = f"{left} {expr.symbol} {right}"
    return f"({text})" if expr.precedence < outer else text


def _float_text(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return f'"{value}"'
    return repr(value)


_TEXTS: Mapping[type, Callable[[Any], str]] = {
    Var: lambda v: v.name,
    SizeVar: lambda v: v.name,
    IntImm: _integer_text,
    FloatImm: lambda v: f"T.{v.dtype}({_float_text(v.value)})",
    StringImm: lambda v: repr(v.value),
    Not: lambda e: f"not {prim_expr_script(e.a, 3)}",
    Cast: lambda e: f'T.Cast("{e.dtype}", {prim_expr_script(e.value)})',
    Select: lambda e: f"T.Select({_list_text(e.children())})",
    Call: lambda e: f"T.{e.op_name}({_list_text(e.args)})",
}

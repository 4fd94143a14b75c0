"""Scalar terms as Python expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from relax_mlir.errors import UnsupportedError
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var

__all__ = ["prim_code"]

_BINARY: Mapping[type[PrimExpr], str] = {
    prim.Add: "({a} + {b})",
    prim.Sub: "({a} - {b})",
    prim.Mul: "({a} * {b})",
    prim.Div: "rt.truncated({a}, {b})",
    prim.Mod: "rt.remainder({a}, {b})",
    prim.FloorDiv: "({a} // {b})",
    prim.FloorMod: "({a} % {b})",
    prim.Min: "min({a}, {b})",
    prim.Max: "max({a}, {b})",
    prim.EQ: "({a} == {b})",
    prim.NE: "({a} != {b})",
    prim.LT: "({a} < {b})",
    prim.LE: "({a} <= {b})",
    prim.GT: "({a} > {b})",
    prim.GE: "({a} >= {b})",
    prim.And: "({a} and {b})",
    prim.Or: "({a} or {b})",
}
_CALLS: Mapping[str, str] = {
    "shift_left": "({0} << {1})",
    "shift_right": "({0} >> {1})",
    "bitwise_and": "({0} & {1})",
    "bitwise_or": "({0} | {1})",
    "bitwise_xor": "({0} ^ {1})",
    "if_then_else": "({1} if {0} else {2})",
    "abs": "abs({0})",
}


def _number(term: prim.IntImm | prim.FloatImm) -> str:
    value = bool(term.value) if term.dtype == "bool" else term.value
    if not math.isfinite(value):
        return f"float('{value}')"
    return repr(value) if value >= 0 else f"({value!r})"


def prim_code(expr: PrimExpr, name_of: Callable[[Var], str]) -> str:
    """A term as Python; ``name_of`` says what a variable is called there.

    Raises:
        UnsupportedError: it has no meaning outside of a tensor program.
    """

    def code(term: PrimExpr) -> str:
        if isinstance(term, Var):
            return name_of(term)
        if isinstance(term, (prim.IntImm, prim.FloatImm)):
            return _number(term)
        if type(term) in _BINARY:
            assert isinstance(term, prim.BinaryExpr)
            return _BINARY[type(term)].format(a=code(term.a), b=code(term.b))
        if isinstance(term, prim.Not):
            return f"(not {code(term.a)})"
        if isinstance(term, prim.Cast):
            return f"rt.number_as({code(term.value)}, {term.dtype!r})"
        if isinstance(term, prim.Select):
            parts = (term.true_value, term.condition, term.false_value)
            return "({} if {} else {})".format(*map(code, parts))
        if isinstance(term, prim.Call) and term.op_name in _CALLS:
            return _CALLS[term.op_name].format(*map(code, term.args))
        raise UnsupportedError(f"size `{term}`: expected arithmetic on integers")

    return code(expr)

"""Conversion between scalar expressions and canonical symbolic dimensions (``Dim``).

An expression refers to variables, which are objects; a ``Dim`` of the IR refers to symbols
by name. A :class:`Symbols` table holds the one-to-one mapping of a function.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.symbolic import dims
from relax_mlir.symbolic import symbols as symbol_text
from relax_mlir.symbolic.bounds import is_known_le
from relax_mlir.symbolic.dims import Dim

__all__ = ["Symbols"]

_TO_DIM: Mapping[type, Callable[[Dim, Dim], Dim]] = {
    prim.Add: lambda a, b: a + b,
    prim.Sub: lambda a, b: a - b,
    prim.Mul: lambda a, b: a * b,
    prim.FloorDiv: dims.floordiv,
    prim.FloorMod: dims.mod,
    prim.Div: dims.floordiv,  # sizes are non-negative, where both divisions agree
    prim.Mod: dims.mod,
    prim.Min: dims.minimum,
    prim.Max: dims.maximum,
}
_OPERATORS: Mapping[type, Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
}
_FUNCTIONS: Mapping[str, Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
    "floordiv": lambda a, b: a // b,
    "ceildiv": lambda a, b: (a + (b - 1)) // b,
    "mod": lambda a, b: a % b,
    "min": prim.Min,
    "max": prim.Max,
}


def _is_less(a: Dim, b: Dim) -> bool:
    return is_known_le(a + 1, b)


def _is_at_most(a: Dim, b: Dim) -> bool:
    return is_known_le(a, b)


# For each comparison: predicates that prove it for all sizes, and that refute it.
_CERTAIN: Mapping[type, tuple[Callable[[Dim, Dim], bool], Callable[[Dim, Dim], bool]]]
_CERTAIN = {
    prim.LT: (_is_less, lambda a, b: _is_at_most(b, a)),
    prim.LE: (_is_at_most, lambda a, b: _is_less(b, a)),
    prim.GT: (lambda a, b: _is_less(b, a), _is_at_most),
    prim.GE: (lambda a, b: _is_at_most(b, a), _is_less),
    prim.EQ: (symbol_text.is_known_equal, symbol_text.is_known_unequal),
    prim.NE: (symbol_text.is_known_unequal, symbol_text.is_known_equal),
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_NO_WORD = re.compile(r"\W")


class Symbols:
    """Symbol table of one function: its size variables and their names.

    Args:
        dtype: element type of variables created for symbols of the IR.
    """

    def __init__(self, dtype: str = "int64") -> None:
        self._dtype = dtype
        self._names: dict[int, str] = {}
        self._vars: dict[str, Var] = {}

    def name(self, var: Var) -> str:
        """The symbol name of a variable, created at the first use."""
        if id(var) not in self._names:
            self._names[id(var)] = self._fresh(var.name)
            self._vars[self._names[id(var)]] = var
        return self._names[id(var)]

    def alias(self, var: Var, name: str) -> None:
        """Binds a variable to a symbol name."""
        self._names[id(var)] = name
        self._vars[name] = var

    def _fresh(self, wish: str) -> str:
        name, count = wish or "n", 0
        while name in self._vars:
            count += 1
            name = f"{wish}_{count}"
        return name

    def var(self, name: str) -> Var:
        """The variable of a symbol name, created at the first use."""
        if name not in self._vars:
            self._vars[name] = Var(_NO_WORD.sub("_", name), self._dtype)
            self._names[id(self._vars[name])] = name
        return self._vars[name]

    @property
    def vars(self) -> list[Var]:
        """All variables of the table."""
        return list(self._vars.values())

    def dim(self, size: Any) -> Dim:
        """An integer expression as a canonical dimension.

        Raises:
            ValueError: it has operations other than ``+ - * // % min max``.
        """
        return self._dim(size, lambda expr: None)

    def dims(self, shape: Sequence[Any]) -> tuple[Dim, ...]:
        """A shape as canonical dimensions; its symbols are non-negative.

        Raises:
            ValueError: see :meth:`dim`; here selects with decidable conditions are allowed.
        """
        return tuple(self._dim(size, self._taken_branch) for size in shape)

    def _dim(self, size: Any, choose: Callable[[PrimExpr], PrimExpr | None]) -> Dim:
        if isinstance(size, int):
            return size
        expr = prim.convert(size)
        if isinstance(expr, prim.IntImm):
            return expr.value
        if isinstance(expr, Var):
            return dims.symbol(self.name(expr))
        if isinstance(expr, prim.Cast):
            return self._dim(expr.value, choose)
        make, chosen = _TO_DIM.get(type(expr)), choose(expr)
        if chosen is not None:
            return self._dim(chosen, choose)
        if make is None:
            raise ValueError(
                f"`{expr}` is not a size: expected integers, variables, `+ - * // %`, min "
                "and max"
            )
        return make(*(self._dim(child, choose) for child in expr.children()))

    def _taken_branch(self, expr: PrimExpr) -> PrimExpr | None:
        """The taken branch of a select whose condition is decidable; otherwise None."""
        is_call = isinstance(expr, prim.Call) and expr.op_name == "if_then_else"
        if not is_call and not isinstance(expr, prim.Select):
            return None
        condition, then, otherwise = expr.children()
        if type(condition) not in _CERTAIN:
            return None
        sides = [self._dim(side, self._taken_branch) for side in condition.children()]
        holds, fails = _CERTAIN[type(condition)]
        if holds(*sides):
            return then
        return otherwise if fails(*sides) else None

    def expr(self, dim: Dim) -> PrimExpr:
        """A canonical dimension as a scalar expression."""
        if isinstance(dim, int):
            return prim.const(dim, self._dtype)
        # Symbol names of a model file may be no Python identifiers.
        symbols = symbol_text.symbols_of(dim)
        aliases = {f"_{number}": name for number, name in enumerate(symbols)}
        alias_of = {name: alias for alias, name in aliases.items()}
        text = _NAME.sub(lambda m: alias_of.get(m.group(), m.group()), str(dim))
        tree = ast.parse(text, mode="eval").body
        return _parse_expr(tree, lambda alias: self.var(aliases[alias]), self._dtype)

    def exprs(self, shape: Sequence[Dim]) -> tuple[PrimExpr, ...]:
        """Canonical dimensions as scalar expressions."""
        return tuple(map(self.expr, shape))


def _parse_expr(node: ast.expr, variable: Callable[[str], Var], dtype: str) -> PrimExpr:
    """The scalar expression of a parsed canonical dimension."""
    if isinstance(node, ast.Constant):
        return prim.const(node.value, dtype)
    if isinstance(node, ast.Name):
        return variable(node.id)
    if isinstance(node, ast.UnaryOp):
        return -_parse_expr(node.operand, variable, dtype)
    if isinstance(node, ast.BinOp):
        sides = [_parse_expr(side, variable, dtype) for side in (node.left, node.right)]
        if isinstance(sides[0], prim.IntImm) and isinstance(node.op, ast.Mult):
            sides.reverse()
        return _OPERATORS[type(node.op)](*sides)
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    first, *others = (_parse_expr(a, variable, dtype) for a in node.args)
    for other in others:
        first = _FUNCTIONS[node.func.id](first, other)
    return first

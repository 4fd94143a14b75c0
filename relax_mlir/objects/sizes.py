"""Sizes between the two forms that they have: terms, and canonical symbolic dimensions.

A term mentions variables, which are objects; a ``Dim`` of the IR mentions symbols by
name. A :class:`Symbols` gives every variable of one function a name of its own, and gives
the same variable back for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir.dialects import dims
from relax_mlir.dialects import symbols as symbol_text
from relax_mlir.dialects.dim_bounds import is_known_le
from relax_mlir.dialects.dims import Dim, Expr
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var

__all__ = ["Symbols", "simplify_size"]

_TO_DIM: Mapping[type, Callable[[Dim, Dim], Dim]] = {
    prim.Add: lambda a, b: a + b,
    prim.Sub: lambda a, b: a - b,
    prim.Mul: lambda a, b: a * b,
    prim.FloorDiv: dims.floordiv,
    prim.FloorMod: dims.mod,
    prim.Div: dims.floordiv,  # sizes are not negative: truncation rounds down
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


# When comparisons hold for all sizes, and when they hold for none.
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
    """The variables that one function's sizes mention, and their names.

    Args:
        dtype: type of the variables that stand for names met first in the IR.
    """

    def __init__(self, dtype: str = "int64") -> None:
        self._dtype = dtype
        self._names: dict[int, str] = {}
        self._vars: dict[str, Var] = {}

    def name(self, var: Var) -> str:
        """The symbol that stands for a variable, the same each time."""
        if id(var) not in self._names:
            self._names[id(var)] = self._fresh(var.name)
            self._vars[self._names[id(var)]] = var
        return self._names[id(var)]

    def alias(self, var: Var, name: str) -> None:
        """Say what a variable is called."""
        self._names[id(var)] = name
        self._vars[name] = var

    def _fresh(self, wish: str) -> str:
        name, count = wish or "n", 0
        while name in self._vars:
            count += 1
            name = f"{wish}_{count}"
        return name

    def var(self, name: str) -> Var:
        """The variable that a symbol stands for."""
        if name not in self._vars:
            self._vars[name] = Var(_NO_WORD.sub("_", name), self._dtype)
            self._names[id(self._vars[name])] = name
        return self._vars[name]

    @property
    def vars(self) -> list[Var]:
        """All variables met so far."""
        return list(self._vars.values())

    def dim(self, size: Any) -> Dim:
        """A size, or another integer, as a canonical dimension.

        Raises:
            ValueError: it is not made of integers, variables and ``+ - * // % min max``.
        """
        return self._dim(size, lambda term: None)

    def dims(self, shape: Sequence[Any]) -> tuple[Dim, ...]:
        """A shape as canonical dimensions; what it mentions is not negative.

        Raises:
            ValueError: see :meth:`dim`; choices are taken that can be decided as well.
        """
        return tuple(self._dim(size, self._chosen) for size in shape)

    def _dim(self, size: Any, choose: Callable[[PrimExpr], PrimExpr | None]) -> Dim:
        if isinstance(size, int):
            return size
        term = prim.convert(size)
        if isinstance(term, prim.IntImm):
            return term.value
        if isinstance(term, Var):
            return dims.symbol(self.name(term))
        if isinstance(term, prim.Cast):
            return self._dim(term.value, choose)
        make, chosen = _TO_DIM.get(type(term)), choose(term)
        if chosen is not None:
            return self._dim(chosen, choose)
        if make is None:
            raise ValueError(
                f"`{term}` is no size: expected integers, variables, `+ - * // %`, min "
                "and max"
            )
        return make(*(self._dim(child, choose) for child in term.children()))

    def _chosen(self, term: PrimExpr) -> PrimExpr | None:
        """What a choice gives whose condition can be decided; None for other terms."""
        is_call = isinstance(term, prim.Call) and term.op_name == "if_then_else"
        if not is_call and not isinstance(term, prim.Select):
            return None
        condition, then, otherwise = term.children()
        if type(condition) not in _CERTAIN:
            return None
        sides = [self._dim(side, self._chosen) for side in condition.children()]
        holds, fails = _CERTAIN[type(condition)]
        if holds(*sides):
            return then
        return otherwise if fails(*sides) else None

    def term(self, dim: Dim) -> PrimExpr:
        """A canonical dimension as a term."""
        if isinstance(dim, int):
            return prim.const(dim, self._dtype)
        # A symbol from a model file need not be a name in Python.
        symbols = symbol_text.symbols_of(dim)
        aliases = {f"_{number}": name for number, name in enumerate(symbols)}
        spelled = {name: alias for alias, name in aliases.items()}
        text = _NAME.sub(lambda m: spelled.get(m.group(), m.group()), str(dim))
        tree = ast.parse(text, mode="eval").body
        return _term(tree, lambda alias: self.var(aliases[alias]), self._dtype)

    def terms(self, shape: Sequence[Dim]) -> tuple[PrimExpr, ...]:
        """Canonical dimensions as terms."""
        return tuple(map(self.term, shape))


def _term(node: ast.expr, variable: Callable[[str], Var], dtype: str) -> PrimExpr:
    """The term that the text of a canonical dimension spells."""
    if isinstance(node, ast.Constant):
        return prim.const(node.value, dtype)
    if isinstance(node, ast.Name):
        return variable(node.id)
    if isinstance(node, ast.UnaryOp):
        return -_term(node.operand, variable, dtype)
    if isinstance(node, ast.BinOp):
        sides = [_term(side, variable, dtype) for side in (node.left, node.right)]
        if isinstance(sides[0], prim.IntImm) and isinstance(node.op, ast.Mult):
            sides.reverse()
        return _OPERATORS[type(node.op)](*sides)
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    first, *others = (_term(a, variable, dtype) for a in node.args)
    for other in others:
        first = _FUNCTIONS[node.func.id](first, other)
    return first


def simplify_size(size: Any) -> PrimExpr:
    """A size in canonical form, on the variables that it mentions."""
    term = prim.convert(size)
    symbols = Symbols(term.dtype)
    dim = symbols.dim(term)
    if isinstance(dim, Expr) and str(dim) == str(term):
        return term
    return symbols.term(dim)

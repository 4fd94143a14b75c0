"""Mapping between the variables and the SSA values of one function."""

from __future__ import annotations

from typing import Any

from mlir import ir

from relax_mlir.objects.expr import Expr, Id, Var
from relax_mlir.objects.prim.symbolic_sizes import Symbols

__all__ = ["FunctionScope"]


class FunctionScope:
    """The variables of one function with their SSA values and symbols.

    Attributes:
        symbols: the symbol table of its sizes.
    """

    def __init__(self) -> None:
        self.symbols = Symbols()
        # For a PrimFunc: variable and buffer (or None) by argument number.
        self.arguments: dict[int, tuple[Any, Any]] = {}
        self._value_of: dict[Id, ir.Value] = {}
        self._expr_of: dict[ir.Value, Expr] = {}

    def define(self, var: Var, value: ir.Value) -> None:
        """Binds a variable to a value."""
        self._value_of[var.vid] = value
        self._expr_of.setdefault(value, var)

    def value(self, var: Var) -> ir.Value:
        """The value of a variable.

        Raises:
            ValueError: the variable is undefined.
        """
        if var.vid not in self._value_of:
            raise ValueError(
                f"variable `{var.name_hint}` is undefined: expected a "
                "parameter or an earlier binding of the same function"
            )
        return self._value_of[var.vid]

    def defines(self, var: Var) -> bool:
        """Whether a variable has a value in this function."""
        return var.vid in self._value_of

    def expr(self, value: ir.Value) -> Expr | None:
        """The expression of a value, as read before or bound to it; or None."""
        return self._expr_of.get(value)

    def variables(self) -> list[Var]:
        """All variables."""
        found = {id(e): e for e in self._expr_of.values() if isinstance(e, Var)}
        return list(found.values())

    def remember(self, value: ir.Value, expr: Expr) -> None:
        """Associates a value with an expression, so that later reads return the same object."""
        self._expr_of[value] = expr
        if isinstance(expr, Var):
            self.define(expr, value)

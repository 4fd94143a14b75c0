"""Which variable stands for which value of one function."""

from __future__ import annotations

from typing import Any

from mlir import ir

from relax_mlir.objects.expr import Expr, Id, Var
from relax_mlir.objects.sizes import Symbols

__all__ = ["FunctionScope"]


class FunctionScope:
    """The variables of one function, and the values and symbols that they are in its IR.

    Attributes:
        symbols: of its sizes.
    """

    def __init__(self) -> None:
        self.symbols = Symbols()
        # Of a tensor program: variable and buffer, or None, by the argument's number.
        self.arguments: dict[int, tuple[Any, Any]] = {}
        self._value_of: dict[Id, ir.Value] = {}
        self._expr_of: dict[ir.Value, Expr] = {}

    def define(self, var: Var, value: ir.Value) -> None:
        """From here on ``var`` is ``value``."""
        self._value_of[var.vid] = value
        self._expr_of.setdefault(value, var)

    def value(self, var: Var) -> ir.Value:
        """The value that a variable is.

        Raises:
            ValueError: nothing defined it.
        """
        if var.vid not in self._value_of:
            raise ValueError(
                f"variable `{var.name_hint}` is used where nothing defines it: expected a "
                "parameter or an earlier binding of the same function"
            )
        return self._value_of[var.vid]

    def defines(self, var: Var) -> bool:
        """Whether a variable is a value of this function."""
        return var.vid in self._value_of

    def expr(self, value: ir.Value) -> Expr | None:
        """The expression that a value was read as, or is defined by."""
        return self._expr_of.get(value)

    def variables(self) -> list[Var]:
        """The variables that are known."""
        found = {id(e): e for e in self._expr_of.values() if isinstance(e, Var)}
        return list(found.values())

    def remember(self, value: ir.Value, expr: Expr) -> None:
        """Read the same expression for a value each time."""
        self._expr_of[value] = expr
        if isinstance(expr, Var):
            self.define(expr, value)

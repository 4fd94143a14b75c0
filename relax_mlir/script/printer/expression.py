"""Expressions, bindings and struct info that stand alone, as scripts."""

from __future__ import annotations

from typing import Any

import numpy as np

from relax_mlir.objects.expr import (
    Binding,
    BindingBlock,
    Constant,
    Expr,
    If,
    SeqExpr,
    Var,
)
from relax_mlir.objects.function import BaseFunc
from relax_mlir.objects.struct_info import StructInfo
from relax_mlir.script.printer.names import Names
from relax_mlir.script.printer.relax import FunctionPrinter, Options
from relax_mlir.script.printer.values import Metadata

__all__ = ["expression_line", "expression_script"]


class _Alone(FunctionPrinter):
    """Declares the variables in front, since no function does."""

    def __post_init__(self) -> None:
        """Begin with no line."""
        super().__post_init__()
        self._declared: list[str] = []

    def _name(self, variable: Any) -> str:
        if self.names.get(variable) is None:
            name = self.names.define(variable, variable.name_hint)
            if isinstance(variable, Var):
                info = variable.struct_info_or_none()
                if info is not None:
                    self._declared.append(f"{name}: {self.info(info)}")
            else:
                self._declared.append(f"{name} = T.{variable.dtype}()")
        return self.names.get(variable) or ""

    def alone(self, value: Any) -> str:
        """The text of ``value``, after what it uses."""
        self._put_alone(value)
        return "\n".join([*self._declared, *self._lines])

    def _put_alone(self, value: Any) -> None:
        if isinstance(value, StructInfo):
            text = self.info(value)
            self._put("R.Tuple" if text == "R.Tuple()" else text)
        elif isinstance(value, Binding):
            self._binding(value)
        elif isinstance(value, BindingBlock):
            self._block(value)
        elif isinstance(value, SeqExpr):
            self._sequence(value, self._put_alone)
        elif isinstance(value, If):
            self._put(f"if {self.expr(value.cond)}:")
            with self._indented():
                self._sequence(value.true_branch, self._put_alone)
            self._put("else:")
            with self._indented():
                self._sequence(value.false_branch, self._put_alone)
        else:
            text = self.expr(value)
            self._put(text)


def expression_script(
    value: Expr | StructInfo | Binding | BindingBlock,
    *,
    show_meta: bool = False,
    show_all_struct_info: bool = True,
    syntax_sugar: bool = True,
) -> str:
    """An expression, a binding or struct info as a script, after the variables in it.

    Args:
        value: what is printed.
        show_meta: of no effect: arrays are numbers here.
        show_all_struct_info: whether bindings say what can be inferred, too.
        syntax_sugar: whether calls that give nothing are plain statements.
    """
    options = Options(
        show_all_struct_info=show_all_struct_info, is_sugared=syntax_sugar
    )
    return _Alone(options, Names(), Metadata()).alone(value)


class _Line(FunctionPrinter):
    """Spells in one line what scripts say elsewhere: arrays, and functions."""

    def expr(self, value: Expr) -> str:
        if isinstance(value, BaseFunc):
            return value.name
        if isinstance(value, Constant) and value.array.ndim > 0:
            shown = np.array2string(
                value.array, threshold=16, edgeitems=1, separator=", "
            )
            return f'R.const({" ".join(shown.split())}, "{value.array.dtype.name}")'
        return super().expr(value)


def expression_line(value: Expr) -> str:
    """An expression in one line, which does not say what the variables in it are.

    Arrays of more than 16 elements show their corners.
    """
    return _Line().expr(value)

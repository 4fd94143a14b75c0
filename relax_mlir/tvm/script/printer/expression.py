"""Printing of stand-alone Relax expressions, bindings and struct info."""

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
from relax_mlir.objects.expr.struct_info import StructInfo
from relax_mlir.objects.function import BaseFunc
from relax_mlir.tvm.script.printer.names import NameTable
from relax_mlir.tvm.script.printer.relax import FunctionPrinter, PrinterOptions
from relax_mlir.tvm.script.printer.values import Metadata

__all__ = ["expression_line", "expression_script"]


class _FragmentPrinter(FunctionPrinter):
    """Prints a fragment of a function after declarations of its free variables."""

    def __post_init__(self) -> None:
        """Initializes the output."""
        super().__post_init__()
        self._declarations: list[str] = []

    def _name(self, variable: Any) -> str:
        if self.names.get(variable) is None:
            name = self.names.define(variable, variable.name_hint)
            if isinstance(variable, Var):
                info = variable.struct_info_or_none()
                if info is not None:
                    self._declarations.append(f"{name}: {self.info(info)}")
            else:
                self._declarations.append(f"{name} = T.{variable.dtype}()")
        return self.names.get(variable) or ""

    def fragment(self, value: Any) -> str:
        """Prints ``value`` after declarations of its free variables."""
        self._put_fragment(value)
        return "\n".join([*self._declarations, *self._lines])

    def _put_fragment(self, value: Any) -> None:
        if isinstance(value, StructInfo):
            text = self.info(value)
            self._put("R.Tuple" if text == "R.Tuple()" else text)
        elif isinstance(value, Binding):
            self._binding(value)
        elif isinstance(value, BindingBlock):
            self._block(value)
        elif isinstance(value, SeqExpr):
            self._sequence(value, self._put_fragment)
        elif isinstance(value, If):
            self._put(f"if {self.expr(value.cond)}:")
            with self._indented():
                self._sequence(value.true_branch, self._put_fragment)
            self._put("else:")
            with self._indented():
                self._sequence(value.false_branch, self._put_fragment)
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
    """Prints an expression, a binding or struct info after declarations of its variables.

    Args:
        value: the object to print.
        show_meta: ignored: constants are printed as references.
        show_all_struct_info: whether bindings show struct info that can be inferred.
        syntax_sugar: whether calls of void type are printed as plain statements.
    """
    options = PrinterOptions(
        show_all_struct_info=show_all_struct_info, is_sugared=syntax_sugar
    )
    return _FragmentPrinter(options, NameTable(), Metadata()).fragment(value)


class _LinePrinter(FunctionPrinter):
    """Prints constants and functions inline."""

    def expr(self, value: Expr) -> str:
        if isinstance(value, BaseFunc):
            return value.name
        if isinstance(value, Constant) and value.array.ndim > 0:
            elements = np.array2string(
                value.array, threshold=16, edgeitems=1, separator=", "
            )
            return f'R.const({" ".join(elements.split())}, "{value.array.dtype.name}")'
        return super().expr(value)


def expression_line(value: Expr) -> str:
    """Prints an expression on one line, without declarations of its variables.

    Arrays of more than 16 elements are abbreviated to the first and last along each axis.
    """
    return _LinePrinter().expr(value)

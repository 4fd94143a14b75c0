"""Expressions, bindings and struct info that stand alone, as scripts."""

from __future__ import annotations

from typing import Any

from relax_mlir.objects.expr import Binding, BindingBlock, Expr, If, SeqExpr, Var
from relax_mlir.objects.struct_info import StructInfo
from relax_mlir.script.printer.names import Names
from relax_mlir.script.printer.relax import FunctionPrinter, Options
from relax_mlir.script.printer.values import Metadata

__all__ = ["expression_script"]


class _Alone(FunctionPrinter):
    """Declares a variable where it is met first, since no function does."""

    def _name(self, variable: Any) -> str:
        if self.names.get(variable) is None:
            name = self.names.define(variable, variable.name_hint)
            if isinstance(variable, Var):
                info = variable.struct_info_or_none()
                self._put(name if info is None else f"{name}: {self.info(info)}")
            else:
                self._put(f"{name} = T.{variable.dtype}()")
        return self.names.get(variable) or ""

    def alone(self, value: Any) -> str:
        """The text of ``value``, after what it uses."""
        self._put_alone(value)
        return "\n".join(self._lines)

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

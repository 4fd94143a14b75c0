"""Scripts of what programs are made of."""

from __future__ import annotations

from typing import Any

from relax_mlir.argument_types import check_exports
from relax_mlir.module import IRModule
from relax_mlir.objects.expr import Binding, BindingBlock, Expr, If, SeqExpr
from relax_mlir.objects.function import BaseFunc
from relax_mlir.objects.struct_info import StructInfo
from relax_mlir.script.printer import display
from relax_mlir.script.printer.expression import expression_line, expression_script
from relax_mlir.script.printer.module import function_script, module_script
from relax_mlir.script.printer.pointers import POINTING, Pointers
from relax_mlir.traversal import own_operations

__all__ = ["html", "script", "show", "text"]

# Options of TVM's printer that change nothing here.
_NO_EFFECT = frozenset(
    {
        *("ir_prefix", "buffer_dtype", "int_dtype", "float_dtype", "verbose_expr"),
        *("indent_spaces", "print_line_numbers", "num_context_lines", "s_tir"),
        *("extra_config", "def_free_var"),
        *("binding_names", "black_format", "tir_prefix", "relax_prefix"),
        *("module_prefix", "type_prefix"),
    }
)


def script(value: Any, **options: Any) -> str:
    """The script of a module, a function, an expression or struct info.

    Args:
        value: what is printed.
        options: those of :func:`module_script`, what to underline by
            ``path_to_underline`` or ``obj_to_underline`` and what to remark by
            ``path_to_annotate`` or ``obj_to_annotate``; TVM's others have no effect.

    Raises:
        TypeError: there is no such option, or no such script.
    """
    if "show_all_ty" in options:
        options["show_all_struct_info"] = options.pop("show_all_ty")
    given = {
        n: v
        for n, v in options.items()
        if n not in _NO_EFFECT and not (n == "name" and v is None)
    }
    pointing = {n: given.pop(n) for n in POINTING if n in given}
    if isinstance(value, (IRModule, BaseFunc)):
        given["pointers"] = Pointers.of(**pointing)
    if isinstance(value, IRModule):
        return module_script(value, **given)
    if isinstance(value, BaseFunc):
        return function_script(value, **given)
    if isinstance(value, (Expr, StructInfo, Binding, BindingBlock)):
        return expression_script(value, **given)
    raise TypeError(f"`{type(value).__name__}` has no script")


def show(value: Any, style: str | None = None, **options: Any) -> None:
    """Print the script of something.

    Args:
        value: a module, a function, an expression or struct info.
        style: of the colours; or ``mlir`` to print its MLIR instead.
        options: those of :func:`script`.
    """
    if style == "mlir":
        text = str(value.mlir) if isinstance(value, IRModule) else str(value.op)
        display.show(text, language="text")
        return
    display.show(script(value, **options), style=style)


def html(value: Any) -> str:
    """The script of something as a part of a page."""
    return display.html(text(value))


def text(value: Any) -> str:
    """What ``repr`` gives: the script, or the MLIR of a module that has none.

    Expressions are one line, which does not say what the variables in it are.
    """
    is_long = isinstance(value, (BaseFunc, If, SeqExpr))
    try:
        if isinstance(value, IRModule) and len(own_operations(value.mlir.body)) > len(
            value.functions
        ):
            return str(value)
        if isinstance(value, Expr) and not is_long:
            return expression_line(value)
        return script(value)
    except Exception:  # a term may be half built; what shows it must not fail
        is_module = isinstance(value, IRModule)
        return str(value) if is_module else object.__repr__(value)


check_exports(globals())

"""The TVMScript printer."""

from __future__ import annotations

from typing import Any

from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects.expr import Binding, BindingBlock, Expr, If, SeqExpr
from relax_mlir.objects.expr.struct_info import StructInfo
from relax_mlir.objects.function import BaseFunc
from relax_mlir.objects.printing import PRINTER, Printer
from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.script.printer import display
from relax_mlir.tvm.script.printer.expression import expression_line, expression_script
from relax_mlir.tvm.script.printer.module import function_script, module_script
from relax_mlir.tvm.script.printer.pointers import HIGHLIGHT_OPTIONS, Highlights
from relax_mlir.tvm.script.printer.tir import fragment_script

__all__ = ["html", "script", "show", "text"]

# Options of TVM's printer that are accepted and ignored.
_IGNORED_OPTIONS = frozenset(
    {
        *("ir_prefix", "buffer_dtype", "int_dtype", "float_dtype", "verbose_expr"),
        *("indent_spaces", "print_line_numbers", "num_context_lines", "s_tir"),
        *("extra_config", "def_free_var"),
        *("binding_names", "black_format", "tir_prefix", "relax_prefix"),
        *("module_prefix", "type_prefix"),
    }
)


def script(value: Any, **options: Any) -> str:
    """Prints a module, a function, an expression or struct info as TVMScript.

    Args:
        value: the object to print.
        options: those of :func:`module_script`; ``path_to_underline`` and
            ``obj_to_underline``, the nodes to underline; ``path_to_annotate`` and
            ``obj_to_annotate``, comments on nodes. TVM's other options are ignored.

    Raises:
        TypeError: an option is unknown, or ``value`` has no script.
    """
    if "show_all_ty" in options:
        options["show_all_struct_info"] = options.pop("show_all_ty")
    known_options = {
        n: v
        for n, v in options.items()
        if n not in _IGNORED_OPTIONS and not (n == "name" and v is None)
    }
    marked = {n: known_options.pop(n) for n in HIGHLIGHT_OPTIONS if n in known_options}
    if isinstance(value, (IRModule, BaseFunc)):
        known_options["highlights"] = Highlights.of(**marked)
    if isinstance(value, IRModule):
        return module_script(value, **known_options)
    if isinstance(value, BaseFunc):
        return function_script(value, **known_options)
    if isinstance(value, (Expr, StructInfo, Binding, BindingBlock)):
        return expression_script(value, **known_options)
    raise TypeError(f"`{type(value).__name__}` has no script")


def show(value: Any, style: str | None = None, **options: Any) -> None:
    """Prints the script of an object to standard output.

    Args:
        value: a module, a function, an expression or struct info.
        style: the colour scheme; or ``mlir`` to print its MLIR instead.
        options: those of :func:`script`.
    """
    if style == "mlir":
        text = str(value.mlir) if isinstance(value, IRModule) else str(value.op)
        display.show(text, language="text")
        return
    display.show(script(value, **options), style=style)


def html(value: Any) -> str:
    """Returns the script of an object as an HTML fragment."""
    return display.html(text(value))


def text(value: Any) -> str:
    """Returns an object's ``repr``: its script, or the MLIR of a module without one.

    Expressions are printed on one line, without declarations of their variables.
    """
    is_multiline = isinstance(value, (BaseFunc, If, SeqExpr))
    try:
        if isinstance(value, IRModule) and len(own_operations(value.mlir.body)) > len(
            value.functions
        ):
            return str(value)
        if isinstance(value, Expr) and not is_multiline:
            return expression_line(value)
        return script(value)
    except Exception:  # the object may be incomplete; repr must not raise
        is_module = isinstance(value, IRModule)
        return str(value) if is_module else object.__repr__(value)


def _show_fragment(node: Any, **_: Any) -> None:
    display.show(fragment_script(node))


check_exports(globals())
PRINTER.set(Printer(script, show, html, text, fragment_script, _show_fragment))

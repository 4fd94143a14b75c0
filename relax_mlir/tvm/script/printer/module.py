"""Printing of modules and of stand-alone functions."""

from __future__ import annotations

import json
from typing import Any

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import ExternFunc
from relax_mlir.objects.expr.struct_info import FuncStructInfo
from relax_mlir.objects.function import BaseFunc, Function
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.tvm.script.printer.names import NameTable
from relax_mlir.tvm.script.printer.pointers import (
    Highlights,
    mark_underlined,
    underline_lines,
)
from relax_mlir.tvm.script.printer.relax import FunctionPrinter, PrinterOptions
from relax_mlir.tvm.script.printer.values import Metadata, attribute_text

__all__ = ["function_script", "module_script"]

_OMITTED = "# Metadata omitted. Use show_meta=True in script() method to show it."


def module_script(
    module: IRModule,
    *,
    name: str = "Module",
    show_meta: bool = False,
    module_alias: str = "cls",
    show_all_struct_info: bool = True,
    syntax_sugar: bool = True,
    highlights: Highlights | None = None,
    show_object_address: bool = False,
) -> str:
    """Prints a module: PrimFuncs, then Relax functions, sorted by name.

    Args:
        module: the module.
        name: the name of its class.
        show_meta: whether to print the elements of constants.
        module_alias: the name by which functions refer to the module; empty for ``name``.
        show_all_struct_info: whether bindings show struct info that can be inferred.
        syntax_sugar: whether calls of void type are printed as plain statements.
        highlights: nodes to underline, and comments on nodes.
        show_object_address: whether names end in the object's address.
    """
    marks = highlights or Highlights()
    options = PrinterOptions(
        module_alias=module_alias,
        module_name=name,
        show_all_struct_info=show_all_struct_info,
        is_sugared=syntax_sugar,
        with_address=show_object_address,
        vdevice=lambda device: _vdevice_name(module, device),
    )
    metadata = Metadata()
    parts: list[list[str]] = []
    namespaces = set()
    head = _head(module)
    for variable, function in sorted(module.functions.items(), key=_sort_key):
        symbol = variable.name_hint
        marks_inside = marks.inside(symbol)
        used, lines = _function(function, symbol, options, metadata, marks_inside)
        namespaces |= used
        parts.append(["    " + line if line else "" for line in lines])
    body = _joined(([head] if head else []) + parts)
    class_ = ["@I.ir_module", f"class {name}:", *(body or ["    pass"])]
    class_ = list(map(mark_underlined, class_)) if marks.has_root() else class_
    return _finished(class_, {"I", *namespaces}, metadata, show_meta=show_meta)


def function_script(
    function: BaseFunc,
    *,
    name: str = "",
    show_meta: bool = False,
    show_all_struct_info: bool = True,
    syntax_sugar: bool = True,
    module_alias: str = "cls",
    highlights: Highlights | None = None,
    show_object_address: bool = False,
) -> str:
    """Prints a function without its module.

    Args:
        function: the function.
        name: its name; by default its global symbol, or ``main``.
        show_meta: whether to print the elements of constants.
        show_all_struct_info: whether bindings show struct info that can be inferred.
        syntax_sugar: whether calls of void type are printed as plain statements.
        module_alias: ignored, as there is no module.
        highlights: nodes to underline, and comments on nodes.
        show_object_address: whether names end in the object's address.
    """
    options = PrinterOptions(
        show_all_struct_info=show_all_struct_info,
        is_sugared=syntax_sugar,
        with_address=show_object_address,
    )
    metadata = Metadata()
    symbol = name or str(function.attrs.get("global_symbol", "main"))
    marks = highlights or Highlights()
    namespaces, lines = _function(function, symbol, options, metadata, marks)
    return _finished(lines, namespaces, metadata, show_meta=show_meta)


def _sort_key(pair: tuple[Any, Any]) -> tuple[int, str]:
    """The print order: PrimFuncs first, ``main`` last, then by name."""
    variable, function = pair
    kinds = (PrimFunc, ExternFunc, Function)
    rank = next((n for n, k in enumerate(kinds) if isinstance(function, k)), 0)
    is_main = variable.name_hint == "main"
    return len(kinds) if is_main else rank, variable.name_hint


def _function(
    function: Any,
    name: str,
    options: PrinterOptions,
    metadata: Metadata,
    highlights: Highlights,
) -> tuple[set[str], list[str]]:
    """Prints a function; returns the script namespaces that it uses, and its lines."""
    if isinstance(function, ExternFunc):
        return {"R"}, [f"{name} = {_extern(function)}"]
    if not isinstance(function, Function):
        from relax_mlir.tvm.script.printer.tir import prim_func_lines

        return {"T"}, prim_func_lines(
            function,
            name,
            options.module_name,
            highlights,
            with_address=options.with_address,
        )
    reserved = [options.module_alias, options.module_name]
    names = NameTable(reserved, with_address=options.with_address)
    printer = FunctionPrinter(options, names, metadata)
    lines = printer.lines(function, name)
    return {"R", "T"} if printer.uses_tir else {"R"}, lines


def _extern(function: ExternFunc) -> str:
    info = FunctionPrinter().info(function.struct_info)
    is_default = function.struct_info == FuncStructInfo.opaque_func()
    parts = [json.dumps(function.global_symbol), *([] if is_default else [info])]
    return f"R.ExternFunc({', '.join(parts)})"


def _head(module: Any) -> list[str]:
    lines = []
    if module.attrs:
        lines.append(f"    I.module_attrs({attribute_text(module.attrs, str)})")
    infos = getattr(module, "global_infos", {})
    if infos:
        entries = [
            f"{json.dumps(n)}: [{', '.join(map(repr, values))}]"
            for n, values in infos.items()
        ]
        lines.append(f"    I.module_global_infos({{{', '.join(entries)}}})")
    return lines


def _vdevice_name(module: Any, device: object) -> str:
    infos = getattr(module, "global_infos", {}).get("vdevice", [])
    for number, vdevice in enumerate(infos):
        if device in (vdevice, str(vdevice)):
            return f"vdevice:{number}"
    return str(device)


def _joined(parts: list[list[str]]) -> list[str]:
    """Concatenates the parts, with an empty line after each function."""
    lines: list[str] = []
    for number, part in enumerate(parts):
        is_function = number > 0 and "def " in "".join(parts[number - 1])
        lines += ["", *part] if is_function else part
    return lines


_IMPORTS = {
    "I": "# from relax_mlir.tvm.script import ir as I",
    "T": "# from relax_mlir.tvm.script import tir as T",
    "R": "# from relax_mlir.tvm.script import relax as R",
}


def _finished(
    lines: list[str], namespaces: set[str], metadata: Metadata, *, show_meta: bool
) -> str:
    """Adds import comments and metadata to a printed module or function."""
    before: list[str] = []
    if metadata and show_meta:
        namespaces = {*namespaces, "I"}
        before = metadata.lines()
    head = [text for name, text in _IMPORTS.items() if name in namespaces]
    after = ["", _OMITTED] if metadata and not show_meta else []
    return "\n".join([*head, "", *before, *underline_lines(lines), *after])

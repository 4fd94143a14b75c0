"""Modules as scripts."""

from __future__ import annotations

import json
from typing import Any

from relax_mlir.module import IRModule
from relax_mlir.objects.expr import ExternFunc
from relax_mlir.objects.function import BaseFunc, Function
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.struct_info import FuncStructInfo
from relax_mlir.script.printer.names import Names
from relax_mlir.script.printer.pointers import Pointers, underline_lines, underlined
from relax_mlir.script.printer.relax import FunctionPrinter, Options
from relax_mlir.script.printer.values import Metadata, attribute_text

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
    pointers: Pointers | None = None,
    show_object_address: bool = False,
) -> str:
    """A module as a script: its tensor programs, then its graphs, each by name.

    Args:
        module: the module.
        name: what its class is called.
        show_meta: whether to print the elements of arrays, too.
        module_alias: what functions call their module; empty for its own name.
        show_all_struct_info: whether bindings say what can be inferred, too.
        syntax_sugar: whether calls that give nothing are plain statements.
        pointers: what is underlined, and what has remarks.
        show_object_address: whether names end in what tells objects apart.
    """
    found = pointers or Pointers()
    options = Options(
        module_alias=module_alias,
        module_name=name,
        show_all_struct_info=show_all_struct_info,
        is_sugared=syntax_sugar,
        with_address=show_object_address,
        vdevice=lambda device: _vdevice_name(module, device),
    )
    metadata = Metadata()
    parts: list[list[str]] = []
    levels = set()
    head = _head(module)
    for variable, function in sorted(module.functions.items(), key=_order):
        called = variable.name_hint
        inside = found.inside(called)
        level, lines = _function(function, called, options, metadata, inside)
        levels |= level
        parts.append(["    " + line if line else "" for line in lines])
    body = _joined(([head] if head else []) + parts)
    class_ = ["@I.ir_module", f"class {name}:", *(body or ["    pass"])]
    class_ = list(map(underlined, class_)) if found.whole() else class_
    return _finished(class_, {"I", *levels}, metadata, show_meta=show_meta)


def function_script(
    function: BaseFunc,
    *,
    name: str = "",
    show_meta: bool = False,
    show_all_struct_info: bool = True,
    syntax_sugar: bool = True,
    module_alias: str = "cls",
    pointers: Pointers | None = None,
    show_object_address: bool = False,
) -> str:
    """A function alone as a script.

    Args:
        function: the function.
        name: what it is called; by default what other modules call it, or ``main``.
        show_meta: whether to print the elements of arrays, too.
        show_all_struct_info: whether bindings say what can be inferred, too.
        syntax_sugar: whether calls that give nothing are plain statements.
        module_alias: of no effect, as there is no module.
        pointers: what is underlined, and what has remarks.
        show_object_address: whether names end in what tells objects apart.
    """
    options = Options(
        show_all_struct_info=show_all_struct_info,
        is_sugared=syntax_sugar,
        with_address=show_object_address,
    )
    metadata = Metadata()
    called = name or str(function.attrs.get("global_symbol", "main"))
    found = pointers or Pointers()
    levels, lines = _function(function, called, options, metadata, found)
    return _finished(lines, levels, metadata, show_meta=show_meta)


def _order(pair: tuple[Any, Any]) -> tuple[int, str]:
    """Where a function stands: tensor programs first, ``main`` last, then by name."""
    variable, function = pair
    kinds = (PrimFunc, ExternFunc, Function)
    level = next((n for n, k in enumerate(kinds) if isinstance(function, k)), 0)
    is_main = variable.name_hint == "main"
    return len(kinds) if is_main else level, variable.name_hint


def _function(
    function: Any, name: str, options: Options, metadata: Metadata, pointers: Pointers
) -> tuple[set[str], list[str]]:
    """The lines of a function, and the namespaces that they use."""
    if isinstance(function, ExternFunc):
        return {"R"}, [f"{name} = {_extern(function)}"]
    if not isinstance(function, Function):
        from relax_mlir.script.printer.tir import prim_func_lines

        return {"T"}, prim_func_lines(
            function,
            name,
            options.module_name,
            pointers,
            with_address=options.with_address,
        )
    taken = [options.module_alias, options.module_name]
    names = Names(taken, with_address=options.with_address)
    printer = FunctionPrinter(options, names, metadata)
    lines = printer.lines(function, name)
    return {"R", "T"} if printer.uses_tir else {"R"}, lines


def _extern(function: ExternFunc) -> str:
    info = FunctionPrinter().info(function.struct_info)
    plain = function.struct_info == FuncStructInfo.opaque_func()
    parts = [json.dumps(function.global_symbol), *([] if plain else [info])]
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
    for number, known in enumerate(infos):
        if device in (known, str(known)):
            return f"vdevice:{number}"
    return str(device)


def _joined(parts: list[list[str]]) -> list[str]:
    """Parts as lines; an empty one parts functions from what follows."""
    lines: list[str] = []
    for number, part in enumerate(parts):
        is_function = number > 0 and "def " in "".join(parts[number - 1])
        lines += ["", *part] if is_function else part
    return lines


_IMPORTS = {
    "I": "# from relax_mlir.script import ir as I",
    "T": "# from relax_mlir.script import tir as T",
    "R": "# from relax_mlir.script import relax as R",
}


def _finished(
    lines: list[str], levels: set[str], metadata: Metadata, *, show_meta: bool
) -> str:
    before: list[str] = []
    if metadata and show_meta:
        levels = {*levels, "I"}
        before = metadata.lines()
    head = [text for level, text in _IMPORTS.items() if level in levels]
    after = ["", _OMITTED] if metadata and not show_meta else []
    return "\n".join([*head, "", *before, *underline_lines(lines), *after])

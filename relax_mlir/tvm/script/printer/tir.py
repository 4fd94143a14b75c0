"""Printing of PrimFuncs and of stand-alone fragments of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import IntImm, IterVar, Range, Var
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.buffer import Buffer, BufferRegion
from relax_mlir.objects.stmt.functor import free_names
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.tvm.script.printer.names import NameTable
from relax_mlir.tvm.script.printer.pointers import (
    HIGHLIGHT_OPTIONS,
    Highlights,
    mark_underlined,
    underline_lines,
)
from relax_mlir.tvm.script.printer.statement import PrimFuncPrinter, variable_type

__all__ = ["fragment_script", "prim_func_lines"]

_ITER_TYPES: Mapping[int, str] = {
    IterVar.DataPar: "DataPar",
    IterVar.ThreadIndex: "ThreadIndex",
    IterVar.CommReduce: "CommReduce",
    IterVar.Ordered: "Ordered",
    IterVar.Opaque: "Opaque",
}


def prim_func_lines(
    function: PrimFunc,
    name: str,
    module_name: str = "Module",
    highlights: Highlights | None = None,
    *,
    with_address: bool = False,
) -> list[str]:
    """Prints a PrimFunc, line by line.

    Args:
        function: the PrimFunc.
        name: its name.
        module_name: the name of its module.
        highlights: nodes to underline, and comments on nodes.
        with_address: whether names end in the object's address.
    """
    decoded = DecodedPrimFunc.of(function)
    marks = (highlights or Highlights()).at(decoded)
    names = NameTable([module_name], with_address=with_address)
    printer = PrimFuncPrinter(names, module_name, marks)
    _print_function(printer, function, name, decoded)
    return (
        list(map(mark_underlined, printer.lines)) if marks.has_root() else printer.lines
    )


def fragment_script(node: Any, **options: Any) -> str:
    """Prints a stand-alone fragment after declarations of its free variables and buffers.

    Args:
        node: a statement, scalar expression, buffer, region, axis, reducer or range.
        options: those of :func:`script`; all but the ones that select nodes to underline
            or annotate are ignored.
    """
    marked = {name: options[name] for name in HIGHLIGHT_OPTIONS if name in options}
    printer = PrimFuncPrinter(NameTable(), highlights=Highlights.of(**marked).at(node))
    printer.uses_with = True
    printer.declare(node)
    _print_fragment(printer, node)
    return "\n".join(underline_lines(printer.lines))


@dataclass(frozen=True)
class DecodedPrimFunc:
    """A PrimFunc decoded from MLIR to TIR objects."""

    params: Sequence[Var]
    buffer_map: Mapping[Var, Buffer]
    body: statements.Stmt

    @staticmethod
    def of(function: PrimFunc) -> DecodedPrimFunc:
        """Decodes a PrimFunc."""
        reader, body = function.read()
        return DecodedPrimFunc(reader.params, reader.buffer_map, body)


def _print_function(
    printer: PrimFuncPrinter, function: PrimFunc, name: str, decoded: DecodedPrimFunc
) -> None:
    attrs = function.attrs
    is_private = attrs.get("global_symbol") is None
    kept = {k: v for k, v in attrs.items() if k != "global_symbol" or v != name}
    body = decoded.body
    buffer_map = decoded.buffer_map
    pairs = [(p, buffer_map[p]) for p in decoded.params if p in buffer_map]
    used = {id(v) for v in free_names(body)}
    matched = [(p, b) for p, b in pairs if _is_symbolic(b) or id(p) in used]
    inline = {p: b for p, b in pairs if not any(p is q for q, _ in matched)}
    params = [_param(printer, p, inline.get(p)) for p in decoded.params]
    result = "" if function.ret_type is None else f" -> T.{function.ret_type}"
    printer.put("@T.prim_func(private=True)" if is_private else "@T.prim_func")
    printer.put(f"def {name}({', '.join(params)}){result}:")
    with printer.indented():
        if kept:
            printer.put(f"T.func_attr({printer.attributes(kept)})")
        _print_matches(printer, matched)
        printer.declare(body)
        printer.statement(body, is_root=True)


def _param(printer: PrimFuncPrinter, param: Var, buffer: Buffer | None) -> str:
    if buffer is None:
        return f"{printer.names.define(param, param.name)}: {variable_type(param)}"
    name = printer.define(buffer)
    return f"{name}: {printer.buffer(buffer)}"


def _print_matches(
    printer: PrimFuncPrinter, matched: Sequence[tuple[Var, Buffer]]
) -> None:
    """Prints the size variables that occur only in buffers, and ``T.match_buffer``."""
    for _, buffer in matched:
        for expr in _layout_exprs(buffer):
            for part in prim.post_order(expr):
                if isinstance(part, Var) and printer.names.get(part) is None:
                    name = printer.names.define(part, part.name)
                    printer.put(f"{name} = T.{part.dtype}()")
    for param, buffer in matched:
        name = printer.define(buffer)
        parts = [printer.name(param), *printer.shape_and_type(buffer)]
        printer.put(f"{name} = T.match_buffer({', '.join(parts)})")


def _print_fragment(printer: PrimFuncPrinter, node: Any) -> None:
    """Prints a fragment of a PrimFunc."""
    if isinstance(node, statements.Stmt):
        printer.statement(node)
    elif isinstance(node, Buffer):
        printer.put(printer.name(node))
    elif isinstance(node, BufferRegion):
        printer.put(printer.exprs.region(node))
    elif isinstance(node, prim.CommReducer):
        printer.put(printer.reducer(node))
    elif isinstance(node, Range):
        ends = printer.exprs.list([node.min, node.min + node.extent])
        printer.put(f"I.Range({ends})")
    elif isinstance(node, IterVar):
        printer.put(_iter_var_text(printer, node))
    else:
        printer.put(printer.exprs.text(node))


def _iter_var_text(printer: PrimFuncPrinter, axis: IterVar) -> str:
    dom = "None"
    if axis.dom is not None:
        ends = printer.exprs.list([axis.dom.min, axis.dom.min + axis.dom.extent])
        dom = f"T.Range({ends})"
    kind = _ITER_TYPES[axis.iter_type]
    return f'T.iter_var({printer.name(axis.var)}, {dom}, "{kind}", "{axis.thread_tag}")'


def _is_symbolic(buffer: Buffer) -> bool:
    return any(not isinstance(t, IntImm) for t in _layout_exprs(buffer))


def _layout_exprs(buffer: Buffer) -> list[prim.PrimExpr]:
    """Returns shape, strides and explicit offset of a buffer."""
    offset = [] if buffer.has_own_offset else [buffer.elem_offset]
    return [*buffer.shape, *buffer.strides, *offset]

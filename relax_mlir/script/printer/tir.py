"""Tensor programs as scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir.objects import prim, stmt
from relax_mlir.objects.buffer import Buffer, BufferRegion
from relax_mlir.objects.prim import IntImm, IterVar, Range, Var
from relax_mlir.objects.prim.scripted import register_printer
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.stmt_functor import free_names
from relax_mlir.script.printer.display import show
from relax_mlir.script.printer.names import Names
from relax_mlir.script.printer.pointers import (
    POINTING,
    Pointers,
    underline_lines,
    underlined,
)
from relax_mlir.script.printer.statement import ProgramPrinter, variable_type

__all__ = ["prim_func_lines", "statement_script"]

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
    pointers: Pointers | None = None,
    *,
    with_address: bool = False,
) -> list[str]:
    """A tensor program called ``name``, line by line.

    Args:
        function: the program.
        name: what it is called.
        module_name: what its module is called.
        pointers: what is underlined, and what has remarks.
        with_address: whether names end in what tells objects apart.
    """
    read = ReadProgram.of(function)
    found = (pointers or Pointers()).at(read)
    names = Names([module_name], with_address=with_address)
    printer = ProgramPrinter(names, module_name, found)
    _print_function(printer, function, name, read)
    return list(map(underlined, printer.lines)) if found.whole() else printer.lines


def statement_script(node: Any, **options: Any) -> str:
    """A part of a program alone, after the variables and buffers in it.

    Args:
        node: a statement, a term, a buffer or a box of one, an axis, a reducer, a range.
        options: those of whole programs, of no effect but for what they point at.
    """
    given = {name: options[name] for name in POINTING if name in options}
    printer = ProgramPrinter(Names(), pointers=Pointers.of(**given).at(node))
    printer.is_alone = True
    printer.declare(node)
    _print_alone(printer, node)
    return "\n".join(underline_lines(printer.lines))


@dataclass(frozen=True)
class ReadProgram:
    """A tensor program as one reading of it gave it."""

    params: Sequence[Var]
    buffer_map: Mapping[Var, Buffer]
    body: stmt.Stmt

    @staticmethod
    def of(function: PrimFunc) -> ReadProgram:
        """Read a program."""
        reader, body = function.read()
        return ReadProgram(reader.params, reader.buffer_map, body)


def _print_function(
    printer: ProgramPrinter, function: PrimFunc, name: str, read: ReadProgram
) -> None:
    attrs = function.attrs
    is_private = attrs.get("global_symbol") is None
    kept = {k: v for k, v in attrs.items() if k != "global_symbol" or v != name}
    body = read.body
    pairs = [(p, read.buffer_map[p]) for p in read.params if p in read.buffer_map]
    used = {id(v) for v in free_names(body)}
    matched = [(p, b) for p, b in pairs if _is_symbolic(b) or id(p) in used]
    plain = {p: b for p, b in pairs if not any(p is q for q, _ in matched)}
    params = [_param(printer, p, plain.get(p)) for p in read.params]
    returned = function.ret_type
    arrow = "" if returned is None else f" -> T.{returned}"
    printer.put("@T.prim_func(private=True)" if is_private else "@T.prim_func")
    printer.put(f"def {name}({', '.join(params)}){arrow}:")
    with printer.indented():
        if kept:
            printer.put(f"T.func_attr({printer.attributes(kept)})")
        _print_matches(printer, matched)
        printer.declare(body)
        printer.statement(body, is_root=True)


def _param(printer: ProgramPrinter, param: Var, buffer: Buffer | None) -> str:
    if buffer is None:
        return f"{printer.names.define(param, param.name)}: {variable_type(param)}"
    name = printer.define(buffer)
    return f"{name}: {printer.buffer(buffer)}"


def _print_matches(
    printer: ProgramPrinter, matched: Sequence[tuple[Var, Buffer]]
) -> None:
    """The sizes of a program that only its buffers mention, and the buffers."""
    for _, buffer in matched:
        for term in _placing(buffer):
            for part in prim.post_order(term):
                if isinstance(part, Var) and printer.names.get(part) is None:
                    name = printer.names.define(part, part.name)
                    printer.put(f"{name} = T.{part.dtype}()")
    for param, buffer in matched:
        name = printer.define(buffer)
        parts = [printer.name(param), *printer.shape_and_type(buffer)]
        printer.put(f"{name} = T.match_buffer({', '.join(parts)})")


def _print_alone(printer: ProgramPrinter, node: Any) -> None:
    """A part of a program that stands by itself."""
    if isinstance(node, stmt.Stmt):
        printer.statement(node)
    elif isinstance(node, Buffer):
        printer.put(printer.name(node))
    elif isinstance(node, BufferRegion):
        printer.put(printer.terms.region(node))
    elif isinstance(node, prim.CommReducer):
        printer.put(printer.reducer(node))
    elif isinstance(node, Range):
        ends = printer.terms.list([node.min, node.min + node.extent])
        printer.put(f"I.Range({ends})")
    elif isinstance(node, IterVar):
        printer.put(_iter_var_text(printer, node))
    else:
        printer.put(printer.terms.text(node))


def _iter_var_text(printer: ProgramPrinter, axis: IterVar) -> str:
    run = "None"
    if axis.dom is not None:
        ends = printer.terms.list([axis.dom.min, axis.dom.min + axis.dom.extent])
        run = f"T.Range({ends})"
    kind = _ITER_TYPES[axis.iter_type]
    return f'T.iter_var({printer.name(axis.var)}, {run}, "{kind}", "{axis.thread_tag}")'


def _is_symbolic(buffer: Buffer) -> bool:
    return any(not isinstance(t, IntImm) for t in _placing(buffer))


def _placing(buffer: Buffer) -> list[prim.PrimExpr]:
    """What a script spells of where the elements of a buffer lie."""
    offset = [] if buffer.has_own_offset else [buffer.elem_offset]
    return [*buffer.shape, *buffer.strides, *offset]


register_printer("script", statement_script)
register_printer("show", lambda node, **_: show(statement_script(node)))

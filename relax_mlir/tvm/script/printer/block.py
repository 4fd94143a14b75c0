"""Printing of TIR blocks as TVMScript."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from relax_mlir.objects.prim import IntImm, IterVar, PrimExpr
from relax_mlir.objects.stmt import statements

if TYPE_CHECKING:
    from relax_mlir.tvm.script.printer.statement import PrimFuncPrinter

__all__ = ["print_allocs", "print_block", "print_realize"]

_AXES: Mapping[int, str] = {
    IterVar.DataPar: "spatial",
    IterVar.CommReduce: "reduce",
    IterVar.Ordered: "scan",
    IterVar.Opaque: "opaque",
}


def print_realize(printer: PrimFuncPrinter, node: statements.BlockRealize) -> None:
    """Prints a block with the bindings of its axes."""
    block = node.block
    printer.put(f'with T.block("{block.name_hint}"):')
    with printer.indented(), printer.names.frame():
        _print_axes(printer, block.iter_vars, node.iter_values)
        if not node.always_runs:
            printer.put(f"T.where({printer.exprs.text(node.predicate)})")
        _print_contents(printer, block)


def print_block(printer: PrimFuncPrinter, block: statements.Block) -> None:
    """Prints a block whose axes are not bound."""
    printer.put(f'with T.block("{block.name_hint}", no_realize=True):')
    with printer.indented(), printer.names.frame():
        for axis in block.iter_vars:
            name = printer.names.define(axis.var, axis.var.name)
            printer.put(f"{name} = {_axis_call(printer, axis)}")
        _print_contents(printer, block)


def _print_contents(printer: PrimFuncPrinter, block: statements.Block) -> None:
    """Prints regions, annotations, buffers, init and body of a block."""
    for access, regions in (("reads", block.reads), ("writes", block.writes)):
        listed = ", ".join(map(printer.exprs.region, regions))
        printer.put(f"T.{access}({listed})")
    if block.annotations:
        printer.put(f"T.block_attr({printer.attributes(block.annotations)})")
    print_allocs(printer, block)
    if block.init is not None:
        printer.put("with T.init():")
        printer.body(block.init)
    printer.statement(block.body)


def print_allocs(printer: PrimFuncPrinter, block: statements.Block) -> None:
    """Prints the buffers that a block allocates and those it matches to regions."""
    for buffer in block.alloc_buffers:
        parts = printer.shape_and_type(buffer)
        name = printer.define(buffer)
        printer.put(f"{name} = T.alloc_buffer({', '.join(parts)})")
    for match in block.match_buffers:
        buffer = match.buffer
        source = printer.exprs.region(match.source)
        parts = [source, *printer.shape_and_type(buffer)]
        name = printer.define(buffer)
        printer.put(f"{name} = T.match_buffer({', '.join(parts)})")


def _print_axes(
    printer: PrimFuncPrinter, axes: Sequence[IterVar], values: Sequence[PrimExpr]
) -> None:
    """Prints the axes; consecutive ones bound to whole loops as one ``T.axis.remap``."""
    pending: list[tuple[IterVar, PrimExpr]] = []
    for axis, value in zip(axes, values, strict=True):
        if _covers_loop(printer, axis, value):
            pending.append((axis, value))
            continue
        _print_remap(printer, pending)
        pending = []
        _print_axis(printer, axis, value)
    _print_remap(printer, pending)


def _covers_loop(printer: PrimFuncPrinter, axis: IterVar, value: PrimExpr) -> bool:
    """Whether an axis is bound to a loop variable and has the loop's domain."""
    domain = printer.loops.get(id(value))
    if domain is None or axis.iter_type not in (IterVar.DataPar, IterVar.CommReduce):
        return False
    return domain == axis.dom and axis.var.dtype == value.dtype


def _print_remap(
    printer: PrimFuncPrinter, axes: Sequence[tuple[IterVar, PrimExpr]]
) -> None:
    if len(axes) < 2:
        for axis, value in axes:
            _print_axis(printer, axis, value)
        return
    letters = {IterVar.DataPar: "S", IterVar.CommReduce: "R"}
    kinds = "".join(letters[a.iter_type] for a, _ in axes)
    loops = printer.exprs.list([value for _, value in axes])
    names = ", ".join(printer.names.define(a.var, a.var.name) for a, _ in axes)
    printer.put(f'{names} = T.axis.remap("{kinds}", [{loops}])')


def _print_axis(printer: PrimFuncPrinter, axis: IterVar, value: PrimExpr) -> None:
    text = printer.exprs.text(value)
    name = printer.names.define(axis.var, axis.var.name)
    printer.put(f"{name} = {_axis_call(printer, axis, text)}")


def _axis_call(printer: PrimFuncPrinter, axis: IterVar, *rest: str) -> str:
    """Prints the call that defines an axis."""
    dom = axis.dom
    if isinstance(dom.min, IntImm) and dom.min.value == 0:
        domain = printer.exprs.text(dom.extent)
    else:
        domain = printer.exprs.tuple([dom.min, dom.min + dom.extent])
    return f"T.axis.{_AXES[axis.iter_type]}({', '.join((domain, *rest))})"

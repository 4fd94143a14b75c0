"""Blocks of tensor programs as scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from relax_mlir.objects import stmt
from relax_mlir.objects.prim import IntImm, IterVar, PrimExpr

if TYPE_CHECKING:
    from relax_mlir.script.printer.statement import ProgramPrinter

__all__ = ["print_allocs", "print_block", "print_realize"]

_AXES: Mapping[int, str] = {
    IterVar.DataPar: "spatial",
    IterVar.CommReduce: "reduce",
    IterVar.Ordered: "scan",
    IterVar.Opaque: "opaque",
}


def print_realize(printer: ProgramPrinter, node: stmt.BlockRealize) -> None:
    """A block with the values of its axes."""
    block = node.block
    printer.put(f'with T.block("{block.name_hint}"):')
    with printer.indented(), printer.names.frame():
        _print_axes(printer, block.iter_vars, node.iter_values)
        if not node.always_runs:
            printer.put(f"T.where({printer.terms.text(node.predicate)})")
        _print_inside(printer, block)


def print_block(printer: ProgramPrinter, block: stmt.Block) -> None:
    """A block whose axes have no values."""
    printer.put(f'with T.block("{block.name_hint}", no_realize=True):')
    with printer.indented(), printer.names.frame():
        for axis in block.iter_vars:
            name = printer.names.define(axis.var, axis.var.name)
            printer.put(f"{name} = {_axis_call(printer, axis)}")
        _print_inside(printer, block)


def _print_inside(printer: ProgramPrinter, block: stmt.Block) -> None:
    """What a block says after its axes."""
    for what, regions in (("reads", block.reads), ("writes", block.writes)):
        listed = ", ".join(map(printer.terms.region, regions))
        printer.put(f"T.{what}({listed})")
    if block.annotations:
        printer.put(f"T.block_attr({printer.attributes(block.annotations)})")
    print_allocs(printer, block)
    if block.init is not None:
        printer.put("with T.init():")
        printer.body(block.init)
    printer.statement(block.body)


def print_allocs(printer: ProgramPrinter, block: stmt.Block) -> None:
    """The buffers of a block, and its names for boxes of others."""
    for buffer in block.alloc_buffers:
        parts = printer.shape_and_type(buffer)
        name = printer.define(buffer)
        printer.put(f"{name} = T.alloc_buffer({', '.join(parts)})")
    for match in block.match_buffers:
        buffer = match.buffer
        source = printer.terms.region(match.source)
        parts = [source, *printer.shape_and_type(buffer)]
        name = printer.define(buffer)
        printer.put(f"{name} = T.match_buffer({', '.join(parts)})")


def _print_axes(
    printer: ProgramPrinter, axes: Sequence[IterVar], values: Sequence[PrimExpr]
) -> None:
    """The axes; runs of those that are loops as they are, at once."""
    pending: list[tuple[IterVar, PrimExpr]] = []
    for axis, value in zip(axes, values, strict=True):
        if _is_loop(printer, axis, value):
            pending.append((axis, value))
            continue
        _print_remap(printer, pending)
        pending = []
        _print_axis(printer, axis, value)
    _print_remap(printer, pending)


def _is_loop(printer: ProgramPrinter, axis: IterVar, value: PrimExpr) -> bool:
    """Whether an axis is a loop, over the same run."""
    run = printer.loops.get(id(value))
    if run is None or axis.iter_type not in (IterVar.DataPar, IterVar.CommReduce):
        return False
    return run == axis.dom and axis.var.dtype == value.dtype


def _print_remap(
    printer: ProgramPrinter, axes: Sequence[tuple[IterVar, PrimExpr]]
) -> None:
    if len(axes) < 2:
        for axis, value in axes:
            _print_axis(printer, axis, value)
        return
    letters = {IterVar.DataPar: "S", IterVar.CommReduce: "R"}
    kinds = "".join(letters[a.iter_type] for a, _ in axes)
    loops = printer.terms.list([value for _, value in axes])
    names = ", ".join(printer.names.define(a.var, a.var.name) for a, _ in axes)
    printer.put(f'{names} = T.axis.remap("{kinds}", [{loops}])')


def _print_axis(printer: ProgramPrinter, axis: IterVar, value: PrimExpr) -> None:
    text = printer.terms.text(value)
    name = printer.names.define(axis.var, axis.var.name)
    printer.put(f"{name} = {_axis_call(printer, axis, text)}")


def _axis_call(printer: ProgramPrinter, axis: IterVar, *rest: str) -> str:
    """The call that makes an axis."""
    run = axis.dom
    if isinstance(run.min, IntImm) and run.min.value == 0:
        domain = printer.terms.text(run.extent)
    else:
        domain = printer.terms.tuple([run.min, run.min + run.extent])
    return f"T.axis.{_AXES[axis.iter_type]}({', '.join((domain, *rest))})"

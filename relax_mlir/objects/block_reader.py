"""Blocks of tensor programs read as statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import BlockOp, marks
from relax_mlir.objects import prim, stmt
from relax_mlir.objects.attributes import from_attribute
from relax_mlir.objects.block_frame import AXIS_KINDS
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, Var
from relax_mlir.objects.program_arguments import annotations_of
from relax_mlir.objects.said_regions import said_of, say_regions

if TYPE_CHECKING:
    from relax_mlir.objects.tir_reader import ProgramReader

__all__ = ["read_block", "say_regions_of"]


def read_block(reader: ProgramReader, op: BlockOp, predicate: PrimExpr) -> stmt.Stmt:
    """A block; in loops of its own if it stands for its whole grid."""
    axes = _axes(reader, op)
    _name_arguments(reader, op, axes)
    reader.allocs.append([])
    reader.matches.append([])
    body = reader.region(op.body.blocks[0])
    init = reader.region(op.init.blocks[0]) if op.has_init else None
    made = stmt.Block(
        axes,
        None,
        None,
        op.name.value,
        body,
        init,
        reader.allocs.pop(),
        reader.matches.pop(),
        annotations_of(op.operation.attributes),
    )
    reader.blocks[op.operation] = made
    say_regions_of(reader, op.operation, made)
    if len(op.bindings) or not axes:
        values = [reader.terms.read(v) for v in op.bindings]
        return stmt.BlockRealize(values, predicate, made)
    return _looped(made, predicate)


def say_regions_of(reader: ProgramReader, op: ir.Operation, block: stmt.Block) -> None:
    """Give a block the regions that its operation says, if it says any."""
    if marks.TOUCHED not in op.attributes:
        return
    variables = {v.name: v for v in reader.terms.terms.values() if isinstance(v, Var)}
    buffers = {b.name: b for b in reader.terms.buffers.values()}
    say_regions(block, said_of(op), variables, buffers)


def _axes(reader: ProgramReader, op: BlockOp) -> list[IterVar]:
    kinds = op.kinds.value
    types = _said(op, marks.AXIS_DTYPES, ["int32"] * len(kinds))
    called = _said(op, marks.AXIS_NAMES, [f"v{i}" for i in range(len(kinds))])
    starts: Sequence[Any] = [0] * len(kinds)
    if marks.AXIS_STARTS in op.operation.attributes:
        starts = tensors.python_value(op.operation.attributes[marks.AXIS_STARTS])
    axes = []
    for kind, name, dtype, start, extent in zip(
        kinds, called, types, starts, op.axis_extents(), strict=True
    ):
        size = reader.terms.read(extent) if isinstance(extent, ir.Value) else extent
        begin = _start(reader, start, dtype)
        run = Range.from_min_extent(begin, prim.cast(dtype, size))
        axes.append(IterVar(run, Var(name, dtype), AXIS_KINDS[kind]))
    return axes


def _said(op: BlockOp, mark: str, default: Sequence[str]) -> Sequence[str]:
    """What a script says of each axis."""
    attributes = op.operation.attributes
    return from_attribute(attributes[mark]) if mark in attributes else default


def _start(reader: ProgramReader, dim: Any, dtype: str) -> PrimExpr:
    """Where an axis starts: a size, or an axis of a block around by its name."""
    term = reader.arguments.size(dim, dtype)
    around = {v.name: v for v in reader.terms.terms.values() if isinstance(v, Var)}
    free = [v for v in prim.post_order(term) if isinstance(v, Var)]
    named = {v: around[v.name] for v in free if v.name in around}
    return prim.substitute(term, named) if named else term


def _name_arguments(
    reader: ProgramReader, op: BlockOp, axes: Sequence[IterVar]
) -> None:
    for region in op.operation.regions:
        for block in region.blocks:
            for argument, axis in zip(block.arguments, axes, strict=True):
                reader.terms.terms[argument] = axis.var


def _looped(block: stmt.Block, predicate: PrimExpr) -> stmt.Stmt:
    """A block that stands for its whole grid, in loops."""
    loops = [Var(f"i{n}", a.var.dtype) for n, a in enumerate(block.iter_vars)]
    made: stmt.Stmt = stmt.BlockRealize(loops, predicate, block)
    for var, axis in reversed(list(zip(loops, block.iter_vars, strict=True))):
        made = stmt.For(var, axis.dom.min, axis.dom.extent, stmt.ForKind.SERIAL, made)
    return made

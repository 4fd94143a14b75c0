"""Reads TIR blocks as statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import BlockOp, attribute_names
from relax_mlir.objects import prim
from relax_mlir.objects.mlir_attributes import from_attribute
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, Var
from relax_mlir.objects.read.params import annotations_of
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.explicit_regions import (
    explicit_regions_attr,
    set_explicit_regions,
)
from relax_mlir.objects.write.block_frame import AXIS_KINDS

if TYPE_CHECKING:
    from relax_mlir.objects.read.prim_func import PrimFuncReader

__all__ = ["read_block", "read_explicit_regions"]


def read_block(
    reader: PrimFuncReader, op: BlockOp, predicate: PrimExpr
) -> statements.Stmt:
    """A block realization; a block without bindings gets a loop per axis."""
    axes = _axes(reader, op)
    _name_arguments(reader, op, axes)
    reader.allocs.append([])
    reader.matches.append([])
    body = reader.region(op.body.blocks[0])
    init = reader.region(op.init.blocks[0]) if op.has_init else None
    block = statements.Block(
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
    reader.blocks[op.operation] = block
    read_explicit_regions(reader, op.operation, block)
    if len(op.bindings) or not axes:
        values = [reader.exprs.read(v) for v in op.bindings]
        return statements.BlockRealize(values, predicate, block)
    return _in_loops(block, predicate)


def read_explicit_regions(
    reader: PrimFuncReader, op: ir.Operation, block: statements.Block
) -> None:
    """Sets the explicit regions of a block, if its operation has any."""
    if attribute_names.TOUCHED not in op.attributes:
        return
    variables = {v.name: v for v in reader.exprs.leaves.values() if isinstance(v, Var)}
    buffers = {b.name: b for b in reader.exprs.buffers.values()}
    set_explicit_regions(block, explicit_regions_attr(op), variables, buffers)


def _axes(reader: PrimFuncReader, op: BlockOp) -> list[IterVar]:
    kinds = op.kinds.value
    types = _axis_attribute(op, attribute_names.AXIS_DTYPES, ["int32"] * len(kinds))
    names = _axis_attribute(
        op, attribute_names.AXIS_NAMES, [f"v{i}" for i in range(len(kinds))]
    )
    starts: Sequence[Any] = [0] * len(kinds)
    if attribute_names.AXIS_STARTS in op.operation.attributes:
        starts = tensors.python_value(
            op.operation.attributes[attribute_names.AXIS_STARTS]
        )
    axes = []
    for kind, name, dtype, start, extent in zip(
        kinds, names, types, starts, op.axis_extents(), strict=True
    ):
        size = reader.exprs.read(extent) if isinstance(extent, ir.Value) else extent
        begin = _start(reader, start, dtype)
        range_ = Range.from_min_extent(begin, prim.cast(dtype, size))
        axes.append(IterVar(range_, Var(name, dtype), AXIS_KINDS[kind]))
    return axes


def _axis_attribute(op: BlockOp, mark: str, default: Sequence[str]) -> Sequence[str]:
    """A per-axis attribute of a script, such as names or types."""
    attributes = op.operation.attributes
    return from_attribute(attributes[mark]) if mark in attributes else default


def _start(reader: PrimFuncReader, dim: Any, dtype: str) -> PrimExpr:
    """The start of an axis: a size, or an axis of an enclosing block by its name."""
    expr = reader.arguments.size(dim, dtype)
    enclosing = {v.name: v for v in reader.exprs.leaves.values() if isinstance(v, Var)}
    free = [v for v in prim.post_order(expr) if isinstance(v, Var)]
    named = {v: enclosing[v.name] for v in free if v.name in enclosing}
    return prim.substitute(expr, named) if named else expr


def _name_arguments(
    reader: PrimFuncReader, op: BlockOp, axes: Sequence[IterVar]
) -> None:
    for region in op.operation.regions:
        for block in region.blocks:
            for argument, axis in zip(block.arguments, axes, strict=True):
                reader.exprs.leaves[argument] = axis.var


def _in_loops(block: statements.Block, predicate: PrimExpr) -> statements.Stmt:
    """A block without bindings in a loop nest over its iteration domain."""
    loops = [Var(f"i{n}", a.var.dtype) for n, a in enumerate(block.iter_vars)]
    nest: statements.Stmt = statements.BlockRealize(loops, predicate, block)
    for var, axis in reversed(list(zip(loops, block.iter_vars, strict=True))):
        nest = statements.For(
            var, axis.dom.min, axis.dom.extent, statements.ForKind.SERIAL, nest
        )
    return nest

"""Reads buffer operations of tensor programs as statements and buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlir import ir

from relax_mlir.analysis.prim_func_verifier import depends_on_loops
from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import AllocBufferOp, DeclBufferOp, attribute_names
from relax_mlir.objects import prim
from relax_mlir.objects.mlir_attributes import from_attribute
from relax_mlir.objects.prim import PrimExpr, Range
from relax_mlir.objects.prim.pointers import Pointer, PointerType
from relax_mlir.objects.read.params import string_attr
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.buffer import Buffer, BufferRegion

if TYPE_CHECKING:
    from relax_mlir.objects.read.prim_func import PrimFuncReader

__all__ = ["read_alloc", "read_allocate", "read_declared", "read_match"]

_DYNAMIC = ir.ShapedType.get_dynamic_size()


def read_alloc(reader: PrimFuncReader, op: AllocBufferOp) -> None:
    """Reads an allocation as a buffer of the enclosing block."""
    attributes = op.operation.attributes
    type_ = ir.MemRefType(op.buffer.type)
    dims = tensors.python_value(attributes["shape"])
    name = string_attr(attributes, attribute_names.NAME, "buf")
    buffer = reader.arguments.buffer(name, type_, dims, attributes)
    sizes = iter(list(op.operation.operands))
    size_dtype = string_attr(attributes, attribute_names.SIZE_DTYPE, "int32")
    buffer.shape = tuple(
        prim.cast(size_dtype, reader.exprs.read(value))
        if extent == _DYNAMIC and depends_on_loops(value := next(sizes))
        else size
        for extent, size in zip(type_.shape, buffer.shape, strict=True)
    )
    reader.exprs.buffers[op.buffer] = buffer
    reader.allocs[-1].append(buffer)


def read_allocate(
    reader: PrimFuncReader, op: AllocBufferOp, rest: Sequence[ir.OpView]
) -> statements.Stmt:
    """Reads memory with a known pointer: ``Allocate`` around the following statements."""
    read_alloc(reader, op)
    memory = reader.allocs[-1].pop()
    kind = PointerType(memory.dtype, memory.scope())
    pointer = Pointer(memory.name, kind)
    memory.data = pointer
    annotations = from_attribute(op.attributes[attribute_names.ALLOCATE])
    body = reader.sequence(rest)
    if attribute_names.CONTENTS in op.attributes:
        data = from_attribute(op.attributes[attribute_names.CONTENTS])
        return statements.AllocateConst(
            pointer, memory.dtype, memory.shape, data, body, annotations
        )
    return statements.Allocate(
        pointer, memory.dtype, memory.shape, True, body, annotations
    )


def read_declared(reader: PrimFuncReader, op: DeclBufferOp) -> Buffer:
    """The buffer declared on the memory of a pointer."""
    attributes = op.operation.attributes
    known = reader.exprs.buffers.get(op.buffer)
    if known is not None:
        return known
    buffer = reader.arguments.buffer(
        string_attr(attributes, attribute_names.NAME, "buf"),
        ir.MemRefType(op.buffer.type),
        tensors.python_value(attributes["shape"]),
        attributes,
        data=reader.exprs.read(op.pointer),
    )
    sizes = iter(map(reader.exprs.read, op.sizes))
    size_dtype = string_attr(attributes, attribute_names.SIZE_DTYPE, "int32")
    buffer.shape = tuple(
        s if isinstance(s, prim.IntImm) else prim.cast(size_dtype, next(sizes))
        for s in buffer.shape
    )
    reader.exprs.buffers[op.buffer] = buffer
    return buffer


def read_match(reader: PrimFuncReader, op: ir.OpView) -> None:
    """Reads a view of a region as a matched buffer of the enclosing block.

    An implicit view of an init region is the body's matched buffer of the same name.
    """
    attributes = op.operation.attributes
    result = op.operation.results[0]
    if attribute_names.IMPLICIT in attributes:
        name = string_attr(attributes, attribute_names.NAME, "")
        same = [m.buffer for m in reader.matches[-1] if m.buffer.name == name]
        if same:
            reader.exprs.buffers[result] = same[0]
            return
    source = reader.exprs.buffer(op.operands[0])
    operands = iter(list(op.operands)[1:])
    offsets, sizes = (
        [
            reader.exprs.read(next(operands))
            if value == _DYNAMIC
            else prim.const(value)
            for value in ir.DenseI64ArrayAttr(attributes[f"static_{kind}"])
        ]
        for kind in ("offsets", "sizes")
    )
    ranges = [Range.from_min_extent(*p) for p in zip(offsets, sizes, strict=True)]
    type_ = ir.MemRefType(result.type)
    shape = _view_shape(sizes, type_.rank)
    name = string_attr(attributes, attribute_names.NAME, f"{source.name}_1")
    buffer = reader.arguments.buffer(name, type_, [], attributes)
    size_dtype = string_attr(attributes, attribute_names.SIZE_DTYPE, "int32")
    buffer.shape = tuple(prim.cast(size_dtype, s) for s in shape)
    reader.exprs.buffers[result] = buffer
    region = BufferRegion(source, ranges)
    reader.matches[-1].append(statements.MatchBufferRegion(buffer, region))


def _view_shape(sizes: Sequence[PrimExpr], rank: int) -> list[PrimExpr]:
    """The sizes of a region without the unit dimensions that the view drops."""
    excess = len(sizes) - rank
    shape: list[PrimExpr] = []
    for size in sizes:
        if excess and isinstance(size, prim.IntImm) and size.value == 1:
            excess -= 1
        else:
            shape.append(size)
    return shape

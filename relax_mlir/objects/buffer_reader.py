"""Buffers that tensor programs make, read as statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import AllocBufferOp, DeclBufferOp, marks
from relax_mlir.objects import prim, stmt
from relax_mlir.objects.attributes import from_attribute
from relax_mlir.objects.buffer import Buffer, BufferRegion
from relax_mlir.objects.pointers import Pointer, PointerType
from relax_mlir.objects.prim import PrimExpr, Range
from relax_mlir.objects.program_arguments import text_of
from relax_mlir.programs import depends_on_loops

if TYPE_CHECKING:
    from relax_mlir.objects.tir_reader import ProgramReader

__all__ = ["read_alloc", "read_allocate", "read_declared", "read_match"]

_DYNAMIC = ir.ShapedType.get_dynamic_size()


def read_alloc(reader: ProgramReader, op: AllocBufferOp) -> None:
    """A buffer of the block around."""
    attributes = op.operation.attributes
    type_ = ir.MemRefType(op.buffer.type)
    dims = tensors.python_value(attributes["shape"])
    name = text_of(attributes, marks.NAME, "buf")
    buffer = reader.arguments.buffer(name, type_, dims, attributes)
    sizes = iter(list(op.operation.operands))
    size_dtype = text_of(attributes, marks.SIZE_DTYPE, "int32")
    buffer.shape = tuple(
        prim.cast(size_dtype, reader.terms.read(value))
        if extent == _DYNAMIC and depends_on_loops(value := next(sizes))
        else size
        for extent, size in zip(type_.shape, buffer.shape, strict=True)
    )
    reader.terms.buffers[op.buffer] = buffer
    reader.allocs[-1].append(buffer)


def read_allocate(
    reader: ProgramReader, op: AllocBufferOp, rest: Sequence[ir.OpView]
) -> stmt.Stmt:
    """Memory of which a pointer alone is known, for the statements after it."""
    read_alloc(reader, op)
    memory = reader.allocs[-1].pop()
    kind = PointerType(memory.dtype, memory.scope())
    pointer = Pointer(memory.name, kind)
    memory.data = pointer
    said = from_attribute(op.attributes[marks.ALLOCATE])
    body = reader.sequence(rest)
    if marks.CONTENTS in op.attributes:
        data = from_attribute(op.attributes[marks.CONTENTS])
        return stmt.AllocateConst(pointer, memory.dtype, memory.shape, data, body, said)
    return stmt.Allocate(pointer, memory.dtype, memory.shape, True, body, said)


def read_declared(reader: ProgramReader, op: DeclBufferOp) -> Buffer:
    """A buffer in memory that a pointer tells."""
    attributes = op.operation.attributes
    known = reader.terms.buffers.get(op.buffer)
    if known is not None:
        return known
    buffer = reader.arguments.buffer(
        text_of(attributes, marks.NAME, "buf"),
        ir.MemRefType(op.buffer.type),
        tensors.python_value(attributes["shape"]),
        attributes,
        data=reader.terms.read(op.pointer),
    )
    sizes = iter(map(reader.terms.read, op.sizes))
    size_dtype = text_of(attributes, marks.SIZE_DTYPE, "int32")
    buffer.shape = tuple(
        s if isinstance(s, prim.IntImm) else prim.cast(size_dtype, next(sizes))
        for s in buffer.shape
    )
    reader.terms.buffers[op.buffer] = buffer
    return buffer


def read_match(reader: ProgramReader, op: ir.OpView) -> None:
    """A name for a box of a buffer, of the block around.

    The box that an init region takes again is the one of the body, by its name.
    """
    attributes = op.operation.attributes
    result = op.operation.results[0]
    if marks.IMPLICIT in attributes:
        name = text_of(attributes, marks.NAME, "")
        same = [m.buffer for m in reader.matches[-1] if m.buffer.name == name]
        if same:
            reader.terms.buffers[result] = same[0]
            return
    source = reader.terms.buffer(op.operands[0])
    operands = iter(list(op.operands)[1:])
    offsets, sizes = (
        [
            reader.terms.read(next(operands))
            if value == _DYNAMIC
            else prim.const(value)
            for value in ir.DenseI64ArrayAttr(attributes[f"static_{kind}"])
        ]
        for kind in ("offsets", "sizes")
    )
    runs = [Range.from_min_extent(*p) for p in zip(offsets, sizes, strict=True)]
    type_ = ir.MemRefType(result.type)
    shape = _dropped(sizes, type_.rank)
    name = text_of(attributes, marks.NAME, f"{source.name}_1")
    buffer = reader.arguments.buffer(name, type_, [], attributes)
    size_dtype = text_of(attributes, marks.SIZE_DTYPE, "int32")
    buffer.shape = tuple(prim.cast(size_dtype, s) for s in shape)
    reader.terms.buffers[result] = buffer
    region = BufferRegion(source, runs)
    reader.matches[-1].append(stmt.MatchBufferRegion(buffer, region))


def _dropped(sizes: Sequence[PrimExpr], rank: int) -> list[PrimExpr]:
    """The sizes of a box without those that its buffer does not have."""
    excess = len(sizes) - rank
    found: list[PrimExpr] = []
    for size in sizes:
        if excess and isinstance(size, prim.IntImm) and size.value == 1:
            excess -= 1
        else:
            found.append(size)
    return found

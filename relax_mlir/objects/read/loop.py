"""Reads loops of tensor programs as statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mlir import ir

from relax_mlir.dialects.tir import attribute_names
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects import prim
from relax_mlir.objects.prim import IterVar, Var
from relax_mlir.objects.read.params import annotations_of, string_attr
from relax_mlir.objects.read.prim_expr import value_dtype
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.buffer import Buffer

if TYPE_CHECKING:
    from relax_mlir.objects.read.prim_func import PrimFuncReader

__all__ = ["read_for", "read_while"]


def read_for(reader: PrimFuncReader, op: ir.OpView) -> statements.Stmt:
    """A for loop, after stores of the initial loop-carried values, if any."""
    attributes = op.operation.attributes
    ends, initial = list(op.operands)[:3], list(op.operands)[3:]
    low, high, step = map(reader.exprs.read, ends)
    starts = list(map(reader.exprs.number, initial))
    body = op.operation.regions[0].blocks[0]
    variable, *carried = body.arguments
    dtype = string_attr(attributes, attribute_names.DTYPE, "int32")
    var = Var(string_attr(attributes, attribute_names.NAME, "i"), dtype)
    reader.exprs.leaves[variable] = var
    buffers = [
        _carried_buffer(reader, v, r) for v, r in zip(carried, op.results, strict=True)
    ]
    inner = reader.region(body)
    if buffers:
        inner = statements.stmt_seq(inner, _store_carried(reader, body, buffers))
    loop = statements.For(
        var,
        low,
        high - low,
        statements.ForKind[
            string_attr(attributes, attribute_names.KIND, "serial").upper()
        ],
        inner,
        _thread(attributes, dtype),
        annotations_of(attributes),
        None if isinstance(step, prim.IntImm) and step.value == 1 else step,
    )
    pairs = zip(buffers, starts, strict=True)
    return statements.stmt_seq(
        *(statements.BufferStore(b, v, [0]) for b, v in pairs), loop
    )


def _carried_buffer(
    reader: PrimFuncReader, inside: ir.Value, after: ir.Value
) -> Buffer:
    """A buffer for a loop-carried value (iter_arg), which TVMScript does not have."""
    reader.carried += 1
    is_index = isinstance(inside.type, ir.IndexType)
    dtype = "int64" if is_index else value_dtype(inside)
    buffer = Buffer([1], dtype, f"carried_{reader.carried}", scope="local")
    reader.allocs[-1].append(buffer)
    for value in (inside, after):
        reader.exprs.leaves[value] = buffer[0]
    return buffer


def _store_carried(
    reader: PrimFuncReader, body: ir.Block, buffers: Sequence[Buffer]
) -> statements.Stmt:
    """Stores the loop-carried values of the next iteration, all at once."""
    *_, end = own_operations(body)
    values = [reader.exprs.number(v) for v in end.operands]
    if len(buffers) == 1:
        return statements.BufferStore(buffers[0], values[0], [0])
    names = [Var(f"next_{n}", v.dtype) for n, v in enumerate(values)]
    pairs = zip(buffers, names, strict=True)
    stores = statements.stmt_seq(*(statements.BufferStore(b, v, [0]) for b, v in pairs))
    for name, value in reversed(list(zip(names, values, strict=True))):
        stores = statements.LetStmt(name, value, stores)
    return stores


def read_while(reader: PrimFuncReader, op: ir.OpView) -> statements.Stmt:
    """A while loop."""
    before, after = (r.blocks[0] for r in op.operation.regions)
    *_, end = own_operations(before)
    return statements.While(reader.exprs.read(end.operands[0]), reader.region(after))


def _thread(attrs: Any, dtype: str) -> IterVar | None:
    if attribute_names.THREAD not in attrs:
        return None
    tag = ir.StringAttr(attrs[attribute_names.THREAD]).value
    return IterVar(None, Var("", dtype), IterVar.ThreadIndex, tag)

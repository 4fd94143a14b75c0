"""Loops of tensor programs read as statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mlir import ir

from relax_mlir.dialects.tir import marks
from relax_mlir.objects import prim, stmt
from relax_mlir.objects.buffer import Buffer
from relax_mlir.objects.prim import IterVar, Var
from relax_mlir.objects.program_arguments import annotations_of, text_of
from relax_mlir.objects.term_reader import dtype_of
from relax_mlir.traversal import own_operations

if TYPE_CHECKING:
    from relax_mlir.objects.tir_reader import ProgramReader

__all__ = ["read_for", "read_while"]


def read_for(reader: ProgramReader, op: ir.OpView) -> stmt.Stmt:
    """A loop; behind stores of the values that its steps hand on, if there are any."""
    attributes = op.operation.attributes
    ends, given = list(op.operands)[:3], list(op.operands)[3:]
    low, high, step = map(reader.terms.read, ends)
    starts = list(map(reader.terms.number, given))
    body = op.operation.regions[0].blocks[0]
    variable, *carried = body.arguments
    dtype = text_of(attributes, marks.DTYPE, "int32")
    var = Var(text_of(attributes, marks.NAME, "i"), dtype)
    reader.terms.terms[variable] = var
    kept = [_kept(reader, v, r) for v, r in zip(carried, op.results, strict=True)]
    inner = reader.region(body)
    if kept:
        inner = stmt.stmt_seq(inner, _next(reader, body, kept))
    loop = stmt.For(
        var,
        low,
        high - low,
        stmt.ForKind[text_of(attributes, marks.KIND, "serial").upper()],
        inner,
        _thread(attributes, dtype),
        annotations_of(attributes),
        None if isinstance(step, prim.IntImm) and step.value == 1 else step,
    )
    pairs = zip(kept, starts, strict=True)
    return stmt.stmt_seq(*(stmt.BufferStore(b, v, [0]) for b, v in pairs), loop)


def _kept(reader: ProgramReader, inside: ir.Value, after: ir.Value) -> Buffer:
    """A buffer for a value that steps of a loop hand on, as scripts have none."""
    reader.carried += 1
    is_index = isinstance(inside.type, ir.IndexType)
    dtype = "int64" if is_index else dtype_of(inside)
    buffer = Buffer([1], dtype, f"carried_{reader.carried}", scope="local")
    reader.allocs[-1].append(buffer)
    for value in (inside, after):
        reader.terms.terms[value] = buffer[0]
    return buffer


def _next(reader: ProgramReader, body: ir.Block, kept: Sequence[Buffer]) -> stmt.Stmt:
    """Hand on the values of one step, all at once."""
    *_, end = own_operations(body)
    values = [reader.terms.number(v) for v in end.operands]
    if len(kept) == 1:
        return stmt.BufferStore(kept[0], values[0], [0])
    names = [Var(f"next_{n}", v.dtype) for n, v in enumerate(values)]
    pairs = zip(kept, names, strict=True)
    made = stmt.stmt_seq(*(stmt.BufferStore(b, v, [0]) for b, v in pairs))
    for name, value in reversed(list(zip(names, values, strict=True))):
        made = stmt.LetStmt(name, value, made)
    return made


def read_while(reader: ProgramReader, op: ir.OpView) -> stmt.Stmt:
    """A loop that runs while a condition holds."""
    before, after = (r.blocks[0] for r in op.operation.regions)
    *_, end = own_operations(before)
    return stmt.While(reader.terms.read(end.operands[0]), reader.region(after))


def _thread(attrs: Any, dtype: str) -> IterVar | None:
    if marks.THREAD not in attrs:
        return None
    tag = ir.StringAttr(attrs[marks.THREAD]).value
    return IterVar(None, Var("", dtype), IterVar.ThreadIndex, tag)

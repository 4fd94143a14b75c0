"""Writes TIR statements to MLIR."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from relax_mlir.errors import short_repr
from relax_mlir.objects.prim.pointers import Pointer
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.buffer import Buffer
from relax_mlir.objects.write.block_frame import AXIS_KINDS
from relax_mlir.objects.write.prim_func import LOOP_KINDS, PrimFuncWriter

__all__ = ["write_statement"]

_AXIS_LETTERS = {number: letter for letter, number in AXIS_KINDS.items()}


def write_statement(writer: PrimFuncWriter, node: statements.Stmt) -> None:
    """Writes a statement and its nested statements at the writer's insertion point.

    Raises:
        TypeError: it is not a statement.
    """
    write = _WRITERS.get(type(node))
    if write is None:
        raise TypeError(f"expected a statement, got {short_repr(node)}")
    write(writer, node)


def _sequence(writer: PrimFuncWriter, node: statements.SeqStmt) -> None:
    for inner in node.seq:
        write_statement(writer, inner)


def _for(writer: PrimFuncWriter, node: statements.For) -> None:
    binding = node.thread_binding
    with writer.loop(
        node.loop_var,
        node.extent,
        node.min,
        kind=LOOP_KINDS[node.kind],
        thread=None if binding is None else binding.thread_tag,
        annotations=node.annotations,
        step=node.step,
    ):
        write_statement(writer, node.body)


def _while(writer: PrimFuncWriter, node: statements.While) -> None:
    with writer.while_(node.condition):
        write_statement(writer, node.body)


def _choice(writer: PrimFuncWriter, node: statements.IfThenElse) -> None:
    with writer.if_(node.condition) as frame:
        write_statement(writer, node.then_case)
    if node.else_case is not None:
        with frame.otherwise():
            write_statement(writer, node.else_case)


def _store(writer: PrimFuncWriter, node: statements.BufferStore) -> None:
    writer.store(node.buffer, node.value, node.indices, node.predicate)


def _evaluate(writer: PrimFuncWriter, node: statements.Evaluate) -> None:
    writer.evaluate(node.value)


def _let(writer: PrimFuncWriter, node: statements.LetStmt) -> None:
    writer.let(node.var, node.value)
    write_statement(writer, node.body)


def _assert(writer: PrimFuncWriter, node: statements.AssertStmt) -> None:
    writer.assertion(node.condition, str(getattr(node.message, "value", node.message)))
    write_statement(writer, node.body)


def _attr(writer: PrimFuncWriter, node: statements.AttrStmt) -> None:
    with writer.attr(node.node, node.attr_key, node.value):
        write_statement(writer, node.body)


def _realize_buffer(writer: PrimFuncWriter, node: statements.BufferRealize) -> None:
    with writer.attr(node.region, "realize", node.condition):
        write_statement(writer, node.body)


def _allocate(writer: PrimFuncWriter, node: statements.Allocate) -> None:
    pointer = node.buffer_var
    kind = pointer.type_annotation if isinstance(pointer, Pointer) else None
    scope = "global" if kind is None else kind.storage_scope
    memory = Buffer(node.extents, node.dtype, pointer.name, scope=scope)
    writer.allocate(pointer, memory, node.annotations)
    write_statement(writer, node.body)


def _allocate_const(writer: PrimFuncWriter, node: statements.AllocateConst) -> None:
    memory = Buffer(node.extents, node.dtype, node.buffer_var.name)
    contents = node.data.ravel().tolist()
    writer.allocate(node.buffer_var, memory, node.annotations, contents)
    write_statement(writer, node.body)


def _declare(writer: PrimFuncWriter, node: statements.DeclBuffer) -> None:
    writer.decl_buffer(node.buffer)
    write_statement(writer, node.body)


def _realize(writer: PrimFuncWriter, node: statements.BlockRealize) -> None:
    block = node.block
    with writer.block(block.name_hint) as frame:
        for axis, value in zip(block.iter_vars, node.iter_values, strict=True):
            frame.bind(axis, _AXIS_LETTERS[axis.iter_type], value)
        frame.annotate(block.annotations)
        if block.has_explicit_regions:
            frame.touch("reads", block.reads)
            frame.touch("writes", block.writes)
        if not node.always_runs:
            frame.where(node.predicate)
        for buffer in block.alloc_buffers:
            writer.alloc(buffer)
        for match in block.match_buffers:
            writer.match_buffer(match.buffer, match.source)
        if block.init is not None:
            with frame.init():
                write_statement(writer, block.init)
        write_statement(writer, block.body)


_WRITERS: Mapping[type, Callable[[PrimFuncWriter, Any], None]] = {
    statements.SeqStmt: _sequence,
    statements.For: _for,
    statements.While: _while,
    statements.IfThenElse: _choice,
    statements.BufferStore: _store,
    statements.Evaluate: _evaluate,
    statements.LetStmt: _let,
    statements.AssertStmt: _assert,
    statements.AttrStmt: _attr,
    statements.Allocate: _allocate,
    statements.AllocateConst: _allocate_const,
    statements.DeclBuffer: _declare,
    statements.BlockRealize: _realize,
    statements.BufferRealize: _realize_buffer,
}

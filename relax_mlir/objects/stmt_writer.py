"""Statements written to MLIR."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from relax_mlir.errors import shown
from relax_mlir.objects import stmt
from relax_mlir.objects.block_frame import AXIS_KINDS
from relax_mlir.objects.buffer import Buffer
from relax_mlir.objects.pointers import Pointer
from relax_mlir.objects.tir_writer import LOOP_KINDS, ProgramWriter

__all__ = ["write_statement"]

_AXIS_LETTERS = {number: letter for letter, number in AXIS_KINDS.items()}


def write_statement(writer: ProgramWriter, node: stmt.Stmt) -> None:
    """Write a statement, and those in it, where the writer is.

    Raises:
        TypeError: it is no statement.
    """
    write = _WRITERS.get(type(node))
    if write is None:
        raise TypeError(f"expected a statement, got {shown(node)}")
    write(writer, node)


def _sequence(writer: ProgramWriter, node: stmt.SeqStmt) -> None:
    for inner in node.seq:
        write_statement(writer, inner)


def _for(writer: ProgramWriter, node: stmt.For) -> None:
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


def _while(writer: ProgramWriter, node: stmt.While) -> None:
    with writer.while_(node.condition):
        write_statement(writer, node.body)


def _choice(writer: ProgramWriter, node: stmt.IfThenElse) -> None:
    with writer.if_(node.condition) as frame:
        write_statement(writer, node.then_case)
    if node.else_case is not None:
        with frame.otherwise():
            write_statement(writer, node.else_case)


def _store(writer: ProgramWriter, node: stmt.BufferStore) -> None:
    writer.store(node.buffer, node.value, node.indices, node.predicate)


def _evaluate(writer: ProgramWriter, node: stmt.Evaluate) -> None:
    writer.evaluate(node.value)


def _let(writer: ProgramWriter, node: stmt.LetStmt) -> None:
    writer.let(node.var, node.value)
    write_statement(writer, node.body)


def _assert(writer: ProgramWriter, node: stmt.AssertStmt) -> None:
    writer.assertion(node.condition, str(getattr(node.message, "value", node.message)))
    write_statement(writer, node.body)


def _attr(writer: ProgramWriter, node: stmt.AttrStmt) -> None:
    with writer.attr(node.node, node.attr_key, node.value):
        write_statement(writer, node.body)


def _realize_buffer(writer: ProgramWriter, node: stmt.BufferRealize) -> None:
    with writer.attr(node.region, "realize", node.condition):
        write_statement(writer, node.body)


def _allocate(writer: ProgramWriter, node: stmt.Allocate) -> None:
    pointer = node.buffer_var
    kind = pointer.type_annotation if isinstance(pointer, Pointer) else None
    scope = "global" if kind is None else kind.storage_scope
    memory = Buffer(node.extents, node.dtype, pointer.name, scope=scope)
    writer.allocate(pointer, memory, node.annotations)
    write_statement(writer, node.body)


def _allocate_const(writer: ProgramWriter, node: stmt.AllocateConst) -> None:
    memory = Buffer(node.extents, node.dtype, node.buffer_var.name)
    contents = node.data.ravel().tolist()
    writer.allocate(node.buffer_var, memory, node.annotations, contents)
    write_statement(writer, node.body)


def _declare(writer: ProgramWriter, node: stmt.DeclBuffer) -> None:
    writer.decl_buffer(node.buffer)
    write_statement(writer, node.body)


def _realize(writer: ProgramWriter, node: stmt.BlockRealize) -> None:
    block = node.block
    with writer.block(block.name_hint) as frame:
        for axis, value in zip(block.iter_vars, node.iter_values, strict=True):
            frame.bind(axis, _AXIS_LETTERS[axis.iter_type], value)
        frame.annotate(block.annotations)
        if block.says_regions:
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


_WRITERS: Mapping[type, Callable[[ProgramWriter, Any], None]] = {
    stmt.SeqStmt: _sequence,
    stmt.For: _for,
    stmt.While: _while,
    stmt.IfThenElse: _choice,
    stmt.BufferStore: _store,
    stmt.Evaluate: _evaluate,
    stmt.LetStmt: _let,
    stmt.AssertStmt: _assert,
    stmt.AttrStmt: _attr,
    stmt.Allocate: _allocate,
    stmt.AllocateConst: _allocate_const,
    stmt.DeclBuffer: _declare,
    stmt.BlockRealize: _realize,
    stmt.BufferRealize: _realize_buffer,
}

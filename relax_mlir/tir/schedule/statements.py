"""Loops and blocks of a program as objects."""

from __future__ import annotations

from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.module import IRModule
from relax_mlir.objects.stmt import BlockRealize, For
from relax_mlir.objects.tir_reader import ProgramReader
from relax_mlir.tir.schedule import tree

__all__ = ["read_statement"]


def read_statement(module: IRModule, op: ir.Operation) -> Any:  # Any: For or Block
    """A loop or a block as an object; a program as its root block."""
    function = tree.function_of(op)
    view = function.opview
    assert isinstance(view, func.FuncOp)
    with module.context, ir.Location.unknown():
        reader = ProgramReader(view, module.scope(view.name.value))
        statements = list(_in_order(reader.body()))
    if op == function:
        return statements[0]
    ops = [o for o in tree.subtree(function) if tree.is_loop(o) or tree.is_block(o)]
    found = [s for s in statements if not _is_root(s, statements)]
    return found[ops.index(op)]


def _is_root(statement: Any, statements: list[Any]) -> bool:
    is_first = statement is statements[0]
    return is_first and not isinstance(statement, For) and not statement.iter_vars


def _in_order(statement: Any) -> Any:
    """The loops and blocks in a statement, outer first; of a block, its start first."""
    if isinstance(statement, For):
        yield statement
    if isinstance(statement, BlockRealize):
        statement = statement.block
        yield statement
    for field in ("init", "body", "then_case", "else_case"):
        inner = getattr(statement, field, None)
        if inner is not None:
            yield from _in_order(inner)
    for inner in getattr(statement, "seq", ()):
        yield from _in_order(inner)

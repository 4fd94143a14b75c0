"""Conversion between loop and block operations and TIR objects."""

from __future__ import annotations

from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.compare.structural_equal import structural_equal
from relax_mlir.objects.read.prim_func import PrimFuncReader
from relax_mlir.objects.stmt.functor import set_statement_paths
from relax_mlir.objects.stmt.statements import BlockRealize, For
from relax_mlir.tvm.tir.schedule import tree

__all__ = ["find_operation", "read_statement"]


def read_statement(module: IRModule, op: ir.Operation) -> Any:  # Any: For or Block
    """The TIR object of a loop or a block; for a PrimFunc, its root block."""
    function = tree.function_of(op)
    return next(s for o, s in _operations_and_objects(module, function) if o == op)


def find_operation(
    module: IRModule, function: ir.Operation, statement: Any
) -> ir.Operation | None:
    """The loop, block or PrimFunc from which an object was read, by its access path."""
    access_path = getattr(statement, "access_path", None)
    if access_path is None:
        return None
    for op, candidate in _operations_and_objects(module, function):
        if candidate.access_path == access_path and structural_equal(
            candidate, statement
        ):
            return op
    return None


def _operations_and_objects(
    module: IRModule, function: ir.Operation
) -> list[tuple[ir.Operation, Any]]:
    """The loops and blocks of a PrimFunc with their objects, the PrimFunc first."""
    view = function.opview
    assert isinstance(view, func.FuncOp)
    with module.context, ir.Location.unknown():
        reader = PrimFuncReader(view, module.scope(view.name.value))
        body = reader.body()
    set_statement_paths(body, ".body")
    statements = list(_preorder(body))
    # A loop with loop-carried values is readable, but not schedulable.
    ops = [o for o in tree.subtree(function) if o.name == "scf.for" or tree.is_block(o)]
    found = [s for s in statements if not _is_root(s, statements)]
    pairs = [p for p in zip(ops, found, strict=True) if tree.is_statement(p[0])]
    return [(function, statements[0]), *pairs]


def _is_root(statement: Any, statements: list[Any]) -> bool:
    is_first = statement is statements[0]
    return is_first and not isinstance(statement, For) and not statement.iter_vars


def _preorder(statement: Any) -> Any:
    """The loops and blocks in a statement in preorder; in a block, init comes first."""
    if isinstance(statement, For):
        yield statement
    if isinstance(statement, BlockRealize):
        statement = statement.block
        yield statement
    for field in ("init", "body", "then_case", "else_case"):
        inner = getattr(statement, field, None)
        if inner is not None:
            yield from _preorder(inner)
    for inner in getattr(statement, "seq", ()):
        yield from _preorder(inner)

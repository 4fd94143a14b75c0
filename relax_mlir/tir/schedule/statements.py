"""Loops and blocks of a program as objects."""

from __future__ import annotations

from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.module import IRModule
from relax_mlir.objects.stmt import BlockRealize, For
from relax_mlir.objects.stmt_functor import stamp_places
from relax_mlir.objects.structure import structural_equal
from relax_mlir.objects.tir_reader import ProgramReader
from relax_mlir.tir.schedule import tree

__all__ = ["find_statement", "read_statement"]


def read_statement(module: IRModule, op: ir.Operation) -> Any:  # Any: For or Block
    """A loop or a block as an object; a program as its root block."""
    function = tree.function_of(op)
    return next(s for o, s in _listed(module, function) if o == op)


def find_statement(
    module: IRModule, function: ir.Operation, statement: Any
) -> ir.Operation | None:
    """The loop, block or program that an object was read of, by where that stood."""
    place = getattr(statement, "place", None)
    if place is None:
        return None
    for op, candidate in _listed(module, function):
        if candidate.place == place and structural_equal(candidate, statement):
            return op
    return None


def _listed(module: IRModule, function: ir.Operation) -> list[tuple[ir.Operation, Any]]:
    """The loops and blocks of a program with their objects, the program first."""
    view = function.opview
    assert isinstance(view, func.FuncOp)
    with module.context, ir.Location.unknown():
        reader = ProgramReader(view, module.scope(view.name.value))
        body = reader.body()
    stamp_places(body, ".body")
    statements = list(_in_order(body))
    # A loop that carries values is one to read, but not one to schedule.
    ops = [o for o in tree.subtree(function) if o.name == "scf.for" or tree.is_block(o)]
    found = [s for s in statements if not _is_root(s, statements)]
    pairs = [p for p in zip(ops, found, strict=True) if tree.is_statement(p[0])]
    return [(function, statements[0]), *pairs]


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

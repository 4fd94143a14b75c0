"""Terms and statements with some of their parts replaced."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from relax_mlir.objects import stmt
from relax_mlir.objects.buffer import Buffer, BufferLoad
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.stmt import Stmt

__all__ = ["rewrite", "rewrite_stmt"]


def rewrite(term: PrimExpr, replace: Callable[[PrimExpr], PrimExpr | None]) -> PrimExpr:
    """``term`` with what ``replace`` gives for its parts, operands first."""
    children = term.children()
    new = [rewrite(child, replace) for child in children]
    if not all(map(operator.is_, new, children)):
        term = term.with_children(new)
    made = replace(term)
    return term if made is None else made


def rewrite_stmt(
    body: Any,
    buffers: Mapping[Buffer, Buffer],
    transform: Callable[[PrimExpr], PrimExpr],
) -> Stmt:
    """A statement on other buffers, its terms changed by ``transform``.

    Raises:
        TypeError: it is of a kind that extern statements are not made of.
    """
    pointers: dict[Var, Var] = {old.data: new.data for old, new in buffers.items()}

    def replace(term: PrimExpr) -> PrimExpr | None:
        if isinstance(term, BufferLoad) and term.buffer in buffers:
            return BufferLoad(buffers[term.buffer], term.indices)
        return pointers.get(term) if isinstance(term, Var) else None

    def value(term: PrimExpr) -> PrimExpr:
        return transform(rewrite(term, replace))

    def store(node: stmt.BufferStore) -> Stmt:
        target = buffers.get(node.buffer, node.buffer)
        return stmt.BufferStore(
            target, value(node.value), list(map(value, node.indices))
        )

    def choice(node: stmt.IfThenElse) -> Stmt:
        other = None if node.else_case is None else visit(node.else_case)
        return stmt.IfThenElse(value(node.condition), visit(node.then_case), other)

    def loop(node: stmt.For) -> Stmt:
        bounds = value(node.min), value(node.extent)
        return stmt.For(node.loop_var, *bounds, node.kind, visit(node.body))

    kinds: dict[type, Any] = {  # Any: functions of the statements of their class
        stmt.SeqStmt: lambda node: stmt.SeqStmt(list(map(visit, node))),
        stmt.BufferStore: store,
        stmt.Evaluate: lambda node: stmt.Evaluate(value(node.value)),
        stmt.For: loop,
        stmt.LetStmt: lambda node: stmt.LetStmt(
            node.var, value(node.value), visit(node.body)
        ),
        stmt.IfThenElse: choice,
        stmt.AttrStmt: lambda node: stmt.AttrStmt(
            node.node, node.attr_key, value(node.value), visit(node.body)
        ),
        stmt.AssertStmt: lambda node: stmt.AssertStmt(
            value(node.condition), node.message, visit(node.body)
        ),
    }

    def visit(node: Stmt) -> Stmt:
        if type(node) not in kinds:
            raise TypeError(
                f"extern: expected loops, stores and calls, got {type(node).__name__}"
            )
        return kinds[type(node)](node)

    return visit(body)

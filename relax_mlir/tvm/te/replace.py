"""Rewriting of expressions and statements in postorder."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad
from relax_mlir.objects.stmt.functor import map_statement
from relax_mlir.objects.stmt.statements import Stmt

__all__ = ["rewrite_expr", "rewrite_stmt"]


def rewrite_expr(
    expr: PrimExpr, replace: Callable[[PrimExpr], PrimExpr | None]
) -> PrimExpr:
    """``expr`` with subexpressions replaced by the results of ``replace``, operands first."""
    children = expr.children()
    new = [rewrite_expr(child, replace) for child in children]
    if not all(map(operator.is_, new, children)):
        expr = expr.with_children(new)
    made = replace(expr)
    return expr if made is None else made


def rewrite_stmt(
    body: Stmt,
    buffers: Mapping[Buffer, Buffer],
    transform: Callable[[PrimExpr], PrimExpr],
) -> Stmt:
    """A statement with buffers substituted and its expressions changed by ``transform``."""
    pointers: dict[Var, Var] = {old.data: new.data for old, new in buffers.items()}

    def replace(expr: PrimExpr) -> PrimExpr | None:
        if isinstance(expr, BufferLoad) and expr.buffer in buffers:
            return BufferLoad(buffers[expr.buffer], expr.indices)
        return pointers.get(expr) if isinstance(expr, Var) else None

    def value(expr: PrimExpr) -> PrimExpr:
        return transform(rewrite_expr(expr, replace))

    def visit(node: Stmt) -> Stmt:
        return map_statement(node, value, visit, lambda b: buffers.get(b, b))

    return visit(body)

"""Terms and statements with some of their parts replaced."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from relax_mlir.objects.buffer import Buffer, BufferLoad
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.stmt import Stmt
from relax_mlir.objects.stmt_functor import map_statement

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
    body: Stmt,
    buffers: Mapping[Buffer, Buffer],
    transform: Callable[[PrimExpr], PrimExpr],
) -> Stmt:
    """A statement on other buffers, its terms changed by ``transform``."""
    pointers: dict[Var, Var] = {old.data: new.data for old, new in buffers.items()}

    def replace(term: PrimExpr) -> PrimExpr | None:
        if isinstance(term, BufferLoad) and term.buffer in buffers:
            return BufferLoad(buffers[term.buffer], term.indices)
        return pointers.get(term) if isinstance(term, Var) else None

    def value(term: PrimExpr) -> PrimExpr:
        return transform(rewrite(term, replace))

    def visit(node: Stmt) -> Stmt:
        return map_statement(node, value, visit, lambda b: buffers.get(b, b))

    return visit(body)

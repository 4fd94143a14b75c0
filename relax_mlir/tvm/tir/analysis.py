"""Analyses of statements and expressions."""

from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim import structurally_equal as expr_deep_equal
from relax_mlir.objects.stmt.buffer import Buffer
from relax_mlir.objects.stmt.functor import free_names
from relax_mlir.objects.stmt.statements import Evaluate, Stmt

__all__ = ["expr_deep_equal", "undefined_vars"]


def undefined_vars(
    node: Stmt | PrimExpr, defs: list[Var] | None = None
) -> list[Var | Buffer]:
    """The free variables and buffers of a statement or an expression, in order.

    Args:
        node: the statement or expression.
        defs: variables that count as defined, too.
    """
    statement = node if isinstance(node, Stmt) else Evaluate(node)
    known = list(map(id, defs or ()))
    return [value for value in free_names(statement) if id(value) not in known]

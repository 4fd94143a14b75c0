"""Questions about tensor programs and the terms in them."""

from relax_mlir.objects.buffer import Buffer
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim import structurally_equal as expr_deep_equal
from relax_mlir.objects.stmt import Evaluate, Stmt
from relax_mlir.objects.stmt_functor import free_names

__all__ = ["expr_deep_equal", "undefined_vars"]


def undefined_vars(
    node: Stmt | PrimExpr, defs: list[Var] | None = None
) -> list[Var | Buffer]:
    """What a statement or a term uses and does not define, in order.

    Args:
        node: where it is looked for.
        defs: what counts as defined, too.
    """
    statement = node if isinstance(node, Stmt) else Evaluate(node)
    known = list(map(id, defs or ()))
    return [value for value in free_names(statement) if id(value) not in known]

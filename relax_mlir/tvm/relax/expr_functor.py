"""``relax.expr_functor``: visitors and mutators of Relax expressions."""

from relax_mlir.objects.expr_functor import (
    ExprFunctor,
    PyExprMutator,
    PyExprVisitor,
    mutator,
    visitor,
)

__all__ = ["ExprFunctor", "PyExprMutator", "PyExprVisitor", "mutator", "visitor"]

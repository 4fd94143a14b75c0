"""Passes that tests alone have use for: ``tvm.relax.testing.transform``."""

from __future__ import annotations

from dataclasses import dataclass

from relax_mlir.module import IRModule
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.transform.function_rewriting import rewrite_functions
from relax_mlir.rewriting import Pass

__all__ = ["ApplyEmptyCppMutator"]


@dataclass(frozen=True)
class ApplyEmptyCppMutator(Pass):
    """Bring every expression to normal form, and rewrite nothing else."""

    def run(self, module: IRModule) -> None:
        rewrite_functions(module, lambda function: PyExprMutator().visit_expr(function))

"""Expressions of Relax and TIR: ``tvm.ir.expr``."""

from relax_mlir.objects.expr import (
    Expr,
    GlobalVar,
)
from relax_mlir.objects.expr import Expr as RelaxExpr
from relax_mlir.objects.prim import (
    PrimExpr,
    Range,
)

__all__ = ["Expr", "GlobalVar", "PrimExpr", "Range", "RelaxExpr"]

"""``ExpandMatmulOfSum``: distributes matmul over a sum."""

from __future__ import annotations

from dataclasses import dataclass

from relax_mlir.objects.expr import Call, Expr
from relax_mlir.objects.function import Function
from relax_mlir.tvm.relax import op
from relax_mlir.tvm.relax.dpl import is_op, wildcard
from relax_mlir.tvm.relax.dpl.structure import DFPattern
from relax_mlir.tvm.relax.transform.function_rewriting import (
    FunctionRewriting,
    PatternMatches,
    PatternRewriter,
    compile_time_predicate,
)

__all__ = ["ExpandMatmulOfSum"]


@dataclass(frozen=True)
class ExpandMatmulOfSum(FunctionRewriting):
    """Rewrites ``matmul(x, a + b)`` as ``matmul(x, a) + matmul(x, b)``.

    A sum of compile-time values stays whole: it is computed only once. The sum may be
    transposed by ``permute_dims``; the transposition then applies to each summand.
    """

    def rule(self, function: Function) -> tuple[DFPattern, PatternRewriter]:
        """Matches a matmul with a sum; replaces it by a sum of matmuls."""
        is_known = compile_time_predicate(function)
        x, a, b = wildcard(), wildcard(), wildcard()
        total = is_op("relax.add")(a, b)
        permuted = is_op("relax.permute_dims")(total)
        matmul = is_op("relax.matmul")(x, total | permuted)

        def expanded(expr: Expr, matches: PatternMatches) -> Expr:
            summands = [matches[a], matches[b]]
            if all(map(is_known, summands)):
                return expr
            permutation = matches.get(permuted)
            if isinstance(permutation, Call):
                axes = permutation.attrs["axes"]
                summands = [op.permute_dims(summand, axes) for summand in summands]
            return op.add(*(op.matmul(matches[x], summand) for summand in summands))

        return matmul, expanded

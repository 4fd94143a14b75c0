"""``ExpandMatmulOfSum``: a product with a sum is a sum of products."""

from __future__ import annotations

from dataclasses import dataclass

from relax_mlir.objects.expr import Call, Expr
from relax_mlir.objects.function import Function
from relax_mlir.relax import op
from relax_mlir.relax.dpl import is_op, wildcard
from relax_mlir.relax.dpl.structure import DFPattern
from relax_mlir.relax.transform.function_rewriting import (
    FunctionRewriting,
    Matches,
    Rewriter,
    compile_time_test,
)

__all__ = ["ExpandMatmulOfSum"]


@dataclass(frozen=True)
class ExpandMatmulOfSum(FunctionRewriting):
    """Write ``matmul(x, a + b)`` as ``matmul(x, a) + matmul(x, b)``.

    A sum that is known before the inputs are stays whole: it is computed only once. The
    sum may be transposed by ``permute_dims``; each part then is.
    """

    def rule(self, function: Function) -> tuple[DFPattern, Rewriter]:
        """The product with a sum, and the sum of products."""
        is_known = compile_time_test(function)
        x, a, b = wildcard(), wildcard(), wildcard()
        total = is_op("relax.add")(a, b)
        permuted = is_op("relax.permute_dims")(total)
        product = is_op("relax.matmul")(x, total | permuted)

        def expanded(expr: Expr, matches: Matches) -> Expr:
            terms = [matches[a], matches[b]]
            if all(map(is_known, terms)):
                return expr
            permutation = matches.get(permuted)
            if isinstance(permutation, Call):
                axes = permutation.attrs["axes"]
                terms = [op.permute_dims(term, axes) for term in terms]
            return op.add(*(op.matmul(matches[x], term) for term in terms))

        return product, expanded

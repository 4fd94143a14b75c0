"""``ReorderPermuteDimsAfterConcat``: moves equal transpositions behind a ``concat``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from relax_mlir.objects.expr import Call, Expr, Tuple
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.objects.function import Function
from relax_mlir.tvm.relax import op
from relax_mlir.tvm.relax.dpl import TuplePattern, is_op, wildcard
from relax_mlir.tvm.relax.dpl.structure import DFPattern
from relax_mlir.tvm.relax.transform.function_rewriting import (
    FunctionRewriting,
    PatternMatches,
    PatternRewriter,
)

__all__ = ["ReorderPermuteDimsAfterConcat"]

_MAX_CONCAT_INPUTS = 11  # of one `concat`; attention has three


@dataclass(frozen=True)
class ReorderPermuteDimsAfterConcat(FunctionRewriting):
    """Rewrites ``concat`` of equally permuted tensors as a permuted ``concat``."""

    def rule(self, function: Function) -> tuple[DFPattern, PatternRewriter]:
        """Matches a ``concat`` of permuted tensors."""
        permuted = [
            is_op("relax.permute_dims")(wildcard()) for _ in range(_MAX_CONCAT_INPUTS)
        ]
        concat = is_op("relax.concat")
        concats = [
            concat(TuplePattern(permuted[:n])) for n in range(2, _MAX_CONCAT_INPUTS + 1)
        ]

        def reordered(expr: Expr, matches: PatternMatches) -> Expr:
            (match,) = (matches[pattern] for pattern in concats if pattern in matches)
            operands = [matches[operand] for operand in permuted if operand in matches]
            assert isinstance(match, Call)
            calls = [operand for operand in operands if isinstance(operand, Call)]
            return _permuted_concat(match, calls) or expr

        return reduce(or_, concats), reordered


def _permuted_concat(concat: Call, operands: Sequence[Call]) -> Expr | None:
    """Returns the permuted ``concat``; None if the permutations differ."""
    permutations = [_permutation(operand) for operand in operands]
    first = permutations[0]
    if first is None or any(other != first for other in permutations):
        return None
    axis = first[concat.attrs["axis"] or 0]
    concatenated = op.concat(
        Tuple([operand.args[0] for operand in operands]), axis=axis
    )
    return op.permute_dims(concatenated, operands[0].attrs["axes"])


def _permutation(call: Call) -> list[int] | None:
    axes = call.attrs["axes"]
    if axes is not None:
        return [int(axis) for axis in axes]
    info = call.args[0].struct_info_or_none()
    if not isinstance(info, TensorStructInfo) or info.ndim < 0:
        return None
    return list(reversed(range(info.ndim)))

"""``ReorderPermuteDimsAfterConcat``: what is joined is transposed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from relax_mlir.objects.expr import Call, Expr, Tuple
from relax_mlir.objects.function import Function
from relax_mlir.objects.struct_info import TensorStructInfo
from relax_mlir.relax import op
from relax_mlir.relax.dpl import TuplePattern, is_op, wildcard
from relax_mlir.relax.dpl.structure import DFPattern
from relax_mlir.relax.transform.function_rewriting import (
    FunctionRewriting,
    Matches,
    Rewriter,
)

__all__ = ["ReorderPermuteDimsAfterConcat"]

_MAX_PARTS = 11  # of one `concat`; attention joins three


@dataclass(frozen=True)
class ReorderPermuteDimsAfterConcat(FunctionRewriting):
    """Write ``concat`` of equally permuted tensors as one permutation of their ``concat``."""

    def rule(self, function: Function) -> tuple[DFPattern, Rewriter]:
        """The tensors that are joined, and the joined tensor."""
        permuted = [is_op("relax.permute_dims")(wildcard()) for _ in range(_MAX_PARTS)]
        concat = is_op("relax.concat")
        joins = [concat(TuplePattern(permuted[:n])) for n in range(2, _MAX_PARTS + 1)]

        def reordered(expr: Expr, matches: Matches) -> Expr:
            (join,) = (matches[each] for each in joins if each in matches)
            parts = [matches[part] for part in permuted if part in matches]
            assert isinstance(join, Call)
            calls = [part for part in parts if isinstance(part, Call)]
            return _permuted_join(join, calls) or expr

        return reduce(or_, joins), reordered


def _permuted_join(join: Call, parts: Sequence[Call]) -> Expr | None:
    """The permutation of what is joined; None where the parts are permuted unequally."""
    permutations = [_permutation(part) for part in parts]
    first = permutations[0]
    if first is None or any(each != first for each in permutations):
        return None
    axis = first[join.attrs["axis"] or 0]
    joined = op.concat(Tuple([part.args[0] for part in parts]), axis=axis)
    return op.permute_dims(joined, parts[0].attrs["axes"])


def _permutation(call: Call) -> list[int] | None:
    axes = call.attrs["axes"]
    if axes is not None:
        return [int(axis) for axis in axes]
    info = call.args[0].struct_info_or_none()
    if not isinstance(info, TensorStructInfo) or info.ndim < 0:
        return None
    return list(reversed(range(info.ndim)))

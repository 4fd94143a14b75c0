"""``RemoveRedundantReshape``: merges consecutive reshapes and removes no-op ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from relax_mlir.errors import RelaxError
from relax_mlir.objects.compare.structural_equal import structural_equal
from relax_mlir.objects.expr import Call, Expr
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.objects.function import Function
from relax_mlir.tvm.relax import op
from relax_mlir.tvm.relax.dpl import is_op, wildcard
from relax_mlir.tvm.relax.dpl.structure import DFPattern
from relax_mlir.tvm.relax.transform.function_rewriting import (
    FunctionRewriting,
    PatternMatches,
    PatternRewriter,
)

__all__ = ["RemoveRedundantReshape"]


@dataclass(frozen=True)
class RemoveRedundantReshape(FunctionRewriting):
    """Merges a reshape of a reshape, and removes reshapes to the same shape."""

    opt_level: ClassVar[int] = 0

    def rule(self, function: Function) -> tuple[DFPattern, PatternRewriter]:
        """Matches one or two reshapes; replaces them by at most one."""
        tensor = wildcard()
        single = is_op("relax.reshape")(tensor, wildcard())
        double = is_op("relax.reshape")(single, wildcard())

        def reshaped_once(expr: Expr, matches: PatternMatches) -> Expr:
            last = matches[double if double in matches else single]
            assert isinstance(last, Call)
            return _reshaped(matches[tensor], last.args[1], expr)

        return double | single, reshaped_once


def _reshaped(tensor: Expr, shape: Expr, expr: Expr) -> Expr:
    """Returns the tensor in the shape; ``expr`` if no equivalent reshape exists.

    A dimension of 0 copies that of the operand, so the shape is reused only if it means the
    same for another operand.
    """
    info = tensor.struct_info_or_none()
    current_shape = info.shape if isinstance(info, TensorStructInfo) else None
    if current_shape is not None and structural_equal(current_shape, shape):
        return tensor
    try:
        reshaped = op.reshape(tensor, shape)
    except RelaxError:
        return expr
    return reshaped if structural_equal(reshaped.args[1], shape) else expr

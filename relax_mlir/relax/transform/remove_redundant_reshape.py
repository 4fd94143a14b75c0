"""``RemoveRedundantReshape``: a tensor is reshaped once, and only if its shape changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from relax_mlir.errors import RelaxError
from relax_mlir.objects.expr import Call, Expr
from relax_mlir.objects.function import Function
from relax_mlir.objects.struct_info import TensorStructInfo
from relax_mlir.objects.structure import structural_equal
from relax_mlir.relax import op
from relax_mlir.relax.dpl import is_op, wildcard
from relax_mlir.relax.dpl.structure import DFPattern
from relax_mlir.relax.transform.function_rewriting import (
    FunctionRewriting,
    Matches,
    Rewriter,
)

__all__ = ["RemoveRedundantReshape"]


@dataclass(frozen=True)
class RemoveRedundantReshape(FunctionRewriting):
    """Write a reshape of a reshape as one, and drop what keeps the shape."""

    opt_level: ClassVar[int] = 0

    def rule(self, function: Function) -> tuple[DFPattern, Rewriter]:
        """One reshape or two, and at most one."""
        tensor = wildcard()
        single = is_op("relax.reshape")(tensor, wildcard())
        double = is_op("relax.reshape")(single, wildcard())

        def reshaped_once(expr: Expr, matches: Matches) -> Expr:
            last = matches[double if double in matches else single]
            assert isinstance(last, Call)
            return _reshaped(matches[tensor], last.args[1], expr)

        return double | single, reshaped_once


def _reshaped(tensor: Expr, shape: Expr, expr: Expr) -> Expr:
    """The tensor in the shape; ``expr`` where that cannot be written differently.

    A size of 0 may stand for the one that the reshaped tensor has there, so the shape is
    kept only if it says the same of another tensor.
    """
    info = tensor.struct_info_or_none()
    known = info.shape if isinstance(info, TensorStructInfo) else None
    if known is not None and structural_equal(known, shape):
        return tensor
    try:
        made = op.reshape(tensor, shape)
    except RelaxError:
        return expr
    return made if structural_equal(made.args[1], shape) else expr

"""Upper and lower triangular parts of matrices."""

from typing import ClassVar

import numpy as np
from mlir import ir
from mlir.ir import IntegerAttr, RankedTensorType

from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["TrilOp", "TriuOp"]


class TriangleOp(Relax.Operation):
    """Base of the triangular parts of every matrix; other elements are 0.

    Attributes:
        k: the diagonal that bounds the triangle: 0 the main one, positive ones above.
    Shapes:
        x, y: [..., m, n].
    """

    is_upper: ClassVar[bool]

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    k: IntegerAttr

    argument_attributes = ("k",)
    cases = (
        Case((4, 5)),
        Case((2, 3, 3), k=1),
        Case((2, 5, 3), k=-2),
        Case((3, 4), k=9),
        Case((0, 4)),
        Case((3, 3, "int64"), k=-1, low=-9, high=9),
        Case((3, 3, "bool")),
    )

    @staticmethod
    def infer(x: RankedTensorType, k: int = 0) -> RankedTensorType:
        if x.rank < 2:
            raise ValueError(f"expected rank 2 or more, got {x.rank}")
        return x

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.x)
        k = self.k.value

        def body(*axes: Index) -> Scalar:
            above = axes[-1] - axes[-2]
            kept = above >= k if self.is_upper else above <= k
            return b.select(kept, x[axes], b.constant(0, x.dtype))

        return b.compute(x.shape, body, x.dtype, self.program_name())


class TrilOp(TriangleOp, name="tril"):
    """The lower triangular part of every matrix, up to diagonal k; 0 above.

    Source: numpy.tril; ONNX Trilu-14.
    """

    is_upper = False

    @staticmethod
    def reference(x: np.ndarray, k: int = 0) -> np.ndarray:
        return np.tril(x, k)


class TriuOp(TriangleOp, name="triu"):
    """The upper triangular part of every matrix, from diagonal k on; 0 below.

    Source: numpy.triu; ONNX Trilu-14.
    """

    is_upper = True

    @staticmethod
    def reference(x: np.ndarray, k: int = 0) -> np.ndarray:
        return np.triu(x, k)


@onnx_rule("Trilu", since=14)
def trilu(node: OnnxNode) -> ir.Value:
    """The upper or lower triangular part.

    Source: ONNX Trilu-14.
    """
    k = 0 if node.optional(1) is None else int(node.scalar(1))
    op = TriuOp if node.flag("upper", default=True) else TrilOp
    return op(node.input(0), k=k).y

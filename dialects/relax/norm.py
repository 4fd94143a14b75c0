"""Normalisations."""

import numpy as np
from mlir import ir
from mlir.ir import IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.tir import Buffer, Builder


class SoftmaxOp(Relax.Operation, name="softmax"):
    """Normalised exponentials along one axis: exp(x - max x) / sum exp(x - max x).

    The maximum is subtracted first, so finite inputs never overflow.

    Shapes:
        x, y: [..., n, ...], rank >= 1, same float type; n is the size of ``axis``.
    Source: ONNX Softmax-13; versions 1-12 flatten around ``axis`` first.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr

    cases = (
        Case((5,), axis=0),
        Case((2, 3), axis=-1),
        Case((2, 1, 3), axis=1),
        Case((0, 4), axis=1),
        Case((3, 70), axis=1),
        Case((2, 5, 19), axis=1),
    )

    @staticmethod
    def infer(x: RankedTensorType, axis: int = -1) -> RankedTensorType:
        shapes.check_axis(axis, x.rank)
        return x

    @staticmethod
    def reference(x: np.ndarray, axis: int) -> np.ndarray:
        wide = x.astype(np.promote_types(x.dtype, np.float32))
        e = np.exp(wide - wide.max(axis, keepdims=True))
        return (e / e.sum(axis, keepdims=True)).astype(x.dtype)

    def legalize(self, b: Builder) -> Buffer:
        axes = [self.axis.value]
        top = b.reduce("max", self.x, axes, name="max")
        e = b.map(lambda v, m: b.math("exp", v - m), self.x, top, name="exp")
        total = b.reduce("add", e, axes, name="sum")
        return b.map(lambda v, s: v / s, e, total, name="divide")

    @onnx_rule("Softmax", since=13)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return SoftmaxOp(node.input(0), axis=node.attr("axis", -1)).y

"""Local response normalisation and Lp normalisation."""

import numpy as np
from mlir import ir
from mlir.ir import FloatAttr, IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    computed_wide,
    require_element_type,
    wide_type,
)
from relax_mlir.dialects.relax.softmax import AxisOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar


class LocalResponseNormOp(Relax.Operation, name="local_response_norm"):
    """x / (bias + alpha / size * sum of squares)^beta, over neighbouring channels.

    The window of a channel starts (size - 1) // 2 channels before it; channels outside x
    are 0. Computed in f32 for f16 and bf16.

    Attributes:
        size: number of channels in the window.
        alpha, beta, bias: the coefficients of the formula.
    Shapes:
        x, y: [n, c, ...], same float type.
    Source: Krizhevsky et al., ImageNet Classification with Deep Convolutional Neural
        Networks, 2012; ONNX LRN-13.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    size: IntegerAttr
    alpha: FloatAttr
    beta: FloatAttr
    bias: FloatAttr

    cases = (
        Case((2, 5, 3, 17), size=3, alpha=0.1),
        Case((2, 5, 71), size=4, alpha=0.5, beta=0.5, bias=2.0),
        Case((1, 2, 3), size=7, alpha=0.3),
        Case((2, 3), size=1),
        Case((1, 3, 2), size=2**62 + 1),
        Case((1, 1, 2), size=2**40),
        Case((0, 3, 2), size=3),
        Case((1, 5, 9, "float64"), size=3, alpha=0.1),
        Case((1, 5, 9, "float16"), size=3, alpha=0.1),
        Case((1, 5, 9, "bfloat16"), size=3, alpha=0.1),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        size: int,
        alpha: float = 1e-4,
        beta: float = 0.75,
        bias: float = 1.0,
    ) -> RankedTensorType:
        require_element_type("f", x)
        if len(tensors.shape_of(x)) < 2 or size < 1:
            given = shapes.format_shape(tensors.shape_of(x))
            raise ValueError(
                f"expected [n, c, ...] and a size of 1 or more, got {given} and {size}"
            )
        return x

    @staticmethod
    @computed_wide
    def reference(
        x: np.ndarray, size: int, alpha: float, beta: float, bias: float
    ) -> np.ndarray:
        before, after = (
            shapes.evaluate(reach, {}) for reach in _window_reach(size, x.shape[1])
        )
        pads = [(0, 0)] * x.ndim
        pads[1] = (before, after)
        squares = np.pad(x * x, pads)
        total = sum(squares[:, k : k + x.shape[1]] for k in range(before + after + 1))
        return x / (bias + alpha / size * total) ** beta

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.x)
        wide, size = wide_type(x.dtype), self.size.value
        channels = b.dim(x.shape[1])
        before, after = _window_reach(size, x.shape[1])
        first = b.dim(before)

        def squared(*points: Index) -> Scalar:
            *where, k = points
            channel = where[1] + k - first
            is_inside = (channel >= 0) & (channel < channels)

            def read() -> Scalar:
                v = b.widen(x[(where[0], channel, *where[2:])])
                return v * v

            return b.read_if(is_inside, read, b.constant(0, wide))

        total = b.reduce_over(
            "add", x.shape, [before + after + 1], squared, wide, "squares"
        )
        alpha, beta, bias = (a.value for a in (self.alpha, self.beta, self.bias))

        def divide(v: Scalar, t: Scalar) -> Scalar:
            divisor = b.math("powf", t * (alpha / size) + bias, b.constant(beta, wide))
            return b.cast(b.widen(v) / divisor, x.dtype)

        return b.map(divide, x, total, dtype=x.dtype, name="local_response_norm")

    @staticmethod
    @onnx_rule("LRN", since=1)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return LocalResponseNormOp(
            node.input(0),
            size=node.attr("size"),
            alpha=node.attr("alpha", 1e-4),
            beta=node.attr("beta", 0.75),
            bias=node.attr("bias", 1.0),
        ).y


def _window_reach(size: int, channels: Dim) -> tuple[Dim, Dim]:
    """Channels of the window before and after its centre, at most all other channels."""
    before = (size - 1) // 2
    most = shapes.maximum(channels - 1, 0)
    return shapes.minimum(before, most), shapes.minimum(size - 1 - before, most)


class LpNormalizeOp(AxisOp, name="lp_normalize"):
    """data divided by its Lp norm along one axis; 0 where the norm is 0.

    Attributes:
        axis: negative ones count from the end.
        p: 1 for the sum of absolute values, 2 for the Euclidean norm.
    Source: ONNX LpNormalization-22.
    """

    p: IntegerAttr

    cases = (
        *(Case(c.operands[0], axis=c.attrs["axis"]) for c in AxisOp.cases),
        Case((3, 70), axis=1, p=1),
        Case((7, 33), axis=0, p=1),
        Case((3, 4), axis=1, low=0.0, high=0.0),
    )

    @staticmethod
    def infer(data: RankedTensorType, axis: int = -1, p: int = 2) -> RankedTensorType:
        if p not in (1, 2):
            raise ValueError(f"bad p: expected 1 or 2, got {p}")
        return AxisOp.infer(data, axis)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, axis: int, p: int) -> np.ndarray:
        norm = np.abs(x).sum(axis, keepdims=True)
        if p == 2:
            norm = np.sqrt((x * x).sum(axis, keepdims=True))
        return np.where(norm == 0, 0, x / norm)

    def legalize(self, b: Builder) -> Buffer:
        x, is_square = b.buffer(self.data), self.p.value == 2
        wide = wide_type(x.dtype)

        def summand(v: Scalar) -> Scalar:
            return b.widen(v) * b.widen(v) if is_square else b.math("absf", b.widen(v))

        def divided(v: Scalar, norm: Scalar) -> Scalar:
            zero = b.constant(0.0, wide)  # not v * 0, which has the sign of v
            return b.cast(b.select(norm.equal(0), zero, b.widen(v) / norm), x.dtype)

        axes = [self.axis.value]
        norm = b.reduce("add", x, axes, fn=summand, dtype=wide, name="sum")
        if is_square:
            norm = b.map(lambda t: b.math("sqrt", t), norm, name="norm")
        return b.map(divided, *(x, norm), dtype=x.dtype, name="lp_normalize")

    @staticmethod
    @onnx_rule("LpNormalization", since=1)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return LpNormalizeOp(
            node.input(0), axis=node.attr("axis", -1), p=node.attr("p", 2)
        ).y

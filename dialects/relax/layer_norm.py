"""Normalisation over the last axes."""

import numpy as np
from mlir import ir
from mlir.ir import FloatAttr, IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    computed_wide,
    require,
    wide_type,
    widened,
)
from relax_mlir.dialects.relax.moments import normalized, statistics
from relax_mlir.dialects.relax.reduce import element_count
from relax_mlir.dialects.tir import Buffer, Builder, Scalar


class LayerNormOp(Relax.Operation, name="layer_norm"):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, over the last axes.

    Computed in f32 for f16 and bf16.

    Attributes:
        axis: the first of the axes that mean and variance are taken over.
    Shapes:
        x, y: any shape of rank 1 or more, same float type. scale, bias: floats that
        broadcast to x.
    Source: Ba et al., Layer Normalization, 2016; ONNX LayerNormalization-17.
    """

    x: Operand[RankedTensorType]
    scale: Operand[RankedTensorType]
    bias: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr
    epsilon: FloatAttr

    cases = (
        Case((5,), (5,), (5,)),
        Case((2, 3), (3,), (3,)),
        Case((2, 3, 768), (768,), (768,), low=5.0, high=9.0),
        Case((2, 3, 71), (71,), ()),
        Case((2, 3, 5), (3, 5), (3, 5), axis=1),
        Case((2, 3, 5), (5,), (5,), axis=-3, epsilon=0.1),
        Case((0, 4), (4,), (4,)),
        Case((3, 40, "float64"), (40, "float64"), (40, "float64")),
        Case((3, 40, "float16"), (40, "float16"), (40, "float16")),
        Case((3, 40, "bfloat16"), (40,), (40,)),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        scale: RankedTensorType,
        bias: RankedTensorType,
        axis: int = -1,
        epsilon: float = 1e-5,
    ) -> RankedTensorType:
        shapes.check_axis(axis, len(tensors.shape_of(x)))
        return tensors.tensor_type(_shape(x, scale, bias), tensors.dtype_of(x))

    @staticmethod
    @computed_wide
    def reference(
        x: np.ndarray, scale: np.ndarray, bias: np.ndarray, axis: int, epsilon: float
    ) -> np.ndarray:
        axes = range(axis % x.ndim, x.ndim)
        return normalized(x, axes, epsilon) * scale + bias

    def legalize(self, b: Builder) -> Buffer:
        (x, scale, bias), epsilon = b.inputs, self.epsilon.value
        wide = wide_type(x.dtype)
        axes = range(shapes.check_axis(self.axis.value, x.rank), x.rank)
        mean, factor = statistics(
            b, x, axes, lambda v: 1.0 / b.math("sqrt", v + epsilon)
        )

        def element(v: Scalar, m: Scalar, f: Scalar, s: Scalar, t: Scalar) -> Scalar:
            y = (b.wide(v) - m) * f * b.cast(s, wide) + b.cast(t, wide)
            return b.cast(y, x.dtype)

        operands = (x, mean, factor, scale, bias)
        return b.map(element, *operands, dtype=x.dtype, name="layer_norm")


def _shape(x: RankedTensorType, *operands: RankedTensorType) -> shapes.Shape:
    """The shape of x, to which the operands broadcast; all are floats."""
    for operand in (x, *operands):
        require("f", operand)
    return shapes.broadcast_into(*map(tensors.shape_of, (x, *operands)))


class RmsNormOp(Relax.Operation, name="rms_norm"):
    """x / sqrt(mean of x^2 + epsilon) * scale, over the last axes.

    Computed in f32 for f16 and bf16.

    Attributes:
        axis: the first of the axes that the mean is taken over.
    Shapes:
        x: any shape of rank 1 or more, a float type. scale: floats that broadcast to x.
        y: the shape of x, the type of scale.
    Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019; ONNX
        RMSNormalization-23.
    """

    x: Operand[RankedTensorType]
    scale: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr
    epsilon: FloatAttr

    cases = (
        Case((5,), (5,)),
        Case((2, 3, 768), (768,)),
        Case((2, 3, 71), ()),
        Case((2, 3, 5), (3, 5), axis=1),
        Case((2, 3, 5), (5,), axis=0, epsilon=0.1),
        Case((0, 4), (4,)),
        Case((3, 40, "float64"), (40, "float64")),
        Case((3, 40, "float16"), (40, "float16")),
        Case((3, 40, "float16"), (40,)),
        Case((3, 40, "bfloat16"), (40, "bfloat16")),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        scale: RankedTensorType,
        axis: int = -1,
        epsilon: float = 1e-5,
    ) -> RankedTensorType:
        shapes.check_axis(axis, len(tensors.shape_of(x)))
        return tensors.tensor_type(_shape(x, scale), tensors.dtype_of(scale))

    @staticmethod
    def reference(
        x: np.ndarray, scale: np.ndarray, axis: int, epsilon: float
    ) -> np.ndarray:
        wide = widened(x)
        axes = tuple(range(axis % x.ndim, x.ndim))
        mean = (wide * wide).mean(axes, keepdims=True)
        y = wide / np.sqrt(mean + epsilon) * widened(scale)
        return y.astype(scale.dtype)

    def legalize(self, b: Builder) -> Buffer:
        x, scale = b.inputs
        wide, epsilon = wide_type(x.dtype), self.epsilon.value
        axes = range(shapes.check_axis(self.axis.value, x.rank), x.rank)
        sizes = [x.shape[axis] for axis in axes]

        def inverse(total: Scalar) -> Scalar:
            mean = total / element_count(b, sizes, wide)
            return 1.0 / b.math("sqrt", mean + epsilon)

        squares = b.reduce(
            "add",
            x,
            axes,
            fn=lambda v: b.wide(v) * b.wide(v),
            dtype=wide,
            name="squares",
        )
        factor = b.map(inverse, squares, name="factor")
        return b.map(
            lambda v, f, s: b.cast(b.wide(v) * f * b.cast(s, wide), scale.dtype),
            *(x, factor, scale),
            dtype=scale.dtype,
            name="rms_norm",
        )

    @staticmethod
    @onnx_rule("RMSNormalization", since=23)
    def from_onnx(node: OnnxNode) -> ir.Value:
        axis, epsilon = node.attr("axis", -1), node.attr("epsilon", 1e-5)
        return RmsNormOp(node.input(0), node.input(1), axis=axis, epsilon=epsilon).y

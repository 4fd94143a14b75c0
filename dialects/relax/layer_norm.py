"""Normalisation over the last axes."""

import numpy as np
from mlir import ir
from mlir.ir import FloatAttr, IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp, SubtractOp
from relax_mlir.dialects.relax.cast import CastOp
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    computed_wide,
    require,
    wide_type,
    widened,
)
from relax_mlir.dialects.relax.exponential import RsqrtOp
from relax_mlir.dialects.relax.moments import normalized, statistics
from relax_mlir.dialects.relax.reduce import ReduceMeanOp, element_count
from relax_mlir.dialects.tir import Buffer, Builder, Scalar

_F32 = dtype("float32")


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
        require("f", x)
        shapes.check_axis(axis, len(tensors.shape_of(x)))
        _check_broadcast(x, scale, bias)
        return x

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

    @onnx_rule("LayerNormalization", since=17)
    def from_onnx(node: OnnxNode) -> "list[ir.Value | None]":
        x, scale, bias = node.input(0), node.input(1), node.optional(2)
        axis, epsilon = node.attr("axis", -1), node.attr("epsilon", 1e-5)
        if bias is None:
            bias = node.constant(np.zeros((), tensors.dtype_of(scale).numpy))
        y = LayerNormOp(x, scale, bias, axis=axis, epsilon=epsilon).y
        if not any(node.wanted[1:]):
            return [y]
        return [y, *_onnx_statistics(node, x, axis, epsilon)]


def _check_broadcast(x: RankedTensorType, *operands: RankedTensorType) -> None:
    shape = tensors.shape_of(x)
    for operand in operands:
        require("f", operand)
        found = tensors.shape_of(operand)
        if shapes.broadcast(shape, found) != shape:
            given, into = map(shapes.format_shape, (found, shape))
            raise ValueError(f"scale or bias {given} does not broadcast to {into}")


def _onnx_statistics(
    node: OnnxNode, x: ir.Value, axis: int, epsilon: float
) -> list[ir.Value]:
    """The mean and the inverse deviation in f32, which few models ask for."""
    wide = CastOp(x, dtype=_F32).y
    rank = len(tensors.shape_of(x))
    axes = range(shapes.check_axis(axis, rank), rank)
    mean = ReduceMeanOp(wide, axes=axes).y
    centred = SubtractOp(wide, mean).z
    variance = ReduceMeanOp(MultiplyOp(centred, centred).z, axes=axes).y
    shift = node.constant(np.array(epsilon, np.float32))
    return [mean, RsqrtOp(AddOp(variance, shift).z).y]


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
        require("f", x)
        shapes.check_axis(axis, len(tensors.shape_of(x)))
        _check_broadcast(x, scale)
        return tensors.tensor_type(tensors.shape_of(x), tensors.dtype_of(scale))

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

    @onnx_rule("RMSNormalization", since=23)
    def from_onnx(node: OnnxNode) -> ir.Value:
        axis, epsilon = node.attr("axis", -1), node.attr("epsilon", 1e-5)
        return RmsNormOp(node.input(0), node.input(1), axis=axis, epsilon=epsilon).y

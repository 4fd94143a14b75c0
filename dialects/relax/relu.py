"""The ReLU family of piecewise activation functions."""

from collections.abc import Sequence

import numpy as np
from mlir import ir
from mlir.ir import FloatAttr, IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, EdgeCase, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    ActivationOp,
    FloatUnaryOp,
    UnaryOp,
    computed_wide,
    require_element_type,
)
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

_F64 = dtype("float64")
_INTEGERS = Case((9, "int32"), low=-9, high=9)


def _with(**attrs: float) -> tuple[Case, ...]:
    """Test cases with the default attributes, and two with the given ones."""
    return (
        *FloatUnaryOp.cases,
        Case((3, 71), low=-4.0, high=4.0, **attrs),
        EdgeCase((41,), low=-4.0, high=4.0, **attrs),
    )


class ReluOp(ActivationOp, name="nn_relu", onnx=("Relu", 6)):
    """max(data, 0); NaN stays NaN.

    Shapes:
        data, y: any shape, same element type, numbers.
    """

    cases = (*ActivationOp.cases, _INTEGERS)

    @staticmethod
    def infer(data: RankedTensorType) -> RankedTensorType:
        require_element_type("fiu", data)
        return data

    @staticmethod
    @computed_wide
    def reference(data: np.ndarray) -> np.ndarray:
        return np.maximum(data, data.dtype.type(0))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        zero = b.constant(0, v.dtype)
        return b.select(v < zero, zero, v)


class LeakyreluOp(ActivationOp, name="nn_leakyrelu"):
    """Leaky ReLU: data where data >= 0, else alpha * data.

    Source: ONNX LeakyRelu-16.
    """

    alpha: FloatAttr

    cases = _with(alpha=0.3)

    @staticmethod
    def infer(data: RankedTensorType, alpha: float = 0.01) -> RankedTensorType:
        return ActivationOp.infer(data)

    @classmethod
    def program_name(cls) -> str:
        return "leaky_relu"

    @staticmethod
    @computed_wide
    def reference(data: np.ndarray, alpha: float) -> np.ndarray:
        return np.where(data < 0, alpha * data, data)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return b.select(v < 0, v * self.alpha.value, v)

    @staticmethod
    @onnx_rule("LeakyRelu", since=6)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return LeakyreluOp(node.input(0), alpha=node.attr("alpha", 0.01)).y


class PreluOp(Relax.Operation, name="nn_prelu"):
    """Parametric ReLU: data where data >= 0, else alpha * data, with a tensor alpha.

    Attributes:
        axis: the axis of data for an alpha of rank 1.
    Shapes:
        data, y: any shape, numbers. alpha: [n], where n is 1 or the size of ``axis``; of
        another rank, it is broadcast to data by numpy's rules. Same element type.
    Source: He et al., Delving Deep into Rectifiers, 2015.
    """

    data: Operand[RankedTensorType]
    alpha: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr

    cases = (
        Case((), ()),
        Case((5,), (1,), axis=0),
        Case((2, 3), (2, 3)),
        Case((2, 3), (3,)),
        Case((2, 3, 5), (3,)),
        Case((2, 3, 5), (1,)),
        Case((2, 3, 5), (2,), axis=0),
        Case((2, 3, 5), (3, 1)),
        Case((4, 71), ()),
        Case((0, 3), (3,), axis=-1),
        Case((9, "float16"), (1, "float16"), axis=-1),
        Case((7, "int64"), (7, "int64"), axis=0, low=-5, high=5),
        EdgeCase((83,), (83,), axis=0),
    )

    @staticmethod
    def infer(
        data: RankedTensorType, alpha: RankedTensorType, axis: int = 1
    ) -> RankedTensorType:
        sizes = _slope_shape(tensors.shape_of(alpha), data.rank, axis)
        shape = shapes.broadcast_into(tensors.shape_of(data), sizes)
        return tensors.tensor_type(shape, require_element_type("fiu", data, alpha))

    @staticmethod
    @computed_wide
    def reference(data: np.ndarray, alpha: np.ndarray, axis: int) -> np.ndarray:
        slope = alpha.reshape(_slope_shape(alpha.shape, data.ndim, axis))
        return np.where(data < 0, data * slope, data)

    def legalize(self, b: Builder) -> Buffer:
        data, alpha = b.inputs
        axis, out = self.axis.value, data.dtype

        def element(v: Scalar, slope: Scalar) -> Scalar:
            v, slope = b.widen(v), b.widen(slope)
            return b.cast(b.select(v < 0, v * slope, v), out)

        if alpha.rank != 1 or axis in (-1, data.rank - 1):
            return b.map(element, data, alpha, dtype=out, name="prelu")
        axis = shapes.check_axis(axis, data.rank)
        is_one = alpha.shape[0] == 1

        def body(*points: Index) -> Scalar:
            return element(data[points], alpha[0 if is_one else points[axis]])

        return b.compute(data.shape, body, out, "prelu")

    @staticmethod
    @onnx_rule("PRelu", since=1)
    def from_onnx_channels(node: OnnxNode) -> ir.Value:
        """PRelu with one slope, or one per channel.

        Source: ONNX PRelu-6.
        """
        x = node.input(0)
        axis = min(1, len(tensors.shape_of(x)) - 1)
        return PreluOp(x, node.input(1), axis=axis).y

    @staticmethod
    @onnx_rule("PRelu", since=7)
    def from_onnx(node: OnnxNode) -> ir.Value:
        """PRelu with slopes that broadcast, aligned at the last axis.

        Source: ONNX PRelu-16.
        """
        return PreluOp(node.input(0), node.input(1), axis=-1).y


def _slope_shape(shape: Sequence[Dim], rank: int, axis: int) -> tuple[Dim, ...]:
    """The shape of the slopes that broadcasts to data: rank 1 is placed at ``axis``."""
    if len(shape) != 1:
        return tuple(shape)
    if rank == 0:
        raise ValueError(
            f"slopes: expected a scalar for scalar data, got {shapes.format_shape(shape)}"
        )
    axis = shapes.check_axis(axis, rank)
    return (*shape, *[1] * (rank - 1 - axis))


class ThresholdedReluOp(FloatUnaryOp, name="thresholded_relu"):
    """Thresholded ReLU: x where x > alpha, else 0; NaN becomes 0.

    Source: ONNX ThresholdedRelu-10.
    """

    alpha: FloatAttr

    cases = _with(alpha=-0.5)

    @staticmethod
    def infer(x: RankedTensorType, alpha: float = 1.0) -> RankedTensorType:
        return FloatUnaryOp.infer(x)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, alpha: float) -> np.ndarray:
        return np.where(x > alpha, x, 0)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return b.select(v > self.alpha.value, v, b.constant(0, v.dtype))

    @staticmethod
    @onnx_rule("ThresholdedRelu", since=10)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return ThresholdedReluOp(node.input(0), alpha=node.attr("alpha", 1.0)).y


class ShrinkOp(UnaryOp, name="shrink"):
    """Shrinkage: x - bias for x > lambd, x + bias for x < -lambd, else 0; 0 for NaN.

    Integers are computed in f64 and truncated.

    Source: ONNX Shrink-9.
    """

    bias: FloatAttr
    lambd: FloatAttr

    cases = (*_with(bias=0.25, lambd=1.0), _INTEGERS)

    @staticmethod
    def infer(
        x: RankedTensorType, bias: float = 0.0, lambd: float = 0.5
    ) -> RankedTensorType:
        return UnaryOp.infer(x)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, bias: float, lambd: float) -> np.ndarray:
        low, high = x < -lambd, x > lambd
        return np.select([low, high], [x + bias, x - bias], default=0)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        bias, lambd = self.bias.value, self.lambd.value
        if v.dtype.is_integer:
            v = b.cast(v, _F64)
        zero = b.constant(0, v.dtype)
        return b.select(v > lambd, v - bias, b.select(v < -lambd, v + bias, zero))

    @staticmethod
    @onnx_rule("Shrink", since=9)
    def from_onnx(node: OnnxNode) -> ir.Value:
        bias, lambd = node.attr("bias", 0.0), node.attr("lambd", 0.5)
        return ShrinkOp(node.input(0), bias=bias, lambd=lambd).y


class EluOp(FloatUnaryOp, name="elu"):
    """Exponential linear unit: x where x > 0, else alpha * (e^x - 1).

    Source: Clevert et al., Fast and Accurate Deep Network Learning by Exponential Linear
        Units, 2016.
    """

    alpha: FloatAttr

    cases = _with(alpha=0.3)

    @staticmethod
    def infer(x: RankedTensorType, alpha: float = 1.0) -> RankedTensorType:
        return FloatUnaryOp.infer(x)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, alpha: float) -> np.ndarray:
        return np.where(x > 0, x, alpha * np.expm1(x))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return b.select(v > 0, v, _expm1(b, v) * self.alpha.value)

    @staticmethod
    @onnx_rule("Elu", since=6)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return EluOp(node.input(0), alpha=node.attr("alpha", 1.0)).y


def _expm1(b: Builder, v: Scalar) -> Scalar:
    """e^v - 1 for v <= 0, as 2t / (1 - t) with t = tanh(v / 2), without cancellation."""
    t = b.math("tanh", v * 0.5)
    return (t + t) / (1.0 - t)


SELU_ALPHA, SELU_GAMMA = 1.6732632423543772, 1.0507009873554805


class SeluOp(ActivationOp, name="nn_selu"):
    """Scaled ELU: gamma * data where data > 0, else gamma * alpha * (e^data - 1).

    alpha is 1.6732632423543772 and gamma 1.0507009873554805.

    Source: Klambauer et al., Self-Normalizing Neural Networks, 2017.
    """

    cases = _with()

    @staticmethod
    @computed_wide
    def reference(data: np.ndarray) -> np.ndarray:
        negative = SELU_ALPHA * np.expm1(data)
        return SELU_GAMMA * np.where(data > 0, data, negative)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        negative = _expm1(b, v) * (SELU_ALPHA * SELU_GAMMA)
        return b.select(v > 0, v * SELU_GAMMA, negative)


class CeluOp(FloatUnaryOp, name="celu"):
    """Continuously differentiable ELU: max(0, x) + min(0, alpha * (e^(x / alpha) - 1)).

    As in this expression, an alpha of 0 gives 0 for negative x and NaN otherwise.

    Source: Barron, Continuously Differentiable Exponential Linear Units, 2017.
    """

    alpha: FloatAttr

    cases = (*_with(alpha=2.0), EdgeCase((3, 17), alpha=0.0), Case((19,), alpha=-0.5))

    @staticmethod
    def infer(x: RankedTensorType, alpha: float = 1.0) -> RankedTensorType:
        return FloatUnaryOp.infer(x)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, alpha: float) -> np.ndarray:
        with np.errstate(all="ignore"):
            below = alpha * np.expm1(x / x.dtype.type(alpha))
        return np.maximum(x, 0) + np.minimum(below, 0)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        alpha = self.alpha.value
        return v.maximum(0.0) + (_expm1(b, v / alpha) * alpha).minimum(0.0)

    @staticmethod
    @onnx_rule("Celu", since=12)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return CeluOp(node.input(0), alpha=node.attr("alpha", 1.0)).y

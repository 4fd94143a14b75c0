"""Activation functions of two branches, that meet at 0 or nearby."""

import numpy as np
from mlir import ir
from mlir.ir import FloatAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.hooks import Case, EdgeCase, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.elementwise import (
    BinaryOp,
    FloatUnaryOp,
    UnaryOp,
    computed_wide,
    require,
)
from relax_mlir.dialects.tir import Builder, Scalar

_F64 = dtype("float64")
_INTEGERS = Case((9, "int32"), low=-9, high=9)


def _with(**attrs: float) -> tuple[Case, ...]:
    """The cases of every function once by its defaults, and two with these attributes."""
    return (
        *FloatUnaryOp.cases,
        Case((3, 71), low=-4.0, high=4.0, **attrs),
        EdgeCase((41,), low=-4.0, high=4.0, **attrs),
    )


class ReluOp(UnaryOp, name="relu", onnx=("Relu", 6)):
    """The larger of x and 0; NaN stays NaN."""

    cases = (*UnaryOp.cases, _INTEGERS)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray) -> np.ndarray:
        return np.maximum(x, x.dtype.type(0))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        zero = b.constant(0, v.dtype)
        return b.select(v < zero, zero, v)


class LeakyReluOp(FloatUnaryOp, name="leaky_relu"):
    """x where it is positive, else alpha * x."""

    alpha: FloatAttr

    cases = _with(alpha=0.3)

    @staticmethod
    def infer(x: RankedTensorType, alpha: float = 0.01) -> RankedTensorType:
        return FloatUnaryOp.infer(x)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, alpha: float) -> np.ndarray:
        return np.where(x < 0, alpha * x, x)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return b.select(v < 0, v * self.alpha.value, v)

    @staticmethod
    @onnx_rule("LeakyRelu", since=6)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return LeakyReluOp(node.input(0), alpha=node.attr("alpha", 0.01)).y


class PreluOp(BinaryOp, name="prelu"):
    """x where it is positive, else slope * x.

    Shapes:
        x, z: any shape. y, the slope: broadcast to it.
    Source: ONNX PRelu-16.
    """

    cases = (
        Case((), ()),
        Case((2, 3), (2, 3)),
        Case((2, 3, 5), (3, 1)),
        Case((4, 71), ()),
        Case((0, 3), (3,)),
        Case((9, "float16"), (1, "float16")),
        Case((7, "int64"), (7, "int64"), low=-5, high=5),
        EdgeCase((83,), (83,)),
    )

    @staticmethod
    def infer(x: RankedTensorType, y: RankedTensorType) -> RankedTensorType:
        shape = shapes.broadcast_into(*map(tensors.shape_of, (x, y)))
        return tensors.tensor_type(shape, require("fiu", x, y))

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.where(x < 0, x * y, x)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return b.select(u < 0, u * v, u)

    @staticmethod
    @onnx_rule("PRelu", since=7)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return PreluOp(node.input(0), node.input(1)).z


class ThresholdedReluOp(FloatUnaryOp, name="thresholded_relu"):
    """x where it is above alpha, else 0; NaN becomes 0."""

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
    """x - bias above lambd, x + bias below -lambd, 0 in between and for NaN.

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
    """x where it is positive, else alpha * (e^x - 1).

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
    """e^v - 1 for v <= 0, as 2t / (1 - t) where t = tanh(v / 2).

    Near 0 the difference itself would have few correct digits.
    """
    t = b.math("tanh", v * 0.5)
    return (t + t) / (1.0 - t)


_SELU_ALPHA, _SELU_GAMMA = 1.6732632423543772, 1.0507009873554805


class SeluOp(FloatUnaryOp, name="selu"):
    """gamma * x where x is positive, else gamma * alpha * (e^x - 1).

    Source: Klambauer et al., Self-Normalizing Neural Networks, 2017.
    """

    alpha: FloatAttr
    gamma: FloatAttr

    cases = _with(alpha=2.0, gamma=3.0)

    @staticmethod
    def infer(
        x: RankedTensorType, alpha: float = _SELU_ALPHA, gamma: float = _SELU_GAMMA
    ) -> RankedTensorType:
        return FloatUnaryOp.infer(x)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, alpha: float, gamma: float) -> np.ndarray:
        return gamma * np.where(x > 0, x, alpha * np.expm1(x))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        alpha, gamma = self.alpha.value, self.gamma.value
        return b.select(v > 0, v * gamma, _expm1(b, v) * (alpha * gamma))

    @staticmethod
    @onnx_rule("Selu", since=6)
    def from_onnx(node: OnnxNode) -> ir.Value:
        alpha, gamma = node.attr("alpha", _SELU_ALPHA), node.attr("gamma", _SELU_GAMMA)
        return SeluOp(node.input(0), alpha=alpha, gamma=gamma).y


class CeluOp(FloatUnaryOp, name="celu"):
    """x where it is positive, else alpha * (e^(x / alpha) - 1).

    Source: Barron, Continuously Differentiable Exponential Linear Units, 2017.
    """

    alpha: FloatAttr

    cases = _with(alpha=2.0)

    @staticmethod
    def infer(x: RankedTensorType, alpha: float = 1.0) -> RankedTensorType:
        return FloatUnaryOp.infer(x)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, alpha: float) -> np.ndarray:
        return np.where(x > 0, x, alpha * np.expm1(x / alpha))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        alpha = self.alpha.value
        return b.select(v > 0, v, _expm1(b, v * (1 / alpha)) * alpha)

    @staticmethod
    @onnx_rule("Celu", since=12)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return CeluOp(node.input(0), alpha=node.attr("alpha", 1.0)).y

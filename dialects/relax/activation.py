"""Smooth activation functions and their piecewise linear approximations."""

from math import erfc, inf, pi, sqrt

import numpy as np
from mlir import ir
from mlir.ir import FloatAttr, RankedTensorType

from relax_mlir.dialects.op_interface import Case, EdgeCase, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.elementwise import (
    ActivationOp,
    FloatUnaryOp,
    computed_wide,
)
from relax_mlir.dialects.relax.exp_log import log1p
from relax_mlir.dialects.tir import Builder, Scalar

_SATURATING = EdgeCase((41,), low=-200.0, high=200.0)


class SigmoidOp(FloatUnaryOp, name="sigmoid", onnx=("Sigmoid", 6)):
    """The logistic function: 1 / (1 + e^-x)."""

    cases = (*FloatUnaryOp.cases, _SATURATING)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return 1.0 / (1.0 + b.math("exp", -v))


class HardSigmoidOp(FloatUnaryOp, name="hard_sigmoid"):
    """alpha * x + beta, clipped to [0, 1].

    Source: ONNX HardSigmoid-6.
    """

    alpha: FloatAttr
    beta: FloatAttr

    cases = (
        *FloatUnaryOp.cases,
        Case((3, 71), low=-4.0, high=4.0, alpha=1 / 6, beta=0.4),
    )

    @staticmethod
    def infer(
        x: RankedTensorType, alpha: float = 0.2, beta: float = 0.5
    ) -> RankedTensorType:
        return FloatUnaryOp.infer(x)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
        return np.clip(alpha * x + beta, 0, 1)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return (v * self.alpha.value + self.beta.value).maximum(0).minimum(1)

    @staticmethod
    @onnx_rule("HardSigmoid", since=6)
    def from_onnx(node: OnnxNode) -> ir.Value:
        alpha, beta = node.attr("alpha", 0.2), node.attr("beta", 0.5)
        return HardSigmoidOp(node.input(0), alpha=alpha, beta=beta).y


class HardSwishOp(FloatUnaryOp, name="hard_swish", onnx=("HardSwish", 14)):
    """x * hard_sigmoid(x) with alpha 1/6 and beta 1/2.

    Source: Howard et al., Searching for MobileNetV3, 2019; ONNX HardSwish-14.
    """

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray) -> np.ndarray:
        return x * np.clip(x * (1 / 6) + 0.5, 0, 1)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return v * (v * (1 / 6) + 0.5).maximum(0).minimum(1)


class SiluOp(ActivationOp, name="nn_silu"):
    """data * sigmoid(data), also called swish.

    Source: Ramachandran et al., Searching for Activation Functions, 2017.
    """

    cases = (*ActivationOp.cases, _SATURATING)

    @staticmethod
    @computed_wide
    def reference(data: np.ndarray) -> np.ndarray:
        return data * (1 / (1 + np.exp(-data)))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return v * (1.0 / (1.0 + b.math("exp", -v)))


class SoftplusOp(ActivationOp, name="nn_softplus"):
    """log(1 + e^(beta * data)) / beta, computed without overflow.

    Attributes:
        beta: the steepness.
        threshold: where beta * data exceeds it, the result is data.
    """

    beta: FloatAttr
    threshold: FloatAttr

    cases = (
        *ActivationOp.cases,
        _SATURATING,
        Case((41,), low=-9.0, high=9.0, beta=2.0, threshold=1.0),
        EdgeCase((41,), beta=0.5, threshold=inf),
    )

    @staticmethod
    def infer(
        data: RankedTensorType, beta: float = 1.0, threshold: float = 20.0
    ) -> RankedTensorType:
        return ActivationOp.infer(data)

    @staticmethod
    @computed_wide
    def reference(data: np.ndarray, beta: float, threshold: float) -> np.ndarray:
        scaled = data * beta
        soft = np.logaddexp(data.dtype.type(0), scaled) / beta
        return np.where(scaled > threshold, data, soft)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        beta, threshold = self.beta.value, self.threshold.value
        x = v if beta == 1 else v * beta
        y = x.maximum(0) + log1p(b, b.math("exp", -b.math("absf", x)))
        y = y if beta == 1 else y / beta
        return y if threshold == inf else b.select(x > threshold, v, y)


class SoftsignOp(FloatUnaryOp, name="softsign", onnx=("Softsign", 1)):
    """x / (1 + |x|)."""

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray) -> np.ndarray:
        return x / (1 + np.abs(x))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return v / (1.0 + b.math("absf", v))


class MishOp(FloatUnaryOp, name="mish", onnx=("Mish", 18)):
    """x * tanh(log(1 + e^x)).

    With n = e^x (e^x + 2) the hyperbolic tangent is n / (n + 2); it rounds to 1 for
    x >= 20.

    Source: Misra, Mish: A Self Regularized Non-Monotonic Activation Function, 2019.
    """

    cases = (*FloatUnaryOp.cases, _SATURATING)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray) -> np.ndarray:
        return x * np.tanh(np.logaddexp(x.dtype.type(0), x))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        e = b.math("exp", v.minimum(20))
        n = e * (e + 2.0)
        return v * (n / (n + 2.0))


class GeluOp(ActivationOp, name="nn_gelu"):
    """data * Phi(data), with the cumulative distribution Phi of the standard normal.

    Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.
    """

    @staticmethod
    @computed_wide
    def reference(data: np.ndarray) -> np.ndarray:
        flat = [erfc(-v / sqrt(2)) for v in data.astype(np.float64).reshape(-1)]
        return 0.5 * data * np.array(flat).reshape(data.shape)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return v * 0.5 * (b.math("erf", v * sqrt(0.5)) + 1.0)


class GeluTanhOp(ActivationOp, name="nn_gelu_tanh"):
    """data/2 * (1 + tanh(sqrt(2/pi) * (data + 0.044715 data^3))); approximates ``nn.gelu``.

    Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.
    """

    cases = (*ActivationOp.cases, Case((3, 71), low=-4.0, high=4.0))

    @staticmethod
    @computed_wide
    def reference(data: np.ndarray) -> np.ndarray:
        wide = data.astype(np.float64)
        inner = sqrt(2 / pi) * (wide + 0.044715 * wide**3)
        # (1 + tanh(inner)) / 2, without cancellation for negative numbers.
        return data / (1 + np.exp(-2 * inner))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        inner = v * (v * v * (0.044715 * sqrt(2 / pi)) + sqrt(2 / pi))
        return v * 0.5 * (b.math("tanh", inner) + 1.0)

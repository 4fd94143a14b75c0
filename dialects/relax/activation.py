"""Smooth activation functions, and piecewise linear stand-ins for them."""

from math import erf, pi, sqrt
from typing import Literal

import numpy as np
from mlir import ir
from mlir.ir import FloatAttr, RankedTensorType, StringAttr

from relax_mlir.dialects.hooks import Case, EdgeCase, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.elementwise import (
    FloatUnaryOp,
    computed_wide,
)
from relax_mlir.dialects.tir import Builder, Scalar

_SATURATING = EdgeCase((41,), low=-200.0, high=200.0)


class SigmoidOp(FloatUnaryOp, name="sigmoid", onnx=("Sigmoid", 6)):
    """1 / (1 + e^-x)."""

    cases = (*FloatUnaryOp.cases, _SATURATING)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return 1.0 / (1.0 + b.math("exp", -v))


class HardSigmoidOp(FloatUnaryOp, name="hard_sigmoid"):
    """alpha * x + beta, limited to [0, 1]."""

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
    """x * hard_sigmoid(x), with slope 1/6.

    Source: Howard et al., Searching for MobileNetV3, 2019; ONNX HardSwish-14.
    """

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray) -> np.ndarray:
        return x * np.clip(x * (1 / 6) + 0.5, 0, 1)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return v * (v * (1 / 6) + 0.5).maximum(0).minimum(1)


class SiluOp(FloatUnaryOp, name="silu"):
    """x * sigmoid(alpha * x), also called swish.

    Source: Ramachandran et al., Searching for Activation Functions, 2017; ONNX Swish-24.
    """

    alpha: FloatAttr

    cases = (*FloatUnaryOp.cases, _SATURATING, Case((3, 71), alpha=1.7))

    @staticmethod
    def infer(x: RankedTensorType, alpha: float = 1.0) -> RankedTensorType:
        return FloatUnaryOp.infer(x)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, alpha: float) -> np.ndarray:
        return x * (1 / (1 + np.exp(-alpha * x)))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return v * (1.0 / (1.0 + b.math("exp", v * -self.alpha.value)))

    @staticmethod
    @onnx_rule("Swish", since=24)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return SiluOp(node.input(0), alpha=node.attr("alpha", 1.0)).y


class SoftplusOp(FloatUnaryOp, name="softplus", onnx=("Softplus", 1)):
    """log(1 + e^x), computed so that e^x cannot overflow."""

    cases = (*FloatUnaryOp.cases, _SATURATING)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray) -> np.ndarray:
        return np.logaddexp(x.dtype.type(0), x)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return v.maximum(0) + _log1p(b, b.math("exp", -b.math("absf", v)))


def _log1p(b: Builder, v: Scalar) -> Scalar:
    """log(1 + v) for 0 <= v <= 1; what rounding 1 + v lost is put back to first order."""
    total = v + 1.0
    return b.math("log", total) - ((total - 1.0) - v) / total


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

    With n = e^x (e^x + 2) the hyperbolic tangent is n / (n + 2), and 1 from x = 20 on.

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


class GeluOp(FloatUnaryOp, name="gelu"):
    """x times the probability that a standard normal variable is below x.

    Attributes:
        approximate: ``none``, or ``tanh`` for
            x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))).

    Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016; ONNX Gelu-20.
    """

    approximate: StringAttr

    cases = (
        *FloatUnaryOp.cases,
        *(
            Case(shape, low=-4.0, high=4.0, approximate="tanh")
            for shape in ((), (0, 4), (3, 71), (11, "float16"), (11, "bfloat16"))
        ),
        EdgeCase((41,), approximate="tanh"),
    )

    @staticmethod
    def infer(
        x: RankedTensorType, approximate: Literal["none", "tanh"] = "none"
    ) -> RankedTensorType:
        if approximate not in ("none", "tanh"):
            raise ValueError(
                f"bad approximate: expected none or tanh, got {approximate!r}"
            )
        return FloatUnaryOp.infer(x)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, approximate: str) -> np.ndarray:
        if approximate == "tanh":
            return 0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))
        flat = [erf(v / sqrt(2)) for v in x.astype(np.float64).reshape(-1)]
        return 0.5 * x * (1 + np.array(flat).reshape(x.shape))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        if self.approximate.value == "tanh":
            inner = v * (v * v * (0.044715 * sqrt(2 / pi)) + sqrt(2 / pi))
            return v * 0.5 * (b.math("tanh", inner) + 1.0)
        return v * 0.5 * (b.math("erf", v * sqrt(0.5)) + 1.0)

    @staticmethod
    @onnx_rule("Gelu", since=20)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return GeluOp(node.input(0), approximate=node.attr("approximate", "none")).y

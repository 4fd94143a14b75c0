"""Trigonometric and hyperbolic functions, and their inverses."""

import numpy as np
from mlir.ir import RankedTensorType

from relax_mlir.dialects import tensors
from relax_mlir.dialects.op_interface import Case, EdgeCase
from relax_mlir.dialects.relax.elementwise import (
    BinaryOp,
    MathOp,
    common_shape,
    computed_wide,
    require_element_type,
)
from relax_mlir.dialects.tir import Builder, Scalar


def _cases(low: float, high: float) -> tuple[Case, ...]:
    """Test cases with inputs from a given part of the domain."""
    return (
        *(Case(shape, low=low, high=high) for shape in ((), (5,), (0, 4), (3, 71))),
        *(
            Case((11, t), low=low, high=high)
            for t in ("float64", "float16", "bfloat16")
        ),
        EdgeCase((41,), low=1.5 * low, high=1.5 * high),  # partly outside
    )


class SinOp(MathOp, name="sin", onnx=("Sin", 7)):
    """Sine of x in radians."""

    reference = staticmethod(computed_wide(np.sin))


class CosOp(MathOp, name="cos", onnx=("Cos", 7)):
    """Cosine of x in radians."""

    reference = staticmethod(computed_wide(np.cos))


class TanOp(MathOp, name="tan", onnx=("Tan", 7)):
    """Tangent of x in radians."""

    cases = _cases(-1.2, 1.2)
    reference = staticmethod(computed_wide(np.tan))


class AsinOp(MathOp, name="asin", onnx=("Asin", 7)):
    """Inverse sine, in [-pi/2, pi/2]; NaN outside [-1, 1]."""

    cases = _cases(-1.0, 1.0)
    reference = staticmethod(computed_wide(np.arcsin))


class AcosOp(MathOp, name="acos", onnx=("Acos", 7)):
    """Inverse cosine, in [0, pi]; NaN outside [-1, 1]."""

    cases = _cases(-1.0, 1.0)
    reference = staticmethod(computed_wide(np.arccos))


class AtanOp(MathOp, name="atan", onnx=("Atan", 7)):
    """Inverse tangent, in [-pi/2, pi/2]."""

    reference = staticmethod(computed_wide(np.arctan))


class SinhOp(MathOp, name="sinh", onnx=("Sinh", 9)):
    """Hyperbolic sine, (e^x - e^-x) / 2."""

    reference = staticmethod(computed_wide(np.sinh))


class CoshOp(MathOp, name="cosh", onnx=("Cosh", 9)):
    """Hyperbolic cosine, (e^x + e^-x) / 2."""

    reference = staticmethod(computed_wide(np.cosh))


class TanhOp(MathOp, name="tanh", onnx=("Tanh", 6)):
    """Hyperbolic tangent, sinh(x) / cosh(x)."""

    reference = staticmethod(computed_wide(np.tanh))


class AsinhOp(MathOp, name="asinh", onnx=("Asinh", 9)):
    """Inverse hyperbolic sine."""

    reference = staticmethod(computed_wide(np.arcsinh))


class AcoshOp(MathOp, name="acosh", onnx=("Acosh", 9)):
    """Inverse hyperbolic cosine, in [0, inf]; NaN for x < 1."""

    cases = _cases(1.0, 9.0)
    reference = staticmethod(computed_wide(np.arccosh))


class AtanhOp(MathOp, name="atanh", onnx=("Atanh", 9)):
    """Inverse hyperbolic tangent; NaN outside [-1, 1]."""

    cases = _cases(-0.95, 0.95)
    reference = staticmethod(computed_wide(np.arctanh))


class Atan2Op(BinaryOp, name="atan2"):
    """The angle of the point (x2, x1) from the positive first axis, in [-pi, pi].

    Shapes:
        x1, x2: any two shapes that broadcast, same float type. z: their broadcast shape.
    Source: C's atan2.
    """

    cases = tuple(case for case in BinaryOp.cases if "int" not in str(case))
    reference = staticmethod(computed_wide(np.arctan2))

    @staticmethod
    def infer(x1: RankedTensorType, x2: RankedTensorType) -> RankedTensorType:
        return tensors.tensor_type(
            common_shape(x1, x2), require_element_type("f", x1, x2)
        )

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return b.math("atan2", u, v)

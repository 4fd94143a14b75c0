"""Functions of one element at a time."""

from collections.abc import Callable
from typing import Any

import numpy as np
from mlir import ir
from mlir.ir import FloatAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.tir import Buffer, Builder, Scalar

_BOOL = DType("bool", "b", 1)


class UnaryOp(Relax.Operation):
    """Base of y = f(x), element by element, same type."""

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    cases = (Case((5,)), Case((2, 3, 17)), Case((0, 4)), Case((33, 8), low=-20.0, high=20.0))

    @staticmethod
    def scalar(b: Builder, v: Scalar) -> Scalar:
        """The function on one element."""
        raise NotImplementedError

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        return x

    def legalize(self, b: Builder) -> Buffer:
        return b.map(lambda v: self.scalar(b, v), self.x, name=self.OPERATION_NAME.split(".")[1])


def _math(name: str) -> Callable[[Builder, Scalar], Scalar]:
    return staticmethod(lambda b, v: b.math(name, v))


class ExpOp(UnaryOp, name="exp", onnx=("Exp", 6)):
    """e to the power of x."""

    reference = staticmethod(np.exp)
    scalar = _math("exp")


class LogOp(UnaryOp, name="log", onnx=("Log", 6)):
    """Natural logarithm; NaN below zero."""

    cases = (Case((5,), low=0.1), Case((3, 17), low=1e-6, high=1e6))
    reference = staticmethod(np.log)
    scalar = _math("log")


class SqrtOp(UnaryOp, name="sqrt", onnx=("Sqrt", 6)):
    """Square root; NaN below zero."""

    cases = (Case((5,), low=0.0), Case((3, 17), low=0.0, high=100.0))
    reference = staticmethod(np.sqrt)
    scalar = _math("sqrt")


class TanhOp(UnaryOp, name="tanh", onnx=("Tanh", 6)):
    """Hyperbolic tangent."""

    reference = staticmethod(np.tanh)
    scalar = _math("tanh")


class SigmoidOp(UnaryOp, name="sigmoid", onnx=("Sigmoid", 6)):
    """1 / (1 + e^-x)."""

    @staticmethod
    def reference(x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return (1 / (1 + np.exp(-x))).astype(x.dtype)

    @staticmethod
    def scalar(b: Builder, v: Scalar) -> Scalar:
        return 1.0 / (1.0 + b.math("exp", -v))


class ReluOp(UnaryOp, name="relu", onnx=("Relu", 6)):
    """The larger of x and 0; NaN stays NaN."""

    @staticmethod
    def reference(x: np.ndarray) -> np.ndarray:
        return np.maximum(x, x.dtype.type(0))

    @staticmethod
    def scalar(b: Builder, v: Scalar) -> Scalar:
        zero = b.constant(0, v.dtype)
        return b.select(v < zero, zero, v)


class NegativeOp(UnaryOp, name="negative", onnx=("Neg", 6)):
    """Minus x."""

    cases = (*UnaryOp.cases, Case((7, "int32"), low=-9, high=9))
    reference = staticmethod(np.negative)

    @staticmethod
    def scalar(b: Builder, v: Scalar) -> Scalar:
        return -v


class ErfOp(UnaryOp, name="erf", onnx=("Erf", 9)):
    """The error function, 2/sqrt(pi) times the integral of e^-t^2 from 0 to x."""

    @staticmethod
    def reference(x: np.ndarray) -> np.ndarray:
        from math import erf

        flat = np.array([erf(v) for v in x.astype(np.float64).reshape(-1)])
        return flat.reshape(x.shape).astype(x.dtype)

    scalar = _math("erf")


class ClipOp(UnaryOp, name="clip"):
    """x limited to [low, high].

    Attributes:
        low, high: the limits; infinities where there is none.
    """

    low: FloatAttr
    high: FloatAttr

    cases = (Case((5,), low=-3.0, high=3.0),)
    cases = (Case((5, 3)), Case((4, "int32"), low=-9, high=9))

    @staticmethod
    def infer(x: RankedTensorType, low: float = 0.0, high: float = 6.0) -> RankedTensorType:
        return x

    @staticmethod
    def reference(x: np.ndarray, low: float, high: float) -> np.ndarray:
        return np.minimum(np.maximum(x, _limit(low, x.dtype)), _limit(high, x.dtype))

    def legalize(self, b: Builder) -> Buffer:
        attrs = self.python_attrs()

        def limit(v: Scalar) -> Scalar:
            low, high = (_limit(attrs[n], v.dtype.numpy) for n in ("low", "high"))
            low, high = b.constant(low, v.dtype), b.constant(high, v.dtype)
            v = b.select(v < low, low, v)
            return b.select(v > high, high, v)

        return b.map(limit, self.x, name="clip")


def _limit(value: float, dtype: np.dtype) -> Any:  # Any: a numpy scalar of that type
    """``value`` in ``dtype``; an infinity is the largest integer."""
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return dtype.type(min(max(value, info.min), info.max))
    return np.dtype(dtype).type(value)


class BinaryOp(Relax.Operation):
    """Base of z = f(x, y), element by element, broadcast as numpy does.

    Shapes:
        x, y: any two shapes that broadcast, same element type. z: their common shape.
    """

    x: Operand[RankedTensorType]
    y: Operand[RankedTensorType]
    z: Result[RankedTensorType]

    cases = (
        Case((2, 3), (2, 3)),
        Case((2, 3), (3,)),
        Case((2, 1, 3), (5, 1)),
        Case((4,), ()),
        Case((0, 3), (3,)),
        Case((3, 5, "int64"), (5, "int64"), low=1, high=9),
    )

    @staticmethod
    def scalar(b: Builder, u: Scalar, v: Scalar) -> Scalar:
        """The function on one pair of elements."""
        raise NotImplementedError

    @staticmethod
    def infer(x: RankedTensorType, y: RankedTensorType) -> RankedTensorType:
        return tensors.tensor_type(_common_shape(x, y), tensors.dtype_of(x))

    def legalize(self, b: Builder) -> Buffer:
        out = tensors.dtype_of(self.results[0])
        name = self.OPERATION_NAME.split(".")[1]
        return b.map(lambda u, v: self.scalar(b, u, v), self.x, self.y, dtype=out, name=name)


def _common_shape(*types: RankedTensorType) -> tuple[Any, ...]:
    dtypes = [tensors.dtype_of(t) for t in types]
    if len(set(dtypes)) > 1:
        raise ValueError(f"operands must have one element type, got {', '.join(map(str, dtypes))}")
    return shapes.broadcast(*map(tensors.shape_of, types))


class AddOp(BinaryOp, name="add", onnx=("Add", 7)):
    """x + y."""

    reference = staticmethod(np.add)

    @staticmethod
    def scalar(b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u + v


class SubtractOp(BinaryOp, name="subtract", onnx=("Sub", 7)):
    """x - y."""

    reference = staticmethod(np.subtract)

    @staticmethod
    def scalar(b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u - v


class MultiplyOp(BinaryOp, name="multiply", onnx=("Mul", 7)):
    """x * y."""

    reference = staticmethod(np.multiply)

    @staticmethod
    def scalar(b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u * v


class DivideOp(BinaryOp, name="divide", onnx=("Div", 7)):
    """x / y; integers truncate, and x / 0 is 0 there."""

    cases = (*BinaryOp.cases, Case((7, "int32"), (7, "int32"), low=-3, high=3))

    @staticmethod
    def reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if not np.issubdtype(x.dtype, np.integer):
            with np.errstate(divide="ignore", invalid="ignore"):
                return x / y
        safe = np.where(y == 0, 1, y)
        quotient = np.sign(x) * np.sign(safe) * (np.abs(x) // np.abs(safe))
        return np.where(y == 0, 0, quotient).astype(x.dtype)

    @staticmethod
    def scalar(b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u / v


class MaximumOp(BinaryOp, name="maximum"):
    """The larger of x and y; NaN if either is."""

    reference = staticmethod(np.maximum)

    @staticmethod
    def scalar(b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u.maximum(v)


class MinimumOp(BinaryOp, name="minimum"):
    """The smaller of x and y; NaN if either is."""

    reference = staticmethod(np.minimum)

    @staticmethod
    def scalar(b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u.minimum(v)

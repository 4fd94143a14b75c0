"""Arithmetic on one element, or on a pair of them."""

import numpy as np
from mlir import ir
from mlir.ir import BoolAttr, FloatAttr, RankedTensorType

from relax_mlir.dialects.hooks import Case, EdgeCase, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.elementwise import (
    BinaryOp,
    FloatUnaryOp,
    MathOp,
    UnaryOp,
    computed_wide,
    require,
)
from relax_mlir.dialects.tir import Builder, Scalar

_INTEGERS = (
    Case((9, "int8"), low=-128, high=127),
    Case((6, "int64"), low=-9, high=9),
)
_DIVISORS = (  # zeros and both signs on both sides
    Case((61, "int32"), (61, "int32"), low=-3, high=3),
    Case((61, "uint8"), (61, "uint8"), high=7),
)


class AbsOp(UnaryOp, name="abs", onnx=("Abs", 6)):
    """The distance from 0; the lowest signed integer stays as it is."""

    cases = (*UnaryOp.cases, *_INTEGERS, Case((5, "uint16"), high=65535))
    reference = staticmethod(computed_wide(np.abs))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        if v.dtype.is_float:
            return b.math("absf", v)
        return v if v.dtype.kind == "u" else b.math("absi", v)


class NegativeOp(UnaryOp, name="negative", onnx=("Neg", 6)):
    """Minus x."""

    cases = (*UnaryOp.cases, *_INTEGERS)
    reference = staticmethod(computed_wide(np.negative))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return -v


class SignOp(UnaryOp, name="sign", onnx=("Sign", 9)):
    """-1, 0 or 1; NaN stays NaN."""

    cases = (*UnaryOp.cases, *_INTEGERS, Case((5, "uint8"), high=2))
    reference = staticmethod(computed_wide(np.sign))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        one = b.constant(1, v.dtype)
        if v.dtype.kind == "u":
            return b.select(v > 0, one, v)
        return b.select(v > 0, one, b.select(v < 0, -one, v))


class ReciprocalOp(FloatUnaryOp, name="reciprocal", onnx=("Reciprocal", 6)):
    """1 / x."""

    cases = (
        *(case for case in UnaryOp.cases if isinstance(case, EdgeCase)),
        Case(()),
        Case((0, 4)),
        Case((2, 3, 17), low=0.1, high=100.0),
        Case((9, "float64"), low=-2.0, high=-1e-3),
        Case((11, "float16"), low=0.1, high=100.0),
        Case((11, "bfloat16"), low=0.1, high=100.0),
    )
    reference = staticmethod(computed_wide(np.reciprocal))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return 1.0 / v


class CeilOp(MathOp, name="ceil", onnx=("Ceil", 6)):
    """The least integer that is not below x."""

    reference = staticmethod(computed_wide(np.ceil))


class FloorOp(MathOp, name="floor", onnx=("Floor", 6)):
    """The greatest integer that is not above x."""

    reference = staticmethod(computed_wide(np.floor))


class RoundOp(MathOp, name="round", onnx=("Round", 11)):
    """The nearest integer; of two, the even one."""

    reference = staticmethod(computed_wide(np.rint))
    function = "roundeven"


def _limited(*operand: int | str, low: float, high: float) -> Case:
    """A case of clip, whose limits have the names of a case's own range."""
    case = EdgeCase(operand, low=-9, high=9)
    case.attrs = {"low": low, "high": high}
    return case


class ClipOp(UnaryOp, name="clip"):
    """x limited to [low, high], or high where low is above it; NaN stays NaN.

    Attributes:
        low, high: the limits; infinities where there is none.
    """

    low: FloatAttr
    high: FloatAttr

    cases = (
        _limited(low=-1.0, high=2.0),
        _limited(71, low=-1.5, high=2.5),
        _limited(5, 3, low=-np.inf, high=0.1),
        _limited(0, 3, low=0.0, high=6.0),
        _limited(9, low=2.0, high=-2.0),
        _limited(9, "float16", low=0.0, high=6.0),
        _limited(9, "int32", low=-4.0, high=np.inf),
        _limited(9, "uint8", low=-4.0, high=3.0),
    )

    @staticmethod
    def infer(
        x: RankedTensorType, low: float = -np.inf, high: float = np.inf
    ) -> RankedTensorType:
        require("fiu", x)
        return x

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, low: float, high: float) -> np.ndarray:
        least, most = (x.dtype.type(_limit(v, x.dtype)) for v in (low, high))
        return np.minimum(np.maximum(x, least), most)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        limits = (self.low.value, self.high.value)
        low, high = (b.constant(_limit(x, v.dtype.numpy), v.dtype) for x in limits)
        v = b.select(v < low, low, v)
        return b.select(v > high, high, v)


def _limit(value: float, type_: np.dtype) -> float:
    """``value`` in that type; beyond the integers it is the last of them."""
    if not np.issubdtype(type_, np.integer):
        return value
    info = np.iinfo(type_)
    return int(min(max(value, info.min), info.max))


class AddOp(BinaryOp, name="add", onnx=("Add", 7)):
    """x + y; integers wrap around."""

    reference = staticmethod(computed_wide(np.add))

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u + v


class SubtractOp(BinaryOp, name="subtract", onnx=("Sub", 7)):
    """x - y; integers wrap around."""

    reference = staticmethod(computed_wide(np.subtract))

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u - v


class MultiplyOp(BinaryOp, name="multiply", onnx=("Mul", 7)):
    """x * y; integers wrap around."""

    reference = staticmethod(computed_wide(np.multiply))

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u * v


class DivideOp(BinaryOp, name="divide", onnx=("Div", 7)):
    """x / y; integers truncate, and x / 0 is 0 there."""

    cases = (*BinaryOp.cases, *_DIVISORS)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if not np.issubdtype(x.dtype, np.integer):
            return x / y
        quotient = x // y
        inexact = (quotient * y != x) & ((x < 0) != (y < 0))
        return np.where(y == 0, 0, quotient + inexact)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u / v


class ModOp(BinaryOp, name="mod"):
    """The remainder of x / y; 0 for integers over 0.

    Attributes:
        fmod: whether the quotient is truncated, so that the remainder has the sign of x,
            as in C; else it is rounded down, and the remainder has the sign of y.
    Source: ONNX Mod-28.
    """

    fmod: BoolAttr

    cases = (
        *BinaryOp.cases,
        *_DIVISORS,
        Case((61, "int32"), (61, "int32"), low=-3, high=3, fmod=True),
        Case((61, "uint8"), (61, "uint8"), high=7, fmod=True),
        Case((2, 3), (3,), fmod=True),
        Case((9, "float16"), (9, "float16"), fmod=True),
        EdgeCase((83,), (83,), fmod=True),
    )

    @staticmethod
    def infer(
        x: RankedTensorType, y: RankedTensorType, fmod: bool = False
    ) -> RankedTensorType:
        return BinaryOp.infer(x, y)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, y: np.ndarray, fmod: bool) -> np.ndarray:
        return np.fmod(x, y) if fmod else np.mod(x, y)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        rest = u % v
        if self.fmod.value or u.dtype.kind == "u":
            return rest
        differ = (rest < 0) ^ (v < 0)
        return b.select(rest.not_equal(0) & differ, rest + v, rest)

    @staticmethod
    @onnx_rule("Mod", since=10)
    def from_onnx(node: OnnxNode) -> ir.Value:
        fmod = bool(node.attr("fmod", 0))
        return ModOp(node.input(0), node.input(1), fmod=fmod).z


class MaximumOp(BinaryOp, name="maximum"):
    """The larger of x and y; NaN if either is."""

    reference = staticmethod(computed_wide(np.maximum))

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u.maximum(v)


class MinimumOp(BinaryOp, name="minimum"):
    """The smaller of x and y; NaN if either is."""

    reference = staticmethod(computed_wide(np.minimum))

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u.minimum(v)

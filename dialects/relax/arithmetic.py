"""Elementwise arithmetic, rounding and clipping."""

import numpy as np
from mlir.ir import FloatAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, EdgeCase
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    BinaryOp,
    FloatUnaryOp,
    MathOp,
    UnaryOp,
    computed_wide,
    require_element_type,
)
from relax_mlir.dialects.tir import Buffer, Builder, Scalar

_INTEGERS = (
    Case((9, "int8"), low=-128, high=127),
    Case((6, "int64"), low=-9, high=9),
)
_DIVISORS = (  # zeros and both signs on both sides
    Case((61, "int32"), (61, "int32"), low=-3, high=3),
    Case((61, "uint8"), (61, "uint8"), high=7),
)


class AbsOp(UnaryOp, name="abs", onnx=("Abs", 6)):
    """The absolute value; the lowest signed integer is unchanged (wraps)."""

    cases = (*UnaryOp.cases, *_INTEGERS, Case((5, "uint16"), high=65535))
    reference = staticmethod(computed_wide(np.abs))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        if v.dtype.is_float:
            return b.math("absf", v)
        return v if v.dtype.kind == "u" else b.math("absi", v)


class NegativeOp(UnaryOp, name="negative", onnx=("Neg", 6)):
    """-x; integers wrap around."""

    cases = (*UnaryOp.cases, *_INTEGERS)
    reference = staticmethod(computed_wide(np.negative))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return -v


class SignOp(UnaryOp, name="sign", onnx=("Sign", 9)):
    """The sign of x: -1, 0 or 1; NaN for NaN, +0 for zeros of both signs."""

    cases = (*UnaryOp.cases, *_INTEGERS, Case((5, "uint8"), high=2))
    reference = staticmethod(computed_wide(np.sign))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        one = b.constant(1, v.dtype)
        if v.dtype.kind == "u":
            return b.select(v > 0, one, v)
        rest = (
            b.select(v.equal(0), b.constant(0, v.dtype), v) if v.dtype.is_float else v
        )
        return b.select(v > 0, one, b.select(v < 0, -one, rest))


class ReciprocalOp(FloatUnaryOp, name="reciprocal", onnx=("Reciprocal", 6)):
    """The reciprocal, 1 / x."""

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


class RoundingOp(MathOp):
    """Base of the roundings to an integer; the identity on integers."""

    cases = (*MathOp.cases, Case((9, "int8"), low=-128, high=127))

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        return UnaryOp.infer(x)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return super().scalar(b, v) if v.dtype.is_float else v


class CeilOp(RoundingOp, name="ceil", onnx=("Ceil", 6)):
    """x rounded up to an integer."""

    reference = staticmethod(computed_wide(np.ceil))


class FloorOp(RoundingOp, name="floor", onnx=("Floor", 6)):
    """x rounded down to an integer."""

    reference = staticmethod(computed_wide(np.floor))


class RoundOp(RoundingOp, name="round", onnx=("Round", 11)):
    """x rounded to the nearest integer, ties to even."""

    reference = staticmethod(computed_wide(np.rint))
    function = "roundeven"


class TruncOp(RoundingOp, name="trunc"):
    """x rounded towards 0."""

    reference = staticmethod(computed_wide(np.trunc))


class SquareOp(UnaryOp, name="square"):
    """x * x; integers wrap around."""

    cases = (*UnaryOp.cases, *_INTEGERS)
    reference = staticmethod(computed_wide(np.square))

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return v * v


class ClipOp(UnaryOp, name="clip"):
    """x clipped to [min, max]: min(max(x, min), max); NaN stays NaN.

    Attributes:
        min, max: the bounds; infinite for none. For integers they are truncated.
    Source: numpy.clip; ONNX Clip-13.
    """

    argument_attributes = ("min", "max")

    min: FloatAttr
    max: FloatAttr

    cases = (
        EdgeCase((), low=-9, high=9, min=-1.0, max=2.0),
        EdgeCase((71,), low=-9, high=9, min=-1.5, max=2.5),
        EdgeCase((5, 3), low=-9, high=9, min=-np.inf, max=0.1),
        EdgeCase((0, 3), min=0.0, max=6.0),
        EdgeCase((9,), low=-9, high=9, min=2.0, max=-2.0),
        EdgeCase((9, "float16"), low=-9, high=9, min=0.0, max=6.0),
        EdgeCase((9, "int32"), low=-9, high=9, min=-4.0, max=np.inf),
        EdgeCase((9, "int32"), low=-9, high=9, min=1.5, max=3.5),
        EdgeCase((9, "uint8"), low=-9, high=9, min=-4.0, max=3.0),
    )

    @staticmethod
    def infer(x: RankedTensorType, min: float, max: float) -> RankedTensorType:
        require_element_type("fiu", x)
        return x

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, min: float, max: float) -> np.ndarray:
        low, high = (x.dtype.type(_limit(v, x.dtype)) for v in (min, max))
        return np.minimum(np.maximum(x, low), high)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        limits = (self.min.value, self.max.value)
        low, high = (b.constant(_limit(x, v.dtype.numpy), v.dtype) for x in limits)
        v = b.select(v < low, low, v)
        return b.select(v > high, high, v)


def _limit(value: float, type_: np.dtype) -> float:
    """``value`` truncated and saturated to an integer type; unchanged for floats."""
    if not np.issubdtype(type_, np.integer):
        return value
    info = np.iinfo(type_)
    return int(min(max(value, info.min), info.max))


class AddOp(BinaryOp, name="add", onnx=("Add", 7)):
    """x1 + x2; integers wrap around."""

    reference = staticmethod(computed_wide(np.add))

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u + v


class SubtractOp(BinaryOp, name="subtract", onnx=("Sub", 7)):
    """x1 - x2; integers wrap around."""

    reference = staticmethod(computed_wide(np.subtract))

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u - v


class MultiplyOp(BinaryOp, name="multiply", onnx=("Mul", 7)):
    """x1 * x2; integers wrap around."""

    reference = staticmethod(computed_wide(np.multiply))

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u * v


class DivideOp(BinaryOp, name="divide", onnx=("Div", 7)):
    """x1 / x2; integer division truncates, with x1 / 0 = 0."""

    cases = (*BinaryOp.cases, *_DIVISORS)

    @staticmethod
    @computed_wide
    def reference(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
        if not np.issubdtype(x1.dtype, np.integer):
            return x1 / x2
        quotient = x1 // x2
        inexact = (quotient * x2 != x1) & ((x1 < 0) != (x2 < 0))
        return np.where(x2 == 0, 0, quotient + inexact)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u / v


class FloorDivideOp(BinaryOp, name="floor_divide"):
    """x1 / x2 rounded down; for integers x1 / 0 = 0."""

    cases = (*BinaryOp.cases, *_DIVISORS)

    @staticmethod
    @computed_wide
    def reference(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
        if not np.issubdtype(x1.dtype, np.integer):
            return np.floor(x1 / x2)
        return np.where(x2 == 0, 0, x1 // x2)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        quotient = u / v
        if u.dtype.is_float:
            return b.math("floor", quotient)
        if u.dtype.kind == "u":
            return quotient
        is_above = (u % v).not_equal(0) & ((u < 0) ^ (v < 0))
        return b.select(is_above, quotient - 1, quotient)


class ModOp(BinaryOp, name="mod"):
    """The remainder of x1 / x2 with the sign of x1, as C's fmod; 0 for integers mod 0."""

    cases = (*BinaryOp.cases, *_DIVISORS)
    reference = staticmethod(computed_wide(np.fmod))

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u % v


class FloorModOp(BinaryOp, name="floor_mod"):
    """x1 - floor(x1 / x2) * x2, with the sign of x2; 0 for integers mod 0."""

    cases = (*BinaryOp.cases, *_DIVISORS)
    reference = staticmethod(computed_wide(np.mod))

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        rest = u % v
        if u.dtype.kind == "u":
            return rest
        differ = (rest < 0) ^ (v < 0)
        near = b.select(rest.not_equal(0) & differ, rest + v, rest)
        if not u.dtype.is_float:
            return near
        zeros = (b.constant(zero, u.dtype) for zero in (-0.0, 0.0))
        return b.select(rest.equal(0), b.select(v < 0, *zeros), near)


class MaximumOp(BinaryOp, name="maximum"):
    """The larger of x1 and x2; NaN if either is NaN."""

    reference = staticmethod(computed_wide(np.maximum))

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u.maximum(v)


class MinimumOp(BinaryOp, name="minimum"):
    """The smaller of x1 and x2; NaN if either is NaN."""

    reference = staticmethod(computed_wide(np.minimum))

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u.minimum(v)


class EwiseFmaOp(Relax.Operation, name="ewise_fma"):
    """Multiply-add: x1 * x2 + x3, elementwise; integers wrap around.

    Shapes:
        x1, x2, x3, y: one shape, same element type, numbers.
    """

    x1: Operand[RankedTensorType]
    x2: Operand[RankedTensorType]
    x3: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    cases = tuple(
        Case(shape, shape, shape)
        for shape in ((), (3, 71), (0, 4), (9, "float16"), (9, "float64"), (9, "int32"))
    )

    @staticmethod
    def infer(
        x1: RankedTensorType, x2: RankedTensorType, x3: RankedTensorType
    ) -> RankedTensorType:
        ranks = {operand.rank for operand in (x1, x2, x3)}
        if len(ranks) > 1:
            raise ValueError(f"operands must have one rank, got {sorted(ranks)}")
        sizes = zip(*map(tensors.shape_of, (x1, x2, x3)), strict=True)
        shape = [shapes.unify(shapes.unify(a, b), c) for a, b, c in sizes]
        return tensors.tensor_type(shape, require_element_type("fiu", x1, x2, x3))

    @staticmethod
    @computed_wide
    def reference(x1: np.ndarray, x2: np.ndarray, x3: np.ndarray) -> np.ndarray:
        return x1 * x2 + x3

    def legalize(self, b: Builder) -> Buffer:
        out = b.results[0][1]

        def element(u: Scalar, v: Scalar, w: Scalar) -> Scalar:
            return b.cast(b.widen(u) * b.widen(v) + b.widen(w), out)

        return b.map(element, *b.inputs, dtype=out, name="ewise_fma")

"""Exponentials, logarithms, powers, roots and the error function."""

from math import erf

import numpy as np
from mlir.ir import RankedTensorType

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.op_interface import Case, EdgeCase
from relax_mlir.dialects.relax.elementwise import (
    BinaryOp,
    FloatUnaryOp,
    MathOp,
    common_shape,
    computed_wide,
    require_element_type,
)
from relax_mlir.dialects.tir import Builder, Scalar

_F64 = dtype("float64")

_POSITIVE = (
    Case((), low=0.1),
    Case((5,), low=0.1),
    Case((0, 4)),
    Case((3, 71), low=1e-6, high=1e6),
    Case((9, "float64"), low=0.1),
    Case((11, "float16"), low=0.1, high=100.0),
    Case((11, "bfloat16"), low=0.1, high=100.0),
    EdgeCase((41,), low=-2.0, high=9.0),
)


class ExpOp(MathOp, name="exp", onnx=("Exp", 6)):
    """The exponential function, e^x."""

    cases = (*MathOp.cases, EdgeCase((41,), low=-200.0, high=80.0))
    reference = staticmethod(computed_wide(np.exp))


class LogOp(MathOp, name="log", onnx=("Log", 6)):
    """Natural logarithm; -inf for 0, NaN for x < 0."""

    cases = _POSITIVE
    reference = staticmethod(computed_wide(np.log))


class SqrtOp(MathOp, name="sqrt", onnx=("Sqrt", 6)):
    """Square root; NaN for x < 0."""

    cases = _POSITIVE
    reference = staticmethod(computed_wide(np.sqrt))


class RsqrtOp(FloatUnaryOp, name="rsqrt"):
    """Reciprocal square root, 1 / sqrt(x); inf for 0, NaN for x < 0."""

    cases = tuple(case for case in _POSITIVE if case.high < 1e6)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray) -> np.ndarray:
        return 1 / np.sqrt(x)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return 1.0 / b.math("sqrt", v)


class ErfOp(MathOp, name="erf", onnx=("Erf", 9)):
    """The error function, 2/sqrt(pi) times the integral of e^-t^2 from 0 to x."""

    @classmethod
    def program_name(cls) -> str:
        return "erf"

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray) -> np.ndarray:
        flat = [erf(v) for v in x.astype(np.float64).reshape(-1)]
        return np.array(flat, x.dtype).reshape(x.shape)


class LogAddExpOp(BinaryOp, name="log_add_exp"):
    """log(e^x1 + e^x2), computed without overflow.

    Shapes:
        x1, x2: any two shapes that broadcast, same float type. z: their broadcast shape.
    Source: numpy.logaddexp.
    """

    cases = (
        *(case for case in BinaryOp.cases if "int" not in str(case)),
        Case((41,), (41,), low=-200.0, high=200.0),
    )
    reference = staticmethod(computed_wide(np.logaddexp))

    @staticmethod
    def infer(x1: RankedTensorType, x2: RankedTensorType) -> RankedTensorType:
        return tensors.tensor_type(
            common_shape(x1, x2), require_element_type("f", x1, x2)
        )

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        """max(u, v) + log1p(exp(-|u - v|)); the difference of equal infinities is set to 0."""
        zero = b.constant(0, u.dtype)
        distance = b.select(u.equal(v), zero, b.math("absf", u - v))
        return u.maximum(v) + log1p(b, b.math("exp", -distance))


def log1p(b: Builder, v: Scalar) -> Scalar:
    """log(1 + v) for 0 <= v <= 1, with a first-order correction for the rounding of 1 + v."""
    total = v + 1.0
    return b.math("log", total) - ((total - 1.0) - v) / total


class PowerOp(BinaryOp, name="power"):
    """x1 to the power of x2; the element types may differ.

    A negative x1 is allowed where x2 is integral, and gives NaN elsewhere. Integer powers of
    integers are exact modulo 2^bits; negative exponents truncate, to 0 unless x1 is 1 or -1.

    Shapes:
        x1, x2: any two shapes that broadcast. z: their broadcast shape, the type of x1.
    Source: ONNX Pow-15.
    """

    cases = (
        Case((2, 3), (2, 3), low=0.1, high=3.0),
        Case((2, 1, 3), (5, 1), low=0.1, high=3.0),
        Case((0, 3), ()),
        Case((9, "float16"), (9, "float16"), low=0.1, high=3.0),
        Case((9, "float64"), (9, "float64"), low=0.1, high=3.0),
        EdgeCase((83,), (83,)),
        Case((33,), (33, "int64"), low=-3, high=3),
        Case((33,), (33, "int8"), low=-3, high=3),
        Case((9, "float64"), (9, "uint8"), low=-3, high=5),
        Case((33, "int32"), (33,), low=1, high=4),
        Case((33, "int64"), (33, "int64"), low=-3, high=7),
        Case((33, "int32"), (33, "int8"), low=-3, high=7),
        Case((33, "uint8"), (33, "uint64"), high=255),
    )

    @staticmethod
    def infer(x1: RankedTensorType, x2: RankedTensorType) -> RankedTensorType:
        require_element_type("fiu", x2)
        return tensors.tensor_type(
            common_shape(x1, x2), require_element_type("fiu", x1)
        )

    @staticmethod
    @computed_wide
    def reference(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
        if not np.issubdtype(x1.dtype, np.integer):
            return np.power(x1, x2)
        if not np.issubdtype(x2.dtype, np.integer):
            return np.power(x1.astype(np.float64), x2)
        return _power_of_integers(x1, x2)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        if u.dtype.is_integer and v.dtype.is_integer:
            return _emit_integer_power(b, u, v)
        is_wide = u.dtype.is_integer or v.dtype == _F64
        type_ = _F64 if is_wide else u.dtype
        return b.math("powf", b.cast(u, type_), b.cast(v, type_))


def _power_of_integers(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Integer power by repeated squaring, in the type of x (numpy reference)."""
    x, y = np.broadcast_arrays(x, y)
    result, square = np.ones_like(x), x.copy()
    for bit in range(np.iinfo(y.dtype).bits - (y.dtype.kind == "i")):
        result = np.where((y >> y.dtype.type(bit)) & 1, result * square, result)
        square = square * square
    odd = np.where(x == 1, 1, np.where(y & 1, -1, 1))
    inverse = np.where(np.abs(x) == 1, odd, 0).astype(x.dtype)
    return np.where(y < 0, inverse, result)


def _emit_integer_power(b: Builder, u: Scalar, v: Scalar) -> Scalar:
    """Integer power by repeated squaring, one step per bit of the exponent.

    Source: Knuth, The Art of Computer Programming, volume 2, section 4.6.3.
    """
    result, square = b.constant(1, u.dtype), u
    for bit in range(v.dtype.bits - (v.dtype.kind == "i")):
        if bit:
            square = square * square
        is_set = ((v >> bit) & 1).not_equal(0)
        result = b.select(is_set, result * square, result)
    if v.dtype.kind == "u":
        return result
    zero, one = b.constant(0, u.dtype), b.constant(1, u.dtype)
    inverse = b.select(u.equal(1), one, zero)
    if u.dtype.kind == "i":
        is_odd = (v & 1).not_equal(0)
        inverse = b.select(u.equal(-1), b.select(is_odd, -one, one), inverse)
    return b.select(v < 0, inverse, result)

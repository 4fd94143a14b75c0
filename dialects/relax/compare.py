"""Comparisons, tests of floats, and where."""

import numpy as np
from mlir.ir import RankedTensorType

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, EdgeCase
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    BinaryOp,
    UnaryOp,
    common_shape,
    require_element_type,
)
from relax_mlir.dialects.tir import Buffer, Builder, Scalar

_BOOL = dtype("bool")

_CASES = (
    Case((), ()),
    Case((2, 1, 3), (5, 1)),
    Case((0, 3), (3,)),
    Case((3, 71), (1,)),
    Case((9, "float16"), (9, "float16")),
    Case((9, "bfloat16"), (9, "bfloat16")),
    Case((9, "float64"), (9, "float64")),
    Case((75, "int32"), (75, "int32"), low=-3, high=3),
    Case((75, "int64"), (5, 1, "int64"), low=-3, high=3),
    Case((75, "uint8"), (75, "uint8"), high=255),
    EdgeCase((83,), (83,)),
)


class CompareOp(BinaryOp):
    """Base of the elementwise comparisons; with NaN all are false but ``not_equal``.

    Shapes:
        x1, x2: any two shapes that broadcast, same element type, numbers.
        z: their broadcast shape, bool.
    """

    cases = _CASES

    @staticmethod
    def infer(x1: RankedTensorType, x2: RankedTensorType) -> RankedTensorType:
        require_element_type("fiu", x1, x2)
        return tensors.tensor_type(common_shape(x1, x2), _BOOL)


class EqualityOp(CompareOp):
    """Base of the comparisons that also accept bool operands."""

    cases = (*_CASES, Case((3, 71, "bool"), (71, "bool")))

    @staticmethod
    def infer(x1: RankedTensorType, x2: RankedTensorType) -> RankedTensorType:
        require_element_type("fiub", x1, x2)
        return tensors.tensor_type(common_shape(x1, x2), _BOOL)


class EqualOp(EqualityOp, name="equal", onnx=("Equal", 7)):
    """x1 == x2; zeros of both signs are equal, NaN is not equal to anything."""

    reference = staticmethod(np.equal)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u.equal(v)


class NotEqualOp(EqualityOp, name="not_equal"):
    """x1 != x2; true if either is NaN."""

    reference = staticmethod(np.not_equal)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u.not_equal(v)


class LessOp(CompareOp, name="less", onnx=("Less", 7)):
    """x1 < x2."""

    reference = staticmethod(np.less)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u < v


class LessEqualOp(CompareOp, name="less_equal", onnx=("LessOrEqual", 12)):
    """x1 <= x2."""

    reference = staticmethod(np.less_equal)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u <= v


class GreaterOp(CompareOp, name="greater", onnx=("Greater", 7)):
    """x1 > x2."""

    reference = staticmethod(np.greater)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u > v


class GreaterEqualOp(CompareOp, name="greater_equal", onnx=("GreaterOrEqual", 12)):
    """x1 >= x2."""

    reference = staticmethod(np.greater_equal)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u >= v


class FloatTestOp(UnaryOp):
    """Base of the elementwise tests of floats; integers are finite.

    Shapes:
        x: any shape, numbers. y: the same shape, bool.
    """

    cases = (
        EdgeCase(()),
        EdgeCase((0, 4)),
        EdgeCase((3, 71)),
        *(EdgeCase((41, t)) for t in ("float64", "float16", "bfloat16", "int32")),
    )

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        require_element_type("fiu", x)
        return tensors.tensor_type(tensors.shape_of(x), _BOOL)


class IsnanOp(FloatTestOp, name="isnan", onnx=("IsNaN", 9)):
    """Whether x is NaN."""

    reference = staticmethod(np.isnan)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return v.not_equal(v)


class IsinfOp(FloatTestOp, name="isinf"):
    """Whether x is inf or -inf."""

    reference = staticmethod(np.isinf)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        if v.dtype.is_integer:
            return b.constant(0, _BOOL)
        return v.equal(-np.inf) | v.equal(np.inf)


class IsfiniteOp(FloatTestOp, name="isfinite"):
    """Whether x is neither infinite nor NaN."""

    reference = staticmethod(np.isfinite)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        if v.dtype.is_integer:
            return b.constant(1, _BOOL)
        return b.math("absf", v) < np.inf


class WhereOp(Relax.Operation, name="where", onnx=("Where", 9)):
    """x1 where the condition holds, else x2, elementwise.

    Shapes:
        condition: bool. x1, x2: one element type. The three shapes broadcast.
        z: their broadcast shape, the element type of x1.
    Source: numpy.where; ONNX Where-16.
    """

    condition: Operand[RankedTensorType]
    x1: Operand[RankedTensorType]
    x2: Operand[RankedTensorType]
    z: Result[RankedTensorType]

    cases = (
        Case(("bool",), (), ()),
        Case((2, 3, "bool"), (2, 3), (2, 3)),
        Case((5, 1, "bool"), (71,), ()),
        Case((3, "bool"), (2, 1, 3), (5, 1)),
        Case((0, 3, "bool"), (3,), (1,)),
        Case((9, "bool"), (9, "int64"), (9, "int64"), low=-9, high=9),
        Case((9, "bool"), (9, "uint8"), (9, "uint8"), high=255),
        Case((9, "bool"), (9, "float16"), (9, "float16")),
        Case((9, "bool"), (9, "bool"), (9, "bool")),
        EdgeCase((83, "bool"), (83,), (83,)),
    )

    @staticmethod
    def infer(
        condition: RankedTensorType, x1: RankedTensorType, x2: RankedTensorType
    ) -> RankedTensorType:
        require_element_type("b", condition)
        type_ = require_element_type("fiub", x1, x2)
        return tensors.tensor_type(common_shape(condition, x1, x2), type_)

    reference = staticmethod(np.where)

    def legalize(self, b: Builder) -> Buffer:
        out = tensors.dtype_of(self.z)
        return b.map(b.select, *b.inputs, dtype=out, name="where")

"""Comparisons, tests, and the choice by their outcome."""

import numpy as np
from mlir import ir
from mlir.ir import BoolAttr, RankedTensorType

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, EdgeCase, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    BinaryOp,
    UnaryOp,
    common_shape,
    require,
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
    """Base of the comparisons; a comparison with NaN is false, but for *not equal*.

    Shapes:
        x, y: any two shapes that broadcast, same element type, a number.
        z: their common shape, bool.
    """

    cases = _CASES

    @staticmethod
    def infer(x: RankedTensorType, y: RankedTensorType) -> RankedTensorType:
        require("fiu", x, y)
        return tensors.tensor_type(common_shape(x, y), _BOOL)


class EqualityOp(CompareOp):
    """Base of the comparisons that truth values have too."""

    cases = (*_CASES, Case((3, 71, "bool"), (71, "bool")))

    @staticmethod
    def infer(x: RankedTensorType, y: RankedTensorType) -> RankedTensorType:
        require("fiub", x, y)
        return tensors.tensor_type(common_shape(x, y), _BOOL)


class EqualOp(EqualityOp, name="equal", onnx=("Equal", 7)):
    """Whether x is y; zeros of both signs are equal, NaN equals nothing."""

    reference = staticmethod(np.equal)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u.equal(v)


class NotEqualOp(EqualityOp, name="not_equal"):
    """Whether x is not y; NaN differs from everything."""

    reference = staticmethod(np.not_equal)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u.not_equal(v)


class LessOp(CompareOp, name="less", onnx=("Less", 7)):
    """Whether x is below y."""

    reference = staticmethod(np.less)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u < v


class LessEqualOp(CompareOp, name="less_equal", onnx=("LessOrEqual", 12)):
    """Whether x is y or below."""

    reference = staticmethod(np.less_equal)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u <= v


class GreaterOp(CompareOp, name="greater", onnx=("Greater", 7)):
    """Whether x is above y."""

    reference = staticmethod(np.greater)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u > v


class GreaterEqualOp(CompareOp, name="greater_equal", onnx=("GreaterOrEqual", 12)):
    """Whether x is y or above."""

    reference = staticmethod(np.greater_equal)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u >= v


class FloatTestOp(UnaryOp):
    """Base of the tests of floats.

    Shapes:
        x: any shape, a float element type. y: the same shape, bool.
    """

    cases = (
        EdgeCase(()),
        EdgeCase((0, 4)),
        EdgeCase((3, 71)),
        *(EdgeCase((41, t)) for t in ("float64", "float16", "bfloat16")),
    )

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        require("f", x)
        return tensors.tensor_type(tensors.shape_of(x), _BOOL)


class IsNanOp(FloatTestOp, name="is_nan", onnx=("IsNaN", 9)):
    """Whether x is not a number."""

    reference = staticmethod(np.isnan)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return v.not_equal(v)


class IsInfOp(FloatTestOp, name="is_inf"):
    """Whether x is infinite.

    Attributes:
        detect_negative, detect_positive: which infinities count.
    """

    detect_negative: BoolAttr
    detect_positive: BoolAttr

    cases = (
        *FloatTestOp.cases,
        EdgeCase((41,), detect_negative=False),
        EdgeCase((41,), detect_positive=False),
        EdgeCase((41,), detect_negative=False, detect_positive=False),
    )

    @staticmethod
    def infer(
        x: RankedTensorType, detect_negative: bool = True, detect_positive: bool = True
    ) -> RankedTensorType:
        return FloatTestOp.infer(x)

    @staticmethod
    def reference(
        x: np.ndarray, detect_negative: bool, detect_positive: bool
    ) -> np.ndarray:
        is_counted = np.where(np.signbit(x), detect_negative, detect_positive)
        return np.isinf(x) & is_counted

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        found = b.constant(0, _BOOL)
        if self.detect_negative.value:
            found = found | v.equal(-np.inf)
        if self.detect_positive.value:
            found = found | v.equal(np.inf)
        return found

    @staticmethod
    @onnx_rule("IsInf", since=10)
    def from_onnx(node: OnnxNode) -> ir.Value:
        signs = ("detect_negative", "detect_positive")
        return IsInfOp(node.input(0), **{s: bool(node.attr(s, 1)) for s in signs}).y


class WhereOp(Relax.Operation, name="where", onnx=("Where", 9)):
    """x where the condition holds, else y.

    Shapes:
        condition: bool. x, y: any element type, the same. The three broadcast.
        z: their common shape, the element type of x.
    """

    condition: Operand[RankedTensorType]
    x: Operand[RankedTensorType]
    y: Operand[RankedTensorType]
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
        condition: RankedTensorType, x: RankedTensorType, y: RankedTensorType
    ) -> RankedTensorType:
        require("b", condition)
        return tensors.tensor_type(common_shape(condition, x, y), require("fiub", x, y))

    reference = staticmethod(np.where)

    def legalize(self, b: Builder) -> Buffer:
        out = tensors.dtype_of(self.z)
        return b.map(b.select, *b.inputs, dtype=out, name="where")

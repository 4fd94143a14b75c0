"""Operations on the bits of integers, and on truth values."""

import numpy as np
from mlir.ir import RankedTensorType

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.relax.elementwise import (
    BinaryOp,
    UnaryOp,
    common_shape,
    computed_wide,
    require,
)
from relax_mlir.dialects.tir import Builder, Scalar


class BitwiseOp(BinaryOp):
    """Base of the functions of the bits of two integers, or of two truth values.

    Shapes:
        x1, x2: any two shapes that broadcast, same element type, integers or bool.
        z: their common shape and type.
    """

    cases = (
        Case(("int32",), ("int32",), low=-9, high=9),
        Case((5, 1, "int64"), (3, "int64"), low=-9, high=9),
        Case((0, 3, "int32"), (3, "int32")),
        Case((75, "int8"), (75, "int8"), low=-128, high=127),
        Case((75, "int4"), (75, "int4"), low=-8, high=7),
        Case((75, "uint4"), (75, "uint4"), high=15),
        Case((75, "uint16"), (75, "uint16"), high=65535),
        Case((9, "uint64"), (9, "uint64"), high=2**62),
        Case((3, 71, "bool"), (71, "bool")),
    )

    @staticmethod
    def infer(x1: RankedTensorType, x2: RankedTensorType) -> RankedTensorType:
        return tensors.tensor_type(common_shape(x1, x2), require("iub", x1, x2))


class BitwiseAndOp(BitwiseOp, name="bitwise_and", onnx=("BitwiseAnd", 18)):
    """The bits that are set in both x1 and x2."""

    reference = staticmethod(computed_wide(np.bitwise_and))

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u & v


class BitwiseOrOp(BitwiseOp, name="bitwise_or", onnx=("BitwiseOr", 18)):
    """The bits that are set in x1 or x2."""

    reference = staticmethod(computed_wide(np.bitwise_or))

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u | v


class BitwiseXorOp(BitwiseOp, name="bitwise_xor", onnx=("BitwiseXor", 18)):
    """The bits that are set in one of x1 and x2."""

    reference = staticmethod(computed_wide(np.bitwise_xor))

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u ^ v


class ShiftOp(BinaryOp):
    """Base of the shifts: the bits of x1 moved by x2 places.

    Shapes:
        x1, x2: any two shapes that broadcast, same integer element type. z: their common
        shape and type.
    Source: ONNX BitShift-28.
    """

    cases = (
        Case(("uint32",), ("uint32",), low=0, high=9),
        Case((5, 1, "uint8"), (3, "uint8"), low=0, high=9),
        Case((75, "uint64"), (75, "uint64"), low=0, high=9),
        Case((75, "int8"), (75, "int8"), low=-9, high=9),
        Case((75, "int4"), (75, "int4"), low=-8, high=7),
        Case((75, "uint4"), (75, "uint4"), low=0, high=9),
        Case((75, "int32"), (75, "int32"), low=-9, high=9),
    )

    @staticmethod
    def infer(x1: RankedTensorType, x2: RankedTensorType) -> RankedTensorType:
        return tensors.tensor_type(common_shape(x1, x2), require("iu", x1, x2))


def _distance(
    x1: np.ndarray, x2: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the bits stay within the width; they, and how far they move there.

    Integers of less than a byte are widened to one, for numpy cannot shift them.
    """
    type_ = dtypes.from_numpy(x1.dtype)
    wide = f"{type_.name.rstrip('0123456789')}{max(type_.bits, 8)}"
    x1, x2 = x1.astype(wide), x2.astype(wide)
    is_short = (x2 >= 0) & (x2 < type_.bits)
    return is_short, x1, np.where(is_short, x2, 0).astype(wide)


class LeftShiftOp(ShiftOp, name="left_shift"):
    """x1 times 2 to the power of x2; a negative distance, or a wide one, leaves 0."""

    @staticmethod
    def reference(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
        is_short, wide, distance = _distance(x1, x2)
        return np.where(is_short, wide << distance, 0).astype(x1.dtype)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u << v


class RightShiftOp(ShiftOp, name="right_shift"):
    """x1 by 2 to the power of x2, rounded down.

    A negative distance, or one of the width and more, leaves copies of the sign.
    """

    @staticmethod
    def reference(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
        is_short, wide, distance = _distance(x1, x2)
        beyond = np.where(wide < 0, -1, 0)
        return np.where(is_short, wide >> distance, beyond).astype(x1.dtype)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u >> v


class BitwiseNotOp(UnaryOp, name="bitwise_not", onnx=("BitwiseNot", 18)):
    """Every bit of an integer turned around, or a truth value."""

    cases = (
        Case(("int32",)),
        Case((0, 4, "int32")),
        Case((75, "int8"), low=-128, high=127),
        Case((75, "int4"), low=-8, high=7),
        Case((75, "uint4"), high=15),
        Case((9, "int64"), low=-9, high=9),
        Case((9, "uint16"), high=65535),
        Case((9, "bool")),
    )
    reference = staticmethod(computed_wide(np.bitwise_not))

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        require("iub", x)
        return x

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return ~v


class LogicalOp(BinaryOp):
    """Base of the functions of two truth values.

    Shapes:
        x1, x2: any two shapes that broadcast, bool. z: their common shape, bool.
    """

    cases = (
        Case(("bool",), ("bool",)),
        Case((2, 3, "bool"), (2, 3, "bool")),
        Case((2, 1, 3, "bool"), (5, 1, "bool")),
        Case((0, 3, "bool"), (3, "bool")),
        Case((3, 71, "bool"), (71, "bool")),
    )

    @staticmethod
    def infer(x1: RankedTensorType, x2: RankedTensorType) -> RankedTensorType:
        return tensors.tensor_type(common_shape(x1, x2), require("b", x1, x2))


class LogicalAndOp(LogicalOp, name="logical_and", onnx=("And", 7)):
    """Whether both x1 and x2 are true."""

    reference = staticmethod(np.logical_and)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u & v


class LogicalOrOp(LogicalOp, name="logical_or", onnx=("Or", 7)):
    """Whether x1 or x2 is true."""

    reference = staticmethod(np.logical_or)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u | v


class LogicalXorOp(LogicalOp, name="logical_xor", onnx=("Xor", 7)):
    """Whether one of x1 and x2 is true."""

    reference = staticmethod(np.logical_xor)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u ^ v


class LogicalNotOp(UnaryOp, name="logical_not", onnx=("Not", 1)):
    """Whether x is false."""

    cases = (Case(("bool",)), Case((0, 3, "bool")), Case((3, 71, "bool")))
    reference = staticmethod(np.logical_not)

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        require("b", x)
        return x

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return ~v

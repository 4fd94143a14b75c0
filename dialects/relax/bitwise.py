"""Bitwise, shift and logical operators."""

import numpy as np
from mlir.ir import RankedTensorType

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.elementwise import (
    BinaryOp,
    UnaryOp,
    common_shape,
    computed_wide,
    require_element_type,
)
from relax_mlir.dialects.tir import Builder, Scalar


class BitwiseOp(BinaryOp):
    """Base of the elementwise bitwise functions of two integers or booleans.

    Shapes:
        x1, x2: any two shapes that broadcast, same element type, integers or bool.
        z: their broadcast shape, same type.
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
        return tensors.tensor_type(
            common_shape(x1, x2), require_element_type("iub", x1, x2)
        )


class BitwiseAndOp(BitwiseOp, name="bitwise_and", onnx=("BitwiseAnd", 18)):
    """Bitwise AND."""

    reference = staticmethod(computed_wide(np.bitwise_and))

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u & v


class BitwiseOrOp(BitwiseOp, name="bitwise_or", onnx=("BitwiseOr", 18)):
    """Bitwise OR."""

    reference = staticmethod(computed_wide(np.bitwise_or))

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u | v


class BitwiseXorOp(BitwiseOp, name="bitwise_xor", onnx=("BitwiseXor", 18)):
    """Bitwise exclusive OR."""

    reference = staticmethod(computed_wide(np.bitwise_xor))

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u ^ v


class ShiftOp(BinaryOp):
    """Base of the shifts of x1 by x2 bits.

    Shapes:
        x1, x2: any two shapes that broadcast, same integer element type. z: their
        broadcast shape, same type.
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
        return tensors.tensor_type(
            common_shape(x1, x2), require_element_type("iu", x1, x2)
        )


def _shift_operands(
    x1: np.ndarray, x2: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether each amount is in range, the widened values, and the amounts (0 if not).

    Integers below 8 bits are widened to 8, since numpy cannot shift them.
    """
    type_ = dtypes.from_numpy(x1.dtype)
    wide = f"{type_.name.rstrip('0123456789')}{max(type_.bits, 8)}"
    x1, x2 = x1.astype(wide), x2.astype(wide)
    is_in_range = (x2 >= 0) & (x2 < type_.bits)
    return is_in_range, x1, np.where(is_in_range, x2, 0).astype(wide)


class LeftShiftOp(ShiftOp, name="left_shift"):
    """x1 << x2; 0 if x2 is negative or at least the bit width."""

    @staticmethod
    def reference(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
        is_in_range, wide, amount = _shift_operands(x1, x2)
        return np.where(is_in_range, wide << amount, 0).astype(x1.dtype)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u << v


class RightShiftOp(ShiftOp, name="right_shift"):
    """x1 >> x2, arithmetic for signed and logical for unsigned integers.

    If x2 is negative or at least the bit width, all bits are the sign (0 for unsigned).
    """

    @staticmethod
    def reference(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
        is_in_range, wide, amount = _shift_operands(x1, x2)
        sign = np.where(wide < 0, -1, 0)
        return np.where(is_in_range, wide >> amount, sign).astype(x1.dtype)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u >> v


class BitwiseNotOp(UnaryOp, name="bitwise_not", onnx=("BitwiseNot", 18)):
    """Bitwise complement of integers; negation of booleans."""

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
        require_element_type("iub", x)
        return x

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return ~v


class LogicalOp(BinaryOp):
    """Base of the elementwise functions of two booleans.

    Shapes:
        x1, x2: any two shapes that broadcast, bool. z: their broadcast shape, bool.
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
        return tensors.tensor_type(
            common_shape(x1, x2), require_element_type("b", x1, x2)
        )


class LogicalAndOp(LogicalOp, name="logical_and", onnx=("And", 7)):
    """Logical AND."""

    reference = staticmethod(np.logical_and)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u & v


class LogicalOrOp(LogicalOp, name="logical_or", onnx=("Or", 7)):
    """Logical OR."""

    reference = staticmethod(np.logical_or)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u | v


class LogicalXorOp(LogicalOp, name="logical_xor", onnx=("Xor", 7)):
    """Logical exclusive OR."""

    reference = staticmethod(np.logical_xor)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u ^ v


class LogicalNotOp(UnaryOp, name="logical_not", onnx=("Not", 1)):
    """Logical negation.

    Shapes:
        x, y: any shape, bool.
    """

    cases = (Case(("bool",)), Case((0, 3, "bool")), Case((3, 71, "bool")))
    reference = staticmethod(np.logical_not)

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        require_element_type("b", x)
        return x

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return ~v

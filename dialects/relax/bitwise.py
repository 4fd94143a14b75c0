"""Operations on the bits of integers, and on truth values."""

from typing import Literal

import numpy as np
from mlir import ir
from mlir.ir import RankedTensorType, StringAttr

from relax_mlir.dialects import tensors
from relax_mlir.dialects.hooks import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.elementwise import (
    BinaryOp,
    UnaryOp,
    common_shape,
    require,
)
from relax_mlir.dialects.tir import Builder, Scalar


class BitwiseOp(BinaryOp):
    """Base of the functions of the bits of two integers.

    Shapes:
        x, y: any two shapes that broadcast, same integer element type. z: their common
        shape and type.
    """

    cases = (
        Case(("int32",), ("int32",), low=-9, high=9),
        Case((5, 1, "int64"), (3, "int64"), low=-9, high=9),
        Case((0, 3, "int32"), (3, "int32")),
        Case((75, "int8"), (75, "int8"), low=-128, high=127),
        Case((75, "uint16"), (75, "uint16"), high=65535),
        Case((9, "uint64"), (9, "uint64"), high=2**62),
    )

    @staticmethod
    def infer(x: RankedTensorType, y: RankedTensorType) -> RankedTensorType:
        return tensors.tensor_type(common_shape(x, y), require("iu", x, y))


class BitwiseAndOp(BitwiseOp, name="bitwise_and", onnx=("BitwiseAnd", 18)):
    """The bits that are set in both x and y."""

    reference = staticmethod(np.bitwise_and)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u & v


class BitwiseOrOp(BitwiseOp, name="bitwise_or", onnx=("BitwiseOr", 18)):
    """The bits that are set in x or y."""

    reference = staticmethod(np.bitwise_or)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u | v


class BitwiseXorOp(BitwiseOp, name="bitwise_xor", onnx=("BitwiseXor", 18)):
    """The bits that are set in one of x and y."""

    reference = staticmethod(np.bitwise_xor)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u ^ v


class BitShiftOp(BitwiseOp, name="bit_shift"):
    """The bits of x moved by y places; signed integers stay negative to the right.

    A negative distance, or one of the width and more, leaves copies of the sign to the
    right and zeros to the left.

    Attributes:
        direction: ``left`` or ``right``.
    Source: ONNX BitShift-28.
    """

    direction: StringAttr

    cases = tuple(
        Case(*shapes, low=low, high=9, direction=direction)
        for direction in ("left", "right")
        for low, *shapes in (
            (0, ("uint32",), ("uint32",)),
            (0, (5, 1, "uint8"), (3, "uint8")),
            (0, (75, "uint64"), (75, "uint64")),
            (-9, (75, "int8"), (75, "int8")),
            (-9, (75, "int32"), (75, "int32")),
        )
    )

    @staticmethod
    def infer(
        x: RankedTensorType, y: RankedTensorType, direction: Literal["left", "right"]
    ) -> RankedTensorType:
        if direction not in ("left", "right"):
            raise ValueError(
                f"bad direction: expected left or right, got {direction!r}"
            )
        return BitwiseOp.infer(x, y)

    @staticmethod
    def reference(x: np.ndarray, y: np.ndarray, direction: str) -> np.ndarray:
        bits = np.iinfo(x.dtype).bits
        is_short = (y >= 0) & (y < bits)
        distance = np.where(is_short, y, 0).astype(x.dtype)
        if direction == "left":
            return np.where(is_short, x << distance, 0).astype(x.dtype)
        beyond = np.where(x < 0, -1, 0)
        return np.where(is_short, x >> distance, beyond).astype(x.dtype)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u << v if self.direction.value == "left" else u >> v

    @staticmethod
    @onnx_rule("BitShift", since=11)
    def from_onnx(node: OnnxNode) -> ir.Value:
        direction = node.attr("direction").lower()
        return BitShiftOp(node.input(0), node.input(1), direction=direction).z


class BitwiseNotOp(UnaryOp, name="bitwise_not", onnx=("BitwiseNot", 18)):
    """Every bit of an integer turned around."""

    cases = (
        Case(("int32",)),
        Case((0, 4, "int32")),
        Case((75, "int8"), low=-128, high=127),
        Case((9, "int64"), low=-9, high=9),
        Case((9, "uint16"), high=65535),
    )
    reference = staticmethod(np.bitwise_not)

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        require("iu", x)
        return x

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return ~v


class LogicalOp(BinaryOp):
    """Base of the functions of two truth values.

    Shapes:
        x, y: any two shapes that broadcast, bool. z: their common shape, bool.
    """

    cases = (
        Case(("bool",), ("bool",)),
        Case((2, 3, "bool"), (2, 3, "bool")),
        Case((2, 1, 3, "bool"), (5, 1, "bool")),
        Case((0, 3, "bool"), (3, "bool")),
        Case((3, 71, "bool"), (71, "bool")),
    )

    @staticmethod
    def infer(x: RankedTensorType, y: RankedTensorType) -> RankedTensorType:
        return tensors.tensor_type(common_shape(x, y), require("b", x, y))


class LogicalAndOp(LogicalOp, name="logical_and", onnx=("And", 7)):
    """Whether both x and y are true."""

    reference = staticmethod(np.logical_and)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u & v


class LogicalOrOp(LogicalOp, name="logical_or", onnx=("Or", 7)):
    """Whether x or y is true."""

    reference = staticmethod(np.logical_or)

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        return u | v


class LogicalXorOp(LogicalOp, name="logical_xor", onnx=("Xor", 7)):
    """Whether one of x and y is true."""

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

"""Base classes of the elementwise operators, and computation in wider types.

The operators are in ``arithmetic``, ``exp_log``, ``trigonometry``, ``activation``,
``relu``, ``bitwise`` and ``compare``.
"""

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from mlir.ir import RankedTensorType

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType, dtype
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, EdgeCase
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Scalar

__all__ = [
    "ActivationOp",
    "BinaryOp",
    "ElementOp",
    "ElementTypeError",
    "FloatUnaryOp",
    "MathOp",
    "UnaryOp",
    "common_shape",
    "computed_wide",
    "require_element_type",
    "unqualified_name",
    "wide_type",
    "widen_array",
]

_KINDS = {"f": "floats", "i": "signed integers", "u": "unsigned integers", "b": "bool"}


class ElementTypeError(ValueError):
    """An operator does not support the element type of its operands.

    Attributes:
        floats_only: whether it supports float types only.
    """

    def __init__(self, message: str, *, floats_only: bool) -> None:
        super().__init__(message)
        self.floats_only = floats_only


def require_element_type(types: str, *operands: RankedTensorType) -> DType:
    """Checks that all operands have one element type of the given kinds, and returns it.

    Args:
        types: letters of ``DType.kind``; ``fiu`` are the numbers.
        *operands: types of the operands.

    Raises:
        ValueError: the element types differ, or are of another kind.
    """
    found = [tensors.dtype_of(operand) for operand in operands]
    if len(set(found)) > 1:
        listed = ", ".join(map(str, found))
        raise ValueError(f"operands must have one element type, got {listed}")
    if found[0].kind not in types:
        allowed = ", ".join(_KINDS[kind] for kind in types)
        raise ElementTypeError(
            f"wrong element type: expected {allowed}, got {found[0]}",
            floats_only=types == "f",
        )
    return found[0]


def wide_type(type_: DType) -> DType:
    """The type of accumulation and computation: f32 for f16, bf16 and narrower floats."""
    return dtype("float32") if type_.is_float and type_.bits < 32 else type_


def widen_array(array: np.ndarray) -> np.ndarray:
    """Converts an array to its computation type (:func:`wide_type`)."""
    return array.astype(wide_type(dtypes.from_numpy(array.dtype)).numpy)


def computed_wide(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """Decorator of a reference: computes in wide types, rounds to the first operand's type.

    numpy's floating-point warnings are suppressed.
    """

    @functools.wraps(function)
    def reference(*operands: np.ndarray, **attrs: Any) -> np.ndarray:
        with np.errstate(all="ignore"):
            result = np.asarray(function(*map(widen_array, operands), **attrs))
            return result.astype(operands[0].dtype)

    return reference


class ElementOp(Relax.Operation):
    """Base of the elementwise functions of one operand, of any name."""

    cases = (
        Case(()),
        Case((5,)),
        Case((0, 4)),
        Case((2, 3, 17)),
        Case((33, 8), low=-20.0, high=20.0),
        Case((9, "float64")),
        Case((11, "float16")),
        Case((11, "bfloat16")),
        EdgeCase((41,)),
    )

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        """The function on one element; f16 and bf16 are passed, and may be returned, as f32."""
        raise NotImplementedError

    def legalize(self, b: Builder) -> Buffer:
        """One elementwise block."""
        out = tensors.dtype_of(self.results[0])

        def element(v: Scalar) -> Scalar:
            return b.cast(self.scalar(b, b.widen(v)), out)

        return b.map(element, self.operands[0], dtype=out, name=unqualified_name(self))


class UnaryOp(ElementOp):
    """Base of y = f(x), elementwise.

    Shapes:
        x, y: any shape, same element type, numbers.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    @classmethod
    def program_name(cls) -> str:
        return f"tir_{super().program_name()}"  # TVM's name

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        require_element_type("fiu", x)
        return x


class ActivationOp(ElementOp):
    """Base of y = f(data), elementwise, on floats.

    Shapes:
        data, y: any shape, same float element type.
    """

    data: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    @staticmethod
    def infer(data: RankedTensorType) -> RankedTensorType:
        require_element_type("f", data)
        return data


class FloatUnaryOp(UnaryOp):
    """Base of y = f(x), elementwise, on floats.

    Shapes:
        x, y: any shape, same float element type.
    """

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        require_element_type("f", x)
        return x


class MathOp(FloatUnaryOp):
    """Base of the functions with an operation in MLIR's math dialect."""

    function: ClassVar[str | None] = (
        None  # math operation; None for the operator's name
    )

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return b.math(self.function or self.SHORT_NAME, v)


class BinaryOp(Relax.Operation):
    """Base of z = f(x1, x2), elementwise, broadcast by numpy's rules.

    Shapes:
        x1, x2: any two shapes that broadcast, same element type, numbers.
        z: their broadcast shape, the element type of x1.
    """

    x1: Operand[RankedTensorType]
    x2: Operand[RankedTensorType]
    z: Result[RankedTensorType]

    cases = (
        Case((), ()),
        Case((2, 3), (2, 3)),
        Case((2, 3), (3,)),
        Case((2, 1, 3), (5, 1)),
        Case((4,), ()),
        Case((1, 1), (3, 75)),
        Case((0, 3), (3,)),
        Case((7, "float64"), (7, "float64")),
        Case((9, "float16"), (9, "float16")),
        Case((9, "bfloat16"), (9, "bfloat16")),
        Case((3, 5, "int64"), (5, "int64"), low=1, high=9),
        Case((17, "int8"), (17, "int8"), low=-128, high=127),
        Case((17, "uint16"), (17, "uint16"), high=65535),
        EdgeCase((83,), (83,)),
    )

    def scalar(self, b: Builder, u: Scalar, v: Scalar) -> Scalar:
        """The function on one pair; f16 and bf16 are passed, and may be returned, as f32."""
        raise NotImplementedError

    @staticmethod
    def infer(x1: RankedTensorType, x2: RankedTensorType) -> RankedTensorType:
        return tensors.tensor_type(
            common_shape(x1, x2), require_element_type("fiu", x1, x2)
        )

    def legalize(self, b: Builder) -> Buffer:
        """One elementwise block; it reads both inputs even if they are the same value."""
        out = tensors.dtype_of(self.results[0])

        def element(u: Scalar, v: Scalar) -> Scalar:
            return b.cast(self.scalar(b, b.widen(u), b.widen(v)), out)

        return b.map(
            element, *b.buffers(*self.operands), dtype=out, name=unqualified_name(self)
        )


def unqualified_name(op: Relax.Operation) -> str:
    """The last component of an operator's name: ``relu`` for ``nn.relu``."""
    return op.script_name().rpartition(".")[2]


def common_shape(*types: RankedTensorType) -> tuple[Dim, ...]:
    """The broadcast shape of all operands."""
    return shapes.broadcast(*map(tensors.shape_of, types))

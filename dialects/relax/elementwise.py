"""What functions of one element at a time share: their bases, and wide arithmetic.

The operators themselves stand in ``arithmetic``, ``exponential``, ``trigonometry``,
``activation``, ``bitwise`` and ``compare``.
"""

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from mlir.ir import RankedTensorType

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType, dtype
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, EdgeCase
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
    "last_name",
    "require",
    "wide_type",
    "widened",
]

_KINDS = {"f": "floats", "i": "signed integers", "u": "unsigned integers", "b": "bool"}


class ElementTypeError(ValueError):
    """An operation has no program for the element type of its operands.

    Attributes:
        are_floats_alone: whether it takes floats and nothing else.
    """

    def __init__(self, message: str, *, are_floats_alone: bool) -> None:
        super().__init__(message)
        self.are_floats_alone = are_floats_alone


def require(types: str, *operands: RankedTensorType) -> DType:
    """The one element type that all operands have, of a kind that is among ``types``.

    Args:
        types: letters of ``DType.kind``; ``fiu`` are the numbers.

    Raises:
        ValueError: another type, or several.
    """
    found = [tensors.dtype_of(operand) for operand in operands]
    if len(set(found)) > 1:
        listed = ", ".join(map(str, found))
        raise ValueError(f"operands must have one element type, got {listed}")
    if found[0].kind not in types:
        allowed = ", ".join(_KINDS[kind] for kind in types)
        raise ElementTypeError(
            f"wrong element type: expected {allowed}, got {found[0]}",
            are_floats_alone=types == "f",
        )
    return found[0]


def wide_type(type_: DType) -> DType:
    """The type that sums and functions are computed in: f32 for f16 and bf16."""
    return dtype("float32") if type_.is_float and type_.bits < 32 else type_


def widened(array: np.ndarray) -> np.ndarray:
    """The array in the type that is computed in."""
    return array.astype(wide_type(dtypes.from_numpy(array.dtype)).numpy)


def computed_wide(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """A reference computed in wide types and rounded to the type of its first operand.

    NaN and infinities are values like others here, so nothing warns of them.
    """

    @functools.wraps(function)
    def reference(*operands: np.ndarray, **attrs: Any) -> np.ndarray:
        with np.errstate(all="ignore"):
            result = np.asarray(function(*map(widened, operands), **attrs))
            return result.astype(operands[0].dtype)

    return reference


class ElementOp(Relax.Operation):
    """Base of the functions of one element at a time, whatever the operand is called."""

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
        """The function on one element; f16 and bf16 come, and may go, as f32."""
        raise NotImplementedError

    def legalize(self, b: Builder) -> Buffer:
        """One map."""
        out = tensors.dtype_of(self.results[0])

        def element(v: Scalar) -> Scalar:
            return b.cast(self.scalar(b, b.wide(v)), out)

        return b.map(element, self.operands[0], dtype=out, name=last_name(self))


class UnaryOp(ElementOp):
    """Base of y = f(x), element by element.

    Shapes:
        x, y: any shape, same element type, a number.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    @classmethod
    def program_name(cls) -> str:
        return f"tir_{super().program_name()}"  # as Relax names them

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        require("fiu", x)
        return x


class ActivationOp(ElementOp):
    """Base of y = f(data), element by element, on floats.

    Shapes:
        data, y: any shape, same float element type.
    """

    data: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    @staticmethod
    def infer(data: RankedTensorType) -> RankedTensorType:
        require("f", data)
        return data


class FloatUnaryOp(UnaryOp):
    """Base of y = f(x), element by element, on floats.

    Shapes:
        x, y: any shape, same float element type.
    """

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        require("f", x)
        return x


class MathOp(FloatUnaryOp):
    """Base of the functions that MLIR's math dialect has."""

    function: ClassVar[str | None] = None  # its name there, where it is not ours

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return b.math(self.function or self.SHORT_NAME, v)


class BinaryOp(Relax.Operation):
    """Base of z = f(x1, x2), element by element, broadcast as numpy does.

    Shapes:
        x1, x2: any two shapes that broadcast, same element type, a number.
        z: their common shape, the element type of x1.
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
        """The function on one pair; f16 and bf16 come, and may go, as f32."""
        raise NotImplementedError

    @staticmethod
    def infer(x1: RankedTensorType, x2: RankedTensorType) -> RankedTensorType:
        return tensors.tensor_type(common_shape(x1, x2), require("fiu", x1, x2))

    def legalize(self, b: Builder) -> Buffer:
        """One map, the same where both are one value: it reads both inputs."""
        out = tensors.dtype_of(self.results[0])

        def element(u: Scalar, v: Scalar) -> Scalar:
            return b.cast(self.scalar(b, b.wide(u), b.wide(v)), out)

        return b.map(
            element, *b.buffers(*self.operands), dtype=out, name=last_name(self)
        )


def last_name(op: Relax.Operation) -> str:
    """An operator's name without what stands before a dot: ``relu`` for ``nn.relu``."""
    return op.script_name().rpartition(".")[2]


def common_shape(*types: RankedTensorType) -> tuple[Dim, ...]:
    """The shape that all operands are broadcast to."""
    return shapes.broadcast(*map(tensors.shape_of, types))

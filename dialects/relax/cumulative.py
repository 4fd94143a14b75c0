"""Running totals along an axis."""

from typing import Any, ClassVar

import numpy as np
from mlir.ir import BoolAttr, IntegerAttr, RankedTensorType, TypeAttr

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, EdgeCase
from relax_mlir.dialects.relax.arguments import element_type
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import require, wide_type
from relax_mlir.dialects.relax.reduce import point_of_number
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar


class CumulativeOp(Relax.Operation):
    """Base of the running totals, each computed from the one before.

    Attributes:
        axis: counted from either end; None runs through all elements, in row-major order.
        dtype: the element type of y, which is computed in; that of data if it is None.
        exclusive: whether an element is left out of the total at its own place.
    Shapes:
        data: any shape of rank 1 or more, numbers; bool where ``dtype`` is given.
        y: the same shape, or the number of elements if ``axis`` is None.
    """

    data: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr | None
    dtype: TypeAttr | None
    exclusive: BoolAttr

    start: ClassVar[int]  # the total before the first element
    is_reversed: ClassVar[bool] = False  # whether it runs from the end to the beginning
    cases = (
        Case((5,), axis=0),
        Case((1,), axis=0, exclusive=True),
        Case((3, 0), axis=1),
        Case((0, 3), axis=1),
        Case((3, 71), axis=1),
        Case((9, 17), axis=-2),
        Case((2, 9, 3), axis=1, exclusive=True),
        Case((2, 9, "int64"), axis=1, low=-3, high=3),
        Case((2, 9, "uint32"), axis=1, high=9),
        Case((2, 9, "float64"), axis=1),
        Case((2, 90, "float16"), axis=1),
        Case((2, 90, "bfloat16"), axis=1),
        EdgeCase((9, 3), axis=1),
        Case((2, 3, 4)),
        Case((2, 9, "bool"), axis=1, dtype=dtypes.dtype("int32")),
        Case((2, 9, "float32"), axis=1, dtype=dtypes.dtype("float64")),
        Case((3, 4, "int8"), dtype=dtypes.dtype("int32"), exclusive=True),
    )

    def step(self, total: Scalar, v: Scalar) -> Scalar:
        """The total with one more element; f16 and bf16 come as f32."""
        raise NotImplementedError

    @staticmethod
    def infer(
        data: RankedTensorType,
        axis: int | None = None,
        dtype: DType | None = None,
        exclusive: bool = False,
    ) -> RankedTensorType:
        own = require("fiu" if dtype is None else "fiub", data)
        type_, shape = dtype or own, tensors.shape_of(data)
        if type_.kind == "b":
            raise ValueError("wrong element type: expected numbers, got bool")
        if axis is None:
            return tensors.tensor_type([shapes.product(shape)], type_)
        shapes.check_axis(axis, len(shape))
        return tensors.tensor_type(shape, type_)

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "dtype": element_type(attrs.get("dtype"))}

    def legalize(self, b: Builder) -> Buffer:
        """A loop along the axis, for every point of the others."""
        data, axis = b.buffer(self.data), self.python_attrs()["axis"]
        shape, type_ = b.results[0]
        wide, exclusive = wide_type(type_), self.exclusive.value
        axis = 0 if axis is None else shapes.check_axis(axis, data.rank)
        is_flat = len(shape) != data.rank
        out, size = b.alloc(shape, type_), b.dim(shape[axis])

        def body(*outer: Index) -> None:
            def step(i: Index, total: Scalar) -> list[Scalar]:
                place = size - 1 - i if self.is_reversed else i
                where = (*outer[:axis], place, *outer[axis:])
                read = point_of_number(b, place, data.shape) if is_flat else where
                following = self.step(total, b.cast(data[read], wide))
                out.store(b.cast(total if exclusive else following, type_), where)
                return [following]

            b.loop(size, [b.constant(self.start, wide)], step)

        others = (*shape[:axis], *shape[axis + 1 :])
        b.block(self.program_name(), others, "S" * len(others), body)
        return out


def _accumulated(
    data: np.ndarray,
    axis: int | None,
    dtype: DType | None,
    exclusive: bool,
    *,
    step: np.ufunc,
    is_reversed: bool = False,
) -> np.ndarray:
    """The running totals by numpy's ``accumulate``, behind one start value."""
    type_ = dtype or dtypes.from_numpy(data.dtype)
    x = np.asarray(data).astype(wide_type(type_).numpy)
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    x = np.flip(x, axis) if is_reversed else x
    first = np.full_like(np.take(x, [0], axis) if x.size else x, step.identity)
    with np.errstate(all="ignore"):
        totals = step.accumulate(np.concatenate([first, x], axis), axis, x.dtype)
    count = x.shape[axis]
    begin = 0 if exclusive else totals.shape[axis] - count
    totals = np.take(totals, range(begin, begin + count), axis)
    totals = np.flip(totals, axis) if is_reversed else totals
    return totals.astype(type_.numpy)


class CumsumOp(CumulativeOp, name="cumsum"):
    """The sum of the elements up to each, along an axis."""

    start = 0

    @staticmethod
    def reference(
        data: np.ndarray, axis: int | None, dtype: DType | None, exclusive: bool
    ) -> np.ndarray:
        return _accumulated(data, axis, dtype, exclusive, step=np.add)

    def step(self, total: Scalar, v: Scalar) -> Scalar:
        return total + v


class CumprodOp(CumulativeOp, name="cumprod"):
    """The product of the elements up to each, along an axis."""

    start = 1

    @staticmethod
    def reference(
        data: np.ndarray, axis: int | None, dtype: DType | None, exclusive: bool
    ) -> np.ndarray:
        return _accumulated(data, axis, dtype, exclusive, step=np.multiply)

    def step(self, total: Scalar, v: Scalar) -> Scalar:
        return total * v


class ReverseCumsumOp(CumulativeOp, name="reverse_cumsum"):
    """The sum of the elements from each to the last, along an axis.

    Source: ONNX CumSum-14, ``reverse``.
    """

    start = 0
    is_reversed = True

    @staticmethod
    def reference(
        data: np.ndarray, axis: int | None, dtype: DType | None, exclusive: bool
    ) -> np.ndarray:
        return _accumulated(data, axis, dtype, exclusive, step=np.add, is_reversed=True)

    def step(self, total: Scalar, v: Scalar) -> Scalar:
        return total + v


class ReverseCumprodOp(CumulativeOp, name="reverse_cumprod"):
    """The product of the elements from each to the last, along an axis.

    Source: ONNX CumProd-26, ``reverse``.
    """

    start = 1
    is_reversed = True

    @staticmethod
    def reference(
        data: np.ndarray, axis: int | None, dtype: DType | None, exclusive: bool
    ) -> np.ndarray:
        return _accumulated(
            data, axis, dtype, exclusive, step=np.multiply, is_reversed=True
        )

    def step(self, total: Scalar, v: Scalar) -> Scalar:
        return total * v

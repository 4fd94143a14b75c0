"""Cumulative sums and products along an axis."""

from typing import Any, ClassVar

import numpy as np
from mlir.ir import BoolAttr, IntegerAttr, RankedTensorType, TypeAttr

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, EdgeCase
from relax_mlir.dialects.relax.attribute_arguments import element_type
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import require_element_type, wide_type
from relax_mlir.dialects.relax.reduce import delinearize_index
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar


class CumulativeOp(Relax.Operation):
    """Base of the cumulative reductions (scans), computed sequentially.

    Attributes:
        axis: negative ones count from the end; None for the flattened tensor.
        dtype: the element type of y and of the computation; None for that of data.
        exclusive: whether the total at an element excludes the element itself.
    Shapes:
        data: any shape of rank 1 or more, numbers; also bool if ``dtype`` is given.
        y: the same shape, or [number of elements] if ``axis`` is None.
    """

    data: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr | None
    dtype: TypeAttr | None
    exclusive: BoolAttr

    start: ClassVar[int]  # the identity element
    is_reversed: ClassVar[bool] = False  # scan from the end to the start
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
        """One step of the scan: the total after element ``v``; f16 and bf16 are passed as f32."""
        raise NotImplementedError

    @staticmethod
    def infer(
        data: RankedTensorType,
        axis: int | None = None,
        dtype: DType | None = None,
        exclusive: bool = False,
    ) -> RankedTensorType:
        own = require_element_type("fiu" if dtype is None else "fiub", data)
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
        """A sequential loop along the axis, for every point of the other axes."""
        data, axis = b.buffer(self.data), self.python_attrs()["axis"]
        shape, type_ = b.results[0]
        wide, exclusive = wide_type(type_), self.exclusive.value
        axis = 0 if axis is None else shapes.check_axis(axis, data.rank)
        is_flat = len(shape) != data.rank
        out, size = b.alloc(shape, type_), b.dim(shape[axis])

        def body(*outer: Index) -> None:
            def step(i: Index, total: Scalar) -> list[Scalar]:
                position = size - 1 - i if self.is_reversed else i
                where = (*outer[:axis], position, *outer[axis:])
                read = delinearize_index(b, position, data.shape) if is_flat else where
                following = self.step(total, b.cast(data[read], wide))
                out.store(b.cast(total if exclusive else following, type_), where)
                return [following]

            b.loop(size, [b.constant(self.start, wide)], step)

        others = (*shape[:axis], *shape[axis + 1 :])
        b.block(self.program_name(), others, "S" * len(others), body)
        return out


def _accumulate(
    data: np.ndarray,
    axis: int | None,
    dtype: DType | None,
    exclusive: bool,
    *,
    step: np.ufunc,
    is_reversed: bool = False,
) -> np.ndarray:
    """The numpy reference: ``ufunc.accumulate`` with a prepended identity element."""
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
    """Cumulative sum along an axis."""

    start = 0

    @staticmethod
    def reference(
        data: np.ndarray, axis: int | None, dtype: DType | None, exclusive: bool
    ) -> np.ndarray:
        return _accumulate(data, axis, dtype, exclusive, step=np.add)

    def step(self, total: Scalar, v: Scalar) -> Scalar:
        return total + v


class CumprodOp(CumulativeOp, name="cumprod"):
    """Cumulative product along an axis."""

    start = 1

    @staticmethod
    def reference(
        data: np.ndarray, axis: int | None, dtype: DType | None, exclusive: bool
    ) -> np.ndarray:
        return _accumulate(data, axis, dtype, exclusive, step=np.multiply)

    def step(self, total: Scalar, v: Scalar) -> Scalar:
        return total * v


class ReverseCumsumOp(CumulativeOp, name="reverse_cumsum"):
    """Cumulative sum from the end of an axis.

    Source: ONNX CumSum-14, ``reverse``.
    """

    start = 0
    is_reversed = True

    @staticmethod
    def reference(
        data: np.ndarray, axis: int | None, dtype: DType | None, exclusive: bool
    ) -> np.ndarray:
        return _accumulate(data, axis, dtype, exclusive, step=np.add, is_reversed=True)

    def step(self, total: Scalar, v: Scalar) -> Scalar:
        return total + v


class ReverseCumprodOp(CumulativeOp, name="reverse_cumprod"):
    """Cumulative product from the end of an axis.

    Source: ONNX CumProd-26, ``reverse``.
    """

    start = 1
    is_reversed = True

    @staticmethod
    def reference(
        data: np.ndarray, axis: int | None, dtype: DType | None, exclusive: bool
    ) -> np.ndarray:
        return _accumulate(
            data, axis, dtype, exclusive, step=np.multiply, is_reversed=True
        )

    def step(self, total: Scalar, v: Scalar) -> Scalar:
        return total * v

"""Tensor creation: fill, arange and identity matrices."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from mlir.ir import IntegerAttr, RankedTensorType, TypeAttr

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.attribute_arguments import element_type
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.scalar_attributes import ScalarAttributesOp, ScalarValue
from relax_mlir.dialects.shapes import Dim, Expr
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = [
    "ArangeOp",
    "EyeLikeOp",
    "EyeOp",
    "FullLikeOp",
    "FullOp",
    "OnesLikeOp",
    "OnesOp",
    "ZerosLikeOp",
    "ZerosOp",
]

_INT32, _INT64 = dtypes.dtype("int32"), dtypes.dtype("int64")
_F32, _F16 = dtypes.dtype("float32"), dtypes.dtype("float16")


class FillOp(Relax.Operation):
    """Base of operations that fill a tensor with a number known at compile time."""

    value: ClassVar[float]

    @classmethod
    def normalize_arguments(cls, **attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "dtype": element_type(attrs.get("dtype"))}

    def legalize(self, b: Builder) -> Buffer:
        shape, dtype = b.results[0]
        return b.compute(
            shape, lambda *_: b.constant(self.value, dtype), dtype, self.program_name()
        )


class FilledOp(FillOp):
    """Base of tensors of a given shape filled with one number.

    Attributes:
        shape: the shape of y; may be symbolic.
        dtype: the element type of y.
    """

    y: Result[RankedTensorType]
    shape: Attr
    dtype: TypeAttr

    argument_attributes = ("shape",)
    cases = (
        Case(shape=(2, 3), dtype=_F32),
        Case(shape=(), dtype=_INT64),
        Case(shape=(0, 2), dtype=_F16),
        Case(shape=(71,), dtype=dtypes.dtype("bool")),
    )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        dtype = element_type(attrs["dtype"])
        if dtype is None:
            raise ValueError("dtype: expected an element type, got none")
        return {**attrs, "dtype": dtype}

    @staticmethod
    def infer(shape: Sequence[Dim], dtype: DType) -> RankedTensorType:
        shapes.require_nonnegative(shape)
        return tensors.tensor_type(tuple(shape), dtype)

    @classmethod
    def reference(cls, shape: Sequence[int], dtype: DType) -> np.ndarray:
        return np.full(shape, cls.value, dtype.numpy)


class LikeOp(FillOp):
    """Base of tensors of the shape of x filled with one number.

    Attributes:
        dtype: the element type of y; None for that of x.
    Shapes:
        x, y: any shape; the elements of x are not read.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    dtype: TypeAttr | None

    cases = (Case((2, 3)), Case((5, "int8"), dtype=_F32), Case((0, 2), dtype=_INT64))

    @staticmethod
    def infer(x: RankedTensorType, dtype: DType | None = None) -> RankedTensorType:
        return tensors.tensor_type(
            tensors.shape_of(x), dtype if dtype is not None else tensors.dtype_of(x)
        )

    @classmethod
    def reference(cls, x: np.ndarray, dtype: DType | None = None) -> np.ndarray:
        return np.full(x.shape, cls.value, x.dtype if dtype is None else dtype.numpy)


class OnesOp(FilledOp, name="ones"):
    """A tensor of ones."""

    value = 1


class ZerosOp(FilledOp, name="zeros"):
    """A tensor of zeros."""

    value = 0


class OnesLikeOp(LikeOp, name="ones_like"):
    """A tensor of ones in the shape of another one."""

    value = 1

    @classmethod
    def program_name(cls) -> str:
        return "ones"


class ZerosLikeOp(LikeOp, name="zeros_like"):
    """A tensor of zeros in the shape of another one."""

    value = 0

    @classmethod
    def program_name(cls) -> str:
        return "zeros"


class FullOp(Relax.Operation, name="full"):
    """A tensor filled with a scalar operand.

    Attributes:
        shape: the shape of y; may be symbolic.
        dtype: the element type of y; None for that of the fill value.
    Shapes:
        fill_value: []; y: shape.
    """

    fill_value: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    shape: Attr
    dtype: TypeAttr | None

    argument_attributes = ("shape",)
    cases = (
        Case((), shape=(2, 3)),
        Case(("int32",), shape=(5,), dtype=_F32),
        Case(("float64",), shape=(), dtype=_INT32),
        Case((), shape=(0, 2)),
    )

    @classmethod
    def argument_order(cls) -> tuple[str, ...]:
        return ("shape", "fill_value")

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "dtype": element_type(attrs.get("dtype"))}

    @staticmethod
    def infer(
        fill_value: RankedTensorType, shape: Sequence[Dim], dtype: DType | None = None
    ) -> RankedTensorType:
        _check_scalar(fill_value)
        shapes.require_nonnegative(shape)
        own = tensors.dtype_of(fill_value)
        return tensors.tensor_type(tuple(shape), own if dtype is None else dtype)

    @staticmethod
    def reference(
        fill_value: np.ndarray, shape: Sequence[int], dtype: DType | None = None
    ) -> np.ndarray:
        return np.full(
            shape, fill_value, fill_value.dtype if dtype is None else dtype.numpy
        )

    def legalize(self, b: Builder) -> Buffer:
        return _filled(b, b.buffer(self.fill_value))


class FullLikeOp(Relax.Operation, name="full_like"):
    """A tensor filled with a scalar operand, in the shape of x.

    Attributes:
        dtype: the element type of y; None for that of x.
    Shapes:
        x: any, its elements are not read; fill_value: []; y: the shape of x.
    """

    x: Operand[RankedTensorType]
    fill_value: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    dtype: TypeAttr | None

    cases = (
        Case((2, 3), ("int32",)),
        Case((5, "int8"), (), dtype=_F32),
        Case((0, 2), ()),
    )

    @classmethod
    def program_name(cls) -> str:
        return "full"

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {"dtype": element_type(attrs.get("dtype"))}

    @staticmethod
    def infer(
        x: RankedTensorType, fill_value: RankedTensorType, dtype: DType | None = None
    ) -> RankedTensorType:
        _check_scalar(fill_value)
        return LikeOp.infer(x, dtype)

    @staticmethod
    def reference(
        x: np.ndarray, fill_value: np.ndarray, dtype: DType | None = None
    ) -> np.ndarray:
        return np.full(x.shape, fill_value, x.dtype if dtype is None else dtype.numpy)

    def legalize(self, b: Builder) -> Buffer:
        return _filled(b, b.buffer(self.fill_value))


def _check_scalar(value: RankedTensorType) -> None:
    if value.rank != 0:
        raise ValueError(f"expected a fill value of rank 0, got rank {value.rank}")


def _filled(b: Builder, value: Buffer) -> Buffer:
    shape, dtype = b.results[0]
    return b.compute(shape, lambda *_: b.cast(value[()], dtype), dtype, "full")


class ArangeOp(ScalarAttributesOp, name="arange"):
    """Evenly spaced numbers: start, start + step, ..., excluding end.

    Attributes:
        start, end, step: numbers or symbolic sizes; with symbolic sizes, end - start must
            have the sign of step. Without an end, the range is from 0 to ``start``.
        dtype: element type of y; None for int64, or float32 if a number is a float.
    Shapes:
        y: [max(0, ceil((end - start) / step))].
    Source: numpy.arange; ONNX Range-11.
    """

    y: Result[RankedTensorType]
    start: Attr
    end: Attr | None
    step: Attr
    dtype: TypeAttr | None

    argument_attributes = ("start", "end", "step")
    number_attributes = ("start", "end", "step")
    cases = (
        Case(start=5),
        Case(start=7, end=2, step=-2, dtype=_INT32),
        Case(start=-3, end=5, step=2, dtype=_F32),
        Case(start=5, end=2),
        Case(start=0.5, end=3, step=0.25),
        Case(start=1, end=-1, step=-0.5, dtype=dtypes.dtype("float64")),
    )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        start, end = attrs["start"], attrs.get("end")
        step, dtype = attrs.get("step", 1), element_type(attrs.get("dtype"))
        if end is None:
            start, end = 0, start
        if dtype is None:
            dtype = _range_dtype(start, end, step)
        return {"start": start, "end": end, "step": step, "dtype": dtype}

    @staticmethod
    def infer(
        start: ScalarValue,
        end: ScalarValue | None = None,
        step: ScalarValue = 1,
        dtype: DType | None = None,
    ) -> RankedTensorType:
        if step == 0:
            raise ValueError("the step must not be 0, got 0")
        first, last = (0, start) if end is None else (start, end)
        if dtype is None:
            dtype = _range_dtype(first, last, step)
        return tensors.tensor_type((_range_size(first, last, step),), dtype)

    @staticmethod
    def reference(
        start: float,
        end: float | None = None,
        step: float = 1,
        dtype: DType | None = None,
    ) -> np.ndarray:
        first, last = (0, start) if end is None else (start, end)
        count = _range_size(first, last, step)
        dtype = dtype or _range_dtype(first, last, step)
        return (first + step * np.arange(count)).astype(dtype.numpy)

    def legalize(self, b: Builder) -> Buffer:
        shape, type_ = b.results[0]
        attrs = self.python_attrs()
        first = 0 if attrs["end"] is None else attrs["start"]
        step = attrs["step"]

        def integer(axis: Index) -> Scalar:
            start, stride = b.dim(b.local_dim(first)), b.dim(b.local_dim(step))
            return Index(Index.value_of(axis * stride + start)).to_scalar(type_)

        def floating(axis: Index) -> Scalar:
            wide = dtypes.dtype("float64")
            return b.cast(axis.to_scalar(wide) * float(step) + float(first), type_)

        body = floating if isinstance(step, float) or _is_float(first) else integer
        return b.compute(shape, body, type_, "arange")


def _is_float(number: ScalarValue) -> bool:
    return isinstance(number, (float, np.floating))


def _range_dtype(*numbers: ScalarValue) -> DType:
    return _F32 if any(map(_is_float, numbers)) else _INT64


def _range_size(start: ScalarValue, end: ScalarValue, step: ScalarValue) -> Dim:
    """The number of elements; symbolic ranges are constrained not to be negative."""
    if any(map(_is_float, (start, end, step))):
        return max(0, math.ceil((end - start) / step))
    sign = -1 if isinstance(step, int) and step < 0 else 1
    span, stride = sign * (end - start), sign * step
    if any(isinstance(number, Expr) for number in (span, stride)):
        shapes.require_at_least(span, 0)
        return shapes.ceildiv(span, stride)
    return shapes.maximum(0, shapes.ceildiv(span, stride))


class EyeOp(ScalarAttributesOp, name="eye"):
    """A matrix of ones on a diagonal and zeros elsewhere.

    Attributes:
        n, m: number of rows and columns, may be symbolic; None for ``m`` = ``n``.
        k: the diagonal: 0 the main one, positive ones above.
        dtype: the element type of y.
    Shapes:
        y: [n, m].
    Source: numpy.eye.
    """

    y: Result[RankedTensorType]
    n: Attr
    m: Attr | None
    k: IntegerAttr
    dtype: TypeAttr

    argument_attributes = ("n", "m", "k")
    number_attributes = ("n", "m")
    cases = (
        Case(n=3),
        Case(n=3, m=5, k=1, dtype=_INT32),
        Case(n=4, m=2, k=-2),
        Case(n=0),
    )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        n, m = attrs["n"], attrs.get("m")
        dtype = element_type(attrs.get("dtype")) or _F32
        return {**attrs, "m": n if m is None else m, "dtype": dtype}

    @staticmethod
    def infer(
        n: Dim, m: Dim | None = None, k: int = 0, dtype: DType = _F32
    ) -> RankedTensorType:
        shape = (n, n if m is None else m)
        shapes.require_nonnegative(shape)
        return tensors.tensor_type(shape, dtype)

    @staticmethod
    def reference(
        n: int, m: int | None = None, k: int = 0, dtype: DType = _F32
    ) -> np.ndarray:
        return np.eye(n, m, k, dtype.numpy)

    def legalize(self, b: Builder) -> Buffer:
        return _diagonal(b, self.k.value, "eye")


class EyeLikeOp(Relax.Operation, name="eye_like"):
    """A matrix of ones on a diagonal and zeros elsewhere, in the shape of x.

    Attributes:
        k: the diagonal: 0 the main one, positive ones above.
        dtype: the element type of y; None for that of x.
    Shapes:
        x, y: [n, m]; the elements of x are not read.
    Source: ONNX EyeLike-9.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    k: IntegerAttr
    dtype: TypeAttr | None

    argument_attributes = ("k",)
    cases = (Case((3, 4)), Case((3, 5, "int8"), k=-1), Case((4, 2), k=1, dtype=_INT32))

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "dtype": element_type(attrs.get("dtype"))}

    @staticmethod
    def infer(
        x: RankedTensorType, k: int = 0, dtype: DType | None = None
    ) -> RankedTensorType:
        if x.rank != 2:
            raise ValueError(f"expected rank 2, got {x.rank}")
        return LikeOp.infer(x, dtype)

    @staticmethod
    def reference(x: np.ndarray, k: int = 0, dtype: DType | None = None) -> np.ndarray:
        return np.eye(*x.shape, k, x.dtype if dtype is None else dtype.numpy)

    def legalize(self, b: Builder) -> Buffer:
        return _diagonal(b, self.k.value, "eye_like")


def _diagonal(b: Builder, k: int, name: str) -> Buffer:
    shape, dtype = b.results[0]

    def body(row: Index, column: Index) -> Scalar:
        is_on = column.equal(row + k)
        return b.select(is_on, b.constant(1, dtype), b.constant(0, dtype))

    return b.compute(shape, body, dtype, name)

"""How far elements lie apart along axes, and the one in the middle."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.ir import BoolAttr, DenseI64ArrayAttr, RankedTensorType, TupleType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, EdgeCase
from relax_mlir.dialects.relax.arguments import int_tuple
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import computed_wide, last_name, require
from relax_mlir.dialects.relax.moments import statistics
from relax_mlir.dialects.relax.reduce import (
    FLOAT_CASES,
    element_count,
    number_of_point,
    point_of_number,
    reduced_axes,
    reduced_type,
)
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

_I64 = dtype("int64")


class SpreadOp(Relax.Operation):
    """Base of the measures of how far elements lie from their mean.

    Attributes:
        axis: what is reduced, counted from either end: all axes if it is None.
        keepdims: whether the reduced axes stay, with size 1.
    Shapes:
        x: any shape. y: the sizes that are left, same float type.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: DenseI64ArrayAttr | None
    keepdims: BoolAttr

    cases = FLOAT_CASES

    def measure(self, b: Builder, variance: Scalar) -> Scalar:
        """The measure, from the variance."""
        raise NotImplementedError

    @staticmethod
    def infer(
        x: RankedTensorType, axis: Sequence[int] | None = None, keepdims: bool = False
    ) -> RankedTensorType:
        return reduced_type(x, axis, keepdims, require("f", x))

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "axis": int_tuple(attrs.get("axis"))}

    def legalize(self, b: Builder) -> Buffer:
        """The variance with the axes that are reduced, and a map that may drop them."""
        x = b.buffer(self.x)
        axes = reduced_axes(self.python_attrs()["axis"], x.rank)
        _, found = statistics(b, x, axes, lambda v: self.measure(b, v))
        gone = () if self.keepdims.value else axes

        def body(*points: Index) -> Scalar:
            rest = iter(points)
            row = tuple(0 if i in gone else next(rest) for i in range(x.rank))
            return b.cast(found[row], x.dtype)

        return b.compute(b.results[0][0], body, x.dtype, last_name(self))


class VarianceOp(SpreadOp, name="variance"):
    """The mean of squared differences from the mean; NaN of nothing."""

    @staticmethod
    @computed_wide
    def reference(
        x: np.ndarray, axis: Sequence[int] | None, keepdims: bool
    ) -> np.ndarray:
        return _variance(x, axis, keepdims)

    def measure(self, b: Builder, variance: Scalar) -> Scalar:
        return variance


class StdOp(SpreadOp, name="std"):
    """The square root of the variance."""

    @staticmethod
    @computed_wide
    def reference(
        x: np.ndarray, axis: Sequence[int] | None, keepdims: bool
    ) -> np.ndarray:
        return np.sqrt(_variance(x, axis, keepdims))

    def measure(self, b: Builder, variance: Scalar) -> Scalar:
        return b.math("sqrt", variance)


def _variance(x: np.ndarray, axis: Sequence[int] | None, keepdims: bool) -> np.ndarray:
    """The variance, by sums and a division, which warn of nothing."""
    axes = reduced_axes(axis, x.ndim)
    count = x.dtype.type(np.prod([x.shape[i] for i in axes], dtype=np.int64))
    centred = x - x.sum(axes, keepdims=True) / count
    return (centred * centred).sum(axes, keepdims=keepdims) / count


class MedianOp(Relax.Operation, name="median"):
    """The element in the middle by size; of two, the smaller.

    NaN counts as the largest number. Along one axis, its place there comes with it: of
    equal elements the one that a stable sort puts in the middle.

    Attributes:
        axis: what is searched, counted from either end: all axes if it is None.
        keepdims: whether the searched axes stay, with size 1.
    Shapes:
        x: any shape with an element to choose, numbers. y: the sizes that are left, same
        element type; where ``axis`` is one axis, a tuple of that and as many int64.
    """

    x: Operand[RankedTensorType]
    y: Result[ir.Type]
    axis: DenseI64ArrayAttr | None
    keepdims: BoolAttr

    cases = (
        Case((5,), axis=(0,)),
        Case((3, 8), axis=(1,)),
        Case((3, 7), axis=(-2,), keepdims=True),
        Case((3, 4, 5)),
        Case((3, 4), keepdims=True),
        Case((3, 4, 5), axis=(0, 2)),
        Case((4, 9, "int32"), axis=(1,), low=-2, high=2),
        Case((4, 9, "float16"), axis=(1,)),
        EdgeCase((9, 3), axis=(0,)),
    )

    @staticmethod
    def infer(
        x: RankedTensorType, axis: Sequence[int] | None = None, keepdims: bool = False
    ) -> RankedTensorType | TupleType:
        type_, shape = require("fiu", x), tensors.shape_of(x)
        axes = reduced_axes(axis, len(shape))
        if axis is not None and not axes:
            raise ValueError("axis is empty: expected an axis to search, or None")
        if any(shape[i] == 0 for i in axes):
            raise ValueError(f"axes {list(axes)} are empty: expected an element")
        value = reduced_type(x, axis, keepdims, type_)
        if axis is None or len(axis) != 1:
            return value
        places = reduced_type(x, axis, keepdims, _I64)
        return TupleType.get_tuple([value, places])

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "axis": int_tuple(attrs.get("axis"))}

    @staticmethod
    def reference(
        x: np.ndarray, axis: Sequence[int] | None, keepdims: bool
    ) -> np.ndarray | list[np.ndarray]:
        axes = reduced_axes(axis, x.ndim)
        rows = np.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim))
        rows = rows.reshape(*rows.shape[: x.ndim - len(axes)], -1)
        order = np.argsort(rows, axis=-1, kind="stable")
        place = order[..., (rows.shape[-1] - 1) // 2]
        value = np.take_along_axis(rows, place[..., None], -1)[..., 0]
        shape = shapes.reduced(x.shape, axes, keepdims)
        value, place = value.reshape(shape), place.reshape(shape).astype(np.int64)
        return value if axis is None or len(axis) != 1 else [value, place]

    def legalize(self, b: Builder) -> list[Buffer]:
        """An element is the median if as many stand before it as must; all are compared.

        A row of n elements takes n * n steps.
        """
        x, (shape, type_) = b.buffer(self.x), b.results[0]
        axes = reduced_axes(self.python_attrs()["axis"], x.rank)
        sizes = [x.shape[i] for i in axes]
        kept = [i for i in range(x.rank) if i not in axes]
        outer, row = [x.shape[i] for i in kept], len(kept)

        def read(
            points: "Sequence[Index | int]", inner: "Sequence[Index | int]"
        ) -> Scalar:
            where = dict(zip((*kept, *axes), (*points, *inner), strict=True))
            return x[tuple(where[i] for i in range(x.rank))]

        def stands_before(*points: Index) -> Scalar:
            own, other = points[row : row + len(axes)], points[row + len(axes) :]
            u, v = (b.wide(read(points[:row], inner)) for inner in (other, own))
            is_below = (u < v) | (v.not_equal(v) & u.equal(u))
            is_same = u.equal(v) | (v.not_equal(v) & u.not_equal(u))
            numbers = [number_of_point(b, inner, sizes) for inner in (other, own)]
            is_earlier = numbers[0] < numbers[1]
            counts = is_below | (is_same & is_earlier)
            return b.select(counts, b.constant(1, _I64), b.constant(0, _I64))

        rank = b.reduce_over(
            "add", (*outer, *sizes), sizes, stands_before, _I64, "rank"
        )
        middle = shapes.floordiv(shapes.product(sizes) - 1, 2)

        def place(*points: Index) -> Scalar:
            number = number_of_point(b, points[row:], sizes)
            is_median = rank[points].equal(element_count(b, [middle], _I64))
            return b.select(is_median, number, b.constant(-1, _I64))

        found = b.reduce_over("max", outer, sizes, place, _I64, "place")
        spots = kept if not self.keepdims.value else list(range(x.rank))

        def outer_of(points: Sequence[Index]) -> tuple[Index, ...]:
            return tuple(p for i, p in zip(spots, points, strict=True) if i in kept)

        def value(*points: Index) -> Scalar:
            own = outer_of(points)
            number = Index.from_scalar(found[own])
            return read(own, point_of_number(b, number, sizes))

        values = b.compute(shape, value, type_, "median")
        if len(b.results) == 1:
            return [values]
        return [values, b.compute(shape, lambda *p: found[outer_of(p)], _I64, "index")]

"""Variance, standard deviation and median along axes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.ir import BoolAttr, DenseI64ArrayAttr, RankedTensorType, TupleType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, EdgeCase
from relax_mlir.dialects.relax.attribute_arguments import int_tuple
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    computed_wide,
    require_element_type,
    unqualified_name,
)
from relax_mlir.dialects.relax.mean_variance_norm import mean_and_variance
from relax_mlir.dialects.relax.reduce import (
    REDUCE_FLOAT_CASES,
    delinearize_index,
    element_count,
    linearize_index,
    reduced_axes,
    reduced_type,
)
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

_I64 = dtype("int64")


class VarianceBaseOp(Relax.Operation):
    """Base of the population variance and the standard deviation.

    Attributes:
        axis: the reduced axes; negative ones count from the end; None for all.
        keepdims: whether the reduced axes are kept with size 1.
    Shapes:
        x: any shape, floats. y: without the reduced axes, same type.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: DenseI64ArrayAttr | None
    keepdims: BoolAttr

    cases = REDUCE_FLOAT_CASES

    def measure(self, b: Builder, variance: Scalar) -> Scalar:
        """The result, as a function of the variance."""
        raise NotImplementedError

    @staticmethod
    def infer(
        x: RankedTensorType, axis: Sequence[int] | None = None, keepdims: bool = False
    ) -> RankedTensorType:
        return reduced_type(x, axis, keepdims, require_element_type("f", x))

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "axis": int_tuple(attrs.get("axis"))}

    def legalize(self, b: Builder) -> Buffer:
        """The variance with kept axes; an elementwise block that may drop them."""
        x = b.buffer(self.x)
        axes = reduced_axes(self.python_attrs()["axis"], x.rank)
        _, measured = mean_and_variance(b, x, axes, lambda v: self.measure(b, v))
        dropped = () if self.keepdims.value else axes

        def body(*points: Index) -> Scalar:
            rest = iter(points)
            row = tuple(0 if i in dropped else next(rest) for i in range(x.rank))
            return b.cast(measured[row], x.dtype)

        return b.compute(b.results[0][0], body, x.dtype, unqualified_name(self))


class VarianceOp(VarianceBaseOp, name="variance"):
    """The population variance: mean((x - mean x)^2); NaN for an empty reduction."""

    @staticmethod
    @computed_wide
    def reference(
        x: np.ndarray, axis: Sequence[int] | None, keepdims: bool
    ) -> np.ndarray:
        return _variance(x, axis, keepdims)

    def measure(self, b: Builder, variance: Scalar) -> Scalar:
        return variance


class StdOp(VarianceBaseOp, name="std"):
    """The standard deviation: the square root of the population variance."""

    @staticmethod
    @computed_wide
    def reference(
        x: np.ndarray, axis: Sequence[int] | None, keepdims: bool
    ) -> np.ndarray:
        return np.sqrt(_variance(x, axis, keepdims))

    def measure(self, b: Builder, variance: Scalar) -> Scalar:
        return b.math("sqrt", variance)


def _variance(x: np.ndarray, axis: Sequence[int] | None, keepdims: bool) -> np.ndarray:
    """The variance from sums and a division; unlike ``np.var`` without warnings."""
    axes = reduced_axes(axis, x.ndim)
    count = x.dtype.type(np.prod([x.shape[i] for i in axes], dtype=np.int64))
    centred = x - x.sum(axes, keepdims=True) / count
    return (centred * centred).sum(axes, keepdims=keepdims) / count


class MedianOp(Relax.Operation, name="median"):
    """The median along axes; the lower of the two middle elements for even counts.

    NaN counts as the largest number. For a single axis the index of the median is also
    returned: among equal elements, that of the middle element of a stable sort.

    Attributes:
        axis: the reduced axes; negative ones count from the end; None for all.
        keepdims: whether the reduced axes are kept with size 1.
    Shapes:
        x: any shape with at least one element along the axes, numbers. y: without the
        reduced axes, same element type; for one axis, a tuple of the values and their
        indices, int64.
    Source: TVM relax.op.median.
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
        type_, shape = require_element_type("fiu", x), tensors.shape_of(x)
        axes = reduced_axes(axis, len(shape))
        if axis is not None and not axes:
            raise ValueError("axis is empty: expected an axis to search, or None")
        if any(shape[i] == 0 for i in axes):
            raise ValueError(f"axes {list(axes)} are empty: expected an element")
        value = reduced_type(x, axis, keepdims, type_)
        if axis is None or len(axis) != 1:
            return value
        index = reduced_type(x, axis, keepdims, _I64)
        return TupleType.get_tuple([value, index])

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
        index = order[..., (rows.shape[-1] - 1) // 2]
        value = np.take_along_axis(rows, index[..., None], -1)[..., 0]
        shape = shapes.reduced(x.shape, axes, keepdims)
        value, index = value.reshape(shape), index.reshape(shape).astype(np.int64)
        return value if axis is None or len(axis) != 1 else [value, index]

    def legalize(self, b: Builder) -> list[Buffer]:
        """Ranks every element by all-pairs comparison; the median has the middle rank.

        A row of n elements takes n * n comparisons.
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

        def precedes(*points: Index) -> Scalar:
            own, other = points[row : row + len(axes)], points[row + len(axes) :]
            u, v = (b.widen(read(points[:row], inner)) for inner in (other, own))
            is_below = (u < v) | (v.not_equal(v) & u.equal(u))
            is_same = u.equal(v) | (v.not_equal(v) & u.not_equal(u))
            numbers = [linearize_index(b, inner, sizes) for inner in (other, own)]
            is_earlier = numbers[0] < numbers[1]
            counts = is_below | (is_same & is_earlier)
            return b.select(counts, b.constant(1, _I64), b.constant(0, _I64))

        rank = b.reduce_over("add", (*outer, *sizes), sizes, precedes, _I64, "rank")
        middle = shapes.floordiv(shapes.product(sizes) - 1, 2)

        def median_number(*points: Index) -> Scalar:
            number = linearize_index(b, points[row:], sizes)
            is_median = rank[points].equal(element_count(b, [middle], _I64))
            return b.select(is_median, number, b.constant(-1, _I64))

        index = b.reduce_over("max", outer, sizes, median_number, _I64, "place")
        result_axes = kept if not self.keepdims.value else list(range(x.rank))

        def outer_of(points: Sequence[Index]) -> tuple[Index, ...]:
            pairs = zip(result_axes, points, strict=True)
            return tuple(p for i, p in pairs if i in kept)

        def value(*points: Index) -> Scalar:
            own = outer_of(points)
            number = Index.from_scalar(index[own])
            return read(own, delinearize_index(b, number, sizes))

        values = b.compute(shape, value, type_, "median")
        if len(b.results) == 1:
            return [values]
        return [values, b.compute(shape, lambda *p: index[outer_of(p)], _I64, "index")]

"""Reductions along axes."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from mlir import ir
from mlir.ir import BoolAttr, DenseI64ArrayAttr, RankedTensorType

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType, dtype
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, OnnxNode
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    EdgeCase,
    computed_wide,
    require,
    wide_type,
)
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

_F64 = dtype("float64")

_FLOATS = (
    Case((), axes=()),
    Case((5,), axes=(0,)),
    Case((5,), axes=(0,), keepdims=False),
    Case((3, 4), axes=()),
    Case((3, 71), axes=(1,)),
    Case((3, 71), axes=(0,), keepdims=False),
    Case((2, 3, 5), axes=(0, -1), keepdims=False),
    Case((2, 3, 5), axes=(1,)),
    Case((2, 1, 40, 3), axes=(1, 2, 3)),
    Case((2, 70, 3), axes=(0, 1, 2), keepdims=False),
    Case((0, 4), axes=(1,)),
    Case((3, 0), axes=(1,)),
    Case((0, 3), axes=(0,), keepdims=False),
    Case((3, 33, "float64"), axes=(1,)),
    Case((3, 300, "float16"), axes=(1,)),
    Case((3, 300, "bfloat16"), axes=(1,)),
    EdgeCase((17, 3), axes=(1,)),
)
_INTEGERS = (
    Case((3, 71, "int32"), axes=(1,), low=-9, high=9),
    Case((3, 5, "int64"), axes=(0,), low=-9, high=9, keepdims=False),
    Case((3, 0, "int32"), axes=(1,)),
    Case((3, 9, "uint32"), axes=(1,), high=9),
)


class ReduceOp(Relax.Operation):
    """Base of the reductions along several axes.

    Attributes:
        axes: what is reduced, counted from either end; none reduces nothing.
        keepdims: whether the reduced axes stay, with size 1.
    Shapes:
        x: any shape. y: the sizes that are left, same element type.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axes: DenseI64ArrayAttr
    keepdims: BoolAttr

    kind: ClassVar[str] = "add"  # how the elements are combined
    tolerance = 1e-5  # f32 sums of up to 300 terms in another order
    cases = (*_FLOATS, *_INTEGERS)

    @staticmethod
    def infer(
        x: RankedTensorType, axes: Sequence[int], keepdims: bool = True
    ) -> RankedTensorType:
        return _reduced_type(x, axes, keepdims, require("fiu", x))

    def before(self, b: Builder, v: Scalar) -> Scalar:
        """What is done to each element first; f16 and bf16 come as f32."""
        return v

    def after(self, b: Builder, total: Scalar) -> Scalar:
        """What is done to each result; may change the type, which is changed back."""
        return total

    def legalize(self, b: Builder) -> Buffer:
        """A reduction in the wide type, and a map where something is left to do."""
        x = b.buffer(self.x)
        total = b.reduce(
            self.kind,
            x,
            tuple(self.axes),
            keepdims=self.keepdims.value,
            fn=lambda v: self.before(b, b.wide(v)),
            dtype=wide_type(x.dtype),
            name=self.OPERATION_NAME.split(".")[1],
        )
        if type(self).after is ReduceOp.after and total.dtype == x.dtype:
            return total
        return b.map(
            lambda t: b.cast(self.after(b, t), x.dtype),
            total,
            dtype=x.dtype,
            name="finish",
        )

    @classmethod
    def _from_onnx_inputs(cls, node: OnnxNode) -> ir.Value:
        keepdims = bool(node.attr("keepdims", 1))
        return cls(node.input(0), axes=_onnx_axes(node), keepdims=keepdims).results[0]


def _reduced_type(
    x: RankedTensorType, axes: Sequence[int], keepdims: bool, type_: DType
) -> RankedTensorType:
    shape = shapes.reduced(tensors.shape_of(x), axes, keepdims)
    return tensors.tensor_type(shape, type_)


def _onnx_axes(node: OnnxNode) -> Sequence[int]:
    """The axes that a node names, in an attribute or, since opset 13 or 18, an input."""
    rank = len(tensors.shape_of(node.input(0)))
    given = node.optional(1)
    if given is None:
        axes = node.attrs.get("axes", ())
    elif tensors.shape_of(given) in (
        (0,),
        (rank,),
    ):  # none or all, whatever their values
        axes = range(rank) if rank and tensors.shape_of(given) == (rank,) else ()
    else:
        axes = [int(axis) for axis in node.known(1).reshape(-1)]
    if not len(axes) and not node.attr("noop_with_empty_axes", 0):
        return range(rank)
    return axes


def element_count(b: Builder, sizes: Sequence[Dim], type_: DType) -> Scalar:
    """The number of elements of a shape, as a number to compute with."""
    count = b.dim(shapes.product(sizes))
    return (
        count.to_scalar(type_) if isinstance(count, Index) else b.constant(count, type_)
    )


def _reduction(
    function: Callable[..., np.ndarray],
) -> Callable[..., np.ndarray]:
    """A reference of numpy's signature, computed in wide types."""

    @computed_wide
    def reference(x: np.ndarray, axes: Sequence[int], keepdims: bool) -> np.ndarray:
        return function(x, axis=tuple(axes), keepdims=keepdims)

    return reference


def _total(x: np.ndarray, **where: Any) -> np.ndarray:  # Any: axis and keepdims
    return np.sum(x, dtype=x.dtype, **where)


class ReduceSumOp(ReduceOp, name="reduce_sum", onnx=("ReduceSum", 1)):
    """The sum of the elements; integers wrap around, an empty sum is 0."""

    reference = staticmethod(_reduction(_total))


class ReduceMeanOp(ReduceOp, name="reduce_mean", onnx=("ReduceMean", 1)):
    """The mean of the elements; NaN of none.

    Integers are summed in their own type and divided by truncation; 0 of none.
    """

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, axes: Sequence[int], keepdims: bool) -> np.ndarray:
        total = _total(x, axis=tuple(axes), keepdims=keepdims)
        sizes = [x.shape[axis] for axis in axes]
        count = np.prod(sizes, dtype=np.int64)
        if not np.issubdtype(x.dtype, np.integer):
            return total / x.dtype.type(count)
        return np.trunc(total / max(count, 1))

    def after(self, b: Builder, total: Scalar) -> Scalar:
        x = b.buffer(self.x)
        sizes = [x.shape[axis] for axis in self.axes]
        return total / element_count(b, sizes, total.dtype)


def _limit(type_: np.dtype, sign: int) -> Any:  # Any: a number of that type
    """The infinity of a type with that sign, or the last number towards it."""
    found = dtypes.from_numpy(type_)
    if found.kind == "b":
        return sign > 0
    if found.is_float:
        return sign * np.inf
    return np.iinfo(type_).max if sign > 0 else np.iinfo(type_).min


_TRUTHS = (
    Case((3, 7, "bool"), axes=(1,)),
    Case((71, 3, "bool"), axes=(0,), keepdims=False),
    Case((3, 0, "bool"), axes=(1,)),
)


class ReduceMaxOp(ReduceOp, name="reduce_max", onnx=("ReduceMax", 1)):
    """The largest element, true if any is; the lowest number of the type for none."""

    kind = "max"
    cases = (*ReduceOp.cases, *_TRUTHS, Case((3, 9, "int8"), axes=(1,), low=-128))

    @staticmethod
    def infer(
        x: RankedTensorType, axes: Sequence[int], keepdims: bool = True
    ) -> RankedTensorType:
        return _reduced_type(x, axes, keepdims, require("fiub", x))

    @staticmethod
    @_reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return np.max(x, initial=_limit(x.dtype, -1), **where)


class ReduceMinOp(ReduceOp, name="reduce_min", onnx=("ReduceMin", 1)):
    """The smallest element, true if all are; the highest number of the type for none."""

    kind = "min"
    cases = (*ReduceOp.cases, *_TRUTHS, Case((3, 9, "int8"), axes=(1,), low=-128))

    @staticmethod
    def infer(
        x: RankedTensorType, axes: Sequence[int], keepdims: bool = True
    ) -> RankedTensorType:
        return _reduced_type(x, axes, keepdims, require("fiub", x))

    @staticmethod
    @_reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return np.min(x, initial=_limit(x.dtype, 1), **where)


class ReduceProdOp(ReduceOp, name="reduce_prod", onnx=("ReduceProd", 1)):
    """The product of the elements; integers wrap around, an empty product is 1."""

    kind = "mul"

    @staticmethod
    @_reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return np.prod(x, dtype=x.dtype, **where)


class ReduceL1Op(ReduceOp, name="reduce_l1", onnx=("ReduceL1", 1)):
    """The sum of the absolute values."""

    @staticmethod
    @_reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return _total(np.abs(x), **where)

    def before(self, b: Builder, v: Scalar) -> Scalar:
        if v.dtype.kind == "u":
            return v
        return b.math("absf" if v.dtype.is_float else "absi", v)


class ReduceL2Op(ReduceOp, name="reduce_l2", onnx=("ReduceL2", 1)):
    """The square root of the sum of squares; of integers it is truncated."""

    @staticmethod
    @_reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return np.sqrt(_total(x * x, **where))

    def before(self, b: Builder, v: Scalar) -> Scalar:
        return v * v

    def after(self, b: Builder, total: Scalar) -> Scalar:
        return b.math("sqrt", total if total.dtype.is_float else b.cast(total, _F64))


class ReduceSumSquareOp(
    ReduceOp, name="reduce_sum_square", onnx=("ReduceSumSquare", 1)
):
    """The sum of squares."""

    @staticmethod
    @_reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return _total(x * x, **where)

    def before(self, b: Builder, v: Scalar) -> Scalar:
        return v * v


class ReduceLogSumOp(ReduceOp, name="reduce_log_sum", onnx=("ReduceLogSum", 1)):
    """The logarithm of the sum; -inf of none."""

    cases = _FLOATS

    @staticmethod
    def infer(
        x: RankedTensorType, axes: Sequence[int], keepdims: bool = True
    ) -> RankedTensorType:
        return _reduced_type(x, axes, keepdims, require("f", x))

    @staticmethod
    @_reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return np.log(_total(x, **where))

    def after(self, b: Builder, total: Scalar) -> Scalar:
        return b.math("log", total)


class ReduceLogSumExpOp(
    ReduceOp, name="reduce_log_sum_exp", onnx=("ReduceLogSumExp", 1)
):
    """The logarithm of the sum of exponentials; -inf of none.

    The largest element is taken out first if it is finite, so nothing overflows.
    """

    cases = (*_FLOATS, Case((3, 71), axes=(1,), low=-200.0, high=200.0))

    @staticmethod
    def infer(
        x: RankedTensorType, axes: Sequence[int], keepdims: bool = True
    ) -> RankedTensorType:
        return _reduced_type(x, axes, keepdims, require("f", x))

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, axes: Sequence[int], keepdims: bool) -> np.ndarray:
        axes = tuple(axes)
        top = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
        shift = np.where(np.isfinite(top), top, 0)
        total = np.exp(x - shift).sum(axes, keepdims=True)
        result = np.log(total) + shift
        return result if keepdims else result.squeeze(axes)

    def legalize(self, b: Builder) -> Buffer:
        """Two reductions, with keepdims; a map that may drop the axes."""
        x = b.buffer(self.x)
        axes = shapes.normalize_axes(self.axes, x.rank)
        wide = wide_type(x.dtype)
        top = b.reduce("max", x, axes, fn=b.wide, dtype=wide, name="max")
        zero_unless_finite = b.map(
            lambda t: b.select(b.math("absf", t) < np.inf, t, b.constant(0, wide)),
            top,
            name="shift",
        )
        total = b.reduce(
            "add",
            [x, zero_unless_finite],
            axes,
            fn=lambda v, s: b.math("exp", b.wide(v) - s),
            dtype=wide,
            name="sum",
        )
        gone = () if self.keepdims.value else axes

        def body(*points: Index) -> Scalar:
            where = with_axes(points, gone)
            result = b.math("log", total[where]) + zero_unless_finite[where]
            return b.cast(result, x.dtype)

        return b.compute(b.results[0][0], body, x.dtype, "log")


def with_axes(
    points: Sequence[Index], axes: Sequence[int]
) -> "tuple[Index | int, ...]":
    """A point, with 0 put in at axes that were dropped."""
    rest = iter(points)
    rank = len(points) + len(axes)
    return tuple(0 if axis in axes else next(rest) for axis in range(rank))

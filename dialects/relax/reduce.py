"""Reductions along axes."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from mlir import ir
from mlir.ir import BoolAttr, DenseI64ArrayAttr, RankedTensorType

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType, dtype
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, EdgeCase, OnnxNode
from relax_mlir.dialects.relax.attribute_arguments import int_tuple
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    computed_wide,
    require_element_type,
    wide_type,
)
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

_F64 = dtype("float64")


def _float_cases(low: float, high: float) -> tuple[Case, ...]:
    """Test cases of reductions on floats from a range."""
    axes = (
        ((), (), True),
        ((5,), (0,), True),
        ((5,), (0,), False),
        ((3, 4), (), True),
        ((3, 71), (1,), True),
        ((3, 71), (0,), False),
        ((2, 3, 5), (0, -1), False),
        ((2, 3, 5), (1,), True),
        ((2, 1, 40, 3), (1, 2, 3), True),
        ((2, 70, 3), (0, 1, 2), False),
        ((0, 4), (1,), True),
        ((3, 0), (1,), True),
        ((0, 3), (0,), False),
        ((3, 33, "float64"), (1,), True),
        ((3, 300, "float16"), (1,), True),
        ((3, 300, "bfloat16"), (1,), True),
    )
    cases = (
        Case(shape, axis=reduced, keepdims=keepdims, low=low, high=high)
        for shape, reduced, keepdims in axes
    )
    return (
        *cases,
        Case((5, 7), low=low, high=high),
        EdgeCase((17, 3), axis=(1,), low=low, high=high),
    )


REDUCE_FLOAT_CASES = _float_cases(-2.0, 2.0)
REDUCE_INTEGER_CASES = (
    Case((3, 71, "int32"), axis=(1,), low=-9, high=9),
    Case((3, 5, "int64"), axis=(0,), low=-9, high=9, keepdims=False),
    Case((3, 0, "int32"), axis=(1,)),
    Case((3, 9, "uint32"), axis=(1,), high=9),
)


class ReduceOp(Relax.Operation):
    """Base of the reductions over several axes.

    Attributes:
        axis: the reduced axes; negative ones count from the end; None for all axes, empty
            for none.
        keepdims: whether the reduced axes are kept with size 1.
    Shapes:
        x: any shape, numbers. y: without the reduced axes, same element type.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: DenseI64ArrayAttr | None
    keepdims: BoolAttr

    kind: ClassVar[str] = "add"  # the combiner, see `tir.reductions`
    tolerance = 1e-5  # f32 sums of up to 300 elements in another order
    cases = (*REDUCE_FLOAT_CASES, *REDUCE_INTEGER_CASES)

    @staticmethod
    def infer(
        x: RankedTensorType, axis: Sequence[int] | None = None, keepdims: bool = False
    ) -> RankedTensorType:
        return reduced_type(x, axis, keepdims, require_element_type("fiu", x))

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "axis": int_tuple(attrs.get("axis"))}

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that are reduced, counted from the front."""
        rank = len(tensors.shape_of(self.operands[0]))
        return reduced_axes(self.python_attrs()["axis"], rank)

    def accumulator_type(self, type_: DType) -> DType:
        """The accumulator type."""
        return wide_type(type_)

    def before(self, b: Builder, v: Scalar) -> Scalar:
        """Applied to each element, in the accumulator type, before the reduction."""
        return v

    def after(self, b: Builder, total: Scalar) -> Scalar:
        """Applied to each result; it may change the type, which is then cast back."""
        return total

    def legalize(self, b: Builder) -> Buffer:
        """A reduction in the accumulator type, and an elementwise block if needed."""
        x = b.buffer(self.x)
        wide = self.accumulator_type(x.dtype)
        total = b.reduce(
            self.kind,
            x,
            self.axes,
            keepdims=self.keepdims.value,
            fn=lambda v: self.before(b, b.cast(v, wide)),
            dtype=wide,
            name=self.program_name(),
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
        keepdims = node.flag("keepdims", default=True)
        return cls(node.input(0), axis=_onnx_axes(node), keepdims=keepdims).results[0]


def reduced_axes(axis: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """The reduced axes, counted from the front; None gives all axes."""
    return shapes.normalize_axes(range(rank) if axis is None else axis, rank)


def reduced_type(
    x: RankedTensorType, axis: Sequence[int] | None, keepdims: bool, type_: DType
) -> RankedTensorType:
    """The type of a reduction's result, with elements of ``type_``."""
    axes = reduced_axes(axis, x.rank)
    return tensors.tensor_type(
        shapes.reduced(tensors.shape_of(x), axes, keepdims), type_
    )


def _onnx_axes(node: OnnxNode) -> Sequence[int]:
    """The axes of an ONNX reduction: an attribute, or an input since opset 13 or 18.

    Repeated axes are allowed, as in onnxruntime.
    """
    every = range(len(tensors.shape_of(node.input(0))))
    given = node.optional(1)
    if given is None:
        axes = node.attrs.get("axes", ())
    else:
        count, element = tensors.shape_of(given), tensors.dtype_of(given)
        if element.numpy.kind not in "iu":
            raise ValueError(f"input 1: expected integers, got {element}")
        is_known = node.constant_or_none(1) is not None
        if not is_known and count == (len(every),) == (1,):  # rank 1: 0 or -1
            return every
        axes = () if count == (0,) else node.vector(1).tolist()
    is_all = not len(axes) and not node.flag("noop_with_empty_axes", default=False)
    return every if is_all else shapes.distinct_axes(axes, len(every))


def element_count(b: Builder, sizes: Sequence[Dim], type_: DType) -> Scalar:
    """The number of elements of a shape, as a scalar of ``type_``."""
    count = b.dim(shapes.product(sizes))
    return (
        count.to_scalar(type_) if isinstance(count, Index) else b.constant(count, type_)
    )


def linearize_index(
    b: Builder, point: "Sequence[Index | int]", sizes: Sequence[Dim]
) -> Scalar:
    """Linearises indices of a shape in row-major order, as an int64."""
    number: Index | int = 0
    for axis, (index, size) in enumerate(zip(point, sizes, strict=True)):
        number = index + number * b.dim(size) if axis else index
    type_ = dtype("int64")
    return (
        number.to_scalar(type_)
        if isinstance(number, Index)
        else b.constant(number, type_)
    )


def delinearize_index(
    b: Builder, number: Index, sizes: Sequence[Dim]
) -> "tuple[Index | int, ...]":
    """Delinearises a row-major number to indices: inverts :func:`linearize_index`."""
    point: list[Index | int] = []
    for size in reversed(sizes):
        point.insert(0, number % b.dim(size))
        number = number // b.dim(size)
    return tuple(point)


def wide_reduction(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Decorator of a reference with numpy's signature: computes in wide types."""

    @computed_wide
    def reference(
        x: np.ndarray, axis: Sequence[int] | None, keepdims: bool
    ) -> np.ndarray:
        return function(x, axis=reduced_axes(axis, x.ndim), keepdims=keepdims)

    return reference


def sum_same_dtype(x: np.ndarray, **where: Any) -> np.ndarray:  # Any: axis and keepdims
    """The sum in the type of the elements; numpy would widen integers."""
    return np.sum(x, dtype=x.dtype, **where)


class SumOp(ReduceOp, name="sum", onnx=("ReduceSum", 1)):
    """The sum over axes; integers wrap around, an empty sum is 0.

    Source: numpy.sum; ONNX ReduceSum-13.
    """

    reference = staticmethod(wide_reduction(sum_same_dtype))


class MeanOp(ReduceOp, name="mean", onnx=("ReduceMean", 1)):
    """The mean over axes; NaN for an empty reduction.

    Integers are summed in their own type and divided with truncation; an empty reduction
    gives 0.

    Source: numpy.mean; ONNX ReduceMean-18.
    """

    @staticmethod
    @computed_wide
    def reference(
        x: np.ndarray, axis: Sequence[int] | None, keepdims: bool
    ) -> np.ndarray:
        axes = reduced_axes(axis, x.ndim)
        total = sum_same_dtype(x, axis=axes, keepdims=keepdims)
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
    """The infinity of the given sign, or the extreme number of an integer type."""
    found = dtypes.from_numpy(type_)
    if found.kind == "b":
        return sign > 0
    if found.is_float:
        return sign * np.inf
    return np.iinfo(type_).max if sign > 0 else np.iinfo(type_).min


_BOOLEANS = (
    Case((3, 7, "bool"), axis=(1,)),
    Case((71, 3, "bool"), axis=(0,), keepdims=False),
    Case((3, 0, "bool"), axis=(1,)),
)


class ReduceExtremeOp(ReduceOp):
    """Base of the maximum and minimum reductions, which also support bool."""

    cases = (*ReduceOp.cases, *_BOOLEANS, Case((3, 9, "int8"), axis=(1,), low=-128))

    @staticmethod
    def infer(
        x: RankedTensorType, axis: Sequence[int] | None = None, keepdims: bool = False
    ) -> RankedTensorType:
        return reduced_type(x, axis, keepdims, require_element_type("fiub", x))


class MaxOp(ReduceExtremeOp, name="max", onnx=("ReduceMax", 1)):
    """The maximum over axes; for bool, any; the lowest number for an empty reduction.

    Source: numpy.max; ONNX ReduceMax-20.
    """

    kind = "max"

    @staticmethod
    @wide_reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return np.max(x, initial=_limit(x.dtype, -1), **where)


class MinOp(ReduceExtremeOp, name="min", onnx=("ReduceMin", 1)):
    """The minimum over axes; for bool, all; the highest number for an empty reduction.

    Source: numpy.min; ONNX ReduceMin-20.
    """

    kind = "min"

    @staticmethod
    @wide_reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return np.min(x, initial=_limit(x.dtype, 1), **where)


class ProdOp(ReduceOp, name="prod", onnx=("ReduceProd", 1)):
    """The product over axes; integers wrap around, an empty product is 1.

    Source: numpy.prod; ONNX ReduceProd-18.
    """

    kind = "mul"
    cases = (
        *_float_cases(-1.03, 1.03),
        *REDUCE_INTEGER_CASES,
    )  # so that products of 300 elements do not underflow

    @staticmethod
    @wide_reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return np.prod(x, dtype=x.dtype, **where)


class ReduceL1Op(ReduceOp, name="reduce_l1", onnx=("ReduceL1", 1)):
    """The L1 norm over axes: the sum of the absolute values.

    Source: ONNX ReduceL1-18.
    """

    @staticmethod
    @wide_reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return sum_same_dtype(np.abs(x), **where)

    def before(self, b: Builder, v: Scalar) -> Scalar:
        if v.dtype.kind == "u":
            return v
        return b.math("absf" if v.dtype.is_float else "absi", v)


class ReduceL2Op(ReduceOp, name="reduce_l2", onnx=("ReduceL2", 1)):
    """The L2 norm over axes: the square root of the sum of squares; integers truncate.

    Source: ONNX ReduceL2-18.
    """

    @staticmethod
    @wide_reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return np.sqrt(sum_same_dtype(x * x, **where))

    def before(self, b: Builder, v: Scalar) -> Scalar:
        return v * v

    def after(self, b: Builder, total: Scalar) -> Scalar:
        return b.math("sqrt", total if total.dtype.is_float else b.cast(total, _F64))


class ReduceSumSquareOp(
    ReduceOp, name="reduce_sum_square", onnx=("ReduceSumSquare", 1)
):
    """The sum of squares over axes.

    Source: ONNX ReduceSumSquare-18.
    """

    @staticmethod
    @wide_reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return sum_same_dtype(x * x, **where)

    def before(self, b: Builder, v: Scalar) -> Scalar:
        return v * v

"""Reductions along axes."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from mlir import ir
from mlir.ir import BoolAttr, DenseI64ArrayAttr, RankedTensorType

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType, dtype
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, EdgeCase, OnnxNode
from relax_mlir.dialects.relax.arguments import int_tuple
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    computed_wide,
    require,
    wide_type,
)
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

_F64 = dtype("float64")


def _float_cases(low: float, high: float) -> tuple[Case, ...]:
    """Shapes, axes and types, with inputs from a range."""
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


FLOAT_CASES = _float_cases(-2.0, 2.0)
INTEGER_CASES = (
    Case((3, 71, "int32"), axis=(1,), low=-9, high=9),
    Case((3, 5, "int64"), axis=(0,), low=-9, high=9, keepdims=False),
    Case((3, 0, "int32"), axis=(1,)),
    Case((3, 9, "uint32"), axis=(1,), high=9),
)


class ReduceOp(Relax.Operation):
    """Base of the reductions along several axes.

    Attributes:
        axis: what is reduced, counted from either end: all axes if it is None, nothing if
            it is empty.
        keepdims: whether the reduced axes stay, with size 1.
    Shapes:
        x: any shape. y: the sizes that are left, same element type.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: DenseI64ArrayAttr | None
    keepdims: BoolAttr

    kind: ClassVar[str] = "add"  # how the elements are combined
    tolerance = 1e-5  # f32 sums of up to 300 terms in another order
    cases = (*FLOAT_CASES, *INTEGER_CASES)

    @staticmethod
    def infer(
        x: RankedTensorType, axis: Sequence[int] | None = None, keepdims: bool = False
    ) -> RankedTensorType:
        return reduced_type(x, axis, keepdims, require("fiu", x))

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "axis": int_tuple(attrs.get("axis"))}

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that are reduced, counted from the front."""
        rank = len(tensors.shape_of(self.operands[0]))
        return reduced_axes(self.python_attrs()["axis"], rank)

    def wide(self, type_: DType) -> DType:
        """The type that elements are combined in."""
        return wide_type(type_)

    def before(self, b: Builder, v: Scalar) -> Scalar:
        """What is done to each element first; it comes in the wide type."""
        return v

    def after(self, b: Builder, total: Scalar) -> Scalar:
        """What is done to each result; may change the type, which is changed back."""
        return total

    def legalize(self, b: Builder) -> Buffer:
        """A reduction in the wide type, and a map where something is left to do."""
        x = b.buffer(self.x)
        wide = self.wide(x.dtype)
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
    """The axes that an attribute names, counted from the front; None names all."""
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
    """The axes that a node names, in an attribute or, since opset 13 or 18, an input.

    One may be named twice, as onnxruntime takes it.
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
        if not is_known and count == (len(every),) == (1,):  # 0 and -1 name one axis
            return every
        axes = () if count == (0,) else node.vector(1).tolist()
    is_all = not len(axes) and not node.flag("noop_with_empty_axes", default=False)
    return every if is_all else shapes.distinct_axes(axes, len(every))


def element_count(b: Builder, sizes: Sequence[Dim], type_: DType) -> Scalar:
    """The number of elements of a shape, as a number to compute with."""
    count = b.dim(shapes.product(sizes))
    return (
        count.to_scalar(type_) if isinstance(count, Index) else b.constant(count, type_)
    )


def number_of_point(
    b: Builder, point: "Sequence[Index | int]", sizes: Sequence[Dim]
) -> Scalar:
    """The number of a point among all of a shape, counted with the last axis fastest."""
    number: Index | int = 0
    for axis, (place, size) in enumerate(zip(point, sizes, strict=True)):
        number = place + number * b.dim(size) if axis else place
    type_ = dtype("int64")
    return (
        number.to_scalar(type_)
        if isinstance(number, Index)
        else b.constant(number, type_)
    )


def point_of_number(
    b: Builder, number: Index, sizes: Sequence[Dim]
) -> "tuple[Index | int, ...]":
    """The point of a shape that has a number: :func:`number_of_point` undone."""
    point: list[Index | int] = []
    for size in reversed(sizes):
        point.insert(0, number % b.dim(size))
        number = number // b.dim(size)
    return tuple(point)


def reduction(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A reference of numpy's signature, computed in wide types."""

    @computed_wide
    def reference(
        x: np.ndarray, axis: Sequence[int] | None, keepdims: bool
    ) -> np.ndarray:
        return function(x, axis=reduced_axes(axis, x.ndim), keepdims=keepdims)

    return reference


def sum_of(x: np.ndarray, **where: Any) -> np.ndarray:  # Any: axis and keepdims
    """The sum in the type of the elements, where numpy would take a wider integer."""
    return np.sum(x, dtype=x.dtype, **where)


class SumOp(ReduceOp, name="sum", onnx=("ReduceSum", 1)):
    """The sum of the elements; integers wrap around, an empty sum is 0."""

    reference = staticmethod(reduction(sum_of))


class MeanOp(ReduceOp, name="mean", onnx=("ReduceMean", 1)):
    """The mean of the elements; NaN of none.

    Integers are summed in their own type and divided by truncation; 0 of none.
    """

    @staticmethod
    @computed_wide
    def reference(
        x: np.ndarray, axis: Sequence[int] | None, keepdims: bool
    ) -> np.ndarray:
        axes = reduced_axes(axis, x.ndim)
        total = sum_of(x, axis=axes, keepdims=keepdims)
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
    Case((3, 7, "bool"), axis=(1,)),
    Case((71, 3, "bool"), axis=(0,), keepdims=False),
    Case((3, 0, "bool"), axis=(1,)),
)


class ReduceExtremeOp(ReduceOp):
    """Base of the largest and the smallest element, of truths too."""

    cases = (*ReduceOp.cases, *_TRUTHS, Case((3, 9, "int8"), axis=(1,), low=-128))

    @staticmethod
    def infer(
        x: RankedTensorType, axis: Sequence[int] | None = None, keepdims: bool = False
    ) -> RankedTensorType:
        return reduced_type(x, axis, keepdims, require("fiub", x))


class MaxOp(ReduceExtremeOp, name="max", onnx=("ReduceMax", 1)):
    """The largest element, true if any is; the lowest number of the type for none."""

    kind = "max"

    @staticmethod
    @reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return np.max(x, initial=_limit(x.dtype, -1), **where)


class MinOp(ReduceExtremeOp, name="min", onnx=("ReduceMin", 1)):
    """The smallest element, true if all are; the highest number of the type for none."""

    kind = "min"

    @staticmethod
    @reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return np.min(x, initial=_limit(x.dtype, 1), **where)


class ProdOp(ReduceOp, name="prod", onnx=("ReduceProd", 1)):
    """The product of the elements; integers wrap around, an empty product is 1."""

    kind = "mul"
    cases = (
        *_float_cases(-1.03, 1.03),
        *INTEGER_CASES,
    )  # so that 300 of them do not vanish

    @staticmethod
    @reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return np.prod(x, dtype=x.dtype, **where)


class ReduceL1Op(ReduceOp, name="reduce_l1", onnx=("ReduceL1", 1)):
    """The sum of the absolute values."""

    @staticmethod
    @reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return sum_of(np.abs(x), **where)

    def before(self, b: Builder, v: Scalar) -> Scalar:
        if v.dtype.kind == "u":
            return v
        return b.math("absf" if v.dtype.is_float else "absi", v)


class ReduceL2Op(ReduceOp, name="reduce_l2", onnx=("ReduceL2", 1)):
    """The square root of the sum of squares; of integers it is truncated."""

    @staticmethod
    @reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return np.sqrt(sum_of(x * x, **where))

    def before(self, b: Builder, v: Scalar) -> Scalar:
        return v * v

    def after(self, b: Builder, total: Scalar) -> Scalar:
        return b.math("sqrt", total if total.dtype.is_float else b.cast(total, _F64))


class ReduceSumSquareOp(
    ReduceOp, name="reduce_sum_square", onnx=("ReduceSumSquare", 1)
):
    """The sum of squares."""

    @staticmethod
    @reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return sum_of(x * x, **where)

    def before(self, b: Builder, v: Scalar) -> Scalar:
        return v * v

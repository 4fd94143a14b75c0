"""Sorting along an axis: sort, argsort and top-k.

A rank sort: the rank of an element is the number of elements that precede it, smaller ones
and equal ones at a lower index. It takes n^2 comparisons for an axis of size n.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.ir import (
    BoolAttr,
    IntegerAttr,
    RankedTensorType,
    StringAttr,
    TupleType,
    TypeAttr,
)

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, EdgeCase
from relax_mlir.dialects.relax.attribute_arguments import element_type
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["ArgsortOp", "SortOp", "TopkOp"]

_INT32, _INT64 = dtypes.dtype("int32"), dtypes.dtype("int64")
_RETURNS = ("both", "values", "indices")


def _order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """A stable argsort in numpy; NaN is the largest."""
    if x.dtype.kind == "b":
        x = x.astype(np.uint8)
    if not descending:
        return np.argsort(x, axis, kind="stable")
    backwards = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backwards, axis)


def _precedes(
    b: Builder, pair: tuple[Scalar, Scalar], is_earlier: Scalar, descending: bool
) -> Scalar:
    """Whether the first of two elements precedes the other in the order."""
    first, other = pair
    small, large = (other, first) if descending else (first, other)
    is_less, is_equal = small < large, first.equal(other)
    if first.dtype.is_float:
        small_is_nan, large_is_nan = small.not_equal(small), large.not_equal(large)
        is_less = is_less | (large_is_nan & ~small_is_nan)
        is_equal = is_equal | (small_is_nan & large_is_nan)
    return is_less | (is_equal & is_earlier)


def _ranks(b: Builder, x: Buffer, axis: int, descending: bool) -> Buffer:
    """The rank of every element in the order."""

    def body(*axes: Index) -> Scalar:
        point, k = axes[:-1], axes[-1]
        other = x[(*point[:axis], k, *point[axis + 1 :])]
        precedes = _precedes(b, (other, x[point]), k < point[axis], descending)
        return b.select(precedes, b.constant(1, _INT64), b.constant(0, _INT64))

    return b.reduce_over("add", x.shape, [x.shape[axis]], body, _INT64, "ranks")


def _scatter_by_rank(
    b: Builder, ranks: Buffer, axis: int, source: Buffer | None, dtype: DType
) -> Buffer:
    """Stores every element of ``source`` (None: its index along the axis) at its rank."""
    out = b.alloc(ranks.shape, dtype)

    def body(*point: Index) -> None:
        rank = Index.from_scalar(ranks[point])
        value = point[axis].to_scalar(dtype) if source is None else source[point]
        out.store(value, (*point[:axis], rank, *point[axis + 1 :]))

    # Axes are "R", not parallel: the stores are data-dependent.
    b.block("place", ranks.shape, "R" * ranks.rank, body)
    return out


class SortOp(Relax.Operation, name="sort"):
    """Sorts along one axis, stably; NaN is the largest.

    Attributes:
        axis: negative ones count from the end.
        descending: whether the largest comes first.
    Shapes:
        x, y: any shape of rank 1 or more, same element type.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr
    descending: BoolAttr

    cases = (
        Case((7,)),
        Case((3, 17), axis=-1, descending=True),
        Case((5, 3, "int64"), axis=0, low=-3, high=3),
        EdgeCase((23,)),
        EdgeCase((23,), descending=True),
        Case((0,)),
        Case((9, "uint8"), low=0, high=255),
    )

    @staticmethod
    def infer(
        x: RankedTensorType, axis: int = -1, descending: bool = False
    ) -> RankedTensorType:
        shapes.check_axis(axis, x.rank)
        return x

    @staticmethod
    def reference(
        x: np.ndarray, axis: int = -1, descending: bool = False
    ) -> np.ndarray:
        return np.take_along_axis(x, _order(x, axis, descending), axis)

    def legalize(self, b: Builder) -> Buffer:
        x, axis = b.buffer(self.x), self.axis.value
        axis %= x.rank
        ranks = _ranks(b, x, axis, self.descending.value)
        return _scatter_by_rank(b, ranks, axis, x, x.dtype)


class ArgsortOp(Relax.Operation, name="argsort"):
    """The indices that sort along one axis, stably; NaN is the largest.

    Attributes:
        axis: negative ones count from the end.
        descending: whether the largest comes first.
        dtype: the element type of y.
    Shapes:
        data, y: any shape of rank 1 or more.
    Source: numpy.argsort, kind ``stable``.
    """

    data: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr
    descending: BoolAttr
    dtype: TypeAttr

    cases = (
        Case((7,)),
        Case((3, 17), descending=True),
        Case((5, 3, "int64"), axis=0, dtype=_INT64, low=-3, high=3),
        EdgeCase((23,), descending=True),
    )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "dtype": element_type(attrs.get("dtype")) or _INT32}

    @staticmethod
    def infer(
        data: RankedTensorType,
        axis: int = -1,
        descending: bool = False,
        dtype: DType = _INT32,
    ) -> RankedTensorType:
        shapes.check_axis(axis, data.rank)
        return tensors.tensor_type(tensors.shape_of(data), dtype)

    @staticmethod
    def reference(
        data: np.ndarray,
        axis: int = -1,
        descending: bool = False,
        dtype: DType = _INT32,
    ) -> np.ndarray:
        return _order(data, axis, descending).astype(dtype.numpy)

    def legalize(self, b: Builder) -> Buffer:
        data, axis = b.buffer(self.data), self.axis.value
        axis %= data.rank
        ranks = _ranks(b, data, axis, self.descending.value)
        return _scatter_by_rank(b, ranks, axis, None, b.results[0][1])


class TopkOp(Relax.Operation, name="topk"):
    """The k largest or smallest elements along one axis, in order, and their indices.

    Of equal elements those of lower index come first; NaN is the largest.

    Attributes:
        k: number of elements, at most the size of the axis; a symbolic axis must have at
            least k. All elements if 0 or less.
        axis: negative ones count from the end.
        ret_type: ``values``, ``indices``, or ``both`` as a tuple.
        largest: whether the largest elements are returned, rather than the smallest.
        dtype: the element type of the indices.
    Shapes:
        data: [..., n, ...]; y: [..., k, ...] each.
    Source: ONNX TopK-11.
    """

    data: Operand[RankedTensorType]
    y: Result[ir.Type]
    k: IntegerAttr
    axis: IntegerAttr
    ret_type: StringAttr
    largest: BoolAttr
    dtype: TypeAttr

    cases = (
        Case((7,)),
        Case((3, 17), k=5),
        Case((3, 5, 2), k=9, axis=1, ret_type="indices", largest=False, dtype=_INT64),
        Case((5, 3, "int64"), k=2, axis=0, ret_type="values", low=-3, high=3),
        EdgeCase((23,), k=0),
    )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "dtype": element_type(attrs.get("dtype")) or _INT32}

    @staticmethod
    def infer(
        data: RankedTensorType,
        k: int = 1,
        axis: int = -1,
        ret_type: str = "both",
        largest: bool = True,
        dtype: DType = _INT32,
    ) -> "RankedTensorType | TupleType":
        if ret_type not in _RETURNS:
            raise ValueError(
                f"bad ret_type: expected {', '.join(_RETURNS)}, got `{ret_type}`"
            )
        shape = list(tensors.shape_of(data))
        axis = shapes.check_axis(axis, len(shape))
        shape[axis] = _kept(k, shape[axis])
        values = tensors.tensor_type(shape, tensors.dtype_of(data))
        indices = tensors.tensor_type(shape, dtype)
        both = TupleType.get_tuple([values, indices])
        return {"both": both, "values": values, "indices": indices}[ret_type]

    @staticmethod
    def reference(
        data: np.ndarray,
        k: int = 1,
        axis: int = -1,
        ret_type: str = "both",
        largest: bool = True,
        dtype: DType = _INT32,
    ) -> "np.ndarray | list[np.ndarray]":
        order = _order(data, axis, largest)
        first = order.take(range(min(k, data.shape[axis])), axis) if k > 0 else order
        values = np.take_along_axis(data, first, axis)
        indices = first.astype(dtype.numpy)
        both = [values, indices]
        return {"both": both, "values": values, "indices": indices}[ret_type]

    def legalize(self, b: Builder) -> Sequence[Buffer]:
        data = b.buffer(self.data)
        attrs = self.python_attrs()
        axis, wanted = attrs["axis"] % data.rank, attrs["ret_type"]
        ranks = _ranks(b, data, axis, attrs["largest"])
        ordered: list[Buffer] = []
        if wanted != "indices":
            ordered.append(_scatter_by_rank(b, ranks, axis, data, data.dtype))
        if wanted != "values":
            ordered.append(_scatter_by_rank(b, ranks, axis, None, attrs["dtype"]))
        shape = b.results[0][0]
        return [
            b.compute(shape, lambda *axes, x=x: x[axes], x.dtype, "first")
            for x in ordered
        ]


def _kept(k: int, size: Dim) -> Dim:
    """The size of the axis of the result."""
    if k <= 0:
        return size
    if isinstance(size, int):
        return min(k, size)
    shapes.require_at_least(size, k)
    return k

"""Elements in order, and where they were.

An element's place is the number of those that come before it: of smaller ones, and of
equal ones in front. That takes as many comparisons as there are pairs along the axis.
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
from relax_mlir.dialects.hooks import Case, EdgeCase
from relax_mlir.dialects.relax.arguments import element_type
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["ArgsortOp", "SortOp", "TopkOp"]

_INT32, _INT64 = dtypes.dtype("int32"), dtypes.dtype("int64")
_RETURNS = ("both", "values", "indices")


def _order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """Where the elements in order are; equal ones stay in order, NaN is the largest."""
    if x.dtype.kind == "b":
        x = x.astype(np.uint8)
    if not descending:
        return np.argsort(x, axis, kind="stable")
    backwards = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backwards, axis)


def _comes_before(
    b: Builder, pair: tuple[Scalar, Scalar], is_in_front: Scalar, descending: bool
) -> Scalar:
    """Whether the first of two elements comes before the other."""
    first, other = pair
    small, large = (other, first) if descending else (first, other)
    is_less, is_equal = small < large, first.equal(other)
    if first.dtype.is_float:
        small_is_nan, large_is_nan = small.not_equal(small), large.not_equal(large)
        is_less = is_less | (large_is_nan & ~small_is_nan)
        is_equal = is_equal | (small_is_nan & large_is_nan)
    return is_less | (is_equal & is_in_front)


def _ranks(b: Builder, x: Buffer, axis: int, descending: bool) -> Buffer:
    """The place of every element in the order."""

    def body(*axes: Index) -> Scalar:
        point, k = axes[:-1], axes[-1]
        other = x[(*point[:axis], k, *point[axis + 1 :])]
        comes = _comes_before(b, (other, x[point]), k < point[axis], descending)
        return b.select(comes, b.constant(1, _INT64), b.constant(0, _INT64))

    return b.reduce_over("add", x.shape, [x.shape[axis]], body, _INT64, "ranks")


def _placed(
    b: Builder, ranks: Buffer, axis: int, source: Buffer | None, dtype: DType
) -> Buffer:
    """Every element of ``source``, or its place along the axis, where its rank says."""
    out = b.alloc(ranks.shape, dtype)

    def body(*point: Index) -> None:
        rank = Index.from_scalar(ranks[point])
        value = point[axis].to_scalar(dtype) if source is None else source[point]
        out.store(value, (*point[:axis], rank, *point[axis + 1 :]))

    # It reduces: places are data, so that several blocks of it might write one line.
    b.block("place", ranks.shape, "R" * ranks.rank, body)
    return out


class SortOp(Relax.Operation, name="sort"):
    """The elements along one axis in order; NaN is the largest.

    Attributes:
        axis: which; negative ones count from the end.
        descending: whether the largest comes first.
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
        return _placed(b, ranks, axis, x, x.dtype)


class ArgsortOp(Relax.Operation, name="argsort"):
    """Where the elements are that stand in order; equal ones stay in order.

    NaN is the largest.

    Attributes:
        axis: along which; negative ones count from the end.
        descending: whether the largest comes first.
        dtype: the type of the places.
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
        return _placed(b, ranks, axis, None, b.results[0][1])


class TopkOp(Relax.Operation, name="topk"):
    """The first elements along one axis in order, and where they are.

    Of equal elements those in front come first; NaN is the largest.

    Attributes:
        k: how many, if there are so many, which a symbolic axis must have; all if it is
            0 or less.
        axis: along which; negative ones count from the end.
        ret_type: ``values``, ``indices``, or ``both`` as a tuple.
        largest: whether the largest come first, or the smallest.
        dtype: the type of the places.
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
        found: list[Buffer] = []
        if wanted != "indices":
            found.append(_placed(b, ranks, axis, data, data.dtype))
        if wanted != "values":
            found.append(_placed(b, ranks, axis, None, attrs["dtype"]))
        shape = b.results[0][0]
        return [
            b.compute(shape, lambda *axes, x=x: x[axes], x.dtype, "first")
            for x in found
        ]


def _kept(k: int, size: Dim) -> Dim:
    """How many elements are left of an axis."""
    if k <= 0:
        return size
    if isinstance(size, int):
        return min(k, size)
    shapes.require_at_least(size, k)
    return k

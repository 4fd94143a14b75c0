"""Sums over broadcast axes: the gradient of broadcasting."""

from collections.abc import Sequence

import numpy as np
from mlir.ir import RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["CollapseSumLikeOp", "CollapseSumToOp"]


class CollapseSumToOp(Relax.Operation, name="collapse_sum_to"):
    """Sums data over the axes along which ``shape`` is broadcast to the shape of data.

    Attributes:
        shape: the shape of y, which broadcasts to the shape of data.
    Shapes:
        data: any shape; y: ``shape``.
    """

    data: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    shape: Attr

    argument_attributes = ("shape",)
    cases = (
        Case((2, 3, 4), shape=(3, 1)),
        Case((2, 3), shape=()),
        Case((2, 3), shape=(2, 3)),
        Case((5, 1, 4, "float16"), shape=(1, 1, 4)),
        Case((3, 4, "int64"), shape=(4,), low=-9, high=9),
        Case((0, 4), shape=(4,)),
    )

    @classmethod
    def program_name(cls) -> str:
        return "collapse_sum"

    @staticmethod
    def infer(data: RankedTensorType, shape: Sequence[Dim]) -> RankedTensorType:
        _check_shape(data, shape)
        return tensors.tensor_type(tuple(shape), tensors.dtype_of(data))

    @staticmethod
    def reference(data: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        axes = _summed_axes(data.shape, shape)
        wide = np.float64 if data.dtype.kind not in "iub" else data.dtype
        return data.sum(axes, wide).reshape(shape).astype(data.dtype)

    def legalize(self, b: Builder) -> Buffer:
        return _collapse(b, b.inputs[0])


class CollapseSumLikeOp(Relax.Operation, name="collapse_sum_like"):
    """Sums data over the axes along which a target is broadcast to the shape of data.

    Shapes:
        data: any shape; collapse_target: a shape that broadcasts to that of data, its
        elements are not read; y: shape of collapse_target.
    """

    data: Operand[RankedTensorType]
    collapse_target: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    cases = (
        Case((2, 3, 4), (3, 1)),
        Case((2, 3), ()),
        Case((2, 3, "int32"), (2, 1), low=-9, high=9),
    )

    @classmethod
    def program_name(cls) -> str:
        return "collapse_sum"

    @staticmethod
    def infer(
        data: RankedTensorType, collapse_target: RankedTensorType
    ) -> RankedTensorType:
        shape = tensors.shape_of(collapse_target)
        _check_shape(data, shape)
        return tensors.tensor_type(shape, tensors.dtype_of(data))

    @staticmethod
    def reference(data: np.ndarray, collapse_target: np.ndarray) -> np.ndarray:
        return CollapseSumToOp.reference(data, collapse_target.shape)

    def legalize(self, b: Builder) -> Buffer:
        return _collapse(b, b.inputs[0])


def _check_shape(data: RankedTensorType, shape: Sequence[Dim]) -> None:
    shapes.require_nonnegative(shape)
    shapes.broadcast_into(tensors.shape_of(data), shape)


def _summed_axes(old: Sequence[Dim], new: Sequence[Dim]) -> tuple[int, ...]:
    added = len(old) - len(new)
    stretched = (
        added + i for i, dim in enumerate(new) if dim == 1 and old[added + i] != 1
    )
    return (*range(added), *stretched)


def _collapse(b: Builder, data: Buffer) -> Buffer:
    shape, dtype = b.results[0]
    axes = _summed_axes(data.shape, shape)
    added = data.rank - len(shape)

    def body(*points: Index) -> Scalar:
        where: list[Index] = [points[max(0, i - added)] for i in range(data.rank)]
        for axis, point in zip(axes, points[len(shape) :], strict=True):
            where[axis] = point
        return b.widen(data[tuple(where)])

    if not axes:
        return b.compute(shape, lambda *p: data[p], dtype, "collapse_sum")
    extents = [data.shape[axis] for axis in axes]
    return b.reduce_over("add", shape, extents, body, dtype, "collapse_sum")

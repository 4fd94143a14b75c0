"""Advanced indexing: gather and scatter by one index tensor per axis."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from mlir.ir import BoolAttr, RankedTensorType, TupleType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.index_ranges import IndexOperand, IndexRange, axis_range
from relax_mlir.dialects.op_interface import Case, IndexCase
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.gather import (
    broadcast_axes,
    check_indices,
    check_not_empty,
    clamp_indices,
    emit_clamped_index,
    emit_wrapped_index,
    wrap_indices,
)
from relax_mlir.dialects.relax.padding import indices_in_range
from relax_mlir.dialects.shapes import Shape
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["IndexPutOp", "IndexTensorOp"]


def _indexed_shapes(
    data: RankedTensorType, indices: Sequence[RankedTensorType]
) -> tuple[Shape, Shape]:
    """The broadcast shape of the indices, and the shape of the slice at each of them."""
    if not 1 <= len(indices) <= data.rank:
        raise ValueError(
            f"expected 1 to {data.rank} tensors of indices, got {len(indices)}"
        )
    for index in indices:
        check_indices(index)
    points = shapes.broadcast(*map(tensors.shape_of, indices))
    shape = tensors.shape_of(data)
    for size in shape[: len(indices)]:
        check_not_empty(size, points)
    return points, shape[len(indices) :]


def _ranges(
    data: RankedTensorType, indices: Sequence[RankedTensorType]
) -> list[IndexRange]:
    """The valid range of each index tensor."""
    return [axis_range(data, axis) for axis in range(len(indices))]


class IndexTensorOp(Relax.Operation, name="index_tensor"):
    """Advanced indexing: y = data[indices[0], ..., indices[k-1]].

    Negative indices count from the end; out-of-range indices are clamped.

    Shapes:
        data: [n1..nk, s...]; indices: k tensors of integers, which broadcast to [i...];
        y: [i..., s...].
    Source: numpy's advanced indexing.
    """

    data: Operand[RankedTensorType]
    indices: Operand[TupleType]
    y: Result[RankedTensorType]

    cases = (
        Case((4, 5), [(3, "int64"), (3, "int64")], low=-4, high=3),
        Case((4, 5), [(2, 3, "int32")], low=-4, high=3),
        Case((3, 4, 2), [(5, 1, "int64"), (3, "int64")], low=-3, high=2),
        Case((3, "bool"), [("int64",)], low=-3, high=2),
        Case((3, 4), [(0, "int64")]),
        Case((3, 4), [(9, "int64"), (9, "int64")], low=-9, high=9),
        IndexCase((3, 4), [(9, "int32"), (9, "int64")], low=-3, high=2),
    )
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {
        "indices": IndexOperand(_ranges, "clamps: picks the nearest element")
    }

    @staticmethod
    def infer(
        data: RankedTensorType, indices: Sequence[RankedTensorType]
    ) -> RankedTensorType:
        points, rest = _indexed_shapes(data, indices)
        return tensors.tensor_type((*points, *rest), tensors.dtype_of(data))

    @staticmethod
    def reference(data: np.ndarray, indices: Sequence[np.ndarray]) -> np.ndarray:
        where = (clamp_indices(i, n) for i, n in zip(indices, data.shape, strict=False))
        return np.asarray(data[tuple(where)])

    def legalize(self, b: Builder) -> Buffer:
        data, *indices = b.inputs
        shape, dtype = b.results[0]
        rank = len(shape) - (data.rank - len(indices))

        def body(*axes: Index) -> Scalar:
            outer = axes[:rank]
            where = [
                emit_clamped_index(
                    b, index[broadcast_axes(index.shape, shape[:rank], outer)], n
                )
                for index, n in zip(indices, data.shape, strict=False)
            ]
            return data[(*where, *axes[rank:])]

        return b.compute(shape, body, dtype, "index_tensor")


class IndexPutOp(Relax.Operation, name="index_put"):
    """A copy of data with data[indices[0], ..., indices[k-1]] = values.

    Values are written in row-major order, so the last of duplicates wins. Negative indices
    count from the end; values with an out-of-range index are dropped.

    Attributes:
        accumulate: whether values are added to the elements, rather than replacing them.
    Shapes:
        data, y: [n1..nk]; indices: k tensors of integers, which broadcast to [i...];
        values: broadcast to [i...].
    """

    data: Operand[RankedTensorType]
    indices: Operand[TupleType]
    values: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    accumulate: BoolAttr

    reference_rate = 1e5  # a loop in Python
    cases = (
        Case((4, 5), [(3, "int64"), (3, "int64")], (3,), low=-4, high=3),
        Case((9,), [(2, 7, "int32")], (7,), accumulate=True, low=-12, high=9),
        Case((3, 4), [(5, 1, "int64"), (3, "int64")], (5, 3), low=-3, high=2),
        Case((3, "int64"), [(5, "int64")], ("int64",), accumulate=True, low=-3, high=2),
        Case((3,), [(0, "int64")], (0,)),
        IndexCase((3, 4), [(9, "int32"), (9, "int64")], (9,), low=-3, high=2),
    )
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {
        "indices": IndexOperand(
            lambda data, indices, values, accumulate: _ranges(data, indices),
            "drops the value",
        )
    }

    @staticmethod
    def infer(
        data: RankedTensorType,
        indices: Sequence[RankedTensorType],
        values: RankedTensorType,
        accumulate: bool = False,
    ) -> RankedTensorType:
        points, rest = _indexed_shapes(data, indices)
        if rest:
            raise ValueError(
                f"expected {data.rank} tensors of indices, got {len(indices)}"
            )
        shapes.broadcast_into(points, tensors.shape_of(values))
        if tensors.dtype_of(values) != tensors.dtype_of(data):
            raise ValueError(
                f"values must be of type {tensors.dtype_of(data)}, "
                f"got {tensors.dtype_of(values)}"
            )
        return data

    @staticmethod
    def reference(
        data: np.ndarray,
        indices: Sequence[np.ndarray],
        values: np.ndarray,
        accumulate: bool = False,
    ) -> np.ndarray:
        y = data.copy()
        wrapped_indices = np.broadcast_arrays(
            *(wrap_indices(i, n) for i, n in zip(indices, data.shape, strict=True))
        )
        values = np.broadcast_to(values, wrapped_indices[0].shape)
        for point in np.ndindex(*wrapped_indices[0].shape):
            where = tuple(int(index[point]) for index in wrapped_indices)
            if all(0 <= w < n for w, n in zip(where, data.shape, strict=True)):
                y[where] = y[where] + values[point] if accumulate else values[point]
        return y

    def legalize(self, b: Builder) -> Buffer:
        data, *indices, values = b.inputs
        y = b.compute(data.shape, lambda *axes: data[axes], data.dtype, "copy")
        shape = shapes.broadcast(*(index.shape for index in indices))

        def body(*axes: Index) -> None:
            where: list[Index] = []
            for index, size in zip(indices, data.shape, strict=True):
                own = broadcast_axes(index.shape, shape, axes)
                where.append(emit_wrapped_index(b, index[own], size))
            inside = indices_in_range(b, data, where, range(data.rank))
            near = [
                index.minimum(b.dim(size - 1)).maximum(0)
                for index, size in zip(where, data.shape, strict=True)
            ]
            old, new = y[tuple(near)], values[broadcast_axes(values.shape, shape, axes)]
            if self.accumulate.value:
                new = old + new
            y.store(b.select(inside, new, old), near)

        b.block("index_put", shape, "R" * len(shape), body)
        return y

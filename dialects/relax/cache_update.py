"""Update of KV caches: new elements are written at given positions."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from mlir.ir import BoolAttr, IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.index_ranges import IndexOperand, IndexRange
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.gather import INT64, check_indices, check_not_empty
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["CacheUpdateOp"]

_LARGEST = 2**63 - 1


def _start_range(
    past: RankedTensorType, update: RankedTensorType, axis: int, *, is_circular: bool
) -> IndexRange:
    """The range of start positions of an update; unbounded above if it is circular."""
    axis = shapes.check_axis(axis, past.rank)
    length, count = (tensors.shape_of(type_)[axis] for type_ in (past, update))
    limit = _LARGEST if is_circular else length - count + 1
    return IndexRange((limit,), least=0)


class CacheUpdateOp(Relax.Operation, name="cache_update"):
    """A cache with new elements written along an axis, from a position per batch element.

    Elements beyond the end are dropped, or wrap around to the front if ``circular``.

    Attributes:
        axis: the axis of the sequence; not the first, which is the batch.
        circular: whether positions wrap around (a ring buffer).
    Shapes:
        past, y: [batch, ..., n, ...]; update: [batch, ..., m, ...], m <= n along ``axis``;
        places: [batch], integers, the position of the first new element.
    Source: ONNX TensorScatter-24.
    """

    past: Operand[RankedTensorType]
    update: Operand[RankedTensorType]
    places: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr
    circular: BoolAttr

    cases = (
        Case((2, 3, 5, 4), (2, 3, 2, 4), (2, "int64"), low=0, high=3),
        Case((3, 5, 4), (3, 3, 4), (3, "int64"), low=0, high=9, circular=True),
        Case((3, 5, 4), (3, 3, 4), (3, "int32"), low=-4, high=7),
        Case((2, 17, "int8"), (2, 1, "int8"), (2, "int64"), axis=1, low=0, high=16),
        Case((2, 3, 4), (2, 0, 4), (2, "int64"), axis=1),
    )
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {
        "places": IndexOperand(
            lambda past, update, places, axis, circular: _start_range(
                past, update, axis, is_circular=circular
            ),
            "drops the elements out of range; wraps if `circular`",
        )
    }

    @staticmethod
    def infer(
        past: RankedTensorType,
        update: RankedTensorType,
        places: RankedTensorType,
        axis: int = -2,
        circular: bool = False,
    ) -> RankedTensorType:
        axis = shapes.check_axis(axis, past.rank)
        if axis == 0:
            raise ValueError("axis: expected an axis other than the batch, got 0")
        if update.rank != past.rank or places.rank != 1:
            raise ValueError(
                f"expected an update of rank {past.rank} and places of rank 1, got "
                f"{update.rank} and {places.rank}"
            )
        if tensors.dtype_of(update) != tensors.dtype_of(past):
            raise ValueError(
                f"update: expected {tensors.dtype_of(past)}, "
                f"got {tensors.dtype_of(update)}"
            )
        check_indices(places)
        shape, new = tensors.shape_of(past), tensors.shape_of(update)
        shapes.unify(shape[0], tensors.shape_of(places)[0])
        for number, (size, other) in enumerate(zip(shape, new, strict=True)):
            if number != axis:
                shapes.unify(size, other)
        length, count = shape[axis], new[axis]
        if isinstance(length, int) and isinstance(count, int) and count > length:
            raise ValueError(f"expected at most {length} new elements, got {count}")
        shapes.require_at_least(length, count)
        if count != 0:
            check_not_empty(count, shape)
        return past

    @staticmethod
    def reference(
        past: np.ndarray,
        update: np.ndarray,
        places: np.ndarray,
        axis: int = -2,
        circular: bool = False,
    ) -> np.ndarray:
        y = past.copy()
        rows, new = np.moveaxis(y, axis, 1), np.moveaxis(update, axis, 1)
        size = rows.shape[1]
        for target, source, start in zip(rows, new, places, strict=True):
            for step, element in enumerate(source):
                at = (start + step) % size if circular else start + step
                if 0 <= at < size:
                    target[at] = element
        return y

    def legalize(self, b: Builder) -> Buffer:
        past, update, places = b.inputs
        axis = self.axis.value % past.rank
        if update.shape[axis] == 0:
            return past
        length, count = b.dim(past.shape[axis]), b.dim(update.shape[axis])

        def body(*point: Index) -> Scalar:
            size = Index(Index.value_of(length)).to_scalar(INT64)
            offset = point[axis].to_scalar(INT64) - b.cast(places[point[0]], INT64)
            if self.circular.value:
                offset = offset % size
                offset = b.select(offset < 0, offset + size, offset)
            step = Index.from_scalar(offset)
            is_new = (step >= 0) & (step < count)
            near = step.maximum(0).minimum(count - 1)
            new = update[(*point[:axis], near, *point[axis + 1 :])]
            return b.select(is_new, new, past[point])

        return b.compute(past.shape, body, past.dtype, "cache_update")

"""Elements picked by indices that are data."""

from collections.abc import Sequence

import numpy as np
from mlir import ir
from mlir.ir import IntegerAttr, RankedTensorType, TypeAttr

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.hooks import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["ArangeOp", "GatherElementsOp", "GatherNdOp", "OneHotOp", "TakeOp"]

INT64 = dtypes.dtype("int64")


def check_indices(indices: RankedTensorType) -> None:
    """Indices must be integers.

    Raises:
        ValueError: they are not.
    """
    if not tensors.dtype_of(indices).is_integer:
        raise ValueError(f"indices must be integers, got {tensors.dtype_of(indices)}")


def check_not_empty(size: Dim, indices: Sequence[Dim]) -> None:
    """An axis without elements has none to pick or to update.

    Raises:
        ValueError: ``size`` is 0, and there are indices.
    """
    if size == 0 and 0 not in indices:
        raise ValueError("an axis of size 0 has no elements: expected no indices")
    shapes.require_at_least(size, shapes.minimum(1, shapes.product(indices)))


def wrapped(b: Builder, index: Scalar, size: Dim) -> Index:
    """An index that may count from the end, counted from the front."""
    place = b.cast(index, INT64)
    if index.dtype.kind != "u":
        length = b.dim(size)
        if isinstance(length, Index):
            length = length.to_scalar(INT64)
        place = b.select(place < 0, place + length, place)
    return Index.from_scalar(place)


def clamped(b: Builder, index: Scalar, size: Dim) -> Index:
    """:func:`wrapped`, and moved to the nearest end if it is out of range."""
    place = wrapped(b, index, size)
    return place.minimum(b.dim(size - 1)).maximum(0)


def wrap(indices: np.ndarray, size: int) -> np.ndarray:
    """Indices that may count from the end, counted from the front."""
    indices = indices.astype(np.int64)
    return np.where(indices < 0, indices + size, indices)


def clamp(indices: np.ndarray, size: int) -> np.ndarray:
    """:func:`wrap`, and moved to the nearest end if out of range."""
    return wrap(indices, size).clip(0, max(0, size - 1))


def grid(shape: Sequence[int]) -> list[np.ndarray]:
    """The coordinates of all points of an array, axis by axis."""
    return [np.asarray(axis) for axis in np.indices(shape)]


class TakeOp(Relax.Operation, name="take"):
    """Slices of x along one axis, picked by indices.

    Negative indices count from the end; one out of range picks the nearest element.

    Attributes:
        axis: which; negative ones count from the end.
    Shapes:
        x: [a..., n, b...]; indices: [i...], integers; y: [a..., i..., b...].
    Source: ONNX Gather-13, where an index out of range is an error.
    """

    x: Operand[RankedTensorType]
    indices: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr

    cases = (
        Case((5, 3), (4, "int64"), axis=0, low=-5, high=4),
        Case((2, 7), (3, 2, "int32"), axis=-1, low=-7, high=6),
        Case((4, 3), ("int64",), axis=0, low=0, high=3),
        Case((3,), (5, "int64"), axis=0, low=-9, high=9),
        Case((3, 4), (0, "int64"), axis=1),
        Case((0, 4), (0, "int64"), axis=0),
        Case((1, 2, 5), (2, "uint8"), axis=2, low=0, high=4),
        Case((5, 17, "int64"), (3, "int64"), axis=0, low=-5, high=4),
        Case((5, "bool"), (3, "int64"), axis=0, low=-5, high=4),
    )

    @staticmethod
    def infer(
        x: RankedTensorType, indices: RankedTensorType, axis: int = 0
    ) -> RankedTensorType:
        check_indices(indices)
        axis = shapes.check_axis(axis, x.rank)
        shape, picked = tensors.shape_of(x), tensors.shape_of(indices)
        check_not_empty(shape[axis], picked)
        return tensors.tensor_type(
            (*shape[:axis], *picked, *shape[axis + 1 :]), tensors.dtype_of(x)
        )

    @staticmethod
    def reference(x: np.ndarray, indices: np.ndarray, axis: int = 0) -> np.ndarray:
        return np.asarray(np.take(x, clamp(indices, x.shape[axis]), axis))

    def legalize(self, b: Builder) -> Buffer:
        x, indices = b.inputs
        shape, type_ = b.results[0]
        axis = self.axis.value % x.rank
        behind = axis + indices.rank

        def body(*axes: Index) -> Scalar:
            place = clamped(b, indices[axes[axis:behind]], x.shape[axis])
            return x[(*axes[:axis], place, *axes[behind:])]

        return b.compute(shape, body, type_, "take")

    @staticmethod
    @onnx_rule("Gather", since=1)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return TakeOp(node.input(0), node.input(1), axis=node.attr("axis", 0)).y


class GatherElementsOp(Relax.Operation, name="gather_elements"):
    """For every index, the element at its own place but for one axis.

    Negative indices count from the end; one out of range picks the nearest element.

    Attributes:
        axis: which the indices are for; negative ones count from the end.
    Shapes:
        x: any; indices, y: the same rank, no longer than x but along ``axis``.
    Source: ONNX GatherElements-13, where an index out of range is an error.
    """

    x: Operand[RankedTensorType]
    indices: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr

    cases = (
        Case((3, 4), (3, 4, "int64"), axis=1, low=-4, high=3),
        Case((3, 4), (5, 2, "int32"), axis=0, low=-3, high=2),
        Case((2, 3, 5), (2, 1, 5, "int64"), axis=-2, low=-3, high=2),
        Case((3,), (4, "int64"), axis=0, low=-9, high=9),
        Case((3, 4), (0, 4, "int64"), axis=0),
    )

    @staticmethod
    def infer(
        x: RankedTensorType, indices: RankedTensorType, axis: int = 0
    ) -> RankedTensorType:
        check_indices(indices)
        axis = shapes.check_axis(axis, x.rank)
        shape, picked = tensors.shape_of(x), tensors.shape_of(indices)
        check_not_empty(shape[axis], picked)
        check_reach(shape, picked, axis)
        return tensors.tensor_type(picked, tensors.dtype_of(x))

    @staticmethod
    def reference(x: np.ndarray, indices: np.ndarray, axis: int = 0) -> np.ndarray:
        places = grid(indices.shape)
        places[axis] = clamp(indices, x.shape[axis])
        return x[tuple(places)]

    def legalize(self, b: Builder) -> Buffer:
        x, indices = b.inputs
        shape, type_ = b.results[0]
        axis = self.axis.value % x.rank

        def body(*axes: Index) -> Scalar:
            place = clamped(b, indices[axes], x.shape[axis])
            return x[(*axes[:axis], place, *axes[axis + 1 :])]

        return b.compute(shape, body, type_, "gather_elements")

    @staticmethod
    @onnx_rule("GatherElements", since=11)
    def from_onnx(node: OnnxNode) -> ir.Value:
        axis = node.attr("axis", 0)
        return GatherElementsOp(node.input(0), node.input(1), axis=axis).y


def check_reach(shape: Sequence[Dim], picked: Sequence[Dim], axis: int) -> None:
    """Indices per element must not be more than the elements, but along ``axis``.

    Raises:
        ValueError: ranks differ, or an axis of ``picked`` is longer than of ``shape``.
    """
    if len(picked) != len(shape):
        raise ValueError(f"indices must have rank {len(shape)}, got {len(picked)}")
    for other, (size, count) in enumerate(zip(shape, picked, strict=True)):
        if other != axis and shapes.is_known_le(size + 1, count):
            raise ValueError(
                f"indices are too many: {count} along axis {other} of {size}"
            )
        if other != axis:
            shapes.require_at_least(size, count)


class GatherNdOp(Relax.Operation, name="gather_nd"):
    """Slices of x, picked by vectors of indices.

    Negative indices count from the end; one out of range picks the nearest element.

    Attributes:
        batch_dims: leading axes that x and indices share.
    Shapes:
        x: [b..., n1..nk, s...]; indices: [b..., i..., k], integers, k is known;
        y: [b..., i..., s...].
    Source: ONNX GatherND-13, where an index out of range is an error.
    """

    x: Operand[RankedTensorType]
    indices: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    batch_dims: IntegerAttr

    cases = (
        Case((4, 5), (3, 2, "int64"), low=-4, high=3),
        Case((4, 5), (3, 1, "int32"), low=-4, high=3),
        Case((2, 3, 4), (2, 5, 1, "int64"), batch_dims=1, low=-3, high=2),
        Case((2, 3, 4, 7), (2, 3, 2, 2, "int64"), batch_dims=2, low=-4, high=3),
        Case((3, 4), (2, "int64"), low=-9, high=9),
        Case((3, 4), (0, 2, "int64")),
    )

    @staticmethod
    def infer(
        x: RankedTensorType, indices: RankedTensorType, batch_dims: int = 0
    ) -> RankedTensorType:
        check_indices(indices)
        shape, (*picked, _) = tensors.shape_of(x), tensors.shape_of(indices)
        depth = known_depth(shape, tensors.shape_of(indices), batch_dims)
        for size in shape[batch_dims : batch_dims + depth]:
            check_not_empty(size, picked)
        batch = map(shapes.unify, shape[:batch_dims], picked[:batch_dims])
        return tensors.tensor_type(
            (*batch, *picked[batch_dims:], *shape[batch_dims + depth :]),
            tensors.dtype_of(x),
        )

    @staticmethod
    def reference(
        x: np.ndarray, indices: np.ndarray, batch_dims: int = 0
    ) -> np.ndarray:
        *picked, depth = indices.shape
        batch = grid(picked)[:batch_dims]
        inner = [clamp(indices[..., k], x.shape[batch_dims + k]) for k in range(depth)]
        if not depth and not batch_dims:
            return np.broadcast_to(x, (*picked, *x.shape)).copy()
        return np.asarray(x[(*batch, *inner)])

    def legalize(self, b: Builder) -> Buffer:
        x, indices = b.inputs
        shape, type_ = b.results[0]
        first = self.batch_dims.value
        depth, outer = known_depth(x.shape, indices.shape, first), indices.rank - 1

        def body(*axes: Index) -> Scalar:
            places = [
                clamped(b, indices[(*axes[:outer], k)], x.shape[first + k])
                for k in range(depth)
            ]
            return x[(*axes[:first], *places, *axes[outer:])]

        return b.compute(shape, body, type_, "gather_nd")

    @staticmethod
    @onnx_rule("GatherND", since=11)
    def from_onnx(node: OnnxNode) -> ir.Value:
        first = node.attr("batch_dims", 0)
        return GatherNdOp(node.input(0), node.input(1), batch_dims=first).y


def known_depth(
    shape: Sequence[Dim], indices: Sequence[Dim], batch_dims: int = 0
) -> int:
    """The length of the vectors of indices, which x must have axes for.

    Raises:
        ValueError: it is not a number, or too large.
    """
    if len(indices) <= batch_dims:
        raise ValueError(
            f"indices must have rank over {batch_dims}, got {len(indices)}"
        )
    depth = indices[-1]
    if not isinstance(depth, int):
        raise ValueError(f"the last size of indices must be a number, got `{depth}`")
    if not 0 <= batch_dims <= batch_dims + depth <= len(shape):
        raise ValueError(
            f"{batch_dims} batch axes and {depth} indices do not fit rank {len(shape)}"
        )
    return depth


class OneHotOp(Relax.Operation, name="one_hot"):
    """For every index a vector that is "on" there, and "off" everywhere else.

    Negative indices count from the end; one out of range gives "off" everywhere.

    Attributes:
        depth: the length of the vectors, ``#relax.shape<["10"]>``.
        axis: where they stand in y; negative ones count from the end.
    Shapes:
        indices: [a..., b...]; values: [2], off and on; y: [a..., depth, b...].
    Source: ONNX OneHot-11.
    """

    indices: Operand[RankedTensorType]
    values: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    depth: Attr
    axis: IntegerAttr

    cases = (
        Case((5, "int64"), (2,), depth=(4,), low=-6, high=6),
        Case((2, 3, "int32"), (2, "int32"), depth=(5,), axis=0, low=-6, high=6),
        Case((2, 3, "int64"), (2,), depth=(1,), axis=1, low=-1, high=1),
        Case((3,), (2, "int64"), depth=(7,), axis=-1, low=0, high=6),
        Case((2, "uint8"), (2, "bool"), depth=(3,), low=0, high=3),
        Case((0, "int64"), (2,), depth=(3,)),
    )

    @staticmethod
    def infer(
        indices: RankedTensorType,
        values: RankedTensorType,
        depth: Sequence[Dim],
        axis: int = -1,
    ) -> RankedTensorType:
        if tensors.shape_of(values) != (2,):
            raise ValueError(f"values must be [off, on], got {values}")
        shapes.require_sizes(depth)
        shape = tensors.shape_of(indices)
        axis = shapes.check_axis(axis, len(shape) + 1)
        return tensors.tensor_type(
            (*shape[:axis], *depth, *shape[axis:]), tensors.dtype_of(values)
        )

    @staticmethod
    def reference(
        indices: np.ndarray, values: np.ndarray, depth: Sequence[int], axis: int = -1
    ) -> np.ndarray:
        axis %= indices.ndim + 1
        places = np.expand_dims(wrap(indices, depth[0]), axis)
        along = [1] * (indices.ndim + 1)
        along[axis] = depth[0]
        return np.where(
            places == np.arange(depth[0]).reshape(along), values[1], values[0]
        )

    def legalize(self, b: Builder) -> Buffer:
        indices, values = b.inputs
        shape, type_ = b.results[0]
        axis = self.axis.value % len(shape)

        def body(*axes: Index) -> Scalar:
            index = indices[(*axes[:axis], *axes[axis + 1 :])]
            place = wrapped(b, index, shape[axis])
            return b.select(place.equal(axes[axis]), values[1], values[0])

        return b.compute(shape, body, type_, "one_hot")

    @staticmethod
    @onnx_rule("OneHot", since=9)
    def from_onnx(node: OnnxNode) -> ir.Value:
        known = node.constant_or_none(1)
        depth = node.dims(1) if known is None else (int(known.reshape(-1)[0]),)
        return OneHotOp(
            node.input(0), node.input(2), depth=depth, axis=node.attr("axis", -1)
        ).y


class ArangeOp(Relax.Operation, name="arange"):
    """``start``, ``start + step``, and so on.

    Attributes:
        start, size: the first number and how many, ``#relax.shape<["n"]>``.
        step: from one to the next.
        dtype: element type.
    Shapes:
        y: [size].
    """

    y: Result[RankedTensorType]
    start: Attr
    size: Attr
    step: IntegerAttr
    dtype: TypeAttr

    cases = (
        Case(size=(5,), dtype=dtypes.dtype("int64")),
        Case(start=(7,), size=(3,), step=-2, dtype=dtypes.dtype("int32")),
        Case(start=(-3,), size=(4,), step=2, dtype=dtypes.dtype("float32")),
        Case(size=(0,), dtype=dtypes.dtype("int64")),
    )

    @staticmethod
    def infer(
        size: Sequence[Dim],
        dtype: DType,
        start: Sequence[Dim] = (0,),
        step: int = 1,
    ) -> RankedTensorType:
        if len(start) != 1 or len(size) != 1:
            raise ValueError(f"expected one start and one size, got {start} and {size}")
        shapes.require_sizes(size)
        return tensors.tensor_type(tuple(size), dtype)

    @staticmethod
    def reference(
        size: Sequence[int], dtype: DType, start: Sequence[int] = (0,), step: int = 1
    ) -> np.ndarray:
        return (start[0] + step * np.arange(size[0])).astype(dtype.numpy)

    def legalize(self, b: Builder) -> Buffer:
        shape, type_ = b.results[0]
        attrs = self.python_attrs()
        start = b.dim(b.local(attrs["start"][0]))

        def body(axis: Index) -> Scalar:
            return (axis * attrs["step"] + start).to_scalar(type_)

        return b.compute(shape, body, type_, "arange")

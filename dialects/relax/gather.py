"""Gather: reads of elements and slices at data-dependent indices."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from mlir import ir
from mlir.ir import IntegerAttr, RankedTensorType, StringAttr

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.index_ranges import IndexOperand, IndexRange, axis_range
from relax_mlir.dialects.op_interface import (
    Case,
    IndexCase,
    OnnxNode,
    ValueNotKnownError,
    onnx_rule,
)
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = [
    "INT64",
    "GatherElementsOp",
    "GatherNdOp",
    "TakeOp",
    "broadcast_axes",
    "check_index_extents",
    "check_indices",
    "check_not_empty",
    "clamp_indices",
    "emit_clamped_index",
    "emit_wrapped_index",
    "index_depth",
    "index_grid",
    "index_vector_range",
    "require_static_depth",
    "wrap_indices",
]

INT64 = dtypes.dtype("int64")


def check_indices(indices: RankedTensorType) -> None:
    """Checks that indices are integers.

    Raises:
        ValueError: the element type is not an integer.
    """
    if not tensors.dtype_of(indices).is_integer:
        raise ValueError(f"indices must be integers, got {tensors.dtype_of(indices)}")


def check_not_empty(size: Dim, indices: Sequence[Dim]) -> None:
    """Checks that an indexed axis is not empty, unless there are no indices.

    Raises:
        ValueError: ``size`` is 0, and there are indices.
    """
    if size == 0 and 0 not in indices:
        raise ValueError("an axis of size 0 has no elements: expected no indices")
    shapes.require_at_least(size, shapes.minimum(1, shapes.product(indices)))


def emit_wrapped_index(b: Builder, index: Scalar, size: Dim) -> Index:
    """Resolves an index that may count from the end; not clamped."""
    position = b.cast(index, INT64)
    if index.dtype.kind != "u":
        position = b.select(position < 0, position + _length(b, size), position)
    return Index.from_scalar(position)


def _length(b: Builder, size: Dim) -> "Scalar | int":
    length = b.dim(size)
    return length.to_scalar(INT64) if isinstance(length, Index) else length


def emit_clamped_index(b: Builder, index: Scalar, size: Dim) -> Index:
    """:func:`emit_wrapped_index`, then clamped to the axis."""
    position = emit_wrapped_index(b, index, size)
    return position.minimum(b.dim(size - 1)).maximum(0)


def broadcast_axes(
    shape: Sequence[Dim], to: Sequence[Dim], axes: Sequence[Index]
) -> "tuple[Index | int, ...]":
    """The indices of a buffer of ``shape`` that is broadcast to ``to``, at ``axes``."""
    new = len(to) - len(shape)
    pairs = zip(shape, to[new:], axes[new:], strict=True)
    return tuple(0 if dim == 1 and other != 1 else axis for dim, other, axis in pairs)


def wrap_indices(indices: np.ndarray, size: int) -> np.ndarray:
    """Resolves indices that may count from the end; not clamped (numpy)."""
    indices = indices.astype(np.int64)
    return np.where(indices < 0, indices + size, indices)


def clamp_indices(indices: np.ndarray, size: int) -> np.ndarray:
    """:func:`wrap_indices`, then clamped to the axis (numpy)."""
    return wrap_indices(indices, size).clip(0, max(0, size - 1))


def index_grid(shape: Sequence[int]) -> list[np.ndarray]:
    """The indices of all elements of an array, one array per axis."""
    return [np.asarray(axis) for axis in np.indices(shape)]


_INDEX_MODES: "dict[str, Callable[[Builder, Scalar, Dim], Index]]" = {
    "fast": emit_clamped_index,
    "wrap": lambda b, index, size: _modulo(b, index, size),
    "clip": lambda b, index, size: _clipped(b, index, size),
}


def _modulo(b: Builder, index: Scalar, size: Dim) -> Index:
    """The index modulo ``size``."""
    length = _length(b, size)
    rest = b.cast(index, INT64) % length
    return Index.from_scalar(b.select(rest < 0, rest + length, rest))


def _clipped(b: Builder, index: Scalar, size: Dim) -> Index:
    """The index clamped to the axis."""
    position = Index.from_scalar(b.cast(index, INT64))
    return position.minimum(b.dim(size - 1)).maximum(0)


class TakeOp(Relax.Operation, name="take"):
    """Gathers slices of x along one axis: y[a, i, b] = x[a, indices[i], b].

    Attributes:
        axis: negative ones count from the end; None for x of rank 1.
        mode: handling of out-of-range indices. ``fast``: negative ones count from the end,
            then indices are clamped; ``wrap``: modulo the size; ``clip``: clamped, negative
            ones to 0.
    Shapes:
        x: [a..., n, b...]; indices: [i...], integers; y: [a..., i..., b...].
    Source: numpy.take; ONNX Gather-13, where an out-of-range index is an error.
    """

    x: Operand[RankedTensorType]
    indices: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr | None
    mode: StringAttr

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
        Case((5,), (4, "int64"), low=-5, high=4),
        Case((2, 5), (9, "int64"), axis=1, mode="wrap", low=-12, high=12),
        Case((2, 5), (9, "int32"), axis=1, mode="clip", low=-12, high=12),
        *(
            IndexCase((3, 5), (9, dtype), axis=1, mode=mode, low=-5, high=4)
            for dtype in ("int32", "int64")
            for mode in ("fast", "wrap", "clip")
        ),
    )
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {
        "indices": IndexOperand(
            lambda x, indices, axis, mode: (
                axis_range(x, axis or 0) if mode == "fast" else None
            ),
            "clamps: picks the nearest element; wraps by mode `wrap`",
        )
    }

    @staticmethod
    def infer(
        x: RankedTensorType,
        indices: RankedTensorType,
        axis: int | None = None,
        mode: str = "fast",
    ) -> RankedTensorType:
        check_indices(indices)
        if mode not in _INDEX_MODES:
            expected = ", ".join(_INDEX_MODES)
            raise ValueError(f"bad mode: expected {expected}, got `{mode}`")
        if axis is None and x.rank != 1:
            raise ValueError(f"without an axis x must have rank 1, got {x.rank}")
        axis = shapes.check_axis(axis or 0, x.rank)
        shape, index_shape = tensors.shape_of(x), tensors.shape_of(indices)
        check_not_empty(shape[axis], index_shape)
        return tensors.tensor_type(
            (*shape[:axis], *index_shape, *shape[axis + 1 :]), tensors.dtype_of(x)
        )

    @staticmethod
    def reference(
        x: np.ndarray, indices: np.ndarray, axis: int | None = None, mode: str = "fast"
    ) -> np.ndarray:
        axis = axis or 0
        if mode == "fast":
            indices, mode = clamp_indices(indices, x.shape[axis]), "clip"
        elif mode == "wrap":  # numpy takes time linear in the index
            indices = indices.astype(np.int64) % max(1, x.shape[axis])
        return np.asarray(np.take(x, indices, axis, mode=mode))

    def legalize(self, b: Builder) -> Buffer:
        x, indices = b.inputs
        shape, type_ = b.results[0]
        attrs = self.python_attrs()
        axis, resolve = (attrs["axis"] or 0) % x.rank, _INDEX_MODES[attrs["mode"]]
        end = axis + indices.rank

        def body(*axes: Index) -> Scalar:
            position = resolve(b, indices[axes[axis:end]], x.shape[axis])
            return x[(*axes[:axis], position, *axes[end:])]

        return b.compute(shape, body, type_, "take")

    @staticmethod
    @onnx_rule("Gather", since=1)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return TakeOp(node.input(0), node.input(1), axis=node.attr("axis", 0)).y


class GatherElementsOp(Relax.Operation, name="gather_elements"):
    """Gathers elements along one axis: y[.., p, ..] = data[.., indices[.., p, ..], ..].

    Negative indices count from the end; out-of-range indices are clamped.

    Attributes:
        axis: the axis of the indices; negative ones count from the end.
    Shapes:
        data: any; indices, y: one shape of the rank of data, with sizes at most those of
        data except along ``axis``.
    Source: ONNX GatherElements-13, where an out-of-range index is an error.
    """

    data: Operand[RankedTensorType]
    indices: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr

    cases = (
        Case((3, 4), (3, 4, "int64"), axis=1, low=-4, high=3),
        Case((3, 4), (5, 2, "int32"), axis=0, low=-3, high=2),
        Case((2, 3, 5), (2, 1, 5, "int64"), axis=-2, low=-3, high=2),
        Case((3,), (4, "int64"), axis=0, low=-9, high=9),
        Case((3, 4), (0, 4, "int64"), axis=0),
        IndexCase((3, 4), (9, 2, "int32"), axis=0, low=-3, high=2),
        IndexCase((3, 4), (3, 9, "int64"), axis=1, low=-4, high=3),
    )
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {
        "indices": IndexOperand(
            lambda data, indices, axis: axis_range(data, axis),
            "clamps: picks the nearest element",
        )
    }

    @classmethod
    def program_name(cls) -> str:
        return "gather"

    @staticmethod
    def infer(
        data: RankedTensorType, indices: RankedTensorType, axis: int = 0
    ) -> RankedTensorType:
        check_indices(indices)
        axis = shapes.check_axis(axis, data.rank)
        shape, index_shape = tensors.shape_of(data), tensors.shape_of(indices)
        check_not_empty(shape[axis], index_shape)
        check_index_extents(shape, index_shape, axis)
        return tensors.tensor_type(index_shape, tensors.dtype_of(data))

    @staticmethod
    def reference(data: np.ndarray, indices: np.ndarray, axis: int = 0) -> np.ndarray:
        sources = index_grid(indices.shape)
        sources[axis] = clamp_indices(indices, data.shape[axis])
        return data[tuple(sources)]

    def legalize(self, b: Builder) -> Buffer:
        data, indices = b.inputs
        shape, type_ = b.results[0]
        axis = self.axis.value % data.rank

        def body(*axes: Index) -> Scalar:
            position = emit_clamped_index(b, indices[axes], data.shape[axis])
            return data[(*axes[:axis], position, *axes[axis + 1 :])]

        return b.compute(shape, body, type_, "gather_elements")

    @staticmethod
    @onnx_rule("GatherElements", since=11)
    def from_onnx(node: OnnxNode) -> ir.Value:
        axis = node.attr("axis", 0)
        return GatherElementsOp(node.input(0), node.input(1), axis=axis).y


def check_index_extents(
    shape: Sequence[Dim], index_shape: Sequence[Dim], axis: int
) -> None:
    """Checks that indices are no larger than the data, except along ``axis``.

    Raises:
        ValueError: the ranks differ, or another axis of the indices is longer.
    """
    if len(index_shape) != len(shape):
        raise ValueError(f"indices must have rank {len(shape)}, got {len(index_shape)}")
    for other, (size, count) in enumerate(zip(shape, index_shape, strict=True)):
        if other != axis and shapes.is_known_le(size + 1, count):
            raise ValueError(
                f"indices are too many: {count} along axis {other} of {size}"
            )
        if other != axis:
            shapes.require_at_least(size, count)


class GatherNdOp(Relax.Operation, name="gather_nd"):
    """Gathers slices by index vectors: y[b, i] = data[b, indices[b, i, :]].

    Negative indices count from the end; out-of-range indices are clamped.

    Attributes:
        batch_dims: number of leading axes that data and indices share.
    Shapes:
        data: [b..., n1..nk, s...]; indices: [b..., i..., k], integers, k is static;
        y: [b..., i..., s...].
    Source: ONNX GatherND-13, where an out-of-range index is an error.
    """

    data: Operand[RankedTensorType]
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
        IndexCase((3, 4), (9, 2, "int32"), low=-3, high=2),
        IndexCase((2, 3, 4), (2, 9, 1, "int64"), batch_dims=1, low=-3, high=2),
    )
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {
        "indices": IndexOperand(
            lambda data, indices, batch_dims: index_vector_range(
                data, indices, batch_dims
            ),
            "clamps: picks the nearest element",
        )
    }

    @staticmethod
    def infer(
        data: RankedTensorType, indices: RankedTensorType, batch_dims: int = 0
    ) -> RankedTensorType:
        check_indices(indices)
        shape = tensors.shape_of(data)
        depth = index_depth(shape, tensors.shape_of(indices), batch_dims)
        *points, _ = tensors.shape_of(indices)
        for size in shape[batch_dims : batch_dims + depth]:
            check_not_empty(size, points)
        batch = map(shapes.unify, shape[:batch_dims], points[:batch_dims])
        return tensors.tensor_type(
            (*batch, *points[batch_dims:], *shape[batch_dims + depth :]),
            tensors.dtype_of(data),
        )

    @staticmethod
    def reference(
        data: np.ndarray, indices: np.ndarray, batch_dims: int = 0
    ) -> np.ndarray:
        *points, depth = indices.shape
        batch = index_grid(points)[:batch_dims]
        inner = [
            clamp_indices(indices[..., k], data.shape[batch_dims + k])
            for k in range(depth)
        ]
        if not depth and not batch_dims:
            return np.broadcast_to(data, (*points, *data.shape)).copy()
        return np.asarray(data[(*batch, *inner)])

    def legalize(self, b: Builder) -> Buffer:
        data, indices = b.inputs
        shape, type_ = b.results[0]
        first = self.batch_dims.value
        depth, outer = index_depth(data.shape, indices.shape, first), indices.rank - 1

        def body(*axes: Index) -> Scalar:
            positions = [
                emit_clamped_index(
                    b, indices[(*axes[:outer], k)], data.shape[first + k]
                )
                for k in range(depth)
            ]
            return data[(*axes[:first], *positions, *axes[outer:])]

        return b.compute(shape, body, type_, "gather_nd")

    @staticmethod
    @onnx_rule("GatherND", since=11)
    def from_onnx(node: OnnxNode) -> ir.Value:
        first = node.attr("batch_dims", 0)
        require_static_depth(node)
        return GatherNdOp(node.input(0), node.input(1), batch_dims=first).y


def index_vector_range(
    data: RankedTensorType, indices: RankedTensorType, batch_dims: int = 0
) -> IndexRange | None:
    """The valid range of index vectors, per component; None for empty vectors."""
    shape = tensors.shape_of(data)
    depth = index_depth(shape, tensors.shape_of(indices), batch_dims)
    return IndexRange(shape[batch_dims : batch_dims + depth]) if depth else None


def require_static_depth(node: OnnxNode) -> None:
    """Checks that the length of the index vectors, input 1 of a node, is static.

    Raises:
        NotKnownError: the length is symbolic.
    """
    shape = tensors.shape_of(node.input(1))
    if shape and not isinstance(shape[-1], int):
        raise ValueNotKnownError(
            1,
            f"holds index vectors: expected a known length, got `{shape[-1]}`",
            needs_shape_only=True,
        )


def index_depth(
    shape: Sequence[Dim], indices: Sequence[Dim], batch_dims: int = 0
) -> int:
    """The length of the index vectors.

    Raises:
        ValueError: the length is symbolic, or exceeds the rank of the data.
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

"""Elements picked by indices that are data."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from mlir import ir
from mlir.ir import IntegerAttr, RankedTensorType, StringAttr

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import (
    Case,
    IndexCase,
    NotKnownError,
    OnnxNode,
    onnx_rule,
)
from relax_mlir.dialects.index_ranges import IndexOperand, IndexRange, along_axis
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = [
    "INT64",
    "GatherElementsOp",
    "GatherNdOp",
    "TakeOp",
    "broadcast_axes",
    "check_indices",
    "check_not_empty",
    "check_reach",
    "clamp",
    "clamped",
    "grid",
    "known_depth",
    "need_depth",
    "vector_range",
    "wrap",
    "wrapped",
]

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
        place = b.select(place < 0, place + _length(b, size), place)
    return Index.from_scalar(place)


def _length(b: Builder, size: Dim) -> "Scalar | int":
    length = b.dim(size)
    return length.to_scalar(INT64) if isinstance(length, Index) else length


def clamped(b: Builder, index: Scalar, size: Dim) -> Index:
    """:func:`wrapped`, and moved to the nearest end if it is out of range."""
    place = wrapped(b, index, size)
    return place.minimum(b.dim(size - 1)).maximum(0)


def broadcast_axes(
    shape: Sequence[Dim], to: Sequence[Dim], axes: Sequence[Index]
) -> "tuple[Index | int, ...]":
    """Where a buffer of ``shape`` is read for the point ``axes`` of ``to``."""
    new = len(to) - len(shape)
    pairs = zip(shape, to[new:], axes[new:], strict=True)
    return tuple(0 if dim == 1 and other != 1 else axis for dim, other, axis in pairs)


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


_PLACES: "dict[str, Callable[[Builder, Scalar, Dim], Index]]" = {
    "fast": clamped,
    "wrap": lambda b, index, size: _modulo(b, index, size),
    "clip": lambda b, index, size: _clipped(b, index, size),
}


def _modulo(b: Builder, index: Scalar, size: Dim) -> Index:
    """An index that goes around: ``size`` is 0 again."""
    length = _length(b, size)
    rest = b.cast(index, INT64) % length
    return Index.from_scalar(b.select(rest < 0, rest + length, rest))


def _clipped(b: Builder, index: Scalar, size: Dim) -> Index:
    """An index moved to the nearest end if it is out of range."""
    place = Index.from_scalar(b.cast(index, INT64))
    return place.minimum(b.dim(size - 1)).maximum(0)


class TakeOp(Relax.Operation, name="take"):
    """Slices of x along one axis, picked by indices.

    Attributes:
        axis: which, negative ones count from the end; None for x of one axis.
        mode: what becomes of an index out of range. ``fast``: negative ones count from
            the end, others pick the nearest element. ``wrap``: it goes around. ``clip``:
            it picks the nearest element, negative ones the first.
    Shapes:
        x: [a..., n, b...]; indices: [i...], integers; y: [a..., i..., b...].
    Source: ONNX Gather-13, where an index out of range is an error.
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
                along_axis(x, axis or 0) if mode == "fast" else None
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
        if mode not in _PLACES:
            raise ValueError(f"bad mode: expected {', '.join(_PLACES)}, got `{mode}`")
        if axis is None and x.rank != 1:
            raise ValueError(f"without an axis x must have rank 1, got {x.rank}")
        axis = shapes.check_axis(axis or 0, x.rank)
        shape, picked = tensors.shape_of(x), tensors.shape_of(indices)
        check_not_empty(shape[axis], picked)
        return tensors.tensor_type(
            (*shape[:axis], *picked, *shape[axis + 1 :]), tensors.dtype_of(x)
        )

    @staticmethod
    def reference(
        x: np.ndarray, indices: np.ndarray, axis: int | None = None, mode: str = "fast"
    ) -> np.ndarray:
        axis = axis or 0
        if mode == "fast":
            indices, mode = clamp(indices, x.shape[axis]), "clip"
        elif mode == "wrap":  # numpy would take as many steps as the index has
            indices = indices.astype(np.int64) % max(1, x.shape[axis])
        return np.asarray(np.take(x, indices, axis, mode=mode))

    def legalize(self, b: Builder) -> Buffer:
        x, indices = b.inputs
        shape, type_ = b.results[0]
        attrs = self.python_attrs()
        axis, place_of = (attrs["axis"] or 0) % x.rank, _PLACES[attrs["mode"]]
        behind = axis + indices.rank

        def body(*axes: Index) -> Scalar:
            place = place_of(b, indices[axes[axis:behind]], x.shape[axis])
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
        data: any; indices, y: the same rank, no longer than data but along ``axis``.
    Source: ONNX GatherElements-13, where an index out of range is an error.
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
            lambda data, indices, axis: along_axis(data, axis),
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
        shape, picked = tensors.shape_of(data), tensors.shape_of(indices)
        check_not_empty(shape[axis], picked)
        check_reach(shape, picked, axis)
        return tensors.tensor_type(picked, tensors.dtype_of(data))

    @staticmethod
    def reference(data: np.ndarray, indices: np.ndarray, axis: int = 0) -> np.ndarray:
        places = grid(indices.shape)
        places[axis] = clamp(indices, data.shape[axis])
        return data[tuple(places)]

    def legalize(self, b: Builder) -> Buffer:
        data, indices = b.inputs
        shape, type_ = b.results[0]
        axis = self.axis.value % data.rank

        def body(*axes: Index) -> Scalar:
            place = clamped(b, indices[axes], data.shape[axis])
            return data[(*axes[:axis], place, *axes[axis + 1 :])]

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
    """Slices of data, picked by vectors of indices.

    Negative indices count from the end; one out of range picks the nearest element.

    Attributes:
        batch_dims: leading axes that data and indices share.
    Shapes:
        data: [b..., n1..nk, s...]; indices: [b..., i..., k], integers, k is known;
        y: [b..., i..., s...].
    Source: ONNX GatherND-13, where an index out of range is an error.
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
            lambda data, indices, batch_dims: vector_range(data, indices, batch_dims),
            "clamps: picks the nearest element",
        )
    }

    @staticmethod
    def infer(
        data: RankedTensorType, indices: RankedTensorType, batch_dims: int = 0
    ) -> RankedTensorType:
        check_indices(indices)
        shape = tensors.shape_of(data)
        depth = known_depth(shape, tensors.shape_of(indices), batch_dims)
        *picked, _ = tensors.shape_of(indices)
        for size in shape[batch_dims : batch_dims + depth]:
            check_not_empty(size, picked)
        batch = map(shapes.unify, shape[:batch_dims], picked[:batch_dims])
        return tensors.tensor_type(
            (*batch, *picked[batch_dims:], *shape[batch_dims + depth :]),
            tensors.dtype_of(data),
        )

    @staticmethod
    def reference(
        data: np.ndarray, indices: np.ndarray, batch_dims: int = 0
    ) -> np.ndarray:
        *picked, depth = indices.shape
        batch = grid(picked)[:batch_dims]
        inner = [
            clamp(indices[..., k], data.shape[batch_dims + k]) for k in range(depth)
        ]
        if not depth and not batch_dims:
            return np.broadcast_to(data, (*picked, *data.shape)).copy()
        return np.asarray(data[(*batch, *inner)])

    def legalize(self, b: Builder) -> Buffer:
        data, indices = b.inputs
        shape, type_ = b.results[0]
        first = self.batch_dims.value
        depth, outer = known_depth(data.shape, indices.shape, first), indices.rank - 1

        def body(*axes: Index) -> Scalar:
            places = [
                clamped(b, indices[(*axes[:outer], k)], data.shape[first + k])
                for k in range(depth)
            ]
            return data[(*axes[:first], *places, *axes[outer:])]

        return b.compute(shape, body, type_, "gather_nd")

    @staticmethod
    @onnx_rule("GatherND", since=11)
    def from_onnx(node: OnnxNode) -> ir.Value:
        first = node.attr("batch_dims", 0)
        need_depth(node)
        return GatherNdOp(node.input(0), node.input(1), batch_dims=first).y


def vector_range(
    data: RankedTensorType, indices: RankedTensorType, batch_dims: int = 0
) -> IndexRange | None:
    """The range of vectors of indices, component by component; None of empty vectors."""
    shape = tensors.shape_of(data)
    depth = known_depth(shape, tensors.shape_of(indices), batch_dims)
    return IndexRange(shape[batch_dims : batch_dims + depth]) if depth else None


def need_depth(node: OnnxNode) -> None:
    """See that the length of the vectors of indices, input 1 of a node, is a number.

    Raises:
        NotKnownError: it is a symbol.
    """
    shape = tensors.shape_of(node.input(1))
    if shape and not isinstance(shape[-1], int):
        raise NotKnownError(
            1,
            f"holds vectors: expected a known length, got `{shape[-1]}`",
            is_of_sizes=True,
        )


def known_depth(
    shape: Sequence[Dim], indices: Sequence[Dim], batch_dims: int = 0
) -> int:
    """The length of the vectors of indices, which the data must have axes for.

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

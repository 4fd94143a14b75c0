"""Elements written to places that are data."""

from collections.abc import Callable, Sequence

import numpy as np
from mlir import ir
from mlir.ir import IntegerAttr, RankedTensorType, StringAttr

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.indexing import (
    check_indices,
    check_not_empty,
    check_reach,
    grid,
    known_depth,
    wrap,
    wrapped,
)
from relax_mlir.dialects.relax.padding import is_within
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["ScatterElementsOp", "ScatterNdOp"]

_UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}

_COMBINE: dict[str, Callable[[Scalar, Scalar], Scalar]] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": lambda old, new: old.maximum(new),
    "min": lambda old, new: old.minimum(new),
}


class ScatterElementsOp(Relax.Operation, name="scatter_elements"):
    """A copy of x with updates, each at its own place but for one axis.

    Updates are applied in row-major order. Negative indices count from the end; an
    update whose index is out of range is dropped.

    Attributes:
        axis: which the indices are for; negative ones count from the end.
        reduction: how an update meets what is there: ``none`` (replaces it), ``add``,
            ``mul``, ``max`` or ``min``.
    Shapes:
        x, y: any; indices, updates: the same rank, no longer than x but along ``axis``.
    Source: ONNX ScatterElements-18, where an index out of range is an error.
    """

    x: Operand[RankedTensorType]
    indices: Operand[RankedTensorType]
    updates: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr
    reduction: StringAttr

    cases = (
        Case((3, 4), (2, 4, "int64"), (2, 4), axis=0, low=-3, high=2),
        Case((3, 4), (3, 2, "int32"), (3, 2), axis=1, reduction="add", low=-4, high=3),
        Case((5,), (9, "int64"), (9,), axis=0, reduction="mul", low=-9, high=9),
        Case(
            (2, 3, 4), (2, 7, 3, "int64"), (2, 7, 3), axis=-2, reduction="max", low=-3
        ),
        Case(
            (3, 4, "int64"), (3, 4, "int64"), (3, 4, "int64"), axis=1, reduction="min"
        ),
        Case((3, 4), (0, 4, "int64"), (0, 4), axis=0),
        Case((0, 4), (0, 4, "int64"), (0, 4), axis=0),
        Case((3, "bool"), (2, "int64"), (2, "bool"), axis=0, low=-3, high=2),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        indices: RankedTensorType,
        updates: RankedTensorType,
        axis: int = 0,
        reduction: str = "none",
    ) -> RankedTensorType:
        _check_updates(x, indices, updates, reduction)
        shape, picked = tensors.shape_of(x), tensors.shape_of(indices)
        axis = shapes.check_axis(axis, x.rank)
        check_reach(shape, picked, axis)
        check_not_empty(shape[axis], picked)
        _check_shape(updates, picked)
        return x

    @staticmethod
    def reference(
        x: np.ndarray,
        indices: np.ndarray,
        updates: np.ndarray,
        axis: int = 0,
        reduction: str = "none",
    ) -> np.ndarray:
        places = grid(indices.shape)
        places[axis] = wrap(indices, x.shape[axis])
        return _scattered(x, places, updates, reduction)

    def legalize(self, b: Builder) -> Buffer:
        x, indices, _ = b.inputs
        axis = self.axis.value % x.rank

        def place(axes: Sequence[Index]) -> list[Index]:
            where = list(axes)
            where[axis] = wrapped(b, indices[tuple(axes)], x.shape[axis])
            return where

        return _scatter(b, place, [axis], self.reduction.value)

    @staticmethod
    @onnx_rule("ScatterElements", since=11)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return ScatterElementsOp(
            *(node.input(i) for i in range(3)),
            axis=node.attr("axis", 0),
            reduction=node.attr("reduction", "none"),
        ).y


onnx_rule("Scatter", since=9)(ScatterElementsOp.from_onnx)


class ScatterNdOp(Relax.Operation, name="scatter_nd"):
    """A copy of x with slices updated, at places given by vectors of indices.

    Updates are applied in row-major order. Negative indices count from the end; an
    update with an index out of range is dropped.

    Attributes:
        reduction: how an update meets what is there: ``none`` (replaces it), ``add``,
            ``mul``, ``max`` or ``min``.
    Shapes:
        x, y: [n1..nk, s...]; indices: [i..., k], integers, k is known;
        updates: [i..., s...].
    Source: ONNX ScatterND-18, where an index out of range is an error.
    """

    x: Operand[RankedTensorType]
    indices: Operand[RankedTensorType]
    updates: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    reduction: StringAttr

    cases = (
        Case((4, 5), (3, 2, "int64"), (3,), low=-4, high=3),
        Case((4, 5), (3, 1, "int32"), (3, 5), reduction="add", low=-4, high=3),
        Case((3, 4, 2), (2, 5, 2, "int64"), (2, 5, 2), reduction="max", low=-5, high=4),
        Case((3, 4), (9, 1, "int64"), (9, 4), reduction="mul", low=-3, high=2),
        Case(
            (5, "int64"), (7, 1, "int64"), (7, "int64"), reduction="min", low=-5, high=4
        ),
        Case((4, 5), (0, 2, "int64"), (0,)),
        Case((0, 5), (0, 1, "int64"), (0, 5)),
        Case((0, 0), (3, 1, "int64"), (3, 0)),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        indices: RankedTensorType,
        updates: RankedTensorType,
        reduction: str = "none",
    ) -> RankedTensorType:
        _check_updates(x, indices, updates, reduction)
        shape, (*picked, _) = tensors.shape_of(x), tensors.shape_of(indices)
        depth = known_depth(shape, tensors.shape_of(indices))
        for size in shape[:depth]:
            check_not_empty(size, (*picked, *shape[depth:]))
        _check_shape(updates, (*picked, *shape[depth:]))
        return x

    @staticmethod
    def reference(
        x: np.ndarray, indices: np.ndarray, updates: np.ndarray, reduction: str = "none"
    ) -> np.ndarray:
        depth = indices.shape[-1]
        outer = indices.ndim - 1
        places = [
            wrap(indices[..., k], x.shape[k]).reshape(
                *indices.shape[:-1], *[1] * (x.ndim - depth)
            )
            for k in range(depth)
        ]
        inner = grid(updates.shape)[outer:]
        places = [np.broadcast_to(place, updates.shape) for place in places]
        return _scattered(x, [*places, *inner], updates, reduction)

    def legalize(self, b: Builder) -> Buffer:
        x, indices, _ = b.inputs
        outer, depth = indices.rank - 1, known_depth(x.shape, indices.shape)

        def place(axes: Sequence[Index]) -> list[Index]:
            picked = [
                wrapped(b, indices[(*axes[:outer], k)], x.shape[k])
                for k in range(depth)
            ]
            return [*picked, *axes[outer:]]

        return _scatter(b, place, range(depth), self.reduction.value)

    @staticmethod
    @onnx_rule("ScatterND", since=11)
    def from_onnx(node: OnnxNode) -> ir.Value:
        operands = (node.input(i) for i in range(3))
        return ScatterNdOp(*operands, reduction=node.attr("reduction", "none")).y


def _check_updates(
    x: RankedTensorType,
    indices: RankedTensorType,
    updates: RankedTensorType,
    reduction: str,
) -> None:
    check_indices(indices)
    if reduction not in _COMBINE:
        raise ValueError(
            f"bad reduction: expected {', '.join(_COMBINE)}, got `{reduction}`"
        )
    if tensors.dtype_of(x) != tensors.dtype_of(updates):
        raise ValueError(
            f"updates must be of type {tensors.dtype_of(x)}, got {tensors.dtype_of(updates)}"
        )


def _check_shape(updates: RankedTensorType, expected: Sequence[Dim]) -> None:
    got = tensors.shape_of(updates)
    if len(got) != len(expected) or any(map(shapes.is_known_unequal, got, expected)):
        raise ValueError(
            f"updates must be {shapes.format_shape(expected)}, got {shapes.format_shape(got)}"
        )
    for size, want in zip(got, expected, strict=True):
        shapes.require_equal(size, want)


def _scattered(
    x: np.ndarray, places: Sequence[np.ndarray], updates: np.ndarray, reduction: str
) -> np.ndarray:
    """A copy of ``x`` with the updates that are in range applied."""
    y = x.copy()
    limits = zip(places, x.shape, strict=True)
    inside = np.ones(updates.shape, bool)
    for place, size in limits:
        inside &= (place >= 0) & (place < size)
    where = tuple(place[inside] for place in places)
    if reduction == "none":
        for point, update in zip(
            zip(*where, strict=True), updates[inside], strict=True
        ):
            y[point] = update
    else:
        _UFUNCS[reduction].at(y, where, updates[inside])
    return y


def _scatter(
    b: Builder,
    place: Callable[[Sequence[Index]], list[Index]],
    checked: Sequence[int],
    reduction: str,
) -> Buffer:
    """Copy x, then combine every update with the element at its place.

    The axes reduce, so that updates of one element stay in order. An update that is out
    of range stores what is there, at the nearest place.
    """
    x, _, updates = b.inputs
    y = b.compute(x.shape, lambda *axes: x[axes], x.dtype, "copy")

    def body(*axes: Index) -> None:
        where = place(axes)
        inside = is_within(b, x, where, checked)
        for axis in checked:
            where[axis] = where[axis].minimum(b.dim(x.shape[axis] - 1)).maximum(0)
        old = y[tuple(where)]
        new = _COMBINE[reduction](old, updates[axes])
        y.store(b.select(inside, new, old), where)

    b.block("scatter", updates.shape, "R" * updates.rank, body)
    return y

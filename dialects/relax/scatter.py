"""Scatter: updates of tensors at data-dependent indices."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from mlir import ir
from mlir.ir import IntegerAttr, RankedTensorType, StringAttr

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.index_ranges import IndexOperand, axis_range
from relax_mlir.dialects.op_interface import Case, IndexCase, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.gather import (
    check_index_extents,
    check_indices,
    check_not_empty,
    emit_wrapped_index,
    index_depth,
    index_grid,
    index_vector_range,
    require_static_depth,
    wrap_indices,
)
from relax_mlir.dialects.relax.padding import indices_in_range
from relax_mlir.dialects.relax.scalar_attributes import ScalarAttributesOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["ScatterElementsOp", "ScatterNdOp", "SliceScatterOp"]

_UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}

_COMBINE: dict[str, Callable[[Scalar, Scalar], Scalar]] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "mean": lambda old, new: (old + new) / 2,
    "max": lambda old, new: old.maximum(new),
    "min": lambda old, new: old.minimum(new),
}


class ScatterElementsOp(Relax.Operation, name="scatter_elements"):
    """A copy of data with y[.., indices[p], ..] combined with updates[p] along one axis.

    The other indices are those of the update. Updates are applied in row-major order.
    Negative indices count from the end; updates with an out-of-range index are dropped.

    Attributes:
        axis: the axis of the indices; negative ones count from the end.
        reduction: the combiner of the old element and the update: ``update`` (replaces),
            ``add``, ``mul``, ``mean`` of the two, ``max`` or ``min``.
    Shapes:
        data, y: any; indices, updates: one shape of the rank of data, with sizes at most
        those of data except along ``axis``.
    Source: ONNX ScatterElements-18, where an index out of range is an error.
    """

    data: Operand[RankedTensorType]
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
        Case((5,), (9, "int64"), (9,), reduction="mean", low=-9, high=9),
        IndexCase((3, 4), (9, 4, "int32"), (9, 4), reduction="add", low=-3, high=2),
        IndexCase((3, 4), (3, 9, "int64"), (3, 9), axis=1, low=-4, high=3),
    )
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {
        "indices": IndexOperand(
            lambda data, indices, updates, axis, reduction: axis_range(data, axis),
            "drops the update",
        )
    }

    @staticmethod
    def infer(
        data: RankedTensorType,
        indices: RankedTensorType,
        updates: RankedTensorType,
        axis: int = 0,
        reduction: str = "update",
    ) -> RankedTensorType:
        _check_updates(data, indices, updates, reduction)
        shape, index_shape = tensors.shape_of(data), tensors.shape_of(indices)
        axis = shapes.check_axis(axis, data.rank)
        check_index_extents(shape, index_shape, axis)
        check_not_empty(shape[axis], index_shape)
        _check_shape(updates, index_shape)
        return data

    @staticmethod
    def reference(
        data: np.ndarray,
        indices: np.ndarray,
        updates: np.ndarray,
        axis: int = 0,
        reduction: str = "update",
    ) -> np.ndarray:
        targets = index_grid(indices.shape)
        targets[axis] = wrap_indices(indices, data.shape[axis])
        return _scattered(data, targets, updates, reduction)

    def legalize(self, b: Builder) -> Buffer:
        data, indices, _ = b.inputs
        axis = self.axis.value % data.rank

        def target(axes: Sequence[Index]) -> list[Index]:
            where = list(axes)
            where[axis] = emit_wrapped_index(b, indices[tuple(axes)], data.shape[axis])
            return where

        return _scatter(b, target, [axis], self.reduction.value)

    @staticmethod
    @onnx_rule("ScatterElements", since=11)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return ScatterElementsOp(
            *(node.input(i) for i in range(3)),
            axis=node.attr("axis", 0),
            reduction=_onnx_reduction(node),
        ).y


onnx_rule("Scatter", since=9)(ScatterElementsOp.from_onnx)


def _onnx_reduction(node: OnnxNode) -> str:
    """Converts the ONNX attribute ``reduction``.

    Raises:
        ValueError: the opset does not have this reduction.
    """
    reduction = node.attr("reduction", "none")
    known = ["none", *(["add", "mul"] if node.opset >= 16 else [])]
    known += ["max", "min"] if node.opset >= 18 else []
    if reduction not in known:
        raise ValueError(
            f"bad reduction: expected {', '.join(known)}, got `{reduction}`"
        )
    return "update" if reduction == "none" else reduction


class ScatterNdOp(Relax.Operation, name="scatter_nd"):
    """A copy of data with slices y[indices[p, :]] combined with updates[p].

    Updates are applied in row-major order. Negative indices count from the end; updates
    with an out-of-range index are dropped.

    Attributes:
        reduction: the combiner of the old element and the update: ``update`` (replaces),
            ``add``, ``mul``, ``mean`` of the two, ``max`` or ``min``.
    Shapes:
        data, y: [n1..nk, s...]; indices: [i..., k], integers, k is static;
        updates: [i..., s...].
    Source: ONNX ScatterND-18, where an index out of range is an error.
    """

    data: Operand[RankedTensorType]
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
        Case((4, 5), (2, 1, "int64"), (2, 5), reduction="mean", low=-4, high=3),
        Case((4, 5), (0, 2, "int64"), (0,)),
        Case((0, 5), (0, 1, "int64"), (0, 5)),
        Case((0, 0), (3, 1, "int64"), (3, 0)),
        Case((3, 4), (9, 2, "int64"), (9,), low=-9, high=9),
        IndexCase((3, 4), (9, 2, "int32"), (9,), reduction="add", low=-3, high=2),
        IndexCase((3, 4), (9, 1, "int64"), (9, 4), low=-3, high=2),
    )
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {
        "indices": IndexOperand(
            lambda data, indices, updates, reduction: index_vector_range(data, indices),
            "drops the update",
        )
    }

    @staticmethod
    def infer(
        data: RankedTensorType,
        indices: RankedTensorType,
        updates: RankedTensorType,
        reduction: str = "update",
    ) -> RankedTensorType:
        _check_updates(data, indices, updates, reduction)
        shape = tensors.shape_of(data)
        depth = index_depth(shape, tensors.shape_of(indices))
        *points, _ = tensors.shape_of(indices)
        for size in shape[:depth]:
            check_not_empty(size, (*points, *shape[depth:]))
        _check_shape(updates, (*points, *shape[depth:]))
        return data

    @staticmethod
    def reference(
        data: np.ndarray,
        indices: np.ndarray,
        updates: np.ndarray,
        reduction: str = "update",
    ) -> np.ndarray:
        depth = indices.shape[-1]
        outer = indices.ndim - 1
        targets = [
            wrap_indices(indices[..., k], data.shape[k]).reshape(
                *indices.shape[:-1], *[1] * (data.ndim - depth)
            )
            for k in range(depth)
        ]
        inner = index_grid(updates.shape)[outer:]
        targets = [np.broadcast_to(target, updates.shape) for target in targets]
        return _scattered(data, [*targets, *inner], updates, reduction)

    def legalize(self, b: Builder) -> Buffer:
        data, indices, _ = b.inputs
        outer, depth = indices.rank - 1, index_depth(data.shape, indices.shape)

        def target(axes: Sequence[Index]) -> list[Index]:
            leading = [
                emit_wrapped_index(b, indices[(*axes[:outer], k)], data.shape[k])
                for k in range(depth)
            ]
            return [*leading, *axes[outer:]]

        return _scatter(b, target, range(depth), self.reduction.value)

    @staticmethod
    @onnx_rule("ScatterND", since=11)
    def from_onnx(node: OnnxNode) -> ir.Value:
        operands = (node.input(i) for i in range(3))
        require_static_depth(node)
        return ScatterNdOp(*operands, reduction=_onnx_reduction(node)).y


class SliceScatterOp(ScalarAttributesOp, name="slice_scatter"):
    """A copy of a tensor with the slice ``start:end:step`` along one axis replaced.

    Attributes:
        start, end: bounds of the slice, in range; may be symbolic.
        step: the step, 1 or more.
        axis: negative ones count from the end.
    Shapes:
        input_tensor, y: [a..., n, b...]; src: [a..., m, b...], with m =
        max(0, ceil((end - start) / step)).
    Source: PyTorch slice_scatter.
    """

    input_tensor: Operand[RankedTensorType]
    src: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    start: Attr
    end: Attr
    step: Attr
    axis: IntegerAttr

    argument_attributes = ("start", "end", "step")
    number_attributes = ("start", "end", "step")
    cases = (
        Case((6,), (3,), start=1, end=6, step=2),
        Case((2, 5, 3), (2, 2, 3), start=3, end=5, step=1, axis=1),
        Case((4, 3), (4, 0), start=2, end=2, step=1, axis=-1),
        Case((7, "int64"), (3, "int64"), start=0, end=7, step=3, low=-9, high=9),
    )

    @staticmethod
    def infer(
        input_tensor: RankedTensorType,
        src: RankedTensorType,
        start: Dim,
        end: Dim,
        step: int,
        axis: int = 0,
    ) -> RankedTensorType:
        if not isinstance(step, int) or step < 1:
            raise ValueError(f"expected a step of 1 or more, got {step}")
        if tensors.dtype_of(src) != tensors.dtype_of(input_tensor):
            raise ValueError(
                f"src must be of type {tensors.dtype_of(input_tensor)}, "
                f"got {tensors.dtype_of(src)}"
            )
        axis = shapes.check_axis(axis, input_tensor.rank)
        expected = list(tensors.shape_of(input_tensor))
        shapes.require_at_least(start, 0)
        shapes.require_at_least(expected[axis], end)
        expected[axis] = shapes.maximum(0, shapes.ceildiv(end - start, step))
        _check_shape(src, expected)
        return input_tensor

    @staticmethod
    def reference(
        input_tensor: np.ndarray,
        src: np.ndarray,
        start: int,
        end: int,
        step: int,
        axis: int = 0,
    ) -> np.ndarray:
        y = input_tensor.copy()
        np.moveaxis(y, axis, 0)[start:end:step] = np.moveaxis(src, axis, 0)
        return y

    def legalize(self, b: Builder) -> Buffer:
        data, src = b.inputs
        attrs = self.python_attrs()
        axis, step = attrs["axis"] % data.rank, attrs["step"]
        start = b.dim(b.local_dim(attrs["start"]))
        count = src.shape[axis]

        def body(*axes: Index) -> Scalar:
            offset = axes[axis] - start
            near = offset.maximum(0)
            source = (near // step).minimum(b.dim(count - 1)).maximum(0)
            is_in_slice = (offset >= 0) & (near // step < b.dim(count))
            if step > 1:
                is_in_slice = is_in_slice & Index(Index.value_of(near % step)).equal(0)
            return b.read_if(
                is_in_slice,
                lambda: src[(*axes[:axis], source, *axes[axis + 1 :])],
                data[axes],
            )

        return b.compute(data.shape, body, data.dtype, "slice_scatter")


def _check_updates(
    data: RankedTensorType,
    indices: RankedTensorType,
    updates: RankedTensorType,
    reduction: str,
) -> None:
    check_indices(indices)
    if reduction not in _COMBINE:
        raise ValueError(
            f"bad reduction: expected {', '.join(_COMBINE)}, got `{reduction}`"
        )
    if tensors.dtype_of(data) != tensors.dtype_of(updates):
        raise ValueError(
            f"updates must be of type {tensors.dtype_of(data)}, got {tensors.dtype_of(updates)}"
        )


def _check_shape(updates: RankedTensorType, expected: Sequence[Dim]) -> None:
    got = tensors.shape_of(updates)
    if len(got) != len(expected) or any(map(shapes.is_known_unequal, got, expected)):
        raise ValueError(
            f"updates must be {shapes.format_shape(expected)}, got {shapes.format_shape(got)}"
        )
    for size, want in zip(got, expected, strict=True):
        shapes.require_equal(size, want)


def _mean(old: np.generic, new: np.generic) -> np.generic:
    """The mean of two numbers; integers are rounded towards 0."""
    total = np.add(old, new)
    is_integer = np.issubdtype(total.dtype, np.integer)
    return np.trunc(total / 2).astype(total.dtype) if is_integer else total / 2


def _scattered(
    data: np.ndarray,
    targets: Sequence[np.ndarray],
    updates: np.ndarray,
    reduction: str,
) -> np.ndarray:
    """The numpy reference: a copy of ``data`` with the in-range updates applied."""
    y = data.copy()
    inside = np.ones(updates.shape, bool)
    for target, size in zip(targets, data.shape, strict=True):
        inside &= (target >= 0) & (target < size)
    where = tuple(target[inside] for target in targets)
    if reduction in ("update", "mean"):
        pairs = zip(zip(*where, strict=True), updates[inside], strict=True)
        for point, update in pairs:
            y[point] = update if reduction == "update" else _mean(y[point], update)
    else:
        _UFUNCS[reduction].at(y, where, updates[inside])
    return y


def _scatter(
    b: Builder,
    target: Callable[[Sequence[Index]], list[Index]],
    checked: Sequence[int],
    reduction: str,
) -> Buffer:
    """Copies data, then combines every update with the element at its target index.

    The axes are reduce axes, so that updates of one element stay in order. An out-of-range
    update stores the unchanged element at the clamped index.
    """
    data, _, updates = b.inputs
    y = b.compute(data.shape, lambda *axes: data[axes], data.dtype, "copy")

    def body(*axes: Index) -> None:
        where = target(axes)
        inside = indices_in_range(b, data, where, checked)
        for axis in checked:
            where[axis] = where[axis].minimum(b.dim(data.shape[axis] - 1)).maximum(0)
        old = y[tuple(where)]
        new = _COMBINE[reduction](old, updates[axes])
        y.store(b.select(inside, new, old), where)

    b.block("scatter", updates.shape, "R" * updates.rank, body)
    return y

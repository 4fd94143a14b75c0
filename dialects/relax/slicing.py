"""Strided slices, with static or run-time bounds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.ir import BoolAttr, DenseI64ArrayAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.op_interface import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.attribute_arguments import int_tuple
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = [
    "DynamicStridedSliceOp",
    "StridedSliceOp",
    "dynamic_shape_type",
    "onnx_slice",
    "optional_constant",
    "optional_constant_ints",
]

_TO_END = 2**31 - 1  # past the end of any size


class StridedSliceOp(Relax.Operation, name="strided_slice"):
    """The slice ``begin:end:strides`` along some axes.

    Attributes:
        axes: the sliced axes; negative ones count from the end.
        begin, end: a bound per axis; negative ones count from the end; then they are
            clamped, so 2**31 - 1 is the end of any axis. May be symbolic.
        strides: a step per axis, which may be negative; None for 1s.
        assume_inbound: whether bounds are known to be in range, so that they are not
            clamped.
    Shapes:
        x: any rank and element type; y: its sizes by :func:`shapes.slice_size`.
    Source: numpy's slices.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axes: DenseI64ArrayAttr
    begin: Attr
    end: Attr
    strides: DenseI64ArrayAttr | None
    assume_inbound: BoolAttr

    argument_attributes = ("axes", "begin", "end", "strides")
    cases = (
        Case((7,), axes=(0,), begin=(2,), end=(5,)),
        Case((7, 5), axes=(0, 1), begin=(1, -4), end=(_TO_END, -1), strides=(2, 1)),
        Case((7, 5), axes=(1, 0), begin=(3, -1), end=(0, -_TO_END), strides=(-2, -1)),
        Case((7,), axes=(0,), begin=(5,), end=(2,), strides=(1,)),
        Case((7,), axes=(0,), begin=(-9,), end=(-_TO_END,), strides=(-1,)),
        Case((1, 3), axes=(0, 1), begin=(-9, 0), end=(9, 0), strides=(3, 1)),
        Case((0, 3), axes=(0, 1), begin=(0, 1), end=(9, 3), strides=(1, 1)),
        Case((2, 1, 37), axes=(-1,), begin=(3,), end=(36,), strides=(3,)),
        Case((5, "bool"), axes=(0,), begin=(1,), end=(5,), strides=(2,)),
        Case((5, "int64"), axes=(0,), begin=(4,), end=(-_TO_END,), strides=(-1,)),
        Case((5, 3), axes=(0,), begin=(1,), end=(4,), assume_inbound=True),
    )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        strides = attrs.get("strides")
        whole = {n: tuple(attrs[n]) for n in ("begin", "end")}
        strides = None if strides is None else int_tuple(strides)
        return {**attrs, **whole, "axes": int_tuple(attrs["axes"]), "strides": strides}

    @staticmethod
    def infer(
        x: RankedTensorType,
        axes: Sequence[int],
        begin: Sequence[Dim],
        end: Sequence[Dim],
        strides: Sequence[int] | None = None,
        assume_inbound: bool = False,
    ) -> RankedTensorType:
        shape = list(tensors.shape_of(x))
        steps = (1,) * len(axes) if strides is None else strides
        if not len(begin) == len(end) == len(steps) == len(axes):
            raise ValueError(
                f"begin, end and strides must be for {len(axes)} axes, got "
                f"{len(begin)}, {len(end)} and {len(steps)}"
            )
        size = _inbound_size if assume_inbound else shapes.slice_size
        sliced_axes = shapes.normalize_axes(axes, len(shape))
        for axis, *bounds in zip(sliced_axes, begin, end, steps, strict=True):
            shape[axis] = size(shape[axis], *bounds)
        return tensors.tensor_type(shape, tensors.dtype_of(x))

    @staticmethod
    def reference(
        x: np.ndarray,
        axes: Sequence[int],
        begin: Sequence[int],
        end: Sequence[int],
        strides: Sequence[int] | None = None,
        assume_inbound: bool = False,
    ) -> np.ndarray:
        for number, axis in enumerate(axes):
            step = 1 if strides is None else strides[number]
            indices = range(x.shape[axis])[begin[number] : end[number] : step]
            x = x.take(list(indices), axis)
        return x

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.x)
        shape, dtype = b.results[0]
        attrs = self.python_attrs()
        axes = shapes.normalize_axes(attrs["axes"], x.rank)
        steps, firsts = [1] * x.rank, [0] * x.rank
        for number, axis in enumerate(axes):
            steps[axis] = 1 if attrs["strides"] is None else attrs["strides"][number]
            begin = b.local_dim(attrs["begin"][number])
            is_unclamped = attrs["assume_inbound"] and isinstance(begin, shapes.Expr)
            if not is_unclamped:
                begin = shapes.slice_begin(x.shape[axis], begin, steps[axis])
            firsts[axis] = begin

        def body(*point: Index) -> Scalar:
            triples = zip(point, steps, firsts, strict=True)
            return x[tuple(axis * step + b.dim(first) for axis, step, first in triples)]

        return b.compute(shape, body, dtype, "strided_slice")


def _inbound_size(dim: Dim, begin: Dim, end: Dim, step: int) -> Dim:
    """The size of a slice whose bounds are not clamped."""
    if step == 0:
        raise ValueError("slice step is wrong: expected any number but 0, got 0")
    first, last = (
        dim + bound if isinstance(bound, int) and bound < 0 else bound
        for bound in (begin, end)
    )
    if isinstance(last, int) and last >= _TO_END:
        last = dim
    sign = 1 if step > 0 else -1
    return shapes.ceildiv(sign * (last - first), sign * step)


def onnx_slice(
    x: ir.Value,
    begins: Sequence[Dim],
    ends: Sequence[Dim],
    axes: Sequence[int],
    strides: Sequence[int] | None = None,
) -> ir.Value:
    """A slice with ONNX semantics: with a negative step, ``begins`` are clamped to >= 0.

    Source: ONNX Slice-13; numpy gives an empty slice for a begin before element 0.
    """
    steps = [1] * len(axes) if strides is None else list(strides)
    dims = tensors.shape_of(x)
    sliced_axes = shapes.normalize_axes(axes, len(dims))
    if not len(begins) == len(ends) == len(steps) == len(axes):
        raise ValueError(
            f"expected begins, ends and steps for {len(axes)} axes, got {len(begins)}, "
            f"{len(ends)} and {len(steps)}"
        )
    firsts = [
        _at_least_first(dims[axis], begin) if step < 0 else begin
        for axis, begin, step in zip(sliced_axes, begins, steps, strict=True)
    ]
    return StridedSliceOp(x, axes=axes, begin=firsts, end=ends, strides=steps).y


def _at_least_first(dim: Dim, begin: Dim) -> Dim:
    """Clamps a negative begin to element 0; other begins are returned unchanged."""
    if not isinstance(begin, int) or begin >= -1:
        return begin
    return 0 if begin <= -_TO_END else shapes.maximum(dim + begin, 0)


@onnx_rule("Slice", since=1)
def slice_attributes(node: OnnxNode) -> ir.Value:
    """ONNX Slice with bounds as attributes.

    Source: ONNX Slice-1.
    """
    begins, ends = node.attr("starts"), node.attr("ends")
    return onnx_slice(
        node.input(0), begins, ends, node.attr("axes", range(len(begins)))
    )


@onnx_rule("Slice", since=10)
def slice_inputs(node: OnnxNode) -> ir.Value:
    """ONNX Slice with bounds as inputs.

    Source: ONNX Slice-13.
    """
    begins, ends = node.dims(1), node.dims(2)
    axes, strides = optional_constant_ints(node, 3), optional_constant_ints(node, 4)
    if axes is None:
        axes = list(range(len(begins)))
    return onnx_slice(node.input(0), begins, ends, axes, strides)


def optional_constant(node: OnnxNode, index: int) -> np.ndarray | None:
    """The elements of a constant operand, flattened; None if it is omitted.

    Raises:
        NotKnownError: the operand is computed at run time.
    """
    if node.constant_or_none(index) is None and node.optional(index) is None:
        return None
    return node.known(index).reshape(-1)


def optional_constant_ints(node: OnnxNode, index: int) -> list[int] | None:
    """The integers of a constant vector operand; None if it is omitted.

    Raises:
        NotKnownError: the operand is computed at run time.
        ValueError: its rank is above 1.
    """
    if optional_constant(node, index) is None:
        return None
    return [int(number) for number in node.vector(index)]


class DynamicStridedSliceOp(Relax.Operation, name="dynamic_strided_slice"):
    """The slice ``begin:end:strides`` with bounds that are tensors.

    The shape of the result is data-dependent.

    Shapes:
        x: any rank and element type; begin, end, strides: [rank of x], int64; y: of the
        rank of x.
    """

    x: Operand[RankedTensorType]
    begin: Operand[RankedTensorType]
    end: Operand[RankedTensorType]
    strides: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    @staticmethod
    def infer(
        x: RankedTensorType,
        begin: RankedTensorType,
        end: RankedTensorType,
        strides: RankedTensorType,
    ) -> RankedTensorType:
        for name, bound in (("begin", begin), ("end", end), ("strides", strides)):
            shape, dtype = tensors.shape_of(bound), tensors.dtype_of(bound)
            if shape != (x.rank,) or dtype.name != "int64":
                raise ValueError(
                    f"`{name}` must be [{x.rank}] of int64, got "
                    f"{shapes.format_shape(shape)} of {dtype}"
                )
        return dynamic_shape_type(x.rank, x.element_type)


def dynamic_shape_type(rank: int, element: ir.Type) -> RankedTensorType:
    """The type of a tensor of data-dependent shape: dynamic sizes without names."""
    return RankedTensorType.get([ir.ShapedType.get_dynamic_size()] * rank, element)

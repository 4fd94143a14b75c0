"""Parts of tensors: slices, splits, concatenations."""

from collections.abc import Sequence

import numpy as np
from mlir import ir
from mlir.ir import DenseI64ArrayAttr, IntegerAttr, RankedTensorType, TupleType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.hooks import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["ConcatOp", "StridedSliceOp"]

_TO_END = 2**31 - 1  # past the end of any size, as ONNX models write it


class StridedSliceOp(Relax.Operation, name="strided_slice"):
    """Every ``strides``-th element from ``begins`` up to ``ends``, along every axis.

    Attributes:
        begins, ends: an element per axis; negative ones count from the end; then they
            are clamped, so 2**31 - 1 is the end of any axis. May be symbolic.
        strides: a step per axis; a negative one walks backwards.
    Shapes:
        x: any rank and element type; y: its sizes by :func:`shapes.sliced`.
    Source: ONNX Slice-13.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    begins: Attr
    ends: Attr
    strides: DenseI64ArrayAttr

    cases = (
        Case((7,), begins=(2,), ends=(5,), strides=(1,)),
        Case((7, 5), begins=(1, -4), ends=(_TO_END, -1), strides=(2, 1)),
        Case((7, 5), begins=(-1, 3), ends=(-_TO_END, 0), strides=(-1, -2)),
        Case((7,), begins=(5,), ends=(2,), strides=(1,)),
        Case((1, 3), begins=(-9, 0), ends=(9, 0), strides=(3, 1)),
        Case((0, 3), begins=(0, 1), ends=(9, 3), strides=(1, 1)),
        Case((2, 1, 37), begins=(0, 0, 3), ends=(2, 1, 36), strides=(1, 1, 3)),
        Case((5, "bool"), begins=(1,), ends=(5,), strides=(2,)),
        Case((5, "int64"), begins=(4,), ends=(-_TO_END,), strides=(-1,)),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        begins: Sequence[Dim],
        ends: Sequence[Dim],
        strides: Sequence[int],
    ) -> RankedTensorType:
        shape = tensors.shape_of(x)
        if not len(begins) == len(ends) == len(strides) == len(shape):
            raise ValueError(
                f"begins, ends and strides must be for {len(shape)} axes, got "
                f"{len(begins)}, {len(ends)} and {len(strides)}"
            )
        sizes = map(shapes.sliced, shape, begins, ends, strides)
        return tensors.tensor_type(tuple(sizes), tensors.dtype_of(x))

    @staticmethod
    def reference(
        x: np.ndarray,
        begins: Sequence[int],
        ends: Sequence[int],
        strides: Sequence[int],
    ) -> np.ndarray:
        for axis, (begin, end, step) in enumerate(
            zip(begins, ends, strides, strict=True)
        ):
            first = shapes.evaluate(shapes.slice_begin(x.shape[axis], begin, step), {})
            count = shapes.evaluate(shapes.sliced(x.shape[axis], begin, end, step), {})
            x = x.take(first + step * np.arange(count), axis)
        return x

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.x)
        shape, dtype = b.results[0]
        attrs = self.python_attrs()
        begins = [b.local(begin) for begin in attrs["begins"]]
        firsts = list(map(shapes.slice_begin, x.shape, begins, attrs["strides"]))

        def body(*axes: Index) -> Scalar:
            steps = zip(axes, attrs["strides"], firsts, strict=True)
            return x[tuple(axis * step + b.dim(first) for axis, step, first in steps)]

        return b.compute(shape, body, dtype, "strided_slice")

    @staticmethod
    @onnx_rule("Slice", since=1)
    def from_onnx_attributes(node: OnnxNode) -> ir.Value:
        begins, ends = node.attr("starts"), node.attr("ends")
        return slice_axes(
            node.input(0), begins, ends, node.attr("axes", range(len(begins)))
        )

    @staticmethod
    @onnx_rule("Slice", since=10)
    def from_onnx(node: OnnxNode) -> ir.Value:
        begins, ends = node.dims(1), node.dims(2)
        axes, strides = known_ints(node, 3), known_ints(node, 4)
        if axes is None:
            axes = list(range(len(begins)))
        return slice_axes(node.input(0), begins, ends, axes, strides)


def known_or_none(node: OnnxNode, index: int) -> np.ndarray | None:
    """The elements of a constant operand; None if it is left out.

    Raises:
        ValueError: it is computed at run time.
    """
    if node.constant_or_none(index) is None and node.optional(index) is None:
        return None
    return node.known(index).reshape(-1)


def known_ints(node: OnnxNode, index: int) -> list[int] | None:
    """``known_or_none`` as integers."""
    known = known_or_none(node, index)
    return None if known is None else [int(number) for number in known]


def slice_axes(
    x: ir.Value,
    begins: Sequence[Dim],
    ends: Sequence[Dim],
    axes: Sequence[int],
    strides: Sequence[int] | None = None,
) -> ir.Value:
    """A slice along some axes, whole along the others."""
    rank = RankedTensorType(x.type).rank
    all_begins: list[Dim] = [0] * rank
    all_ends: list[Dim] = [_TO_END] * rank
    all_strides = [1] * rank
    for position, axis in enumerate(shapes.normalize_axes(axes, rank)):
        all_begins[axis], all_ends[axis] = begins[position], ends[position]
        all_strides[axis] = strides[position] if strides else 1
    return StridedSliceOp(x, begins=all_begins, ends=all_ends, strides=all_strides).y


class ConcatOp(Relax.Operation, name="concat"):
    """Tensors end to end along one axis.

    Attributes:
        axis: which; negative ones count from the end.
    Shapes:
        xs: one or more tensors of one element type, whose sizes differ along ``axis`` only.
    Source: ONNX Concat-13.
    """

    xs: Operand[TupleType]
    y: Result[RankedTensorType]
    axis: IntegerAttr

    cases = (
        Case([(2, 3), (4, 3)], axis=0),
        Case([(2, 3), (2, 1), (2, 5)], axis=-1),
        Case([(2, 3)], axis=1),
        Case([(0, 3), (2, 3), (0, 3)], axis=0),
        Case([(1, 2, 7), (1, 5, 7)], axis=1),
        Case([(3, "int64"), (2, "int64")], axis=0, low=-9, high=9),
        Case([(3, "bool"), (2, "bool")], axis=0),
    )

    @staticmethod
    def infer(xs: Sequence[RankedTensorType], axis: int) -> RankedTensorType:
        dtypes = {str(tensors.dtype_of(x)) for x in xs}
        if len(dtypes) > 1:
            raise ValueError(
                f"operands must have one element type, got {', '.join(sorted(dtypes))}"
            )
        shape = shapes.concat([tensors.shape_of(x) for x in xs], axis)
        return tensors.tensor_type(shape, tensors.dtype_of(xs[0]))

    @staticmethod
    def reference(xs: Sequence[np.ndarray], axis: int) -> np.ndarray:
        return np.concatenate(xs, axis)

    def legalize(self, b: Builder) -> Buffer:
        shape, dtype = b.results[0]
        axis = self.axis.value % len(shape)
        out = b.alloc(shape, dtype)
        offset: Dim = 0
        for x in b.inputs:
            b.block(
                "concat", x.shape, "S" * x.rank, _copy_to(out, x, axis, b.dim(offset))
            )
            offset = offset + x.shape[axis]
        return out

    @staticmethod
    @onnx_rule("Concat", since=4)
    def from_onnx(node: OnnxNode) -> ir.Value:
        xs = [node.input(i) for i in range(len(node.inputs))]
        return ConcatOp(xs, axis=node.attr("axis")).y


def _copy_to(out: Buffer, x: Buffer, axis: int, offset: "Index | int"):
    """A block body that copies ``x`` into ``out`` from ``offset`` on."""

    def body(*point: Index) -> None:
        where = list(point)
        where[axis] = where[axis] + offset
        out.store(x[point], where)

    return body

"""Concatenation, stacking, splitting and meshgrid."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.ir import IntegerAttr, RankedTensorType, StringAttr, TupleType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.op_interface import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.scalar_attributes import ScalarAttributesOp
from relax_mlir.dialects.shapes import Dim, Shape
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["ConcatOp", "MeshgridOp", "SplitOp", "StackOp"]

# Operands of one concat: compile time is quadratic in the size of the program.
_MOST_OPERANDS = 64


def _check_one_type(xs: Sequence[RankedTensorType]) -> None:
    dtypes = {str(tensors.dtype_of(x)) for x in xs}
    if len(dtypes) != 1:
        got = ", ".join(sorted(dtypes)) or "no operands"
        raise ValueError(f"operands must have one element type, got {got}")


class ConcatOp(Relax.Operation, name="concat"):
    """Concatenates tensors along one axis.

    Attributes:
        axis: negative ones count from the end; None for tensors of rank 1.
    Shapes:
        tensors: one or more tensors of one element type, with equal sizes except along
        ``axis``; y: the sum of their sizes along ``axis``.
    Source: numpy.concatenate; ONNX Concat-13.
    """

    tensors: Operand[TupleType]
    y: Result[RankedTensorType]
    axis: IntegerAttr | None

    cases = (
        Case([(2, 3), (4, 3)], axis=0),
        Case([(2, 3), (2, 1), (2, 5)], axis=-1),
        Case([(2, 3)], axis=1),
        Case([(0, 3), (2, 3), (0, 3)], axis=0),
        Case([(1, 2, 7), (1, 5, 7)], axis=1),
        Case([(3, "int64"), (2, "int64")], axis=0, low=-9, high=9),
        Case([(3, "bool"), (2, "bool")], axis=0),
        Case([(3,), (2,)], axis=None),
    )

    @classmethod
    def program_name(cls) -> str:
        return "concatenate"

    @staticmethod
    def infer(xs: Sequence[RankedTensorType], axis: int | None = 0) -> RankedTensorType:
        _check_one_type(xs)
        if axis is None and any(x.rank != 1 for x in xs):
            raise ValueError(
                f"without an axis expected rank 1, got {', '.join(str(x.rank) for x in xs)}"
            )
        shape = shapes.concat([tensors.shape_of(x) for x in xs], axis or 0)
        return tensors.tensor_type(shape, tensors.dtype_of(xs[0]))

    @staticmethod
    def reference(xs: Sequence[np.ndarray], axis: int | None = 0) -> np.ndarray:
        return np.concatenate(xs, axis)

    def legalize(self, b: Builder) -> Buffer:
        shape, dtype = b.results[0]
        axis = (self.python_attrs()["axis"] or 0) % len(shape)
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
        axis = node.attr("axis")
        while len(xs) > _MOST_OPERANDS:
            groups = [
                xs[n : n + _MOST_OPERANDS] for n in range(0, len(xs), _MOST_OPERANDS)
            ]
            xs = [ConcatOp(group, axis=axis).y for group in groups]
        return ConcatOp(xs, axis=axis).y


def _copy_to(
    out: Buffer, x: Buffer, axis: int, offset: "Index | int"
) -> Callable[..., None]:
    """A block body that copies ``x`` into ``out`` at ``offset`` along ``axis``."""

    def body(*point: Index) -> None:
        where = list(point)
        where[axis] = where[axis] + offset
        out.store(x[point], where)

    return body


class StackOp(Relax.Operation, name="stack"):
    """Stacks tensors along a new axis.

    Attributes:
        axis: position of the new axis in y; negative ones count from the end.
    Shapes:
        tensors: one or more tensors of one shape and element type.
    Source: numpy.stack.
    """

    tensors: Operand[TupleType]
    y: Result[RankedTensorType]
    axis: IntegerAttr

    cases = (
        Case([(2, 3), (2, 3)]),
        Case([(2, 3), (2, 3), (2, 3)], axis=-1),
        Case([(2, 3), (2, 3)], axis=1),
        Case([(), ()]),
        Case([(3, "int64")], axis=1),
    )

    @staticmethod
    def infer(xs: Sequence[RankedTensorType], axis: int = 0) -> RankedTensorType:
        _check_one_type(xs)
        first = tensors.shape_of(xs[0])
        axis = shapes.check_axis(axis, len(first) + 1)
        parts = [tensors.shape_of(x) for x in xs]
        rows = [(*part[:axis], 1, *part[axis:]) for part in parts]
        return tensors.tensor_type(shapes.concat(rows, axis), tensors.dtype_of(xs[0]))

    @staticmethod
    def reference(xs: Sequence[np.ndarray], axis: int = 0) -> np.ndarray:
        return np.stack(xs, axis)

    def legalize(self, b: Builder) -> Buffer:
        shape, dtype = b.results[0]
        axis = self.axis.value % len(shape)
        out = b.alloc(shape, dtype)
        for number, x in enumerate(b.inputs):

            def body(*point: Index, x: Buffer = x, number: int = number) -> None:
                out.store(x[point], (*point[:axis], number, *point[axis:]))

            b.block("stack", x.shape, "S" * x.rank, body)
        return out


class SplitOp(ScalarAttributesOp, name="split"):
    """Splits a tensor along one axis.

    Attributes:
        indices_or_sections: the indices at which the axis is split; or the number of
            parts, which have equal sizes except for a smaller last one.
        axis: negative ones count from the end.
    Shapes:
        x: any shape; y: a tuple of the parts, or a tensor if there is one part.
    Source: numpy.split; ONNX Split-18.
    """

    x: Operand[RankedTensorType]
    y: Result[ir.Type]
    indices_or_sections: Attr
    axis: IntegerAttr

    number_attributes = ("indices_or_sections",)
    sequence_attributes = number_attributes
    cases = (
        Case((2, 5), indices_or_sections=2, axis=1),
        Case((6, 3), indices_or_sections=3),
        Case((2, 7), indices_or_sections=(1, 3), axis=-1),
        Case((5, "int64"), indices_or_sections=(0, 4, 9), low=-9, high=9),
        Case((2, 5), indices_or_sections=1, axis=1),
    )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        parts = attrs["indices_or_sections"]
        return {
            **attrs,
            "indices_or_sections": tuple(parts)
            if isinstance(parts, Sequence)
            else parts,
        }

    @staticmethod
    def infer(
        x: RankedTensorType, indices_or_sections: Dim | Sequence[Dim], axis: int = 0
    ) -> "RankedTensorType | TupleType":
        shape, dtype = tensors.shape_of(x), tensors.dtype_of(x)
        axis = shapes.check_axis(axis, len(shape))
        begins = _part_begins(shape[axis], indices_or_sections)
        ends = (*begins[1:], shape[axis])
        parts: list[ir.Type] = []
        for begin, end in zip(begins, ends, strict=True):
            size = shapes.maximum(0, end - begin)
            part = (*shape[:axis], size, *shape[axis + 1 :])
            parts.append(tensors.tensor_type(part, dtype))
        return TupleType.get_tuple(parts) if len(parts) > 1 else x

    @staticmethod
    def reference(
        x: np.ndarray, indices_or_sections: int | Sequence[int], axis: int = 0
    ) -> "np.ndarray | list[np.ndarray]":
        begins = _part_begins(x.shape[axis], indices_or_sections)
        return np.split(x, begins[1:], axis) if len(begins) > 1 else x

    def legalize(self, b: Builder) -> list[Buffer]:
        x = b.buffer(self.x)
        attrs = self.python_attrs()
        axis = attrs["axis"] % x.rank
        parts = attrs["indices_or_sections"]
        if not isinstance(parts, int):
            parts = [
                b.local_dim(p)
                for p in (parts if isinstance(parts, tuple) else (parts,))
            ]
        begins = [b.dim(begin) for begin in _part_begins(x.shape[axis], parts)]

        def part(number: int) -> Buffer:
            def body(*axes: Index) -> Scalar:
                position = axes[axis] + begins[number]
                return x[(*axes[:axis], position, *axes[axis + 1 :])]

            shape, dtype = b.results[number]
            return b.compute(shape, body, dtype, "split")

        return [part(number) for number in range(len(begins))]


def _part_begins(dim: Dim, parts: Dim | Sequence[Dim]) -> Shape:
    """The start index of every part, the first being 0."""
    if isinstance(parts, int):
        sizes = shapes.split_sizes(dim, parts)
        return tuple(number * sizes[0] for number in range(parts))
    bounds = parts if isinstance(parts, Sequence) else (parts,)
    inside = (shapes.minimum(shapes.maximum(0, begin), dim) for begin in bounds)
    return (0, *inside)


class MeshgridOp(Relax.Operation, name="meshgrid"):
    """Coordinate tensors of a grid, one per axis, from coordinate vectors.

    Attributes:
        indexing: ``ij`` for axes in the order of the operands, ``xy`` to swap the first two.
    Shapes:
        tensors: one or more vectors [n], [m], ...; y: a tuple of one tensor [n, m, ...]
        per vector.
    Source: numpy.meshgrid.
    """

    tensors: Operand[TupleType]
    y: Result[TupleType]
    indexing: StringAttr

    cases = (
        Case([(3,), (4,)]),
        Case([(3,), (4,)], indexing="xy"),
        Case([(3,), (1,), (2,)], indexing="xy"),
        Case([(5, "int64")], low=-9, high=9),
    )

    @staticmethod
    def infer(xs: Sequence[RankedTensorType], indexing: str = "ij") -> TupleType:
        _check_one_type(xs)
        if indexing not in ("ij", "xy"):
            raise ValueError(f"bad indexing: expected ij or xy, got `{indexing}`")
        if any(x.rank != 1 for x in xs):
            raise ValueError(
                f"expected vectors, got ranks {', '.join(str(x.rank) for x in xs)}"
            )
        sizes = [tensors.shape_of(x)[0] for x in xs]
        shape = [sizes[number] for number in _grid_order(len(xs), indexing)]
        type_ = tensors.tensor_type(shape, tensors.dtype_of(xs[0]))
        return TupleType.get_tuple([type_] * len(xs))

    @staticmethod
    def reference(xs: Sequence[np.ndarray], indexing: str = "ij") -> "list[np.ndarray]":
        return [np.asarray(axis) for axis in np.meshgrid(*xs, indexing=indexing)]

    def legalize(self, b: Builder) -> list[Buffer]:
        shape, dtype = b.results[0]
        order = _grid_order(len(b.inputs), self.indexing.value)
        return [
            b.compute(
                shape,
                lambda *axes, x=x, n=number: x[axes[order.index(n)]],
                dtype,
                "meshgrid",
            )
            for number, x in enumerate(b.inputs)
        ]


def _grid_order(count: int, indexing: str) -> list[int]:
    """The operand that varies along each axis of the grid."""
    order = list(range(count))
    return [1, 0, *order[2:]] if indexing == "xy" and count > 1 else order

"""Insertion and removal of axes of size 1, and flattening."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir.ir import DenseI64ArrayAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.attribute_arguments import int_tuple
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.manipulate import read_row_major
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = [
    "BatchFlattenOp",
    "ExpandDimsOp",
    "FlattenOp",
    "SqueezeOp",
    "axes_to_squeeze",
]


class ExpandDimsOp(Relax.Operation, name="expand_dims"):
    """Inserts axes of size 1.

    Attributes:
        axis: the positions of the new axes in y; negative ones count from the end.
    Source: numpy.expand_dims; ONNX Unsqueeze-13.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: DenseI64ArrayAttr

    cases = (
        Case((2, 3), axis=(1,)),
        Case((2, 3), axis=(0, -1)),
        Case((), axis=(0,)),
        Case((5, 7), axis=(-1, 1)),
    )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {"axis": int_tuple(attrs["axis"])}

    @staticmethod
    def infer(x: RankedTensorType, axis: Sequence[int]) -> RankedTensorType:
        shape: list[Dim] = list(tensors.shape_of(x))
        for position in sorted(shapes.normalize_axes(axis, x.rank + len(axis))):
            shape.insert(position, 1)
        return tensors.tensor_type(shape, tensors.dtype_of(x))

    @staticmethod
    def reference(x: np.ndarray, axis: Sequence[int]) -> np.ndarray:
        return np.expand_dims(x, tuple(axis))

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.x)
        shape, dtype = b.results[0]
        new = shapes.normalize_axes(self.axis, len(shape))

        def body(*axes: Index) -> Scalar:
            return x[tuple(a for i, a in enumerate(axes) if i not in new)]

        return b.compute(shape, body, dtype, "expand_dims")


class SqueezeOp(Relax.Operation, name="squeeze"):
    """Removes axes of size 1.

    Attributes:
        axis: the axes, of which those of another size are kept; negative ones count from
            the end; None for all axes of size 1.
    Source: numpy.squeeze, which rejects axes of another size.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: DenseI64ArrayAttr | None

    cases = (
        Case((1, 3, 1)),
        Case((1, 3, 1), axis=(-1,)),
        Case((1, 3, 1), axis=(0, 2)),
        Case((1,)),
        Case((2, 3), axis=()),
        Case((2, 1), axis=(0, 1)),
    )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {"axis": int_tuple(attrs.get("axis"))}

    @staticmethod
    def infer(
        x: RankedTensorType, axis: Sequence[int] | None = None
    ) -> RankedTensorType:
        shape = tensors.shape_of(x)
        removed = axes_to_squeeze(shape, axis)
        kept = [dim for i, dim in enumerate(shape) if i not in removed]
        return tensors.tensor_type(kept, tensors.dtype_of(x))

    @staticmethod
    def reference(x: np.ndarray, axis: Sequence[int] | None = None) -> np.ndarray:
        return np.squeeze(x, axes_to_squeeze(x.shape, axis))

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.x)
        shape, dtype = b.results[0]
        removed = axes_to_squeeze(x.shape, self.python_attrs()["axis"])

        def body(*axes: Index) -> Scalar:
            rest = iter(axes)
            return x[tuple(0 if i in removed else next(rest) for i in range(x.rank))]

        return b.compute(shape, body, dtype, "squeeze")


def axes_to_squeeze(
    shape: Sequence[Dim], axes: Sequence[int] | None
) -> tuple[int, ...]:
    """The axes that a squeeze removes: those of ``axes`` (None: of all) with size 1.

    Raises:
        ValueError: ``axes`` is None, and a symbolic size may or may not be 1.
    """
    if axes is not None:
        given = shapes.normalize_axes(axes, len(shape))
        removed = [a for a in given if not isinstance(shape[a], int) or shape[a] == 1]
        for axis in removed:
            shapes.unify(1, shape[axis])
        return tuple(removed)
    for dim in shape:
        if not isinstance(dim, int) and not shapes.is_known_unequal(dim, 1):
            raise ValueError(
                f"without axes it must be known which sizes are 1, but `{dim}` is "
                "not. Hint: fix it with shapes="
            )
    return tuple(axis for axis, dim in enumerate(shape) if dim == 1)


class FlattenOp(Relax.Operation, name="flatten"):
    """Flattens a tensor to one axis, in row-major order.

    Shapes:
        x: any shape; y: [number of elements of x].
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    cases = (Case((2, 3, 5)), Case(()), Case((0, 3)), Case((7,)))

    @classmethod
    def program_name(cls) -> str:
        return "reshape"

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        size = shapes.product(tensors.shape_of(x))
        return tensors.tensor_type((size,), tensors.dtype_of(x))

    @staticmethod
    def reference(x: np.ndarray) -> np.ndarray:
        return x.reshape(-1)

    def legalize(self, b: Builder) -> Buffer:
        return read_row_major(b, b.buffer(self.x), "flatten")


class BatchFlattenOp(Relax.Operation, name="nn_batch_flatten"):
    """Flattens all axes but the first, in row-major order.

    Shapes:
        data: [n, ...], rank >= 2; y: [n, product of the other sizes].
    """

    data: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    cases = (Case((2, 3, 5)), Case((2, 3)), Case((0, 3, 2)))

    @classmethod
    def program_name(cls) -> str:
        return "reshape"

    @staticmethod
    def infer(data: RankedTensorType) -> RankedTensorType:
        if data.rank < 2:
            raise ValueError(f"expected rank 2 or more, got {data.rank}")
        n, *rest = tensors.shape_of(data)
        return tensors.tensor_type((n, shapes.product(rest)), tensors.dtype_of(data))

    @staticmethod
    def reference(data: np.ndarray) -> np.ndarray:
        return data.reshape(len(data), int(np.prod(data.shape[1:])))

    def legalize(self, b: Builder) -> Buffer:
        return read_row_major(b, b.buffer(self.data), "batch_flatten")

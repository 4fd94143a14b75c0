"""Affine sampling grids."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir.ir import BoolAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["AffineGridOp"]


class AffineGridOp(Relax.Operation, name="image_affine_grid"):
    """The sampling grid of an affine map: normalised pixel coordinates, transformed.

    y = data @ [x, y, 1] (or [x, y, z, 1]) for the coordinates, from -1 to 1, of every
    pixel.

    Attributes:
        size: (height, width) of the image, or (depth, height, width) of the volume.
        align_corners: whether -1 and 1 are the centres of the outermost pixels, rather
            than the borders of the image. With it, the pixel of an axis of size 1 is at 1.
    Shapes:
        data: [batch, r, r + 1], floats, for r sizes; y: [batch, r, *size], the components
        in the order x, y, z.
    Source: ONNX AffineGrid-20, whose result has the coordinates last, and which does not
        define axes of size 1; onnxruntime takes the last point.
    """

    data: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    size: Attr
    align_corners: BoolAttr

    argument_attributes = ("size",)
    cases = (
        Case((2, 2, 3), size=(3, 4)),
        Case((1, 2, 3), size=(5, 2), align_corners=False),
        Case((1, 2, 3, "float64"), size=(2, 7)),
        Case((0, 2, 3), size=(3, 3)),
        Case((2, 2, 3), size=(1, 3)),
        Case((2, 2, 3), size=(1, 3), align_corners=False),
        Case((2, 3, 4), size=(2, 1, 5)),
        Case((1, 3, 4), size=(2, 3, 4), align_corners=False),
    )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        size = attrs["size"]
        sizes = tuple(size) if isinstance(size, Sequence) else (size, size)
        return {**attrs, "size": sizes}

    @staticmethod
    def infer(
        data: RankedTensorType, size: Sequence[Dim], align_corners: bool = True
    ) -> RankedTensorType:
        if data.rank != 3:
            raise ValueError(f"data: expected rank 3, got {data.rank}")
        if len(size) not in (2, 3):
            raise ValueError(f"size: expected 2 or 3 sizes, got {len(size)}")
        shapes.require_nonnegative(size)
        batch, rows, columns = tensors.shape_of(data)
        shapes.unify(len(size), rows)
        shapes.unify(len(size) + 1, columns)
        return tensors.tensor_type((batch, len(size), *size), tensors.dtype_of(data))

    @staticmethod
    def reference(
        data: np.ndarray, size: Sequence[int], align_corners: bool = True
    ) -> np.ndarray:
        axes = [_coordinates(n, align_corners) for n in size]
        grid = np.meshgrid(*axes, indexing="ij")[::-1]
        points = np.stack([*grid, np.ones(tuple(size))])
        return np.einsum("bij,j...->bi...", data, points).astype(data.dtype)

    def legalize(self, b: Builder) -> Buffer:
        (data,) = b.inputs
        shape, out = b.results[0]
        aligned = self.align_corners.value

        def coordinate(axis: Index, size: Dim) -> Scalar:
            count = Index(Index.value_of(b.dim(b.local_dim(size)))).to_scalar(out)
            value = _coordinate(axis.to_scalar(out), count, aligned)
            if not aligned or shapes.is_known_unequal(size, 1):
                return value
            return b.select(count.equal(1), b.constant(1, out), value)

        def body(n: Index, i: Index, *axes: Index) -> Scalar:
            points = [
                coordinate(axis, size)
                for axis, size in zip(axes, shape[2:], strict=True)
            ]
            total = data[n, i, 0] * points[-1]
            for number, point in enumerate(points[-2::-1], start=1):
                total = total + data[n, i, number] * point
            return total + data[n, i, len(points)]

        return b.compute(shape, body, out, "affine_grid")


def _coordinates(size: int, aligned: bool) -> np.ndarray:
    """The normalised coordinates of all pixels along an axis."""
    if aligned and size == 1:
        return np.ones(1)
    return _coordinate(np.arange(size), size, aligned)


def _coordinate(index: Any, size: Any, aligned: bool) -> Any:  # Any: numbers or scalars
    """The normalised coordinate of a pixel along an axis of ``size``."""
    if aligned:
        return index * 2 / (size - 1) - 1
    return (index * 2 + 1) / size - 1

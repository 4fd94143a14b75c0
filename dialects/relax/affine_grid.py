"""Where an affine map takes the points of a picture."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir.ir import BoolAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["AffineGridOp"]


class AffineGridOp(Relax.Operation, name="image_affine_grid"):
    """The points of a picture, each coordinate from -1 to 1, after an affine map.

    Attributes:
        size: height and width of the picture.
        align_corners: whether -1 and 1 are the middles of the outermost pixels, or the
            borders of the picture.
    Shapes:
        data: [batch, 2, 3], floats; y: [batch, 2, height, width], x first, then y.
    Source: ONNX AffineGrid-20, whose result has the coordinates last.
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
        if len(size) != 2:
            raise ValueError(f"size: expected height and width, got {len(size)} sizes")
        shapes.require_sizes(size)
        batch, rows, columns = tensors.shape_of(data)
        shapes.unify(2, rows)
        shapes.unify(3, columns)
        return tensors.tensor_type((batch, 2, *size), tensors.dtype_of(data))

    @staticmethod
    def reference(
        data: np.ndarray, size: Sequence[int], align_corners: bool = True
    ) -> np.ndarray:
        ys, xs = (_places(np.arange(n), n, align_corners) for n in size)
        ones = np.ones((len(ys), len(xs)))
        points = np.stack([ones * xs, ones * ys[:, None], ones])
        return np.einsum("bij,jhw->bihw", data, points).astype(data.dtype)

    def legalize(self, b: Builder) -> Buffer:
        (data,) = b.inputs
        shape, out = b.results[0]
        aligned = self.align_corners.value

        def place(axis: Index, size: Dim) -> Scalar:
            count = Index(Index.value_of(b.dim(b.local(size)))).to_scalar(out)
            return _places(axis.to_scalar(out), count, aligned)

        def body(n: Index, i: Index, h: Index, w: Index) -> Scalar:
            x, y = place(w, shape[3]), place(h, shape[2])
            return data[n, i, 0] * x + data[n, i, 1] * y + data[n, i, 2]

        return b.compute(shape, body, out, "affine_grid")


def _places(index: Any, size: Any, aligned: bool) -> Any:  # Any: numbers or scalars
    """The coordinate, from -1 to 1, of a pixel in a row of ``size``."""
    if aligned:
        return index * 2 / (size - 1) - 1
    return (index * 2 + 1) / size - 1

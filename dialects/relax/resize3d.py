"""Resizing of volumes (NCDHW)."""

from collections.abc import Sequence
from typing import Any

from mlir.ir import (
    DenseF64ArrayAttr,
    FloatAttr,
    IntegerAttr,
    RankedTensorType,
    StringAttr,
    TypeAttr,
)

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.relax.attribute_arguments import element_type
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.layouts import Layout
from relax_mlir.dialects.shapes import Dim

__all__ = ["Resize3dOp"]


class Resize3dOp(Relax.Operation, name="image_resize3d"):
    """Volumes resampled to another size; the 3-D version of ``image.resize2d``.

    Attributes:
        size: the output depth, height and width.
        roi: the region to resize: begins along d, h and w, then ends.
        layout: the layout of data and y, a permutation of NCDHW.
        method, coordinate_transformation_mode, rounding_method, cubic_alpha,
            cubic_exclude, extrapolation_value: as in ``image.resize2d``.
        out_dtype: the element type of y; None for that of data.
    Shapes, in NCDHW order:
        data: [n, c, d, h, w]; y: [n, c, *size].
    Source: ONNX Resize-19.
    """

    data: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    size: Attr
    roi: DenseF64ArrayAttr
    layout: StringAttr
    method: StringAttr
    coordinate_transformation_mode: StringAttr
    rounding_method: StringAttr
    cubic_alpha: FloatAttr
    cubic_exclude: IntegerAttr
    extrapolation_value: FloatAttr
    out_dtype: TypeAttr | None

    argument_attributes = ("size",)

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        size, roi = attrs["size"], attrs.get("roi")
        sizes = tuple(size) if isinstance(size, Sequence) else (size,)
        if not isinstance(roi, Sequence):
            roi = (0.0 if roi is None else roi,) * 6
        return {
            **attrs,
            "size": sizes * 3 if len(sizes) == 1 else sizes,
            "roi": tuple(map(float, roi)),
            "out_dtype": element_type(attrs.get("out_dtype")),
        }

    @staticmethod
    def infer(
        data: RankedTensorType,
        size: Sequence[Dim],
        roi: Sequence[float] = (0.0,) * 6,
        layout: str = "NCDHW",
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "",
        cubic_alpha: float = -0.75,
        cubic_exclude: int = 0,
        extrapolation_value: float = 0.0,
        out_dtype: DType | None = None,
    ) -> RankedTensorType:
        if len(size) != 3:
            raise ValueError(f"size: expected depth, height and width, got {len(size)}")
        shapes.require_nonnegative(size)
        order = Layout(layout, "NCDHW")
        n, c, *_ = order.to_plain(tensors.shape_of(data))
        dtype = tensors.dtype_of(data) if out_dtype is None else out_dtype
        return tensors.tensor_type(order.from_plain((n, c, *size)), dtype)

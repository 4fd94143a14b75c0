"""Resizing of images."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from mlir.ir import (
    DenseF64ArrayAttr,
    FloatAttr,
    IntegerAttr,
    RankedTensorType,
    StringAttr,
    TypeAttr,
)

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.attribute_arguments import element_type
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.gather import check_not_empty
from relax_mlir.dialects.relax.layouts import Layout
from relax_mlir.dialects.relax.resize import (
    ResizeTableOp,
    ResizeTableProgram,
    resize_table,
    weights_dtype,
)
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["Resize2dOp"]

_METHODS = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}
_ROUNDINGS = ("", "round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_COORDINATES = (
    "half_pixel",
    "align_corners",
    "asymmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
_CROP = "tf_crop_and_resize"
_F32 = dtypes.dtype("float32")


class Resize2dOp(Relax.Operation, name="image_resize2d"):
    """Images resampled to another size.

    Attributes:
        size: the output height and width; may be symbolic.
        roi: for ``tf_crop_and_resize``, the region to resize: top, left, bottom and right,
            from 0 to 1.
        layout: the layout of data and y, a permutation of NCHW.
        method: ``nearest_neighbor``, ``linear`` or ``cubic``.
        coordinate_transformation_mode: the map from output to input coordinates, as in
            ONNX Resize.
        rounding_method: for ``nearest_neighbor``: ``round`` (ties to even),
            ``round_prefer_floor``, ``round_prefer_ceil``, ``floor`` or ``ceil``; empty for
            ``round`` with ``align_corners`` and else ``floor``.
        cubic_alpha: the coefficient of the cubic kernel.
        cubic_exclude: whether pixels outside of the image get weight 0.
        extrapolation_value: for ``tf_crop_and_resize``, the value outside of the image.
        out_dtype: the element type of y; None for that of data.
    Shapes, in NCHW order:
        data: [n, c, h, w]; y: [n, c, *size].
    Source: ONNX Resize-19; Keys, Cubic convolution interpolation, 1981.
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
    tolerance = 1e-4  # sums of 16 f32 products whose weights have both signs
    cases = (
        Case((1, 2, 3, 4), size=(6, 8)),
        Case((1, 2, 6, 8), size=(3, 5)),
        Case((1, 3, 4, 2), size=(5, 7), layout="NHWC"),
        *(
            Case((1, 1, 3, 4), size=(5, 1), coordinate_transformation_mode=mode)
            for mode in _COORDINATES[1:-1]
        ),
        *(
            Case(
                (1, 1, 3, 4),
                size=(4, 6),
                method=method,
                coordinate_transformation_mode=_CROP,
                roi=(0.1, 0.4, 0.9, 1.3),
                extrapolation_value=7.5,
            )
            for method in _METHODS
        ),
        *(
            Case(
                (1, 2, 3, 5),
                size=(6, 3),
                method="nearest_neighbor",
                coordinate_transformation_mode="asymmetric",
                rounding_method=rounding,
            )
            for rounding in _ROUNDINGS
        ),
        Case((1, 2, 3, 4), size=(6, 8), method="cubic"),
        Case((1, 2, 3, 4), size=(7, 3), method="cubic", cubic_exclude=1),
        Case((1, 2, 3, 4), size=(7, 3), method="cubic", cubic_alpha=-0.5),
        Case((1, 2, 3, 4, "float16"), size=(6, 8), out_dtype=_F32),
        Case((1, 2, 3, 4, "float64"), size=(2, 3)),
        Case((1, 2, 3, 4), size=(0, 3)),
    )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        found = {**attrs, "out_dtype": element_type(attrs.get("out_dtype"))}
        found["size"] = _pair(attrs["size"])
        roi = attrs.get("roi")
        if not isinstance(roi, Sequence):
            roi = (0.0 if roi is None else roi,) * 4
        found["roi"] = tuple(float(number) for number in roi)
        return found

    @staticmethod
    def infer(
        data: RankedTensorType,
        size: Sequence[Dim],
        roi: Sequence[float] = (0.0, 0.0, 0.0, 0.0),
        layout: str = "NCHW",
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "round",
        cubic_alpha: float = -0.75,
        cubic_exclude: int = 0,
        extrapolation_value: float = 0.0,
        out_dtype: DType | None = None,
    ) -> RankedTensorType:
        _check_name("method", method, tuple(_METHODS))
        _check_name(
            "coordinate_transformation_mode",
            coordinate_transformation_mode,
            _COORDINATES,
        )
        _check_name("rounding_method", rounding_method, _ROUNDINGS)
        if len(size) != 2 or len(roi) != 4:
            raise ValueError(
                f"expected 2 sizes and 4 bounds, got {len(size)} and {len(roi)}"
            )
        shapes.require_nonnegative(size)
        order = Layout(layout, "NCHW")
        n, c, *old = order.to_plain(tensors.shape_of(data))
        for dim in old:
            check_not_empty(dim, size)
        dtype = tensors.dtype_of(data) if out_dtype is None else out_dtype
        return tensors.tensor_type(order.from_plain((n, c, *size)), dtype)

    @staticmethod
    def reference(data: np.ndarray, **attrs: Any) -> np.ndarray:  # Any: of every kind
        order = Layout(attrs["layout"], "NCHW")
        x = order.array_to_plain(data)
        dtype = dtypes.from_numpy(x.dtype)
        wide = _accumulator_dtype(dtype)
        is_nearest = attrs["method"] == "nearest_neighbor"
        y = x if is_nearest else x.astype(np.float64)
        outside = np.zeros((1, 1), bool)
        for axis in range(2):
            table = _table_attrs(attrs, axis)
            indices, weights = resize_table(
                x.shape[2 + axis], attrs["size"][axis], wide, **table
            )
            y = np.moveaxis(y, 2 + axis, -1)[..., indices.clip(0)]
            y = y[..., 0] if is_nearest else (y * weights).sum(-1)
            y = np.moveaxis(y, -1, 2 + axis)
            is_out = indices[:, 0] < 0
            outside = outside | (is_out[:, None] if axis == 0 else is_out)
        y = np.where(outside, np.asarray(attrs["extrapolation_value"], y.dtype), y)
        out = attrs["out_dtype"] or dtype
        return order.array_from_plain(y.astype(out.numpy))

    def legalize(self, b: Builder) -> Buffer:
        attrs = self.python_attrs()
        order = Layout(attrs["layout"], "NCHW")
        shape, dtype = b.results[0]
        x, new = order.buffer(b.buffer(self.data)), order.to_plain(shape)[2:]
        wide = _accumulator_dtype(x.dtype)
        tables = [
            ResizeTableProgram(
                b, _table_attrs(attrs, axis), (x.shape[2 + axis], new[axis]), wide
            ).emit()
            for axis in range(2)
        ]

        def body(*axes: Index) -> Scalar:
            point = order.to_plain(axes)
            value = _resized(b, x, point, tables, attrs["method"], wide)
            if attrs["coordinate_transformation_mode"] == _CROP:
                fill = b.constant(attrs["extrapolation_value"], value.dtype)
                (rows, _), (columns, _) = tables
                inside = (rows[point[2], 0] >= 0) & (columns[point[3], 0] >= 0)
                value = b.select(inside, value, fill)
            return b.cast(value, dtype)

        return b.compute(shape, body, dtype, "resize2d")


def _check_name(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        shown = ", ".join(filter(None, known))
        raise ValueError(f"bad {what}: expected {shown}, got `{name}`")


def _pair(size: Any) -> tuple[Dim, ...]:  # Any: one size, or some
    sizes = tuple(size) if isinstance(size, Sequence) else (size,)
    return sizes * 2 if len(sizes) == 1 else sizes


def _accumulator_dtype(dtype: DType) -> DType:
    """The type of the weights and of the accumulator."""
    return weights_dtype(dtype) if dtype.is_float else _F32


def _table_attrs(attrs: Mapping[str, Any], axis: int) -> dict[str, Any]:
    """The attributes of the ``resize_table`` of one axis; Any: of every kind."""
    mode = _METHODS[attrs["method"]]
    coordinates = attrs["coordinate_transformation_mode"]
    default = "round" if coordinates == "align_corners" else "floor"
    return {
        **ResizeTableOp.attribute_defaults(),
        "mode": mode,
        "coordinates": coordinates,
        "rounding": attrs["rounding_method"] or default,
        "cubic_a": attrs["cubic_alpha"],
        "exclude_outside": mode == "cubic" and bool(attrs["cubic_exclude"]),
        "roi": tuple(attrs["roi"][axis::2]),
    }


def _resized(
    b: Builder,
    x: Buffer,
    point: Sequence[Index],
    tables: Sequence[tuple[Buffer, Buffer]],
    method: str,
    wide: DType,
) -> Scalar:
    """The output pixel at ``point``."""
    (rows, row_weights), (columns, column_weights) = tables
    n, c, i, j = point

    def pixel(k: int, m: int) -> Scalar:
        row, column = (
            Index.from_scalar(index).maximum(0) for index in (rows[i, k], columns[j, m])
        )
        return x[n, c, row, column]

    if method == "nearest_neighbor":
        return pixel(0, 0)
    total = b.constant(0, wide)
    for k in range(shapes.evaluate(rows.shape[1], {})):
        line = b.constant(0, wide)
        for m in range(shapes.evaluate(columns.shape[1], {})):
            line = line + b.cast(pixel(k, m), wide) * column_weights[j, m]
        total = total + line * row_weights[i, k]
    return total

"""Regions of pictures in one size, by points between the pixels, or by parts of them."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from mlir.ir import (
    BoolAttr,
    DenseI64ArrayAttr,
    FloatAttr,
    IntegerAttr,
    RankedTensorType,
    StringAttr,
)

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.index_ranges import IndexOperand, from_front
from relax_mlir.dialects.relax.arguments import int_tuple
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import computed_wide, require, wide_type
from relax_mlir.dialects.relax.indexing import check_not_empty
from relax_mlir.dialects.relax.layouts import Layout
from relax_mlir.dialects.relax.region_points import (
    RegionPoints,
    each_part,
    picture_of,
)
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["RoiAlignOp", "VisionRoiAlignOp", "VisionRoiPoolOp"]

_PLAIN = "NCHW"
_BOX_AND_IMAGE = 5  # fields


def _pooled(**attrs: Any) -> dict[str, Any]:  # Any: as many types as attributes
    """Attributes with ``pooled_size`` as two numbers."""
    size = int_tuple(attrs["pooled_size"]) or ()
    attrs["pooled_size"] = size * 2 if len(size) == 1 else size
    return attrs


def _pooled_type(
    data: RankedTensorType,
    rois: RankedTensorType,
    fields: int,
    size: Sequence[int],
    layout: str = _PLAIN,
) -> RankedTensorType:
    """A picture of ``size`` for every region, which has so many fields."""
    dtype = require("f", data)
    require("f", rois)
    for what, operand, rank in (("data", data, 4), ("rois", rois, 2)):
        if operand.rank != rank:
            raise ValueError(f"{what}: expected rank {rank}, got {operand.rank}")
    if len(size) != 2 or min(size) < 1:
        raise ValueError(f"expected a height and a width of 1 or more, got {size}")
    count, found = tensors.shape_of(rois)
    shapes.unify(fields, found)
    order = Layout(layout, _PLAIN)
    images, channels, *pixels = order.to_plain(tensors.shape_of(data))
    # The nearest image and pixel are picked from them.
    for length in (images, *pixels):
        check_not_empty(length, (count,))
    return tensors.tensor_type(order.from_plain((count, channels, *size)), dtype)


def _check_layout(layout: str, known: Sequence[str]) -> None:
    if layout not in known:
        raise ValueError(f"bad layout: expected {' or '.join(known)}, got `{layout}`")


def _check_mode(mode: str) -> None:
    if mode not in ("avg", "max"):
        raise ValueError(f"bad mode: expected avg or max, got `{mode}`")


# The first column of regions: the number of the image.
_IMAGE_COLUMN = IndexOperand(
    lambda data, rois, **attrs: from_front(data, 0),
    "clamps: picks the nearest image",
    column=0,
)


class RoiAlignOp(Relax.Operation, name="roi_align"):
    """Means, or maxima, of points in a grid over every part of a region.

    A point lies between four pixels; a maximum is that of their weighted values.

    Attributes:
        size: height and width of the results.
        scale: what coordinates are multiplied by.
        points: of a part, along an axis; 0 for as many as pixels.
        is_shifted: whether pixels are at half coordinates; otherwise a region has one
            pixel at least.
        mode: ``avg`` or ``max``.
    Shapes:
        data: [n, c, h, w]; rois: [r, 4], left, top, right and bottom; images: [r],
        integers; y: [r, c, size...].
    Source: ONNX RoiAlign-22.
    """

    data: Operand[RankedTensorType]
    rois: Operand[RankedTensorType]
    images: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    size: DenseI64ArrayAttr
    scale: FloatAttr
    points: IntegerAttr
    is_shifted: BoolAttr
    mode: StringAttr

    reference_rate = 1e5  # a loop in Python
    tolerance = 1e-4  # weights are differences of f32 places
    cases = (
        Case((2, 3, 6, 7), (4, 4), (4, "int64"), size=(3, 2), low=0, high=1, scale=6.0),
        Case(
            (1, 2, 9, 9),
            (3, 4),
            (3, "int64"),
            size=(2, 2),
            points=2,
            is_shifted=True,
            low=0.0,
            high=0.9,
            scale=9.0,
        ),
        Case(
            (1, 2, 5, 5), (2, 4), (2, "int64"), size=(2, 3), mode="max", low=0, high=0
        ),
    )
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {
        "images": IndexOperand(
            lambda data, rois, images, **attrs: from_front(data, 0),
            "clamps: picks the nearest image",
        )
    }

    @staticmethod
    def infer(
        data: RankedTensorType,
        rois: RankedTensorType,
        images: RankedTensorType,
        size: Sequence[int],
        scale: float = 1.0,
        points: int = 0,
        is_shifted: bool = False,
        mode: str = "avg",
    ) -> RankedTensorType:
        _check_mode(mode)
        if points < 0:
            raise ValueError(f"points: expected 0 or more, got {points}")
        if images.rank != 1 or not tensors.dtype_of(images).is_integer:
            raise ValueError("images: expected a vector of integers")
        require("f", data, rois)
        type_ = _pooled_type(data, rois, _BOX_AND_IMAGE - 1, size)
        shapes.unify(tensors.shape_of(rois)[0], tensors.shape_of(images)[0])
        return type_

    @staticmethod
    def reference(
        data: np.ndarray,
        rois: np.ndarray,
        images: np.ndarray,
        size: Sequence[int],
        scale: float,
        points: int,
        is_shifted: bool,
        mode: str,
    ) -> np.ndarray:
        how = _aligned(size, scale, points, is_shifted, mode)
        return how.reference(data, rois, images)

    def legalize(self, b: Builder) -> Buffer:
        data, rois, images = b.inputs
        return _aligned(**self.python_attrs()).program(
            b,
            Layout(_PLAIN, _PLAIN),
            rois,
            lambda region: picture_of(b, images[region], data),
        )


def _aligned(
    size: Sequence[int], scale: float, points: int, is_shifted: bool, mode: str
) -> RegionPoints:
    return RegionPoints(
        size=size,
        scale=scale,
        count=points,
        shift=0.5 if is_shifted else 0.0,
        has_pixel=not is_shifted,
        mode="max_pixel" if mode == "max" else mode,
        first=0,
    )


class VisionRoiAlignOp(Relax.Operation, name="vision_roi_align"):
    """Means, or maxima, of points in a grid over every part of a region.

    Unlike ``roi_align``, regions have the number of their picture, pixels are at whole
    coordinates, and a maximum is that of the points.

    Attributes:
        pooled_size: height and width of the results.
        spatial_scale: what the coordinates of regions are multiplied by.
        sample_ratio: points per row of an element; 0 or less for as many as pixels.
        aligned: whether a region may be smaller than a pixel.
        layout: NCHW or NHWC.
        mode: ``avg`` or ``max`` of the points.
    Shapes:
        data: [n, c, h, w]; rois: [r, 5], the number of a picture, left, top, right and
        bottom; y: [r, c, pooled_size...]; in the order of ``layout``.
    Source: He et al., Mask R-CNN, 2017.
    """

    data: Operand[RankedTensorType]
    rois: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    pooled_size: Attr
    spatial_scale: FloatAttr
    sample_ratio: IntegerAttr
    aligned: BoolAttr
    layout: StringAttr
    mode: StringAttr

    reference_rate = 1e5  # a loop in Python
    tolerance = 1e-4  # weights are differences of f32 places
    cases = (
        Case(
            (2, 3, 6, 7), (4, 5), pooled_size=(3, 2), spatial_scale=6.0, low=0, high=1
        ),
        Case(
            (2, 9, 8, 2),
            (3, 5),
            pooled_size=(2, 2),
            spatial_scale=9.0,
            sample_ratio=2,
            aligned=True,
            layout="NHWC",
            low=0.0,
            high=0.9,
        ),
        Case(
            (2, 2, 5, 6),
            (5, 5),
            pooled_size=(2, 3),
            spatial_scale=2.0,
            mode="max",
            low=0.0,
            high=2.0,
        ),
        Case(
            (1, 2, 5, 5, "float16"),
            (2, 5, "float16"),
            pooled_size=(1, 1),
            spatial_scale=1.0,
            aligned=True,
            mode="max",
        ),
    )
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {"rois": _IMAGE_COLUMN}

    normalize_arguments = staticmethod(_pooled)

    @staticmethod
    def infer(
        data: RankedTensorType,
        rois: RankedTensorType,
        pooled_size: Sequence[int],
        spatial_scale: float,
        sample_ratio: int = -1,
        aligned: bool = False,
        layout: str = _PLAIN,
        mode: str = "avg",
    ) -> RankedTensorType:
        _check_layout(layout, (_PLAIN, "NHWC"))
        _check_mode(mode)
        return _pooled_type(data, rois, _BOX_AND_IMAGE, pooled_size, layout)

    @staticmethod
    def reference(
        data: np.ndarray,
        rois: np.ndarray,
        pooled_size: Sequence[int],
        spatial_scale: float,
        sample_ratio: int,
        aligned: bool,
        layout: str,
        mode: str,
    ) -> np.ndarray:
        order = Layout(layout, _PLAIN)
        how = _sampled(pooled_size, spatial_scale, sample_ratio, aligned, mode)
        images = rois[:, 0].astype(np.int64).clip(0, len(data) - 1)
        y = how.reference(order.array_to_plain(data), rois, images)
        return order.array_from_plain(y)

    def legalize(self, b: Builder) -> Buffer:
        (data, rois), attrs = b.inputs, self.python_attrs()
        layout = Layout(attrs.pop("layout"), _PLAIN)
        return _sampled(**attrs).program(
            b, layout, rois, lambda region: picture_of(b, rois[region, 0], data)
        )


def _sampled(
    pooled_size: Sequence[int],
    spatial_scale: float,
    sample_ratio: int,
    aligned: bool,
    mode: str,
) -> RegionPoints:
    return RegionPoints(
        size=pooled_size,
        scale=spatial_scale,
        count=max(sample_ratio, 0),
        shift=0.0,
        has_pixel=not aligned,
        mode=mode,
        first=1,
    )


class VisionRoiPoolOp(Relax.Operation, name="vision_roi_pool"):
    """The largest pixel of every part of a region; 0 of a part without pixels.

    Attributes:
        pooled_size: height and width of the results.
        spatial_scale: what coordinates are multiplied by before they are rounded.
        layout: NCHW.
    Shapes:
        data: [n, c, h, w]; rois: [r, 5], the number of the picture, left, top, right and
        bottom; y: [r, c, pooled_size...].
    Source: ONNX MaxRoiPool-22; Girshick, Fast R-CNN, 2015.
    """

    data: Operand[RankedTensorType]
    rois: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    pooled_size: Attr
    spatial_scale: FloatAttr
    layout: StringAttr

    reference_rate = 1e5  # a loop in Python
    cases = (
        Case(
            (2, 3, 6, 7), (5, 5), pooled_size=(2, 3), spatial_scale=6.0, low=0, high=1
        ),
        Case(
            (1, 2, 5, 5, "float16"),
            (2, 5, "float16"),
            pooled_size=(2, 2),
            spatial_scale=1.0,
            low=-2,
            high=4,
        ),
    )
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {"rois": _IMAGE_COLUMN}

    normalize_arguments = staticmethod(_pooled)

    @staticmethod
    def infer(
        data: RankedTensorType,
        rois: RankedTensorType,
        pooled_size: Sequence[int],
        spatial_scale: float,
        layout: str = _PLAIN,
    ) -> RankedTensorType:
        _check_layout(layout, (_PLAIN,))
        return _pooled_type(data, rois, _BOX_AND_IMAGE, pooled_size)

    @staticmethod
    @computed_wide
    def reference(
        data: np.ndarray,
        rois: np.ndarray,
        pooled_size: Sequence[int],
        spatial_scale: float,
        layout: str,
    ) -> np.ndarray:
        y = np.zeros((len(rois), data.shape[1], *pooled_size), data.dtype)
        for region, (image, *box) in enumerate(rois):
            begins, ends = (
                np.floor(np.multiply(half, data.dtype.type(spatial_scale)) + 0.5)[::-1]
                for half in (box[:2], box[2:])
            )
            lengths = np.maximum(ends - begins + 1, 1)
            picture = data[min(max(int(image), 0), len(data) - 1)]
            for part in np.ndindex(*pooled_size):
                cuts = [
                    slice(*(int(np.clip(v, 0, n)) for v in bounds))
                    for bounds, n in zip(
                        _bounds(begins, lengths, part, pooled_size),
                        data.shape[2:],
                        strict=True,
                    )
                ]
                pixels = picture[:, cuts[0], cuts[1]]
                y[(region, slice(None), *part)] = (
                    pixels.max((1, 2)) if pixels.size else 0
                )
        return y

    def legalize(self, b: Builder) -> Buffer:
        data, rois = b.inputs
        dtype, attrs = b.results[0][1], self.python_attrs()
        wide, scale = wide_type(rois.dtype), attrs["spatial_scale"]

        def bounds(region: Index, part: Index, axis: int) -> tuple[Index, Index]:
            size = b.dim(data.shape[2 + axis])
            begin, end = (
                b.math("floor", b.cast(rois[region, field], wide) * scale + 0.5)
                for field in (2 - axis, 4 - axis)
            )
            step = (end - begin + 1).maximum(1.0) / attrs["pooled_size"][axis]
            first = b.math("floor", part.to_scalar(wide) * step) + begin
            last = b.math("ceil", (part + 1).to_scalar(wide) * step) + begin
            low, high = (
                Index.from_scalar(v).maximum(0).minimum(size) for v in (first, last)
            )
            return low, high

        def body(region: Index, c: Index, *part: Index) -> Scalar:
            (top, bottom), (left, right) = (
                bounds(region, part[axis], axis) for axis in range(2)
            )
            near = picture_of(b, rois[region, 0], data)

            def row(i: Index, most: Scalar) -> list[Scalar]:
                def pixel(j: Index, most: Scalar) -> list[Scalar]:
                    return [most.maximum(data[near, c, top + i, left + j])]

                return b.loop((right - left).maximum(0), [most], pixel)

            start = b.constant(-np.inf, dtype)
            (most,) = b.loop((bottom - top).maximum(0), [start], row)
            is_empty = (bottom <= top) | (right <= left)
            return b.select(is_empty, b.constant(0, dtype), most)

        return each_part(b, Layout(_PLAIN, _PLAIN), body)


def _bounds(
    begins: np.ndarray, lengths: np.ndarray, part: Sequence[int], size: Sequence[int]
) -> list[tuple[float, float]]:
    """First pixel of a part and the one behind its last, along both axes."""
    number, count = (np.asarray(v, lengths.dtype) for v in (part, size))
    steps = lengths / count
    first = np.floor(number * steps) + begins
    last = np.ceil((number + 1) * steps) + begins
    return list(zip(first, last, strict=True))

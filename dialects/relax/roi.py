"""Region-of-interest operators: ROI align and ROI max pooling."""

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
from relax_mlir.dialects.index_ranges import IndexOperand, nonnegative_axis_range
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.attribute_arguments import int_tuple
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    computed_wide,
    require_element_type,
    wide_type,
)
from relax_mlir.dialects.relax.gather import check_not_empty
from relax_mlir.dialects.relax.layouts import Layout
from relax_mlir.dialects.relax.roi_sampling import (
    RoiAlignSampling,
    compute_bins,
    image_index,
)
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["RoiAlignOp", "VisionRoiAlignOp", "VisionRoiPoolOp"]

_PLAIN = "NCHW"
_BOX_AND_IMAGE = 5  # fields


def _pooled(**attrs: Any) -> dict[str, Any]:  # Any: as many types as attributes
    """Normalises ``pooled_size`` to two numbers."""
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
    """The result type: an image of ``size`` for every region.

    Raises:
        ValueError: the types of the operands are invalid, or rois do not have ``fields``.
    """
    dtype = require_element_type("f", data)
    require_element_type("f", rois)
    for what, operand, rank in (("data", data, 4), ("rois", rois, 2)):
        if operand.rank != rank:
            raise ValueError(f"{what}: expected rank {rank}, got {operand.rank}")
    if len(size) != 2 or min(size) < 1:
        raise ValueError(f"expected a height and a width of 1 or more, got {size}")
    count, columns = tensors.shape_of(rois)
    shapes.unify(fields, columns)
    order = Layout(layout, _PLAIN)
    images, channels, *pixels = order.to_plain(tensors.shape_of(data))
    # Indices of images and pixels are clamped, so there must be at least one.
    for length in (images, *pixels):
        check_not_empty(length, (count,))
    return tensors.tensor_type(order.from_plain((count, channels, *size)), dtype)


def _check_layout(layout: str, known: Sequence[str]) -> None:
    if layout not in known:
        raise ValueError(f"bad layout: expected {' or '.join(known)}, got `{layout}`")


def _check_mode(mode: str) -> None:
    if mode not in ("avg", "max"):
        raise ValueError(f"bad mode: expected avg or max, got `{mode}`")


# The first column of rois: the batch index.
_IMAGE_COLUMN = IndexOperand(
    lambda data, rois, **attrs: nonnegative_axis_range(data, 0),
    "clamps: picks the nearest image",
    column=0,
)


class RoiAlignOp(Relax.Operation, name="roi_align"):
    """ROI align: the mean or maximum of bilinear samples in every bin of a region.

    With ``max`` the maximum is over the weighted pixels of all samples, as in ONNX.

    Attributes:
        size: height and width of the results, in bins.
        scale: factor from region coordinates to pixels.
        points: samples per bin along each axis; 0 for ceil(size of a bin in pixels).
        is_shifted: whether pixel centres are at half-integer coordinates; if not, regions
            are enlarged to at least one pixel.
        mode: ``avg`` or ``max``.
    Shapes:
        data: [n, c, h, w]; rois: [r, 4], left, top, right and bottom; images: [r],
        integers, the batch index of every region; y: [r, c, size...].
    Source: He et al., Mask R-CNN, 2017; ONNX RoiAlign-22.
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
    tolerance = 1e-4  # weights are differences of f32 coordinates
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
            lambda data, rois, images, **attrs: nonnegative_axis_range(data, 0),
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
        require_element_type("f", data, rois)
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
        points_ = _onnx_points(size, scale, points, is_shifted, mode)
        return points_.reference(data, rois, images)

    def legalize(self, b: Builder) -> Buffer:
        data, rois, images = b.inputs
        return _onnx_points(**self.python_attrs()).program(
            b,
            Layout(_PLAIN, _PLAIN),
            rois,
            lambda region: image_index(b, images[region], data),
        )


def _onnx_points(
    size: Sequence[int], scale: float, points: int, is_shifted: bool, mode: str
) -> RoiAlignSampling:
    return RoiAlignSampling(
        size=size,
        scale=scale,
        count=points,
        shift=0.5 if is_shifted else 0.0,
        has_pixel=not is_shifted,
        mode="max_pixel" if mode == "max" else mode,
        first=0,
    )


class VisionRoiAlignOp(Relax.Operation, name="vision_roi_align"):
    """ROI align: the mean or maximum of bilinear samples in every bin of a region.

    Unlike ``roi_align``, rois include the batch index, pixel centres are at integer
    coordinates, and a maximum is over the samples.

    Attributes:
        pooled_size: height and width of the results, in bins.
        spatial_scale: factor from region coordinates to pixels.
        sample_ratio: samples per bin along each axis; 0 or less for ceil(size of a bin in
            pixels).
        aligned: whether regions may be smaller than a pixel; if not, they are enlarged.
        layout: the layout of data and y, NCHW or NHWC.
        mode: ``avg`` or ``max`` of the samples.
    Shapes, in NCHW order:
        data: [n, c, h, w]; rois: [r, 5], batch index, left, top, right and bottom;
        y: [r, c, pooled_size...].
    Source: He et al., Mask R-CNN, 2017; TVM relax.op.vision.roi_align.
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
    tolerance = 1e-4  # weights are differences of f32 coordinates
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
        points = _tvm_points(pooled_size, spatial_scale, sample_ratio, aligned, mode)
        images = rois[:, 0].astype(np.int64).clip(0, len(data) - 1)
        y = points.reference(order.array_to_plain(data), rois, images)
        return order.array_from_plain(y)

    def legalize(self, b: Builder) -> Buffer:
        (data, rois), attrs = b.inputs, self.python_attrs()
        layout = Layout(attrs.pop("layout"), _PLAIN)
        return _tvm_points(**attrs).program(
            b, layout, rois, lambda region: image_index(b, rois[region, 0], data)
        )


def _tvm_points(
    pooled_size: Sequence[int],
    spatial_scale: float,
    sample_ratio: int,
    aligned: bool,
    mode: str,
) -> RoiAlignSampling:
    return RoiAlignSampling(
        size=pooled_size,
        scale=spatial_scale,
        count=max(sample_ratio, 0),
        shift=0.0,
        has_pixel=not aligned,
        mode=mode,
        first=1,
    )


class VisionRoiPoolOp(Relax.Operation, name="vision_roi_pool"):
    """ROI max pooling: the largest pixel of every bin of a region; 0 for an empty bin.

    Attributes:
        pooled_size: height and width of the results, in bins.
        spatial_scale: factor from region coordinates to pixels, applied before rounding.
        layout: NCHW.
    Shapes:
        data: [n, c, h, w]; rois: [r, 5], batch index, left, top, right and bottom;
        y: [r, c, pooled_size...].
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
            own = data[min(max(int(image), 0), len(data) - 1)]
            for bin_ in np.ndindex(*pooled_size):
                rows, columns = (
                    slice(*(int(np.clip(v, 0, n)) for v in bounds))
                    for bounds, n in zip(
                        _bounds(begins, lengths, bin_, pooled_size),
                        data.shape[2:],
                        strict=True,
                    )
                )
                pixels = own[:, rows, columns]
                y[(region, slice(None), *bin_)] = (
                    pixels.max((1, 2)) if pixels.size else 0
                )
        return y

    def legalize(self, b: Builder) -> Buffer:
        data, rois = b.inputs
        dtype, attrs = b.results[0][1], self.python_attrs()
        wide, scale = wide_type(rois.dtype), attrs["spatial_scale"]

        def bounds(region: Index, bin_: Index, axis: int) -> tuple[Index, Index]:
            size = b.dim(data.shape[2 + axis])
            begin, end = (
                b.math("floor", b.cast(rois[region, field], wide) * scale + 0.5)
                for field in (2 - axis, 4 - axis)
            )
            step = (end - begin + 1).maximum(1.0) / attrs["pooled_size"][axis]
            first = b.math("floor", bin_.to_scalar(wide) * step) + begin
            last = b.math("ceil", (bin_ + 1).to_scalar(wide) * step) + begin
            low, high = (
                Index.from_scalar(v).maximum(0).minimum(size) for v in (first, last)
            )
            return low, high

        def body(region: Index, c: Index, *bin_: Index) -> Scalar:
            (top, bottom), (left, right) = (
                bounds(region, bin_[axis], axis) for axis in range(2)
            )
            image = image_index(b, rois[region, 0], data)

            def row(i: Index, largest: Scalar) -> list[Scalar]:
                def pixel(j: Index, largest: Scalar) -> list[Scalar]:
                    return [largest.maximum(data[image, c, top + i, left + j])]

                return b.loop((right - left).maximum(0), [largest], pixel)

            start = b.constant(-np.inf, dtype)
            (largest,) = b.loop((bottom - top).maximum(0), [start], row)
            is_empty = (bottom <= top) | (right <= left)
            return b.select(is_empty, b.constant(0, dtype), largest)

        return compute_bins(b, Layout(_PLAIN, _PLAIN), body)


def _bounds(
    begins: np.ndarray, lengths: np.ndarray, bin_: Sequence[int], size: Sequence[int]
) -> list[tuple[float, float]]:
    """The half-open range of pixels of a bin, along both axes."""
    number, count = (np.asarray(v, lengths.dtype) for v in (bin_, size))
    steps = lengths / count
    first = np.floor(number * steps) + begins
    last = np.ceil((number + 1) * steps) + begins
    return list(zip(first, last, strict=True))

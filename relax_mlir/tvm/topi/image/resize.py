"""Image resizing: coordinate transformation and interpolation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import IntImm, PrimExpr, intrinsics
from relax_mlir.objects.prim.intrinsics import div, if_then_else
from relax_mlir.objects.prim.terms import PrimExprLike
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.tag import INJECTIVE

__all__ = ["resize1d", "resize2d", "resize3d"]

_EPSILON = 1e-5  # absorbs rounding errors of coordinates just below an integer


@dataclass(frozen=True)
class _Options:
    """Interpolation options.

    Attributes:
        method: ``nearest_neighbor``, ``linear`` or ``cubic``.
        coordinates: coordinate transformation mode.
        rounding: rounding mode of ``nearest_neighbor``.
        alpha: coefficient of the cubic spline.
        exclude_outside: whether pixels outside of the image have weight 0.
        outside: extrapolation value of ``tf_crop_and_resize``.
        may_divide: whether integer upscaling may use an integer division of the index.
    """

    method: str
    coordinates: str
    rounding: str
    alpha: float
    exclude_outside: bool
    outside: float
    may_divide: bool = True


@dataclass(frozen=True)
class _Axis:
    """A resized dimension.

    Attributes:
        size: input size.
        target: output size.
        start, end: bounds of the crop, as fractions of the size.
        options: interpolation options.
    """

    size: PrimExpr
    target: PrimExpr
    start: PrimExprLike
    end: Any
    options: _Options

    def has_integer_scale(self) -> bool:
        """Whether the index of the source pixel is an integer quotient (integer upscaling)."""
        options = self.options
        if not options.may_divide:
            return False
        is_plain = options.method == "nearest_neighbor" and options.rounding == ""
        if options.coordinates != "asymmetric" or not (
            is_plain or options.rounding == "floor"
        ):
            return False
        if not isinstance(self.target, IntImm) or not isinstance(self.size, IntImm):
            return False
        ratio = self.target.value / self.size.value
        return ratio % 1 == 0 and ratio <= 1 / (_EPSILON * (self.size.value + 1))

    def source_coordinate(self, index: Any) -> PrimExpr:
        """Input coordinate of an output index.

        Raises:
            ValueError: unknown coordinate transformation mode.
        """
        image, target = self.size.astype("float32"), self.target.astype("float32")
        scale = div(image, target)
        last = (self.size - 1).astype("float32")
        mode = self.options.coordinates
        if mode == "half_pixel":
            return (index + 0.5) * scale - 0.5
        if mode == "align_corners":
            return last / (self.target - 1) * index
        if mode == "asymmetric":
            return scale * index
        if mode == "pytorch_half_pixel":
            return if_then_else(self.target > 1, (index + 0.5) * scale - 0.5, 0.0)
        if mode == "tf_half_pixel_for_nn":
            return (index + 0.5) * scale
        if mode != "tf_crop_and_resize":
            raise ValueError(f"Unsupported coordinate_transformation_mode: {mode}")
        span = self.end - self.start
        moved = index * span * last / (self.target - 1)
        middle = 0.5 * (self.start + self.end) * (self.size - 1)
        return if_then_else(
            self.target > 1, self.start * (self.size - 1) + moved, middle
        )

    def nearest_pixel(self, index: Any) -> PrimExpr:
        """Index of the nearest input pixel of an output index."""
        if self.has_integer_scale():
            return div(index, div(self.target, self.size)).astype("int32")
        rounding = self.options.rounding
        if rounding == "":
            is_aligned = self.options.coordinates == "align_corners"
            rounding = "round" if is_aligned else "floor"
        if rounding not in _ROUNDING:
            raise ValueError(f"Unknown rounding method: {rounding}")
        return _ROUNDING[rounding](self.source_coordinate(index)).astype("int32")


_ROUNDING: Mapping[str, Callable[[PrimExpr], PrimExpr]] = {
    "round": intrinsics.round,
    "round_prefer_floor": lambda x: intrinsics.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: intrinsics.floor(x + 0.5),
    "floor": lambda x: intrinsics.floor(x + _EPSILON),
    "ceil": lambda x: intrinsics.ceil(x - _EPSILON),
}


def _interpolated(
    pixel: Callable[..., PrimExpr],
    axes: Sequence[_Axis],
    indices: Sequence[PrimExprLike],
) -> PrimExpr:
    """Interpolated value at output ``indices``.

    Raises:
        ValueError: unknown method.
    """
    method = axes[0].options.method
    pairs = list(zip(axes, indices, strict=True))
    if method == "nearest_neighbor":
        return pixel(*(axis.nearest_pixel(index) for axis, index in pairs))
    coordinates = [axis.source_coordinate(index) for axis, index in pairs]
    if method == "linear":
        return _linear(pixel, coordinates)
    if method != "cubic":
        raise ValueError(f"Unknown resize method: {method}")
    return _cubic(pixel, axes, coordinates)


def _linear(
    pixel: Callable[..., PrimExpr], coordinates: Sequence[PrimExpr]
) -> PrimExpr:
    lower = [intrinsics.floor(x).astype("int32") for x in coordinates]
    fractions = [x - low for x, low in zip(coordinates, lower, strict=True)]
    offsets = itertools.product((0, 1), repeat=len(coordinates))
    values = [
        pixel(*(low + o for low, o in zip(lower, steps, strict=True)))
        for steps in offsets
    ]
    for t in reversed(fractions):
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [a * (1.0 - t) + b * t for a, b in pairs]
    return values[0]


def _cubic(
    pixel: Callable[..., PrimExpr],
    axes: Sequence[_Axis],
    coordinates: Sequence[PrimExpr],
) -> PrimExpr:
    lower = [intrinsics.floor(x).astype("int32") for x in coordinates]
    fractions = [x - intrinsics.floor(x) for x in coordinates]
    offsets = itertools.product(range(-1, 3), repeat=len(coordinates))
    values = [
        pixel(*(low + o for low, o in zip(lower, steps, strict=True)))
        for steps in offsets
    ]
    triples = list(zip(axes, lower, fractions, strict=True))
    for axis, low, t in reversed(triples):
        weights = _spline(t, axis.options.alpha)
        if axis.options.exclude_outside:
            weights = _masked_weights(weights, low, axis.size)
        values = [
            _weighted(values[i : i + 4], weights) for i in range(0, len(values), 4)
        ]
    return values[0]


def _spline(t: PrimExpr, alpha: float) -> list[PrimExpr]:
    """Cubic convolution weights of the four neighbours, at a fractional position.

    Source: Keys, Cubic convolution interpolation for digital image processing, 1981.
    """
    t2, t3 = t * t, t * t * t
    return [
        alpha * (t3 - 2 * t2 + t),
        (alpha + 2) * t3 - (3 + alpha) * t2 + 1,
        -(alpha + 2) * t3 + (3 + 2 * alpha) * t2 - alpha * t,
        -alpha * t3 + alpha * t2,
    ]


def _masked_weights(
    weights: Sequence[PrimExpr], low: PrimExpr, size: Any
) -> list[PrimExpr]:
    """Weights with 0 outside of the image, renormalized to a sum of 1."""
    kept = [
        if_then_else(te.any(low - 1 + i < 0, low + i > size), 0.0, weight)
        for i, weight in enumerate(weights)
    ]
    total = _total(kept)
    return [weight / total for weight in kept]


def _total(terms: Sequence[PrimExpr]) -> PrimExpr:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _weighted(values: Sequence[PrimExpr], weights: Sequence[PrimExpr]) -> PrimExpr:
    return _total([v * w for v, w in zip(values, weights, strict=True)])


def _spatial_axes(layout: str, letters: str) -> list[int]:
    """Positions of the resized dimensions in a layout.

    Raises:
        ValueError: the layout lacks one of them.
    """
    axes = [c for c in layout if c.isalpha()]
    if any(letter not in axes for letter in letters):
        raise ValueError(f"{layout} layout is not supported.")
    return [axes.index(letter) for letter in letters]


def _resized(
    letters: str,
    data: Tensor,
    roi: Sequence[PrimExprLike],
    size: Sequence[PrimExprLike],
    layout: str,
    options: _Options,
    out_dtype: str | None,
    output_shape: Sequence[PrimExprLike] | None,
) -> Tensor:
    dims = _spatial_axes(layout, letters)
    targets = [prim.convert(s) for s in size]
    rank = len(letters)
    # TVM gives the crop of volumes in reverse order of the dimensions.
    roi_dims = range(rank) if rank < 3 else reversed(range(rank))
    axes = [
        _Axis(data.shape[dim], target, roi[i], roi[i + rank], options)
        for dim, target, i in zip(dims, targets, roi_dims, strict=True)
    ]
    shape = list(output_shape or data.shape)
    if not output_shape:
        for dim, target in zip(dims, targets, strict=True):
            shape[dim] = target

    def element(*indices: Any) -> PrimExpr:
        def pixel(*spatial: Any) -> PrimExpr:
            source = list(indices)
            for dim, index, axis in zip(dims, spatial, axes, strict=True):
                source[dim] = te.max(te.min(index, axis.size - 1), 0)
            return data(*source).astype("float32")

        value = _interpolated(pixel, axes, [indices[dim] for dim in dims])
        value = _extrapolated(value, axes, [indices[dim] for dim in dims])
        return value.astype(out_dtype or data.dtype)

    return te.compute(shape, element, name="resize", tag=INJECTIVE)


def _extrapolated(
    value: PrimExpr, axes: Sequence[_Axis], indices: Sequence[PrimExprLike]
) -> PrimExpr:
    """The value, or the extrapolation value outside of the image."""
    options = axes[0].options
    if options.coordinates != "tf_crop_and_resize":
        return value
    for axis, index in zip(axes, indices, strict=True):
        coordinate = axis.source_coordinate(index)
        inner = if_then_else(coordinate > axis.size - 1, options.outside, value)
        value = if_then_else(coordinate < 0, options.outside, inner)
    return value


def resize1d(
    data: Tensor,
    roi: Sequence[PrimExprLike],
    size: Sequence[PrimExprLike],
    layout: str = "NCW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.75,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
    output_shape: Sequence[PrimExprLike] | None = None,
) -> Tensor:
    """Resize one-dimensional signals; see :func:`resize2d`."""
    options = _Options(
        method.lower(),
        coordinate_transformation_mode,
        rounding_method,
        bicubic_alpha,
        bool(bicubic_exclude),
        extrapolation_value,
    )
    return _resized("W", data, roi, size, layout, options, out_dtype, output_shape)


def resize2d(
    data: Tensor,
    roi: Sequence[PrimExprLike],
    size: Sequence[PrimExprLike],
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.75,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
    output_shape: Sequence[PrimExprLike] | None = None,
) -> Tensor:
    """Resize images.

    Args:
        data: the images.
        roi: crop region, for the coordinates ``tf_crop_and_resize``.
        size: output height and width.
        layout: layout of the data, such as ``NCHW``.
        method: ``nearest_neighbor``, ``linear`` or ``cubic``.
        coordinate_transformation_mode: map from output to input coordinates, as in ONNX.
        rounding_method: rounding mode of ``nearest_neighbor``, as in ONNX.
        bicubic_alpha: coefficient of the cubic spline.
        bicubic_exclude: whether pixels outside of the image have weight 0.
        extrapolation_value: value outside of the image, for ``tf_crop_and_resize``.
        out_dtype: element type of the result; by default that of the data.
        output_shape: shape of the result, if it is known.

    Source: ONNX Resize-13.
    """
    options = _Options(
        method.lower(),
        coordinate_transformation_mode,
        rounding_method,
        bicubic_alpha,
        bool(bicubic_exclude),
        extrapolation_value,
    )
    return _resized("HW", data, roi, size, layout, options, out_dtype, output_shape)


def resize3d(
    data: Tensor,
    roi: Sequence[PrimExprLike],
    size: Sequence[PrimExprLike],
    layout: str = "NCDHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.75,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
    output_shape: Sequence[PrimExprLike] | None = None,
) -> Tensor:
    """Resize volumes; see :func:`resize2d`."""
    options = _Options(
        method.lower(),
        coordinate_transformation_mode,
        rounding_method,
        bicubic_alpha,
        bool(bicubic_exclude),
        extrapolation_value,
        may_divide=False,
    )
    return _resized("DHW", data, roi, size, layout, options, out_dtype, output_shape)

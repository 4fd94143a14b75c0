"""Images in other sizes: where elements of the result lie, and what is between pixels."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir import te
from relax_mlir.objects import functions, prim
from relax_mlir.objects.functions import div, if_then_else
from relax_mlir.objects.prim import IntImm, PrimExpr
from relax_mlir.objects.prim.terms import Term
from relax_mlir.te import Tensor
from relax_mlir.topi.tag import INJECTIVE

__all__ = ["resize1d", "resize2d", "resize3d"]

_EPSILON = 1e-5  # keeps indices that rounding puts just below an integer


@dataclass(frozen=True)
class _Options:
    """How values between pixels are found.

    Attributes:
        method: ``nearest_neighbor``, ``linear`` or ``cubic``.
        coordinates: what an index of the result is in the image.
        rounding: which pixel is the nearest.
        alpha: of the cubic spline.
        exclude_outside: whether pixels beyond the border have no weight.
        outside: the value beyond the border of a crop.
        may_divide: whether an index may be divided where pixels are repeated.
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
    """One dimension that is resized.

    Attributes:
        size: of the image.
        target: of the result.
        start, end: of the part that a crop takes, as fractions.
        options: see there.
    """

    size: PrimExpr
    target: PrimExpr
    start: Term
    end: Any
    options: _Options

    def divides(self) -> bool:
        """Whether pixels are repeated a whole number of times."""
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

    def place(self, index: Any) -> PrimExpr:
        """Where an index of the result lies in the image.

        Raises:
            ValueError: there are no such coordinates.
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

    def nearest(self, index: Any) -> PrimExpr:
        """The pixel that an index of the result takes."""
        if self.divides():
            return div(index, div(self.target, self.size)).astype("int32")
        rounding = self.options.rounding
        if rounding == "":
            is_aligned = self.options.coordinates == "align_corners"
            rounding = "round" if is_aligned else "floor"
        if rounding not in _ROUNDING:
            raise ValueError(f"Unknown rounding method: {rounding}")
        return _ROUNDING[rounding](self.place(index)).astype("int32")


_ROUNDING: Mapping[str, Callable[[PrimExpr], PrimExpr]] = {
    "round": functions.round,
    "round_prefer_floor": lambda x: functions.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: functions.floor(x + 0.5),
    "floor": lambda x: functions.floor(x + _EPSILON),
    "ceil": lambda x: functions.ceil(x - _EPSILON),
}


def _value(
    pixel: Callable[..., PrimExpr], axes: Sequence[_Axis], indices: Sequence[Term]
) -> PrimExpr:
    """What the result has at ``indices``, from the pixels of the image.

    Raises:
        ValueError: there is no such method.
    """
    method = axes[0].options.method
    pairs = list(zip(axes, indices, strict=True))
    if method == "nearest_neighbor":
        return pixel(*(axis.nearest(index) for axis, index in pairs))
    places = [axis.place(index) for axis, index in pairs]
    if method == "linear":
        return _linear(pixel, places)
    if method != "cubic":
        raise ValueError(f"Unknown resize method: {method}")
    return _cubic(pixel, axes, places)


def _linear(pixel: Callable[..., PrimExpr], places: Sequence[PrimExpr]) -> PrimExpr:
    below = [functions.floor(place).astype("int32") for place in places]
    rest = [place - low for place, low in zip(places, below, strict=True)]
    offsets = itertools.product((0, 1), repeat=len(places))
    values = [
        pixel(*(low + o for low, o in zip(below, steps, strict=True)))
        for steps in offsets
    ]
    for t in reversed(rest):
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [a * (1.0 - t) + b * t for a, b in pairs]
    return values[0]


def _cubic(
    pixel: Callable[..., PrimExpr], axes: Sequence[_Axis], places: Sequence[PrimExpr]
) -> PrimExpr:
    below = [functions.floor(place).astype("int32") for place in places]
    rest = [place - functions.floor(place) for place in places]
    offsets = itertools.product(range(-1, 3), repeat=len(places))
    values = [
        pixel(*(low + o for low, o in zip(below, steps, strict=True)))
        for steps in offsets
    ]
    triples = list(zip(axes, below, rest, strict=True))
    for axis, low, t in reversed(triples):
        weights = _spline(t, axis.options.alpha)
        if axis.options.exclude_outside:
            weights = _inside(weights, low, axis.size)
        values = [
            _weighted(values[i : i + 4], weights) for i in range(0, len(values), 4)
        ]
    return values[0]


def _spline(t: PrimExpr, alpha: float) -> list[PrimExpr]:
    """The weights of four pixels around a place.

    Source: Keys, Cubic convolution interpolation for digital image processing, 1981.
    """
    t2, t3 = t * t, t * t * t
    return [
        alpha * (t3 - 2 * t2 + t),
        (alpha + 2) * t3 - (3 + alpha) * t2 + 1,
        -(alpha + 2) * t3 + (3 + 2 * alpha) * t2 - alpha * t,
        -alpha * t3 + alpha * t2,
    ]


def _inside(weights: Sequence[PrimExpr], low: PrimExpr, size: Any) -> list[PrimExpr]:
    """Weights of which those beyond the border are 0, and the rest sum up to 1."""
    kept = [
        if_then_else(te.any(low - 1 + i < 0, low + i > size), 0.0, weight)
        for i, weight in enumerate(weights)
    ]
    total = _sum(kept)
    return [weight / total for weight in kept]


def _sum(terms: Sequence[PrimExpr]) -> PrimExpr:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _weighted(values: Sequence[PrimExpr], weights: Sequence[PrimExpr]) -> PrimExpr:
    return _sum([v * w for v, w in zip(values, weights, strict=True)])


def _spatial_axes(layout: str, letters: str) -> list[int]:
    """Where the dimensions that are resized lie.

    Raises:
        ValueError: the layout has not all of them.
    """
    axes = [c for c in layout if c.isalpha()]
    if any(letter not in axes for letter in letters):
        raise ValueError(f"{layout} layout is not supported.")
    return [axes.index(letter) for letter in letters]


def _resized(
    letters: str,
    data: Tensor,
    roi: Sequence[Term],
    size: Sequence[Term],
    layout: str,
    options: _Options,
    out_dtype: str | None,
    output_shape: Sequence[Term] | None,
) -> Tensor:
    places = _spatial_axes(layout, letters)
    targets = [prim.convert(s) for s in size]
    rank = len(letters)
    # A crop of volumes is said in the other order.
    parts = range(rank) if rank < 3 else reversed(range(rank))
    axes = [
        _Axis(data.shape[place], target, roi[part], roi[part + rank], options)
        for place, target, part in zip(places, targets, parts, strict=True)
    ]
    shape = list(output_shape or data.shape)
    if not output_shape:
        for place, target in zip(places, targets, strict=True):
            shape[place] = target

    def element(*indices: Any) -> PrimExpr:
        def pixel(*at: Any) -> PrimExpr:
            own = list(indices)
            for place, index, axis in zip(places, at, axes, strict=True):
                own[place] = te.max(te.min(index, axis.size - 1), 0)
            return data(*own).astype("float32")

        value = _value(pixel, axes, [indices[place] for place in places])
        value = _cropped(value, axes, [indices[place] for place in places])
        return value.astype(out_dtype or data.dtype)

    return te.compute(shape, element, name="resize", tag=INJECTIVE)


def _cropped(
    value: PrimExpr, axes: Sequence[_Axis], indices: Sequence[Term]
) -> PrimExpr:
    """The value, or what is beyond the border of the image."""
    options = axes[0].options
    if options.coordinates != "tf_crop_and_resize":
        return value
    for axis, index in zip(axes, indices, strict=True):
        place = axis.place(index)
        inner = if_then_else(place > axis.size - 1, options.outside, value)
        value = if_then_else(place < 0, options.outside, inner)
    return value


def resize1d(
    data: Tensor,
    roi: Sequence[Term],
    size: Sequence[Term],
    layout: str = "NCW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.75,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
    output_shape: Sequence[Term] | None = None,
) -> Tensor:
    """Signals in another width; see :func:`resize2d`."""
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
    roi: Sequence[Term],
    size: Sequence[Term],
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.75,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
    output_shape: Sequence[Term] | None = None,
) -> Tensor:
    """Images in another size.

    Args:
        data: the images.
        roi: the part that is cropped, where coordinates are ``tf_crop_and_resize``.
        size: height and width of the result.
        layout: such as ``NCHW``.
        method: ``nearest_neighbor``, ``linear`` or ``cubic``.
        coordinate_transformation_mode: where elements of the result lie, as in ONNX.
        rounding_method: which pixel is the nearest, as in ONNX.
        bicubic_alpha: of the cubic spline.
        bicubic_exclude: whether pixels beyond the border have no weight.
        extrapolation_value: what is beyond the border of a crop.
        out_dtype: of the result; by default that of the data.
        output_shape: of the result, if it is known.

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
    roi: Sequence[Term],
    size: Sequence[Term],
    layout: str = "NCDHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.75,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
    output_shape: Sequence[Term] | None = None,
) -> Tensor:
    """Volumes in another size; see :func:`resize2d`."""
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

"""Sampling of images at given coordinates (spatial transformers)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import and_
from typing import Any, TypeAlias

import numpy as np
from mlir.ir import BoolAttr, RankedTensorType, StringAttr

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.gather import check_not_empty
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["GridSampleOp"]

_LAYOUTS = {"NCHW": 2, "NCDHW": 3}
_METHODS = ("bilinear", "nearest", "bicubic")
_PADDING = ("zeros", "border", "reflection")
_CUBIC = -0.75  # coefficient of the cubic kernel

Number = Any  # a float, an array, or a Scalar of a tensor program

_Tap: TypeAlias = tuple[Number, Number, Any]
"""A pixel along an axis: index, weight, whether it is inside (None: always)."""


@dataclass(frozen=True)
class _Functions:
    """Functions that differ between numpy arrays and scalars of tensor programs."""

    floor: Callable[[Number], Number]
    rint: Callable[[Number], Number]
    minimum: Callable[[Number, Number], Number]
    maximum: Callable[[Number, Number], Number]
    where: Callable[[Number, Number, Number], Number]


class GridSampleOp(Relax.Operation, name="image_grid_sample"):
    """Images sampled at the normalised coordinates of a grid.

    Coordinates are from -1 (first pixel) to 1 (last pixel) along every axis.

    Attributes:
        method: ``bilinear`` (trilinear for volumes), ``nearest`` or ``bicubic``.
        layout: ``NCHW``, or ``NCDHW``, which does not support ``bicubic``.
        padding_mode: values outside of the image: ``zeros``, the nearest pixel (``border``),
            or the mirrored image (``reflection``).
        align_corners: whether -1 and 1 are the centres of the corner pixels, rather than
            their outer edges.
    Shapes:
        data: [n, c, spatial...]; grid: [n, spatial rank, sizes...], with the coordinate of
        the last spatial axis (x) first; y: [n, c, sizes...].
    Source: Jaderberg et al., Spatial Transformer Networks, 2015; ONNX GridSample-20.
    """

    data: Operand[RankedTensorType]
    grid: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    method: StringAttr
    layout: StringAttr
    padding_mode: StringAttr
    align_corners: BoolAttr

    tolerance = 1e-4  # weights are differences of f32 coordinates
    cases = (
        *(
            Case(
                (1, 2, 4, 5),
                (1, 2, 3, 7),
                method=method,
                padding_mode=padding,
                align_corners=aligned,
            )
            for method, padding, aligned in product(_METHODS, _PADDING, (False, True))
        ),
        *(
            Case((2, 1, 3, 4, 2), (2, 3, 2, 3, 2), layout="NCDHW", method=method)
            for method in _METHODS[:2]
        ),
        Case((1, 2, 1, 3), (1, 2, 2, 2), padding_mode="reflection", align_corners=True),
        Case((1, 2, 4, 5, "float16"), (1, 2, 2, 2)),
    )

    @staticmethod
    def infer(
        data: RankedTensorType,
        grid: RankedTensorType,
        method: str = "bilinear",
        layout: str = "NCHW",
        padding_mode: str = "zeros",
        align_corners: bool = False,
    ) -> RankedTensorType:
        for what, name, known in (
            ("method", method, _METHODS),
            ("layout", layout, tuple(_LAYOUTS)),
            ("padding_mode", padding_mode, _PADDING),
        ):
            if name not in known:
                raise ValueError(
                    f"bad {what}: expected {', '.join(known)}, got `{name}`"
                )
        rank = _LAYOUTS[layout]
        if method == "bicubic" and rank != 2:
            raise ValueError(f"bicubic is for layout NCHW, got `{layout}`")
        if data.rank != rank + 2 or grid.rank != rank + 2:
            raise ValueError(
                f"expected ranks of {rank + 2}, got {data.rank} and {grid.rank}"
            )
        dtype = tensors.dtype_of(data)
        if not dtype.is_float or not tensors.dtype_of(grid).is_float:
            raise ValueError(f"expected floats, got {dtype}, {tensors.dtype_of(grid)}")
        n, c, *old = tensors.shape_of(data)
        own, axes, *sizes = tensors.shape_of(grid)
        shapes.unify(axes, rank)
        for size in old:
            check_not_empty(size, sizes)
        return tensors.tensor_type((shapes.unify(n, own), c, *sizes), dtype)

    @staticmethod
    def reference(
        data: np.ndarray,
        grid: np.ndarray,
        method: str = "bilinear",
        layout: str = "NCHW",
        padding_mode: str = "zeros",
        align_corners: bool = False,
    ) -> np.ndarray:
        fn = _Functions(np.floor, np.rint, np.minimum, np.maximum, np.where)
        rank = _LAYOUTS[layout]
        taps = [
            _taps(
                fn, at.astype(np.float64), size, (method, padding_mode, align_corners)
            )
            for at, size in zip(
                (grid[:, rank - 1 - axis] for axis in range(rank)),
                data.shape[2:],
                strict=True,
            )
        ]
        y = np.zeros((*data.shape[:2], *grid.shape[2:]))
        images = np.arange(len(data)).reshape(-1, *[1] * rank)
        for each in product(*taps):
            where = [
                np.clip(np.nan_to_num(index), 0, size - 1).astype(np.int64)
                for (index, *_), size in zip(each, data.shape[2:], strict=True)
            ]
            read = np.moveaxis(data[(images, slice(None), *where)], -1, 1)
            read = read.astype(np.float64)
            inside = [is_inside for *_, is_inside in each if is_inside is not None]
            if inside:
                read = np.where(reduce(and_, inside)[:, None], read, 0)
            weight = np.prod(np.broadcast_arrays(*(w for _, w, _ in each)), axis=0)
            y += read * weight[:, None]
        return y.astype(data.dtype)

    def legalize(self, b: Builder) -> Buffer:
        data, grid = b.inputs
        shape, dtype = b.results[0]
        attrs = self.python_attrs()
        modes = tuple(attrs[n] for n in ("method", "padding_mode", "align_corners"))
        rank, wide = len(shape) - 2, b.accumulator_dtype(dtype)
        fn = _Functions(
            lambda v: b.math("floor", v),
            lambda v: b.math("roundeven", v),
            lambda v, other: v.minimum(other),
            lambda v, other: v.maximum(other),
            b.select,
        )

        def body(*axes: Index) -> Scalar:
            n, c, *point = axes
            taps: list[list[_Tap]] = []
            for axis in range(rank):
                at = b.cast(grid[(n, rank - 1 - axis, *point)], wide)
                size = b.dim(data.shape[2 + axis])
                length = size.to_scalar(wide) if isinstance(size, Index) else size
                taps.append(_taps(fn, at, length, modes))
            total = b.constant(0, wide)
            for each in product(*taps):
                where = [
                    _clamped_index(b, index, data.shape[2 + axis])
                    for axis, (index, *_) in enumerate(each)
                ]
                value = b.cast(data[(n, c, *where)], wide)
                inside = [is_inside for *_, is_inside in each if is_inside is not None]
                if inside:
                    value = b.select(reduce(and_, inside), value, b.constant(0, wide))
                for _, weight, _ in each:
                    value = value * weight
                total = total + value
            return b.cast(total, dtype)

        return b.compute(shape, body, dtype, "grid_sample")


def _clamped_index(b: Builder, index: Scalar, size: Any) -> Index:  # Any: a size
    """Converts a float to an index, clamped to the axis."""
    return Index.from_scalar(index).minimum(b.dim(size - 1)).maximum(0)


# The following works on numpy arrays and on scalars of tensor programs alike.


def _taps(fn: _Functions, at: Number, size: Number, modes: Sequence[Any]) -> list[_Tap]:
    """The pixels and weights along one axis for the coordinate ``at``."""
    method, padding, aligned = modes
    pixel = (at + 1) * 0.5 * (size - 1) if aligned else ((at + 1) * size - 1) * 0.5

    def inside(p: Number) -> Number:
        return _inside(fn, p, size, padding, aligned)

    one = pixel * 0 + 1
    if method == "nearest":
        pairs = [(fn.rint(inside(pixel)), one)]
    elif method == "bilinear":
        pixel = inside(pixel)
        first = fn.floor(pixel)
        pairs = [(first, one - (pixel - first)), (first + 1, pixel - first)]
    else:
        first = fn.floor(pixel)
        weights = _cubic_weights(pixel - first)
        pairs = [(inside(first + (k - 1)), w) for k, w in enumerate(weights)]
    if padding != "zeros":
        return [(p, w, None) for p, w in pairs]
    # Outside, the value is 0 and not a pixel times 0, as the pixel may be infinite.
    conditions = [(p >= 0) & (p <= size - 1) for p, _ in pairs]
    return [
        (p, fn.where(is_inside, w, one * 0), is_inside)
        for (p, w), is_inside in zip(pairs, conditions, strict=True)
    ]


def _inside(
    fn: _Functions, pixel: Number, size: Number, padding: str, aligned: bool
) -> Number:
    """Maps a pixel coordinate into the image according to the padding mode."""
    if padding == "zeros":
        return pixel
    if padding == "reflection":
        low = 0.0 if aligned else -0.5
        span = fn.maximum(size - 1 + pixel * 0, pixel * 0 + 1) if aligned else size
        distance = pixel - low
        distance = fn.maximum(distance, distance * -1)
        flips = fn.floor(distance / span)
        rest = distance - flips * span
        is_even = flips - 2 * fn.floor(flips * 0.5) < 0.5
        pixel = fn.where(is_even, rest, span - rest) + low
    return fn.maximum(fn.minimum(pixel, pixel * 0 + (size - 1)), pixel * 0)


def _cubic_weights(t: Number) -> list[Number]:
    """Cubic convolution weights of the four nearest pixels, for the fraction ``t``.

    Source: Keys, Cubic convolution interpolation, 1981.
    """
    a = _CUBIC

    def near(x: Number) -> Number:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Number) -> Number:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]

"""Regions of pictures in one size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir import te
from relax_mlir.objects import functions, prim
from relax_mlir.objects.functions import if_then_else
from relax_mlir.objects.prim import const
from relax_mlir.te import Tensor

__all__ = ["roi_align", "roi_pool"]


def _pair(size: int | Sequence[int]) -> tuple[int, int]:
    height, width = (size, size) if isinstance(size, int) else size
    return int(height), int(width)


@dataclass(frozen=True)
class _Aligned:
    """How values are taken from a region.

    Attributes:
        data, rois: the pictures and the regions.
        pooled_size: of the result.
        scale: what coordinates are multiplied by.
        ratio: points per row of an element; below 1 for as many as pixels.
        aligned: whether regions may be smaller than a pixel.
        is_mean: whether points are averaged, or the largest is taken.
        layout: NCHW or NHWC.
    """

    data: Tensor
    rois: Tensor
    pooled_size: tuple[int, int]
    scale: float
    ratio: int
    aligned: bool
    is_mean: bool
    layout: str

    def element(self, i: Any, c: Any, ph: Any, pw: Any) -> Any:
        """One element of the result."""
        dtype, rois = self.rois.dtype, self.rois
        batch = rois(i, 0).astype("int32")
        left, top, right, bottom = (rois(i, k) * self.scale for k in range(1, 5))
        extents = [bottom - top, right - left]
        if not self.aligned:
            extents = [te.max(extent, const(1.0, dtype)) for extent in extents]
        pairs = list(zip(extents, self.pooled_size, strict=True))
        steps = [extent / const(size, dtype) for extent, size in pairs]
        if self.ratio > 0:
            counts: list[Any] = [const(self.ratio, "int32")] * 2
        else:
            counts = [
                te.ceil(extent / const(size, dtype)).astype("int32")
                for extent, size in pairs
            ]
        total = counts[0] * counts[1]
        names = ("rh", "rw")
        axes = [te.reduce_axis((0, n), r) for n, r in zip(counts, names, strict=True)]
        y, x = (
            start
            + prim.Cast(dtype, place) * step
            + (prim.Cast(dtype, axis) + const(0.5, dtype))
            * step
            / prim.Cast(dtype, count)
            for start, place, step, axis, count in zip(
                (top, left), (ph, pw), steps, axes, counts, strict=True
            )
        )
        value = self._between(batch, c, y, x)
        if self.is_mean:
            return te.sum(value / prim.Cast(dtype, total), axis=axes)
        return te.max(value, axis=axes)

    def _between(self, n: Any, c: Any, y: Any, x: Any) -> Any:
        """The value at a point, which is 0 beyond a pixel's distance from the border."""
        dtype = self.rois.dtype
        rows, columns = (self.data.shape[self.layout.index(letter)] for letter in "HW")
        outside = te.any(
            y < -1.0,
            x < -1.0,
            y > prim.Cast(dtype, rows),
            x > prim.Cast(dtype, columns),
        )
        y = te.min(te.max(y, 0.0), prim.Cast(dtype, rows - 1))
        x = te.min(te.max(x, 0.0), prim.Cast(dtype, columns - 1))
        value = self._bilinear(n, c, y, x, (rows - 1, columns - 1))
        return if_then_else(outside, const(0.0, self.data.dtype), value)

    def _bilinear(self, n: Any, c: Any, y: Any, x: Any, last: tuple[Any, Any]) -> Any:
        """The four pixels around a point, by their distances from it."""
        top, left = (te.floor(v).astype("int32") for v in (y, x))
        bottom = te.min(te.ceil(y).astype("int32"), last[0])
        right = te.min(te.ceil(x).astype("int32"), last[1])
        down, along = y - te.floor(y), x - te.floor(x)

        def pixel(row: Any, column: Any) -> Any:
            places = {"N": n, "C": c, "H": row, "W": column}
            return self.data(*(places[letter] for letter in self.layout))

        upper = pixel(top, left) * (1.0 - along) + pixel(top, right) * along
        lower = pixel(bottom, left) * (1.0 - along) + pixel(bottom, right) * along
        return upper * (1.0 - down) + lower * down


def roi_align(
    data: Tensor,
    rois: Tensor,
    pooled_size: int | Sequence[int],
    spatial_scale: float,
    mode: str = "avg",
    sample_ratio: int = -1,
    aligned: bool = False,
    layout: str = "NCHW",
) -> Tensor:
    """Regions in one size, from points that lie between pixels.

    Args:
        data: the pictures.
        rois: [regions, 5]: the number of a picture, left, top, right and bottom.
        pooled_size: height and width of the result.
        spatial_scale: what the coordinates are multiplied by.
        mode: ``avg`` or ``max`` of the points of an element.
        sample_ratio: points per row of an element; -1 for as many as pixels.
        aligned: whether regions may be smaller than a pixel.
        layout: NCHW or NHWC.

    Raises:
        ValueError: another layout or mode.

    Source: He et al., Mask R-CNN, 2017.
    """
    if layout not in ("NCHW", "NHWC") or mode not in ("avg", "max"):
        raise ValueError(
            "roi_align: expected layout NCHW or NHWC and mode avg or max, got "
            f"`{layout}` and `{mode}`"
        )
    height, width = _pair(pooled_size)
    how = _Aligned(
        data,
        rois,
        (height, width),
        spatial_scale,
        sample_ratio,
        aligned,
        mode == "avg",
        layout,
    )
    count, channels = rois.shape[0], data.shape[layout.index("C")]
    tag = f"pool,roi_align_{layout.lower()}"
    if layout == "NCHW":
        return te.compute((count, channels, height, width), how.element, tag=tag)
    return te.compute(
        (count, height, width, channels),
        lambda i, ph, pw, c: how.element(i, c, ph, pw),
        tag=tag,
    )


def _rounded(value: Any, dtype: str) -> Any:
    return te.floor(value + const(0.5, dtype)).astype("int32")


def _bounds(
    rois: Tensor, i: Any, low: int, place: Any, pooled: int, scale: float, size: Any
) -> tuple[Any, Any]:
    """Where a part of a region starts and ends along one axis.

    Args:
        rois: the regions.
        i: which region.
        low: where in it the coordinate is that the axis starts at.
        place: which part.
        pooled: how many parts there are.
        scale: what coordinates are multiplied by.
        size: of the picture.
    """
    dtype = rois.dtype
    start = _rounded(rois(i, low) * scale, dtype)
    end = _rounded(rois(i, low + 2) * scale, dtype)
    extent = te.max(end - start + 1, const(1, "int32"))
    step = prim.Cast(dtype, extent) / const(float(pooled), dtype)
    first = te.floor(prim.Cast(dtype, place) * step).astype("int32")
    last = te.ceil(prim.Cast(dtype, place + 1) * step).astype("int32")
    inside = (te.min(te.max(v + start, 0), size) for v in (first, last))
    return next(inside), next(inside)


def roi_pool(
    data: Tensor,
    rois: Tensor,
    pooled_size: int | Sequence[int],
    spatial_scale: float,
    layout: str = "NCHW",
) -> Tensor:
    """Regions in one size: the largest pixel of every part, 0 if it has none.

    Args:
        data: the pictures.
        rois: [regions, 5]: the number of a picture, left, top, right and bottom.
        pooled_size: height and width of the result.
        spatial_scale: what the coordinates are multiplied by.
        layout: NCHW.

    Raises:
        ValueError: another layout.

    Source: Girshick, Fast R-CNN, 2015.
    """
    if layout != "NCHW":
        raise ValueError(f"roi_pool: expected layout NCHW, got `{layout}`")
    height, width = _pair(pooled_size)
    _, channels, rows, columns = data.shape
    shape = (rois.shape[0], channels, height, width)

    def part(i: Any, ph: Any, pw: Any) -> tuple[Any, ...]:
        down = _bounds(rois, i, 2, ph, height, spatial_scale, rows)
        return *down, *_bounds(rois, i, 1, pw, width, spatial_scale, columns)

    rh, rw = te.reduce_axis((0, rows), "rh"), te.reduce_axis((0, columns), "rw")

    def largest(i: Any, c: Any, ph: Any, pw: Any) -> Any:
        top, bottom, left, right = part(i, ph, pw)
        is_inside = functions.all(top <= rh, rh < bottom, left <= rw, rw < right)
        least = const(float("-inf"), data.dtype)
        pixel = data(rois(i, 0).astype("int32"), c, rh, rw)
        return te.max(if_then_else(is_inside, pixel, least), axis=[rh, rw])

    pooled = te.compute(shape, largest, tag="pool,roi_pool_nchw")

    def element(i: Any, c: Any, ph: Any, pw: Any) -> Any:
        top, bottom, left, right = part(i, ph, pw)
        is_empty = functions.any(bottom <= top, right <= left)
        return if_then_else(is_empty, const(0.0, data.dtype), pooled(i, c, ph, pw))

    return te.compute(shape, element)

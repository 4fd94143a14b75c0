"""Bilinear sampling of regions of interest, shared by ROI align operators."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from relax_mlir.dialects import dtypes, shapes
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.relax.elementwise import wide_type
from relax_mlir.dialects.relax.layouts import Layout
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["RoiAlignSampling", "compute_bins", "image_index"]

_MOST_POINTS = 1024  # samples along an axis of a bin, as regions may be infinite


def compute_bins(b: Builder, layout: Layout, body: Callable[..., Scalar]) -> Buffer:
    """The result with elements ``body(region, channel, row, column)``, by explicit loops.

    The loop over regions and channels is parallel.

    Args:
        b: the builder.
        layout: the layout of the result.
        body: computes the element of a bin.
    """
    shape, dtype = b.results[0]
    count, channels, height, width = layout.to_plain(shape)
    out = b.alloc(shape, dtype)
    plain = layout.buffer(out)

    def channel(number: Index) -> None:
        many = b.dim(channels)
        own = number // many, Index(Index.value_of(number % many))

        def row(i: Index) -> list[Scalar]:
            def bin_(j: Index) -> list[Scalar]:
                plain.store(body(*own, i, j), (*own, i, j))
                return []

            b.loop(b.dim(width), [], bin_)
            return []

        b.loop(b.dim(height), [], row)

    b.parallel_loop(b.dim(shapes.product((count, channels))), channel)
    return out


def image_index(b: Builder, number: Scalar, data: Buffer) -> Index:
    """The batch index of a region as an index, clamped to the batch."""
    image = Index.from_scalar(b.cast(number, dtypes.dtype("int64")))
    return image.maximum(0).minimum(b.dim(data.shape[0] - 1))


@dataclass(frozen=True)
class RoiAlignSampling:
    """ROI align: a grid of bilinear samples in every bin of a region.

    Attributes:
        size: number of bins along height and width.
        scale: factor from region coordinates to pixels.
        count: samples per bin along each axis; 0 for ceil(size of a bin in pixels).
        shift: coordinate of the centre of the first pixel.
        has_pixel: whether regions are enlarged to at least one pixel.
        mode: ``avg`` or ``max`` of the samples; ``max_pixel`` for the maximum of the
            weighted pixels of all samples.
        first: index of the region's field ``left``; top, right and bottom follow.
    Source: He et al., Mask R-CNN, 2017; ONNX RoiAlign-16.
    """

    size: Sequence[int]
    scale: float
    count: int
    shift: float
    has_pixel: bool
    mode: str
    first: int

    def reference(
        self, data: np.ndarray, rois: np.ndarray, images: np.ndarray
    ) -> np.ndarray:
        """The numpy reference.

        Args:
            data: the images, [n, c, h, w].
            rois: the regions, [r, fields].
            images: batch index of every region, [r].
        """
        wide = data.astype(np.float64)
        y = np.zeros((len(rois), data.shape[1], *self.size))
        for region, image in enumerate(images):
            box = (
                rois[region, self.first :].astype(np.float64) * self.scale - self.shift
            )
            rows, columns = (
                self._grid(box[axis], box[2 + axis], self.size[1 - axis])
                for axis in (1, 0)
            )
            for i, j in np.ndindex(*self.size):
                samples = [
                    _corners(wide[image], row, column)
                    for row in rows[i]
                    for column in columns[j]
                ]
                values = np.array(samples or np.zeros((1, 4, data.shape[1])))
                y[region, :, i, j] = self._reduced(values)
        return y.astype(data.dtype)

    def _reduced(self, values: np.ndarray) -> np.ndarray:
        """Reduces the weighted pixels of all samples, [samples, 4, c], to [c]."""
        if self.mode == "max_pixel":
            return values.max((0, 1))
        points = values.sum(1)
        return points.mean(0) if self.mode == "avg" else points.max(0)

    def _grid(self, begin: float, end: float, bins: int) -> list[np.ndarray]:
        """The coordinates of the samples of every bin along one axis."""
        length = max(end - begin, 1.0) if self.has_pixel else end - begin
        size = length / bins
        count = self.count or min(max(int(np.ceil(size)), 0), _MOST_POINTS)
        steps = (np.arange(count) + 0.5) * (size / max(count, 1))
        return [begin + number * size + steps for number in range(bins)]

    def program(
        self,
        b: Builder,
        layout: Layout,
        rois: Buffer,
        image: Callable[[Index], Index],
    ) -> Buffer:
        """The tensor program of :meth:`reference`, on the builder's first input.

        Args:
            b: the builder.
            layout: the layout of the images and of the result.
            rois: the regions.
            image: batch index of a region.
        """
        data, dtype = layout.buffer(b.inputs[0]), b.results[0][1]
        is_mean = self.mode == "avg"

        def body(region: Index, c: Index, *bin_: Index) -> Scalar:
            rows, columns = (
                self._steps(b, rois, region, bin_[axis], axis) for axis in range(2)
            )
            outer = image(region), c

            def row(i: Index, total: Scalar) -> list[Scalar]:
                def sample(j: Index, total: Scalar) -> list[Scalar]:
                    point = rows.coordinate(i), columns.coordinate(j)
                    values = _read_corners(b, data, outer, point)
                    if self.mode == "max":
                        values = [values[0] + values[1] + values[2] + values[3]]
                    for value in values:
                        total = total + value if is_mean else total.maximum(value)
                    return [total]

                return b.loop(columns.count, [total], sample)

            wide = rows.first.dtype
            start = b.constant(0.0 if is_mean else -np.inf, wide)
            (total,) = b.loop(rows.count, [start], row)
            count = rows.count_as(wide) * columns.count_as(wide)
            if is_mean:
                return b.cast(total / count.maximum(1.0), dtype)
            return b.cast(b.select(count > 0, total, b.constant(0, wide)), dtype)

        return compute_bins(b, layout, body)

    def _steps(
        self, b: Builder, rois: Buffer, region: Index, bin_: Index, axis: int
    ) -> "_Steps":
        """The samples of a bin of a region along one axis."""
        wide = wide_type(rois.dtype)
        begin, end = (
            b.cast(rois[region, self.first + field], wide) * self.scale - self.shift
            for field in (1 - axis, 3 - axis)
        )
        length = end - begin
        if self.has_pixel:
            length = length.maximum(1.0)
        size = length / self.size[axis]
        count: Index | int = self.count
        if not count:
            pixels = Index.from_scalar(b.math("ceil", size))
            count = pixels.maximum(0).minimum(_MOST_POINTS)
        first = begin + bin_.to_scalar(wide) * size
        samples = Index(Index.value_of(count)).to_scalar(wide)
        return _Steps(first, size / samples.maximum(1.0), count)


@dataclass(frozen=True)
class _Steps:
    """Samples along an axis: centres of ``count`` intervals of ``step`` from ``first``."""

    first: Scalar
    step: Scalar
    count: Index | int

    def coordinate(self, number: Index) -> Scalar:
        return self.first + (number.to_scalar(self.first.dtype) + 0.5) * self.step

    def count_as(self, dtype: DType) -> Scalar:
        return Index(Index.value_of(self.count)).to_scalar(dtype)


def _read_corners(
    b: Builder,
    data: Buffer,
    outer: tuple[Index, Index],
    point: Sequence[Scalar],
) -> list[Scalar]:
    """The four pixels around a point times their bilinear weights.

    They are 0 if the point is more than one pixel outside of the image.
    """
    wide = point[0].dtype
    zero = b.constant(0, wide)
    sides: list[list[tuple[Index, Scalar]]] = []
    is_near = b.constant(1, dtypes.dtype("bool"))
    for at, size in zip(point, data.shape[2:], strict=True):
        last = Index(Index.value_of(b.dim(size - 1)))
        end = last.to_scalar(wide)
        is_near = is_near & (at >= -1) & (at <= end + 1)
        inside = at.maximum(0.0).minimum(end)
        low = b.math("floor", inside)
        rest = inside - low
        first = Index.from_scalar(low).maximum(0).minimum(last)
        sides.append([(first, 1.0 - rest), ((first + 1).minimum(last), rest)])
    corners: list[Scalar] = []
    for (row, row_weight), (column, column_weight) in product(*sides):
        value = b.cast(data[(*outer, row, column)], wide) * (row_weight * column_weight)
        corners.append(b.select(is_near, value, zero))
    return corners


def _corners(image: np.ndarray, *point: float) -> np.ndarray:
    """The four pixels around a point times their bilinear weights: [4, c]."""
    sizes = image.shape[1:]
    if any(not -1 <= at <= size for at, size in zip(point, sizes, strict=True)):
        return np.zeros((4, len(image)))
    sides = []
    for at, size in zip(point, sizes, strict=True):
        inside = min(max(at, 0.0), size - 1.0)
        low = int(inside)
        sides.append([(low, 1 + low - inside), (min(low + 1, size - 1), inside - low)])
    return np.array(
        [image[:, row, column] * (v * w) for (row, v), (column, w) in product(*sides)]
    )

"""Points between the pixels of regions, and the results that operators compute of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from relax_mlir.dialects import dtypes, shapes
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.relax.elementwise import wide_type
from relax_mlir.dialects.relax.layouts import Layout
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["RegionPoints", "each_part", "picture_of"]

_MOST_POINTS = 1024  # along an axis of a bin: a region may be infinite


def each_part(b: Builder, layout: Layout, body: Callable[..., Scalar]) -> Buffer:
    """The result, whose elements ``body`` computes, by loops of its own.

    Threads share the channels of regions.

    Args:
        b: the builder.
        layout: of the result.
        body: from the numbers of a region, a channel, a row and a column.
    """
    shape, dtype = b.results[0]
    count, channels, height, width = layout.to_plain(shape)
    out = b.alloc(shape, dtype)
    plain = layout.buffer(out)

    def channel(number: Index) -> None:
        many = b.dim(channels)
        own = number // many, Index(Index.value_of(number % many))

        def row(i: Index) -> list[Scalar]:
            def part(j: Index) -> list[Scalar]:
                plain.store(body(*own, i, j), (*own, i, j))
                return []

            b.loop(b.dim(width), [], part)
            return []

        b.loop(b.dim(height), [], row)

    b.tiles(b.dim(shapes.product((count, channels))), channel)
    return out


def picture_of(b: Builder, number: Scalar, data: Buffer) -> Index:
    """The picture of a number; of one that is not there, the nearest."""
    place = Index.from_scalar(b.cast(number, dtypes.dtype("int64")))
    return place.maximum(0).minimum(b.dim(data.shape[0] - 1))


@dataclass(frozen=True)
class RegionPoints:
    """A grid of points over every part of a region.

    A point lies between four pixels, which count the more the nearer they are.

    Attributes:
        size: how many parts there are from top to bottom, and from left to right.
        scale: what coordinates are multiplied by.
        count: of a part, along an axis; 0 for as many as pixels.
        shift: where the middle of the first pixel is.
        has_pixel: whether a region has one pixel at least.
        mode: ``avg`` or ``max`` of the points, or ``max_pixel``, that of what the pixels
            around them add to them.
        first: the field of a region that is its left; top, right and bottom follow.
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
        """The results in numpy.

        Args:
            data: the pictures, [n, c, h, w].
            rois: the regions, [r, fields].
            images: the picture of every region, [r].
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
                found = [
                    _corners(wide[image], row, column)
                    for row in rows[i]
                    for column in columns[j]
                ]
                values = np.array(found or np.zeros((1, 4, data.shape[1])))
                y[region, :, i, j] = self._reduced(values)
        return y.astype(data.dtype)

    def _reduced(self, values: np.ndarray) -> np.ndarray:
        """Of what pixels add to points, [points, 4, c], one number per channel."""
        if self.mode == "max_pixel":
            return values.max((0, 1))
        points = values.sum(1)
        return points.mean(0) if self.mode == "avg" else points.max(0)

    def _grid(self, begin: float, end: float, parts: int) -> list[np.ndarray]:
        """The points of every part along one axis."""
        length = max(end - begin, 1.0) if self.has_pixel else end - begin
        size = length / parts
        count = self.count or min(max(int(np.ceil(size)), 0), _MOST_POINTS)
        steps = (np.arange(count) + 0.5) * (size / max(count, 1))
        return [begin + part * size + steps for part in range(parts)]

    def program(
        self,
        b: Builder,
        layout: Layout,
        rois: Buffer,
        picture: Callable[[Index], Index],
    ) -> Buffer:
        """The program of :meth:`reference`, on the builder's first input.

        Args:
            b: the builder.
            layout: of the pictures, and of the result.
            rois: the regions.
            picture: that of a region.
        """
        data, dtype = layout.buffer(b.inputs[0]), b.results[0][1]
        is_mean = self.mode == "avg"

        def body(region: Index, c: Index, *part: Index) -> Scalar:
            rows, columns = (
                self._steps(b, rois, region, part[axis], axis) for axis in range(2)
            )
            outer = picture(region), c

            def row(i: Index, total: Scalar) -> list[Scalar]:
                def point(j: Index, total: Scalar) -> list[Scalar]:
                    place = rows.place(i), columns.place(j)
                    values = _read_corners(b, data, outer, place)
                    if self.mode == "max":
                        values = [values[0] + values[1] + values[2] + values[3]]
                    for value in values:
                        total = total + value if is_mean else total.maximum(value)
                    return [total]

                return b.loop(columns.count, [total], point)

            wide = rows.first.dtype
            start = b.constant(0.0 if is_mean else -np.inf, wide)
            (total,) = b.loop(rows.count, [start], row)
            count = rows.count_as(wide) * columns.count_as(wide)
            if is_mean:
                return b.cast(total / count.maximum(1.0), dtype)
            return b.cast(b.select(count > 0, total, b.constant(0, wide)), dtype)

        return each_part(b, layout, body)

    def _steps(
        self, b: Builder, rois: Buffer, region: Index, part: Index, axis: int
    ) -> "_Steps":
        """The points of a part of a region along one axis."""
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
            many = Index.from_scalar(b.math("ceil", size))
            count = many.maximum(0).minimum(_MOST_POINTS)
        first = begin + part.to_scalar(wide) * size
        points = Index(Index.value_of(count)).to_scalar(wide)
        return _Steps(first, size / points.maximum(1.0), count)


@dataclass(frozen=True)
class _Steps:
    """Points along an axis: in the middle of ``count`` steps from ``first`` on."""

    first: Scalar
    step: Scalar
    count: Index | int

    def place(self, number: Index) -> Scalar:
        return self.first + (number.to_scalar(self.first.dtype) + 0.5) * self.step

    def count_as(self, dtype: DType) -> Scalar:
        return Index(Index.value_of(self.count)).to_scalar(dtype)


def _read_corners(
    b: Builder,
    data: Buffer,
    outer: tuple[Index, Index],
    place: Sequence[Scalar],
) -> list[Scalar]:
    """The four pixels around a point, weighted; zeros if it is far outside."""
    wide = place[0].dtype
    zero = b.constant(0, wide)
    sides: list[list[tuple[Index, Scalar]]] = []
    is_near = b.constant(1, dtypes.dtype("bool"))
    for at, size in zip(place, data.shape[2:], strict=True):
        last = Index(Index.value_of(b.dim(size - 1)))
        end = last.to_scalar(wide)
        is_near = is_near & (at >= -1) & (at <= end + 1)
        inside = at.maximum(0.0).minimum(end)
        low = b.math("floor", inside)
        rest = inside - low
        first = Index.from_scalar(low).maximum(0).minimum(last)
        sides.append([(first, 1.0 - rest), ((first + 1).minimum(last), rest)])
    found: list[Scalar] = []
    for (row, of_row), (column, of_column) in product(*sides):
        value = b.cast(data[(*outer, row, column)], wide) * (of_row * of_column)
        found.append(b.select(is_near, value, zero))
    return found


def _corners(image: np.ndarray, *place: float) -> np.ndarray:
    """The four pixels around a point, weighted: [4, c]."""
    sizes = image.shape[1:]
    if any(not -1 <= at <= size for at, size in zip(place, sizes, strict=True)):
        return np.zeros((4, len(image)))
    sides = []
    for at, size in zip(place, sizes, strict=True):
        inside = min(max(at, 0.0), size - 1.0)
        low = int(inside)
        sides.append([(low, 1 + low - inside), (min(low + 1, size - 1), inside - low)])
    return np.array(
        [image[:, row, column] * (v * w) for (row, v), (column, w) in product(*sides)]
    )

"""Regions of pictures in one size, by points between the pixels, or by parts of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from mlir.ir import (
    BoolAttr,
    DenseI64ArrayAttr,
    FloatAttr,
    IntegerAttr,
    RankedTensorType,
    StringAttr,
)

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import computed_wide, require, wide_type
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["MaxRoiPoolOp", "RoiAlignOp"]

_INT64 = dtypes.dtype("int64")
_MOST_POINTS = 1024  # along an axis of a bin: a region may be infinite


def _infer(
    data: RankedTensorType, rois: RankedTensorType, fields: int, size: Sequence[int]
) -> RankedTensorType:
    dtype = require("f", data, rois)
    if data.rank != 4 or rois.rank != 2:
        raise ValueError(f"expected ranks 4 and 2, got {data.rank} and {rois.rank}")
    if len(size) != 2 or min(size) < 1:
        raise ValueError(f"expected a height and a width of 1 or more, got {size}")
    count, found = tensors.shape_of(rois)
    shapes.unify(found, fields)
    return tensors.tensor_type((count, tensors.shape_of(data)[1], *size), dtype)


def _each_part(b: Builder, body: Callable[..., Scalar]) -> Buffer:
    """The result whose elements ``body`` computes, by loops of its own.

    Threads share the channels of regions.
    """
    shape, dtype = b.results[0]
    channels, height, width = map(b.dim, shape[1:])
    out = b.alloc(shape, dtype)

    def channel(number: Index) -> None:
        own = number // channels, Index(Index.value_of(number % channels))

        def row(i: Index) -> list[Scalar]:
            def part(j: Index) -> list[Scalar]:
                out.store(body(*own, i, j), (*own, i, j))
                return []

            b.loop(width, [], part)
            return []

        b.loop(height, [], row)

    b.tiles(b.dim(shapes.product(shape[:2])), channel)
    return out


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
        if mode not in ("avg", "max") or points < 0:
            raise ValueError(
                "expected mode avg or max, and 0 points or more, got "
                f"`{mode}` and {points}"
            )
        if images.rank != 1 or not tensors.dtype_of(images).is_integer:
            raise ValueError("images: expected a vector of integers")
        shapes.unify(tensors.shape_of(rois)[0], tensors.shape_of(images)[0])
        return _infer(data, rois, 4, size)

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
        wide = data.astype(np.float64)
        y = np.zeros((len(rois), data.shape[1], *size))
        for region, image in enumerate(images):
            box = rois[region].astype(np.float64) * scale - 0.5 * is_shifted
            rows, columns = (
                _grid(box[axis], box[2 + axis], size[1 - axis], points, is_shifted)
                for axis in (1, 0)
            )
            for i, j in np.ndindex(*size):
                found = [
                    _corners(wide[image], row, column)
                    for row in rows[i]
                    for column in columns[j]
                ]
                values = np.array(found or np.zeros((1, 4, data.shape[1])))
                is_mean = mode == "avg"
                y[region, :, i, j] = (
                    values.sum(1).mean(0) if is_mean else values.max((0, 1))
                )
        return y.astype(data.dtype)

    def legalize(self, b: Builder) -> Buffer:
        data, _, images = b.inputs
        dtype, is_mean = b.results[0][1], self.mode.value == "avg"

        def body(region: Index, c: Index, *part: Index) -> Scalar:
            rows, columns = (
                self._steps(b, region, part[axis], axis) for axis in range(2)
            )
            image = Index.from_scalar(images[region])
            near = image.maximum(0).minimum(b.dim(data.shape[0] - 1))

            def row(i: Index, total: Scalar) -> list[Scalar]:
                def point(j: Index, total: Scalar) -> list[Scalar]:
                    place = rows.place(i), columns.place(j)
                    for value in _read_corners(b, data, (near, c), place):
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

        return _each_part(b, body)

    def _steps(self, b: Builder, region: Index, part: Index, axis: int) -> "_Steps":
        """The points of a part of a region along one axis."""
        rois, attrs = b.inputs[1], self.python_attrs()
        wide, scale = wide_type(rois.dtype), attrs["scale"]
        shift = 0.5 if attrs["is_shifted"] else 0.0
        begin, end = (
            b.cast(rois[region, field], wide) * scale - shift
            for field in (1 - axis, 3 - axis)
        )
        length = end - begin
        if not attrs["is_shifted"]:
            length = length.maximum(1.0)
        size = length / attrs["size"][axis]
        count: Index | int = attrs["points"]
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


def _grid(
    begin: float, end: float, parts: int, points: int, is_shifted: bool
) -> list[np.ndarray]:
    """The points of every part along one axis."""
    length = end - begin if is_shifted else max(end - begin, 1.0)
    size = length / parts
    count = points or min(max(int(np.ceil(size)), 0), _MOST_POINTS)
    steps = (np.arange(count) + 0.5) * (size / max(count, 1))
    return [begin + part * size + steps for part in range(parts)]


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


class MaxRoiPoolOp(Relax.Operation, name="max_roi_pool"):
    """The largest pixel of every part of a region; 0 of a part without pixels.

    Attributes:
        size: height and width of the results.
        scale: what coordinates are multiplied by before they are rounded.
    Shapes:
        data: [n, c, h, w]; rois: [r, 5], the number of the picture, left, top, right and
        bottom; y: [r, c, size...].
    Source: ONNX MaxRoiPool-22; Girshick, Fast R-CNN, 2015.
    """

    data: Operand[RankedTensorType]
    rois: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    size: DenseI64ArrayAttr
    scale: FloatAttr

    cases = (
        Case((2, 3, 6, 7), (5, 5), size=(2, 3), low=0, high=1, scale=6.0),
        Case((1, 2, 5, 5, "float16"), (2, 5, "float16"), size=(2, 2), low=-2, high=4),
    )

    @staticmethod
    def infer(
        data: RankedTensorType,
        rois: RankedTensorType,
        size: Sequence[int],
        scale: float = 1.0,
    ) -> RankedTensorType:
        return _infer(data, rois, 5, size)

    @staticmethod
    @computed_wide
    def reference(
        data: np.ndarray, rois: np.ndarray, size: Sequence[int], scale: float
    ) -> np.ndarray:
        y = np.zeros((len(rois), data.shape[1], *size), data.dtype)
        for region, (image, *box) in enumerate(rois):
            begins, ends = (
                np.floor(np.multiply(half, data.dtype.type(scale)) + 0.5)[::-1]
                for half in (box[:2], box[2:])
            )
            lengths = np.maximum(ends - begins + 1, 1)
            picture = data[min(max(int(image), 0), len(data) - 1)]
            for part in np.ndindex(*size):
                cuts = [
                    slice(*(int(np.clip(v, 0, n)) for v in bounds))
                    for bounds, n in zip(
                        _bounds(begins, lengths, part, size),
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
        wide, scale = wide_type(dtype), attrs["scale"]

        def bounds(region: Index, part: Index, axis: int) -> tuple[Index, Index]:
            size = b.dim(data.shape[2 + axis])
            begin, end = (
                b.math("floor", b.cast(rois[region, field], wide) * scale + 0.5)
                for field in (2 - axis, 4 - axis)
            )
            step = (end - begin + 1).maximum(1.0) / attrs["size"][axis]
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
            image = Index.from_scalar(b.cast(rois[region, 0], _INT64))
            near = image.maximum(0).minimum(b.dim(data.shape[0] - 1))

            def row(i: Index, most: Scalar) -> list[Scalar]:
                def pixel(j: Index, most: Scalar) -> list[Scalar]:
                    return [most.maximum(data[near, c, top + i, left + j])]

                return b.loop((right - left).maximum(0), [most], pixel)

            start = b.constant(-np.inf, dtype)
            (most,) = b.loop((bottom - top).maximum(0), [start], row)
            is_empty = (bottom <= top) | (right <= left)
            return b.select(is_empty, b.constant(0, dtype), most)

        return _each_part(b, body)


def _bounds(
    begins: np.ndarray, lengths: np.ndarray, part: Sequence[int], size: Sequence[int]
) -> list[tuple[float, float]]:
    """First pixel of a part and the one behind its last, along both axes."""
    number, count = (np.asarray(v, lengths.dtype) for v in (part, size))
    steps = lengths / count
    first = np.floor(number * steps) + begins
    last = np.ceil((number + 1) * steps) + begins
    return list(zip(first, last, strict=True))

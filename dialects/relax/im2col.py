"""col2im (fold) and deformable im2col (unfold)."""

from collections.abc import Sequence
from itertools import product

import numpy as np
from mlir.ir import DenseI64ArrayAttr, IntegerAttr, RankedTensorType

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    computed_wide,
    require_element_type,
    wide_type,
)
from relax_mlir.dialects.relax.window_attributes import SlidingWindow
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["Col2imOp", "DeformColumnsOp"]

_BOOL = dtypes.dtype("bool")


class Col2imOp(Relax.Operation, name="col2im"):
    """col2im (fold): images whose elements are sums over all blocks that contain them.

    Attributes:
        image_shape: spatial sizes of the images; may be symbolic.
        block_shape: spatial sizes of a block.
        strides, dilations: per axis, between blocks and between elements of a block; 1 if
            empty.
        padding: implicit padding of the images before every axis, then after every one; 0
            if empty.
    Shapes:
        x: [n, c * elements of a block, number of blocks]; y: [n, c, image_shape...].
    Source: ONNX Col2Im-18.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    image_shape: Attr
    block_shape: DenseI64ArrayAttr
    strides: DenseI64ArrayAttr
    dilations: DenseI64ArrayAttr
    padding: DenseI64ArrayAttr

    reference_rate = 1e5  # a loop in Python
    tolerance = 1e-4  # f32 sums in another order
    cases = (
        Case((1, 10, 15), image_shape=(5, 5), block_shape=(1, 5), padding=(0, 1, 0, 1)),
        Case((2, 12, 9), image_shape=(6, 7), block_shape=(2, 3), strides=(2, 2)),
        Case((1, 4, 20), image_shape=(6, 6), block_shape=(2, 2), dilations=(1, 2)),
        Case((1, 8, 12), image_shape=(3, 4, 3), block_shape=(2, 2, 2)),
        Case((2, 3, 5, "float16"), image_shape=(7,), block_shape=(3,)),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        image_shape: Sequence[Dim],
        block_shape: Sequence[int],
        strides: Sequence[int] = (),
        dilations: Sequence[int] = (),
        padding: Sequence[int] = (),
    ) -> RankedTensorType:
        require_element_type("fiu", x)
        if x.rank != 3 or len(image_shape) != len(block_shape):
            raise ValueError(
                f"expected rank 3, block_shape and image_shape of one length, got rank "
                f"{x.rank}, lengths {len(block_shape)} and {len(image_shape)}"
            )
        window = SlidingWindow.of(block_shape, strides, padding, dilations)
        batch, channels, count = tensors.shape_of(x)
        size = int(np.prod(block_shape))
        shapes.require_multiple(channels, size, "channels")
        shapes.unify(count, shapes.product(window.conv_sizes(image_shape)))
        shape = (batch, shapes.floordiv(channels, size), *image_shape)
        return tensors.tensor_type(shape, tensors.dtype_of(x))

    @staticmethod
    @computed_wide
    def reference(
        x: np.ndarray,
        image_shape: Sequence[int],
        block_shape: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        padding: Sequence[int],
    ) -> np.ndarray:
        window = SlidingWindow.of(block_shape, strides, padding, dilations)
        counts = window.counts(image_shape)
        blocks = x.reshape(len(x), -1, *block_shape, *counts)
        y = np.zeros((*blocks.shape[:2], *image_shape), x.dtype)
        rank = len(block_shape)
        for point in np.ndindex(*block_shape, *counts):
            position = [
                w * s + k * d - p
                for k, w, s, d, p in zip(
                    point[:rank],
                    point[rank:],
                    window.strides,
                    window.dilations,
                    window.before,
                    strict=True,
                )
            ]
            if all(0 <= p < n for p, n in zip(position, image_shape, strict=True)):
                y[(..., *position)] += blocks[(..., *point)]
        return y

    def legalize(self, b: Builder) -> Buffer:
        (x,), (shape, dtype), attrs = b.inputs, b.results[0], self.python_attrs()
        kernel = attrs["block_shape"]
        window = SlidingWindow.of(
            kernel, attrs["strides"], attrs["padding"], attrs["dilations"]
        )
        counts = [b.dim(count) for count in window.conv_sizes(shape[2:])]
        rank = len(kernel)

        def body(n: Index, c: Index, *point: Index) -> Scalar:
            channel, number = c, Index(Index.value_of(0))
            is_covered = b.constant(1, _BOOL)
            for axis in range(rank):
                tap = point[rank + axis]
                start = point[axis] + window.before[axis]
                start = start - tap * window.dilations[axis]
                stride, count = window.strides[axis], counts[axis]
                block = start.maximum(0) // stride
                is_multiple = Index(Index.value_of(block * stride)).equal(start)
                is_covered = is_covered & is_multiple & (block < count)
                number = number * count + block.minimum(count - 1)
                channel = channel * kernel[axis] + tap
            value = x[n, channel, number]
            return b.select(is_covered, value, b.constant(0, dtype))

        return b.reduce_over("add", shape, kernel, body, dtype, "col2im")


class DeformColumnsOp(Relax.Operation, name="deform_columns"):
    """Deformable im2col: the elements of convolution windows, sampled at offsets.

    Elements are interpolated linearly between pixels and are 0 outside; then they are
    multiplied by the mask.

    Attributes:
        kernel: spatial sizes of the kernel.
        strides, dilations, padding: as in the convolution.
        groups: number of offset groups: channels of a group share offsets.
    Shapes:
        x: [n, c, spatial...]; offset: [n, groups * taps * spatial rank, windows...]; mask:
        [n, groups * taps, windows...]; y: [n, c, kernel..., windows...]; taps is the number
        of elements of the kernel.
    Source: ONNX DeformConv-22.
    """

    x: Operand[RankedTensorType]
    offset: Operand[RankedTensorType]
    mask: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    kernel: DenseI64ArrayAttr
    strides: DenseI64ArrayAttr
    padding: DenseI64ArrayAttr
    dilations: DenseI64ArrayAttr
    groups: IntegerAttr

    reference_rate = 1e5  # a loop in Python
    tolerance = 1e-4  # weights are differences of f32 coordinates
    cases = (
        Case((1, 2, 4, 5), (1, 8, 3, 4), (1, 4, 3, 4), kernel=(2, 2)),
        Case(
            (2, 4, 5, 6),
            (2, 24, 3, 3),
            (2, 12, 3, 3),
            kernel=(3, 2),
            strides=(2, 2),
            padding=(1, 0, 1, 0),
            groups=2,
        ),
        Case((1, 1, 9), (1, 2, 7), (1, 2, 7), kernel=(2,), dilations=(2,)),
        Case((1, 1, 3, 3, 3), (1, 24, 2, 2, 2), (1, 8, 2, 2, 2), kernel=(2, 2, 2)),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        offset: RankedTensorType,
        mask: RankedTensorType,
        kernel: Sequence[int],
        strides: Sequence[int] = (),
        padding: Sequence[int] = (),
        dilations: Sequence[int] = (),
        groups: int = 1,
    ) -> RankedTensorType:
        dtype = require_element_type("f", x, offset, mask)
        window = SlidingWindow.of(kernel, strides, padding, dilations)
        rank, size = len(kernel), int(np.prod(kernel))
        if {x.rank, offset.rank, mask.rank} != {rank + 2}:
            raise ValueError(
                f"expected ranks of {rank + 2}, got {x.rank}, {offset.rank}, {mask.rank}"
            )
        batch, channels, *sizes = tensors.shape_of(x)
        if groups < 1:
            raise ValueError(f"groups: expected at least 1, got {groups}")
        shapes.require_multiple(channels, groups, "channels")
        windows = window.conv_sizes(sizes)
        for operand, fields in ((offset, groups * size * rank), (mask, groups * size)):
            shape = (batch, fields, *windows)
            for dim, expected in zip(tensors.shape_of(operand), shape, strict=True):
                shapes.unify(dim, expected)
        return tensors.tensor_type((batch, channels, *kernel, *windows), dtype)

    @staticmethod
    @computed_wide
    def reference(
        x: np.ndarray,
        offset: np.ndarray,
        mask: np.ndarray,
        kernel: Sequence[int],
        strides: Sequence[int],
        padding: Sequence[int],
        dilations: Sequence[int],
        groups: int,
    ) -> np.ndarray:
        window = SlidingWindow.of(kernel, strides, padding, dilations)
        rank, (n, c, *sizes), windows = len(kernel), x.shape, offset.shape[2:]
        y = np.zeros((n, c, *kernel, *windows), x.dtype)
        for point in np.ndindex(*y.shape):
            image, channel, *rest = point
            tap, at = rest[:rank], rest[rank:]
            group = channel // (c // groups)
            field = group * int(np.prod(kernel)) + np.ravel_multi_index(tap, kernel)
            moved = [
                at[a] * window.strides[a]
                + tap[a] * window.dilations[a]
                - window.before[a]
                + offset[(image, field * rank + a, *at)]
                for a in range(rank)
            ]
            value = _interpolate(x[image, channel], moved, sizes)
            y[point] = value * mask[(image, field, *at)]
        return y

    def legalize(self, b: Builder) -> Buffer:
        x, offset, mask = b.inputs
        (shape, dtype), attrs = b.results[0], self.python_attrs()
        kernel, groups = attrs["kernel"], attrs["groups"]
        window = SlidingWindow.of(
            kernel, attrs["strides"], attrs["padding"], attrs["dilations"]
        )
        rank, wide = len(kernel), wide_type(dtype)
        in_group = b.dim(shapes.floordiv(shape[1], groups))

        def body(n: Index, c: Index, *rest: Index) -> Scalar:
            tap, at = rest[:rank], rest[rank:]
            field = Index(Index.value_of(c // in_group))
            for number, size in zip(tap, kernel, strict=True):
                field = field * size + number
            moved: list[Scalar] = []
            for axis, start in enumerate(window.positions(at, tap)):
                shift = offset[(n, field * rank + axis, *at)]
                moved.append(start.to_scalar(wide) + b.cast(shift, wide))
            value = _read_interpolated(b, x, (n, c), moved)
            return b.cast(value * b.cast(mask[(n, field, *at)], wide), dtype)

        return b.compute(shape, body, dtype, "deform_columns")


def _interpolate(
    image: np.ndarray, point: Sequence[float], sizes: Sequence[int]
) -> float:
    """Multilinear interpolation of an image at a point; pixels outside are 0."""
    total = 0.0
    low = np.floor(point)
    for corner in product((0, 1), repeat=len(sizes)):
        at = low + corner
        if all(0 <= p < n for p, n in zip(at, sizes, strict=True)):
            weight = np.prod(1 - np.abs(point - at))
            total += float(image[tuple(at.astype(int))] * weight)
    return total


def _read_interpolated(
    b: Builder, x: Buffer, outer: tuple[Index, ...], point: Sequence[Scalar]
) -> Scalar:
    """Multilinear interpolation in a tensor program; see :func:`_interpolate`."""
    wide = point[0].dtype
    one, zero = b.constant(1, wide), b.constant(0, wide)
    axes: list[list[tuple[Index, Scalar]]] = []
    for at, size in zip(point, x.shape[len(outer) :], strict=True):
        low, length = b.math("floor", at), b.dim(size)
        sides = [(low, one - (at - low)), (low + 1, at - low)]
        taps: list[tuple[Index, Scalar]] = []
        for side, weight in sides:
            number = Index.from_scalar(side)
            is_inside = (number >= 0) & (number < length)
            near = number.minimum(length - 1).maximum(0)
            taps.append((near, b.select(is_inside, weight, zero)))
        axes.append(taps)
    total = zero
    for corner in product(*axes):
        value = b.cast(x[(*outer, *(number for number, _ in corner))], wide)
        for _, weight in corner:
            value = value * weight
        total = total + value
    return total

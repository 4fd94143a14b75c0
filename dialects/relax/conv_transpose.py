"""Transposed convolutions."""

from collections.abc import Sequence
from functools import reduce
from operator import and_

import numpy as np
from mlir.ir import DenseI64ArrayAttr, IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.relax.channels import Channels, Point
from relax_mlir.dialects.relax.conv import conv_shape, grouped
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.windows import Window
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["ConvTransposeOp"]


class ConvTransposeOp(Relax.Operation, name="conv_transpose"):
    """The transpose of a convolution: every input element adds a scaled kernel to y.

    Attributes:
        strides, dilations, groups: of the convolution that it transposes.
        pads: elements cut off the result, before every spatial axis, then after.
        output_padding: elements added after every spatial axis; none stands for 0s.
    Shapes:
        x: [n, c, spatial...]; weight: [c, o / groups, kernel...];
        y: [n, o, spatial...], sizes by :func:`shapes.conv_transpose_output`.
    Source: ONNX ConvTranspose-11, without its bias.
    """

    x: Operand[RankedTensorType]
    weight: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    strides: DenseI64ArrayAttr
    pads: DenseI64ArrayAttr
    dilations: DenseI64ArrayAttr
    output_padding: DenseI64ArrayAttr
    groups: IntegerAttr

    tolerance = 1e-4  # f32 sums in another order
    cases = (
        Case((1, 3, 4, 5), (3, 2, 3, 3)),
        Case((2, 4, 3, 5), (4, 3, 2, 2), strides=(2, 2)),
        Case((1, 2, 5, 4), (2, 3, 4, 3), strides=(2, 3), pads=(1, 0, 1, 2)),
        Case((1, 2, 3, 3), (2, 2, 3, 3), strides=(3, 2), output_padding=(1, 1)),
        Case((1, 1, 3, 3), (1, 1, 2, 2), dilations=(2, 3)),
        Case((1, 6, 3, 4), (6, 2, 3, 3), strides=(2, 2), groups=2),
        Case((1, 5, 3, 4), (5, 1, 2, 2), strides=(2, 2), groups=5),
        Case((1, 3, 7), (3, 2, 4), strides=(2,), pads=(1, 1)),
        Case((1, 2, 2, 3, 2), (2, 1, 2, 2, 3), strides=(2, 1, 2)),
        Case((0, 2, 3, 3), (2, 1, 2, 2)),
        Case((1, 2, 3, 3, "float16"), (2, 3, 2, 2, "float16"), strides=(2, 2)),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        weight: RankedTensorType,
        strides: Sequence[int] = (),
        pads: Sequence[int] = (),
        dilations: Sequence[int] = (),
        output_padding: Sequence[int] = (),
        groups: int = 1,
    ) -> RankedTensorType:
        n, c, *sizes = conv_shape(x, weight)
        expected, per_group, *kernel = tensors.shape_of(weight)
        if shapes.is_known_unequal(c, expected):
            raise ValueError(f"weight expects {expected} input channels, got {c}")
        shapes.require_equal(c, expected)
        if shapes.mod(expected, groups) != 0:
            raise ValueError(
                f"{expected} input channels do not divide into {groups} groups"
            )
        window = Window.of(kernel, strides, pads, dilations)
        sizes = _transposed_sizes(sizes, window, output_padding)
        return tensors.tensor_type((n, per_group * groups, *sizes), tensors.dtype_of(x))

    @staticmethod
    def reference(
        x: np.ndarray,
        weight: np.ndarray,
        strides: Sequence[int] = (),
        pads: Sequence[int] = (),
        dilations: Sequence[int] = (),
        output_padding: Sequence[int] = (),
        groups: int = 1,
    ) -> np.ndarray:
        window = Window.of(weight.shape[2:], strides, pads, dilations)
        cropped = _transposed_sizes(x.shape[2:], window, output_padding)
        whole = _transposed_sizes(x.shape[2:], window.without_pads(), output_padding)
        sizes, y_sizes = (
            [shapes.evaluate(size, {}) for size in each] for each in (whole, cropped)
        )
        xs = grouped(x.astype(np.float64), 1, groups)
        w = grouped(weight.astype(np.float64), 0, groups)
        y = np.zeros((len(x), groups, w.shape[2], *sizes))
        steps = list(zip(window.strides, window.dilations, x.shape[2:], strict=True))
        for tap in np.ndindex(*weight.shape[2:]):
            where = tuple(
                slice(t * d, t * d + s * n, s)
                for t, (s, d, n) in zip(tap, steps, strict=True)
            )
            term = np.einsum("gco,ngc...->ngo...", w[(..., *tap)], xs, optimize=True)
            y[(..., *where)] += term
        pairs = zip(window.before, y_sizes, strict=True)
        y = y[(..., *(slice(begin, begin + size) for begin, size in pairs))]
        return y.reshape(len(x), groups * w.shape[2], *y_sizes).astype(x.dtype)

    def legalize(self, b: Builder) -> Buffer:
        x, weight = b.inputs
        attrs = self.python_attrs()
        groups = attrs.pop("groups")
        del attrs["output_padding"]
        window = Window.of(weight.shape[2:], **attrs)
        # A convolution of stride 1 over x spread out: it has the loops of one, too.
        spread = _spread(b, x, window, b.results[0][0][2:])
        flipped = _flipped(b, weight)
        plain = Window.of(window.kernel, (), (), window.dilations)

        def body(point: Point) -> Scalar:
            where = plain.positions(point.spatial, point.taps)
            own = spread[(point.n, point.read, *where)]
            by = flipped[(point.read, point.written_in_group, *point.taps)]
            return b.wide(own) * b.wide(by)

        inputs = shapes.floordiv(weight.shape[0], groups)
        channels = Channels(groups, inputs, weight.shape[1])
        return channels.reduce(b, window.kernel, body, "conv_transpose")


def _transposed_sizes(
    sizes: Sequence[Dim], window: Window, output_padding: Sequence[int]
) -> tuple[Dim, ...]:
    extra = tuple(output_padding) or (0,) * len(sizes)
    if len(extra) != len(sizes):
        raise ValueError(
            f"output_padding must be for {len(sizes)} axes, got {list(extra)}"
        )
    pads = zip(window.before, window.after, strict=True)
    return tuple(
        map(
            shapes.conv_transpose_output,
            sizes,
            window.kernel,
            window.strides,
            window.dilations,
            pads,
            extra,
        )
    )


def _spread(b: Builder, x: Buffer, window: Window, sizes: Sequence[Dim]) -> Buffer:
    """``x`` with its elements ``strides`` apart among zeros, padded for all windows."""
    reaches = [
        dilation * (size - 1)
        for dilation, size in zip(window.dilations, window.kernel, strict=True)
    ]
    shape = [size + reach for size, reach in zip(sizes, reaches, strict=True)]

    def body(*axes: Index) -> Scalar:
        where = list(axes[:2])
        conditions: list[Scalar] = []
        for axis, place in enumerate(axes[2:]):
            place = place + (window.before[axis] - reaches[axis])
            source = place // window.strides[axis]
            rest = place % window.strides[axis]
            conditions += [place >= 0, source < b.dim(x.shape[2 + axis])]
            if isinstance(rest, Index):
                conditions.append(rest.equal(0))
            where.append(source)
        inside = reduce(and_, conditions)
        return b.guarded(inside, lambda: x[tuple(where)], b.constant(0, x.dtype))

    return b.compute((*x.shape[:2], *shape), body, x.dtype, "spread")


def _flipped(b: Builder, weight: Buffer) -> Buffer:
    """The weight with its taps from last to first."""
    last = [b.dim(size - 1) for size in weight.shape[2:]]

    def body(*axes: Index) -> Scalar:
        taps = (end - tap for end, tap in zip(last, axes[2:], strict=True))
        return weight[(*axes[:2], *taps)]

    return b.compute(weight.shape, body, weight.dtype, "flip")

"""Transposed convolutions."""

from collections.abc import Mapping, Sequence
from functools import cache, reduce
from operator import and_
from typing import Any

import numpy as np
from mlir.ir import (
    DenseI64ArrayAttr,
    IntegerAttr,
    RankedTensorType,
    StringAttr,
    TypeAttr,
)

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.conv import (
    ConvFamilyOp,
    cast_to_accumulator,
    conv_dtype,
    conv_window,
    single_tap_window,
    split_groups,
    wide_array,
)
from relax_mlir.dialects.relax.conv_channels import ChannelAxes, ConvPoint
from relax_mlir.dialects.relax.window_attributes import SlidingWindow, expand_per_axis
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["Conv1dTransposeOp", "Conv2dTransposeOp", "Conv3dTransposeOp"]


class ConvTransposeOp(ConvFamilyOp):
    """Base of transposed convolutions: every input element adds a scaled kernel to y.

    Attributes:
        strides, dilation, groups: those of the corresponding convolution.
        padding: elements cropped from y before every spatial axis, then after every one.
        output_padding: elements added after every spatial axis of y.
        data_layout, kernel_layout, out_layout: layouts of data, weight (i input, o output
            channels) and y; an out_layout of None is that of data.
        out_dtype: the element type of y; None for that of data.
    Shapes, by letters of the layouts:
        data: n, c, spatial...; weight: i = c, o / groups, spatial...;
        y: n, o, spatial..., sizes by :func:`shapes.conv_transpose_output`.
    Source: ONNX ConvTranspose-11, without its bias.
    """

    data: Operand[RankedTensorType]
    weight: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    strides: DenseI64ArrayAttr
    padding: DenseI64ArrayAttr
    output_padding: DenseI64ArrayAttr
    dilation: DenseI64ArrayAttr
    groups: IntegerAttr
    data_layout: StringAttr
    kernel_layout: StringAttr
    out_layout: StringAttr | None
    out_dtype: TypeAttr | None

    kernel_letters = "IO"

    @classmethod
    @cache
    def attribute_defaults(cls) -> Mapping[str, Any]:
        own = super().attribute_defaults()
        return {**own, "output_padding": (0,) * cls.spatial_rank}

    @classmethod
    def normalize_arguments(cls, **attrs: Any) -> dict[str, Any]:  # Any: see the base
        merged = super().normalize_arguments(**attrs)
        extra = expand_per_axis(merged["output_padding"], cls.spatial_rank)
        return {**merged, "output_padding": extra}

    @classmethod
    def infer(
        cls, data: RankedTensorType, weight: RankedTensorType, **attrs: Any
    ) -> RankedTensorType:  # Any: attributes of every kind
        attrs = {**cls.attribute_defaults(), **attrs}
        layouts, groups = cls.layouts(attrs), attrs["groups"]
        n, c, *sizes = layouts.data.to_plain(tensors.shape_of(data))
        expected, per_group, *kernel = layouts.kernel.to_plain(tensors.shape_of(weight))
        if shapes.is_known_unequal(c, expected):
            raise ValueError(f"weight expects {expected} input channels, got {c}")
        shapes.require_equal(c, expected)
        shapes.require_multiple(expected, groups, "input channels")
        one = single_tap_window(kernel, attrs)
        sizes = _transposed_sizes(sizes, kernel, one, attrs["output_padding"])
        shape = (n, per_group * groups, *sizes)
        dtype = conv_dtype(data, weight, attrs["out_dtype"])
        return tensors.tensor_type(layouts.out.from_plain(shape), dtype)

    @classmethod
    def reference(
        cls, data: np.ndarray, weight: np.ndarray, **attrs: Any
    ) -> np.ndarray:  # Any: attributes of every kind
        attrs = {**cls.attribute_defaults(), **attrs}
        layouts = cls.layouts(attrs)
        dtype = attrs["out_dtype"] or dtypes.from_numpy(data.dtype)
        x = layouts.data.array_to_plain(wide_array(data, dtype))
        w = layouts.kernel.array_to_plain(wide_array(weight, dtype))
        y = _transposed(x, w, attrs).astype(dtype.numpy)
        return layouts.out.array_from_plain(y)

    def legalize(self, b: Builder) -> Buffer:
        attrs = self.python_attrs()
        layouts, groups = self.layouts(attrs), attrs["groups"]
        x = layouts.data.buffer(b.inputs[0])
        weight = layouts.kernel.buffer(b.inputs[1])
        kernel = weight.shape[2:]
        window = single_tap_window(kernel, attrs)
        sizes = layouts.out.to_plain(b.results[0][0])[2:]
        # A convolution of stride 1 over the zero-stuffed x, with a flipped kernel.
        stuffed = _zero_stuffed(b, x, kernel, window, sizes)
        flipped = _flipped(b, weight)
        plain = SlidingWindow.of(window.kernel, (), (), window.dilations)

        def body(point: ConvPoint) -> Scalar:
            where = plain.positions(point.spatial, point.taps)
            lhs = stuffed[(point.n, point.read, *where)]
            rhs = flipped[(point.read, point.written_in_group, *point.taps)]
            return cast_to_accumulator(b, lhs) * cast_to_accumulator(b, rhs)

        inputs = shapes.floordiv(weight.shape[0], groups)
        channels = ChannelAxes(groups, inputs, weight.shape[1])
        order = layouts.out.order
        return channels.reduce(b, kernel, body, "conv_transpose", order)


def _transposed(x: np.ndarray, w: np.ndarray, attrs: Mapping[str, Any]) -> np.ndarray:
    """The transposed convolution of arrays in the plain layouts."""
    window, groups = conv_window(w.shape[2:], attrs), attrs["groups"]
    extra = attrs["output_padding"]
    cropped = _transposed_sizes(x.shape[2:], window.kernel, window, extra)
    full = _transposed_sizes(x.shape[2:], window.kernel, window.without_pads(), extra)
    sizes, y_sizes = (
        [shapes.evaluate(size, {}) for size in each] for each in (full, cropped)
    )
    xs, ws = split_groups(x, 1, groups), split_groups(w, 0, groups)
    y = np.zeros((len(x), groups, ws.shape[2], *sizes), x.dtype)
    steps = list(zip(window.strides, window.dilations, x.shape[2:], strict=True))
    for tap in np.ndindex(*w.shape[2:]):
        where = tuple(
            slice(t * d, t * d + s * n, s)
            for t, (s, d, n) in zip(tap, steps, strict=True)
        )
        scaled = np.einsum("gco,ngc...->ngo...", ws[(..., *tap)], xs, optimize=True)
        y[(..., *where)] += scaled
    pairs = zip(window.before, y_sizes, strict=True)
    y = y[(..., *(slice(begin, begin + size) for begin, size in pairs))]
    return y.reshape(len(x), groups * ws.shape[2], *y_sizes)


def _transposed_sizes(
    sizes: Sequence[Dim],
    kernel: Sequence[Dim],
    window: SlidingWindow,
    output_padding: Sequence[int],
) -> tuple[Dim, ...]:
    """The spatial sizes of the result; the kernel of ``window`` is not used."""
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
            kernel,
            window.strides,
            window.dilations,
            pads,
            extra,
        )
    )


def _zero_stuffed(
    b: Builder,
    x: Buffer,
    kernel: Sequence[Dim],
    window: SlidingWindow,
    sizes: Sequence[Dim],
) -> Buffer:
    """``x`` with ``strides`` - 1 zeros between its elements, padded for all windows."""
    reaches = [
        dilation * (size - 1)
        for dilation, size in zip(window.dilations, kernel, strict=True)
    ]
    shape = [size + reach for size, reach in zip(sizes, reaches, strict=True)]

    def body(*axes: Index) -> Scalar:
        where = list(axes[:2])
        conditions: list[Scalar] = []
        for axis, position in enumerate(axes[2:]):
            position = position + b.dim(window.before[axis] - reaches[axis])
            source = position // window.strides[axis]
            rest = position % window.strides[axis]
            conditions += [position >= 0, source < b.dim(x.shape[2 + axis])]
            if isinstance(rest, Index):
                conditions.append(rest.equal(0))
            where.append(source)
        inside = reduce(and_, conditions)
        return b.read_if(inside, lambda: x[tuple(where)], b.constant(0, x.dtype))

    return b.compute((*x.shape[:2], *shape), body, x.dtype, "spread")


def _flipped(b: Builder, weight: Buffer) -> Buffer:
    """The weight with its spatial axes reversed."""
    last = [b.dim(size - 1) for size in weight.shape[2:]]

    def body(*axes: Index) -> Scalar:
        taps = (end - tap for end, tap in zip(last, axes[2:], strict=True))
        return weight[(*axes[:2], *taps)]

    return b.compute(weight.shape, body, weight.dtype, "flip")


class Conv1dTransposeOp(ConvTransposeOp, name="nn_conv1d_transpose"):
    """Transposed convolution over one spatial axis."""

    spatial_rank = 1
    cases = (
        Case((1, 3, 7), (3, 2, 4), strides=(2,), padding=(1, 1)),
        Case(
            (1, 5, 4),
            (3, 2, 4),
            strides=(2,),
            output_padding=(1,),
            data_layout="NWC",
            kernel_layout="WOI",
        ),
    )


class Conv2dTransposeOp(ConvTransposeOp, name="nn_conv2d_transpose"):
    """Transposed convolution over two spatial axes."""

    spatial_rank = 2
    cases = (
        Case((1, 3, 4, 5), (3, 2, 3, 3)),
        Case((2, 4, 3, 5), (4, 3, 2, 2), strides=(2, 2)),
        Case((1, 2, 5, 4), (2, 3, 4, 3), strides=(2, 3), padding=(1, 0, 1, 2)),
        Case((1, 2, 3, 3), (2, 2, 3, 3), strides=(3, 2), output_padding=(1, 1)),
        Case((1, 1, 3, 3), (1, 1, 2, 2), dilation=(2, 3)),
        Case((1, 6, 3, 4), (6, 2, 3, 3), strides=(2, 2), groups=2),
        Case((1, 5, 3, 4), (5, 1, 2, 2), strides=(2, 2), groups=5),
        Case((0, 2, 3, 3), (2, 1, 2, 2)),
        Case((1, 2, 3, 3, "float16"), (2, 3, 2, 2, "float16"), strides=(2, 2)),
        Case(
            (1, 3, 4, 2),
            (2, 3, 3, 2),
            strides=(2, 1),
            data_layout="NHWC",
            kernel_layout="IHWO",
            out_layout="NCHW",
        ),
        Case(
            (1, 2, 3, 3, "int8"),
            (2, 3, 2, 2, "int8"),
            out_dtype=dtypes.dtype("int32"),
            low=-99,
            high=99,
        ),
    )


class Conv3dTransposeOp(ConvTransposeOp, name="nn_conv3d_transpose"):
    """Transposed convolution over three spatial axes."""

    spatial_rank = 3
    cases = (Case((1, 2, 2, 3, 2), (2, 1, 2, 2, 3), strides=(2, 1, 2)),)

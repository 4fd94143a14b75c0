"""Convolutions."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
from mlir.ir import (
    DenseI64ArrayAttr,
    IntegerAttr,
    RankedTensorType,
    StringAttr,
    TypeAttr,
)

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.attribute_arguments import element_type
from relax_mlir.dialects.relax.conv_channels import ChannelAxes, ConvPoint
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.layouts import SPATIAL, Layout
from relax_mlir.dialects.relax.padding import read_padded
from relax_mlir.dialects.relax.window_attributes import (
    SlidingWindow,
    expand_padding,
    expand_per_axis,
    kernel_taps,
)
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = [
    "Conv1dOp",
    "Conv2dOp",
    "Conv3dOp",
    "ConvFamilyOp",
    "ConvLayouts",
    "ConvOp",
    "cast_to_accumulator",
    "conv_dtype",
    "conv_window",
    "split_groups",
]


class ConvLayouts:
    """The layouts of a convolution's operands and result.

    Args:
        spatial: the letters of the spatial axes.
        kernel: the letters of the weight's channels in its plain layout.
        data_layout, kernel_layout, out_layout: attributes of the operation.
    """

    def __init__(
        self,
        spatial: str,
        kernel: str,
        data_layout: str,
        kernel_layout: str,
        out_layout: str | None,
    ) -> None:
        self.data = Layout(data_layout, f"NC{spatial}")
        self.kernel = Layout(kernel_layout, f"{kernel}{spatial}")
        self.out = Layout(out_layout or data_layout, f"NC{spatial}")


class ConvFamilyOp(Relax.Operation):
    """Base of convolutions and transposed convolutions: attributes and layouts."""

    spatial_rank: ClassVar[int]
    kernel_letters: ClassVar[str]  # the weight's channels in its plain layout

    tolerance = 1e-4  # f32 sums in another order

    reference_rate = 1e8
    reference_scratch_bytes = 0  # one window element at a time

    @classmethod
    @cache
    def attribute_defaults(cls) -> Mapping[str, Any]:
        rank, spatial = cls.spatial_rank, SPATIAL[cls.spatial_rank]
        return {
            "strides": (1,) * rank,
            "padding": (0,) * (2 * rank),
            "dilation": (1,) * rank,
            "groups": 1,
            "data_layout": f"NC{spatial}",
            "kernel_layout": f"{cls.kernel_letters}{spatial}",
            "out_layout": None,
            "out_dtype": None,
        }

    @classmethod
    def normalize_arguments(cls, **attrs: Any) -> dict[str, Any]:  # Any: see the base
        rank, merged = cls.spatial_rank, {**cls.attribute_defaults(), **attrs}
        return {
            **merged,
            "strides": expand_per_axis(merged["strides"], rank),
            "padding": expand_padding(merged["padding"], rank),
            "dilation": expand_per_axis(merged["dilation"], rank),
            "out_layout": merged["out_layout"] or merged["data_layout"],
            "out_dtype": element_type(merged["out_dtype"]),
        }

    @classmethod
    def layouts(cls, attrs: Mapping[str, Any]) -> ConvLayouts:
        """The layouts given by the attributes."""
        names = ("data_layout", "kernel_layout", "out_layout")
        spatial = SPATIAL[cls.spatial_rank]
        return ConvLayouts(spatial, cls.kernel_letters, *(attrs[n] for n in names))


class ConvOp(ConvFamilyOp):
    """Base of convolutions (cross-correlations) without bias.

    f16 and bf16 are accumulated in f32.

    Attributes:
        strides, dilation: one number per spatial axis.
        padding: zero padding before every spatial axis, then after every one.
        groups: number of groups of input and output channels that are convolved separately.
        data_layout, kernel_layout, out_layout: layouts of data, weight (i input, o output
            channels) and y; an out_layout of None is that of data.
        out_dtype: the element type of y; None for that of data.
    Shapes, by letters of the layouts:
        data: n, c, spatial...; weight: o, i = c / groups, spatial...;
        y: n, o, spatial..., sizes by :func:`shapes.conv_output`.
    Source: ONNX Conv-11, without its bias.
    """

    data: Operand[RankedTensorType]
    weight: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    strides: DenseI64ArrayAttr
    padding: DenseI64ArrayAttr
    dilation: DenseI64ArrayAttr
    groups: IntegerAttr
    data_layout: StringAttr
    kernel_layout: StringAttr
    out_layout: StringAttr | None
    out_dtype: TypeAttr | None

    kernel_letters = "OI"

    @classmethod
    def infer(
        cls, data: RankedTensorType, weight: RankedTensorType, **attrs: Any
    ) -> RankedTensorType:  # Any: attributes of every kind
        attrs = {**cls.attribute_defaults(), **attrs}
        layouts, groups = cls.layouts(attrs), attrs["groups"]
        n, c, *sizes = layouts.data.to_plain(tensors.shape_of(data))
        o, per_group, *kernel = layouts.kernel.to_plain(tensors.shape_of(weight))
        shapes.require_multiple(o, groups, "output channels")
        if shapes.is_known_unequal(c, per_group * groups):
            raise ValueError(
                f"weight expects {per_group * groups} input channels, got {c}"
            )
        shapes.require_equal(c, per_group * groups)
        shape = (n, o, *_window_counts(kernel, sizes, attrs))
        dtype = conv_dtype(data, weight, attrs["out_dtype"])
        return tensors.tensor_type(layouts.out.from_plain(shape), dtype)

    @classmethod
    def reference(
        cls, data: np.ndarray, weight: np.ndarray, **attrs: Any
    ) -> np.ndarray:  # Any: attributes of every kind
        attrs = {**cls.attribute_defaults(), **attrs}
        layouts, groups = cls.layouts(attrs), attrs["groups"]
        dtype = attrs["out_dtype"] or dtypes.from_numpy(data.dtype)
        x = layouts.data.array_to_plain(wide_array(data, dtype))
        w = layouts.kernel.array_to_plain(wide_array(weight, dtype))
        window = conv_window(w.shape[2:], attrs)
        sizes = window.counts(x.shape[2:])
        w = split_groups(w, 0, groups)
        y = np.zeros((x.shape[0], groups, w.shape[1], *sizes), x.dtype)
        for tap, read in kernel_taps(x, window, sizes, 0.0):
            y += np.einsum(
                "goc,ngc...->ngo...",
                w[(..., *tap)],
                split_groups(read, 1, groups),
                optimize=True,
            )
        y = y.reshape(x.shape[0], groups * w.shape[1], *sizes).astype(dtype.numpy)
        return layouts.out.array_from_plain(y)

    def legalize(self, b: Builder) -> Buffer:
        attrs = self.python_attrs()
        layouts, groups = self.layouts(attrs), attrs["groups"]
        x = layouts.data.buffer(b.inputs[0])
        weight = layouts.kernel.buffer(b.inputs[1])
        kernel = weight.shape[2:]
        window = single_tap_window(kernel, attrs)
        if window.is_padded:
            x, window = _zero_padded(b, x, window), window.without_pads()
        channels = ChannelAxes(
            groups, weight.shape[1], shapes.floordiv(weight.shape[0], groups)
        )

        def body(point: "ConvPoint") -> Scalar:
            where = window.positions(point.spatial, point.taps)
            lhs = x[(point.n, point.read, *where)]
            rhs = weight[(point.written, point.read_in_group, *point.taps)]
            return cast_to_accumulator(b, lhs) * cast_to_accumulator(b, rhs)

        return channels.reduce(b, kernel, body, "conv", layouts.out.order)


def conv_window(kernel: Sequence[Any], attrs: Mapping[str, Any]) -> SlidingWindow:
    """The window described by convolution attributes; Any: sizes of types and arrays."""
    return SlidingWindow.of(
        kernel, attrs["strides"], attrs["padding"], attrs["dilation"]
    )


def single_tap_window(kernel: Sequence[Dim], attrs: Mapping[str, Any]) -> SlidingWindow:
    """The window of a single tap, for kernels of symbolic size."""
    return conv_window((1,) * len(kernel), attrs)


def _window_counts(
    kernel: Sequence[Dim], sizes: Sequence[Dim], attrs: Mapping[str, Any]
) -> tuple[Dim, ...]:
    """The number of windows per axis, for a kernel of possibly symbolic size."""
    if all(isinstance(size, int) for size in kernel):
        return conv_window(kernel, attrs).conv_sizes(sizes)
    one = single_tap_window(kernel, attrs)
    return tuple(
        map(
            shapes.conv_output,
            sizes,
            kernel,
            one.strides,
            one.dilations,
            one.before,
            one.after,
        )
    )


def wide_array(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Converts an array to the accumulator type of the numpy reference."""
    integer = (
        dtype.numpy if dtype.bits >= 8 else np.int32
    )  # einsum needs 8 bits or more
    return array.astype(np.float64 if dtype.is_float else integer)


def cast_to_accumulator(b: Builder, operand: Scalar) -> Scalar:
    """Casts an element to the accumulator type of the result."""
    return b.cast(operand, b.accumulator_dtype(b.results[0][1]))


def conv_dtype(
    data: RankedTensorType, weight: RankedTensorType, out_dtype: DType | None
) -> DType:
    """The element type of the result of a convolution.

    Raises:
        ValueError: the types of the operands differ, and ``out_dtype`` is None.
    """
    if out_dtype is None and tensors.dtype_of(data) != tensors.dtype_of(weight):
        raise ValueError(
            f"operands must have one element type, got {tensors.dtype_of(data)} "
            f"and {tensors.dtype_of(weight)}"
        )
    return tensors.dtype_of(data) if out_dtype is None else out_dtype


def split_groups(array: np.ndarray, axis: int, groups: int) -> np.ndarray:
    """Splits ``axis`` into groups and channels per group."""
    shape = array.shape
    per_group = shape[axis] // groups
    return array.reshape(*shape[:axis], groups, per_group, *shape[axis + 1 :])


def _zero_padded(b: Builder, x: Buffer, window: SlidingWindow) -> Buffer:
    before, after = (0, 0, *window.before), (0, 0, *window.after)
    shape = shapes.pad_shape(x.shape, (*before, *after))
    padded = [axis for axis in range(x.rank) if before[axis] or after[axis]]

    def body(*axes: Index) -> Scalar:
        where = [axis - pad for axis, pad in zip(axes, before, strict=True)]
        return read_padded(b, x, where, padded, b.constant(0, x.dtype))

    return b.compute(shape, body, x.dtype, "pad")


class Conv1dOp(ConvOp, name="nn_conv1d"):
    """Convolution over one spatial axis."""

    spatial_rank = 1
    cases = (
        Case((2, 3, 17), (4, 3, 5), strides=(2,), padding=(2, 2)),
        Case((1, 4, 9), (6, 2, 3), groups=2, dilation=(2,)),
        Case(
            (1, 9, 4),
            (3, 4, 6),
            padding=(1, 0),
            data_layout="NWC",
            kernel_layout="WIO",
        ),
        Case(
            (1, 3, 7, "float16"),
            (4, 3, 3, "float16"),
            out_dtype=dtypes.dtype("float32"),
        ),
    )


class Conv2dOp(ConvOp, name="nn_conv2d"):
    """Convolution over two spatial axes."""

    spatial_rank = 2
    cases = (
        Case((1, 3, 7, 5), (2, 3, 3, 3)),
        Case((2, 3, 8, 8), (5, 3, 3, 3), padding=(1, 1, 1, 1)),
        Case((1, 4, 9, 7), (6, 4, 1, 1), strides=(2, 2)),
        Case((1, 3, 11, 13), (7, 3, 3, 5), strides=(2, 3), padding=(0, 2, 1, 1)),
        Case((1, 2, 9, 9), (3, 2, 3, 3), dilation=(2, 3), padding=(2, 3, 2, 3)),
        Case((1, 5, 7, 7), (5, 1, 3, 3), padding=(1, 1, 1, 1), groups=5),
        Case((2, 4, 6, 5), (8, 1, 3, 3), strides=(2, 1), groups=4),
        Case((1, 6, 5, 5), (4, 3, 3, 3), padding=(1, 1, 1, 1), groups=2),
        Case((0, 3, 5, 5), (2, 3, 3, 3)),
        Case((1, 1, 1, 1), (1, 1, 1, 1)),
        Case((1, 3, 8, 5, "float64"), (2, 3, 3, 3, "float64"), padding=(1, 1, 1, 1)),
        Case((1, 3, 6, 5, "float16"), (2, 3, 3, 3, "float16"), padding=(1, 1, 1, 1)),
        Case((1, 16, 14, 14), (32, 16, 3, 3), padding=(1, 1, 1, 1)),
        Case(
            (1, 7, 5, 3),
            (3, 3, 3, 2),
            padding=(1, 0, 1, 2),
            data_layout="NHWC",
            kernel_layout="HWIO",
        ),
        Case(
            (1, 7, 5, 4),
            (6, 3, 3, 2),
            groups=2,
            data_layout="NHWC",
            kernel_layout="OHWI",
            out_layout="NCHW",
        ),
        Case((1, 4, 6, 5), (3, 2, 1, 4), kernel_layout="OHWI", out_layout="NHWC"),
        Case(
            (1, 2, 5, 5, "int8"),
            (3, 2, 3, 3, "int8"),
            padding=(1, 1, 1, 1),
            out_dtype=dtypes.dtype("int32"),
            low=-99,
            high=99,
        ),
        Case((1, 2, 5, 5), (3, 2, 3, 3), out_dtype=dtypes.dtype("float16")),
    )


class Conv3dOp(ConvOp, name="nn_conv3d"):
    """Convolution over three spatial axes."""

    spatial_rank = 3
    cases = (
        Case((1, 2, 5, 6, 7), (3, 2, 2, 3, 3), padding=(0, 1, 1, 1, 1, 0)),
        Case(
            (1, 4, 3, 5, 2),
            (2, 2, 3, 2, 3),
            data_layout="NDHWC",
            kernel_layout="DHWIO",
        ),
    )

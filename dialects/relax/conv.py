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
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.relax.arguments import element_type
from relax_mlir.dialects.relax.channels import Channels, Point
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.layouts import SPATIAL, Layout
from relax_mlir.dialects.relax.padding import read_padded
from relax_mlir.dialects.relax.windows import Window, padding_of, per_axis, taps
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = [
    "Conv1dOp",
    "Conv2dOp",
    "Conv3dOp",
    "ConvFamilyOp",
    "ConvLayouts",
    "ConvOp",
    "conv_dtype",
    "conv_window",
    "grouped",
    "widened",
]


class ConvLayouts:
    """The layouts of a convolution's operands and of its result.

    Args:
        spatial: the letters of the spatial axes.
        kernel: the letters of the weight's channels in its plain layout.
        data_layout, kernel_layout, out_layout: of the operation.
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
    """What convolutions and transposed ones share: attributes per spatial axis, layouts."""

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
        rank, whole = cls.spatial_rank, {**cls.attribute_defaults(), **attrs}
        return {
            **whole,
            "strides": per_axis(whole["strides"], rank),
            "padding": padding_of(whole["padding"], rank),
            "dilation": per_axis(whole["dilation"], rank),
            "out_layout": whole["out_layout"] or whole["data_layout"],
            "out_dtype": element_type(whole["out_dtype"]),
        }

    @classmethod
    def layouts(cls, attrs: Mapping[str, Any]) -> ConvLayouts:
        """The layouts that its attributes tell."""
        names = ("data_layout", "kernel_layout", "out_layout")
        spatial = SPATIAL[cls.spatial_rank]
        return ConvLayouts(spatial, cls.kernel_letters, *(attrs[n] for n in names))


class ConvOp(ConvFamilyOp):
    """Base of convolutions without bias: sums of products over sliding windows.

    Attributes:
        strides, dilation: one number per spatial axis.
        padding: zeros before every spatial axis, then after every one.
        groups: input and output channels are cut into so many parts, which do not see
            each other.
        data_layout, kernel_layout, out_layout: what the axes of data, weight and y stand
            for, n batch, c and i input channels, o output channels; None for the layout
            of data.
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
        w = grouped(w, 0, groups)
        y = np.zeros((x.shape[0], groups, w.shape[1], *sizes), x.dtype)
        for tap, read in taps(x, window, sizes, 0.0):
            y += np.einsum(
                "goc,ngc...->ngo...",
                w[(..., *tap)],
                grouped(read, 1, groups),
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
        window = tap_window(kernel, attrs)
        if window.is_padded:
            x, window = _zero_padded(b, x, window), window.without_pads()
        channels = Channels(
            groups, weight.shape[1], shapes.floordiv(weight.shape[0], groups)
        )

        def body(point: "Point") -> Scalar:
            where = window.positions(point.spatial, point.taps)
            own = x[(point.n, point.read, *where)]
            by = weight[(point.written, point.read_in_group, *point.taps)]
            return widened(b, own) * widened(b, by)

        return channels.reduce(b, kernel, body, "conv", layouts.out.order)


def conv_window(kernel: Sequence[Any], attrs: Mapping[str, Any]) -> Window:
    """Where the windows lie; Any: sizes of types and of arrays."""
    return Window.of(kernel, attrs["strides"], attrs["padding"], attrs["dilation"])


def tap_window(kernel: Sequence[Dim], attrs: Mapping[str, Any]) -> Window:
    """Where one tap of a kernel lies; the kernel's sizes may be symbolic."""
    return conv_window((1,) * len(kernel), attrs)


def _window_counts(
    kernel: Sequence[Dim], sizes: Sequence[Dim], attrs: Mapping[str, Any]
) -> tuple[Dim, ...]:
    """How many windows there are, of a kernel whose sizes may be symbolic."""
    if all(isinstance(size, int) for size in kernel):
        return conv_window(kernel, attrs).conv_sizes(sizes)
    one = tap_window(kernel, attrs)
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
    """An array in a type in which sums for a result of ``dtype`` are exact enough."""
    whole = dtype.numpy if dtype.bits >= 8 else np.int32  # einsum knows no smaller ones
    return array.astype(np.float64 if dtype.is_float else whole)


def widened(b: Builder, operand: Scalar) -> Scalar:
    """An element in the type in which sums for the result are kept."""
    return b.cast(operand, b.sum_dtype(b.results[0][1]))


def conv_dtype(
    data: RankedTensorType, weight: RankedTensorType, out_dtype: DType | None
) -> DType:
    """The element type of the result.

    Raises:
        ValueError: the operands have different ones, and ``out_dtype`` is not given.
    """
    if out_dtype is None and tensors.dtype_of(data) != tensors.dtype_of(weight):
        raise ValueError(
            f"operands must have one element type, got {tensors.dtype_of(data)} "
            f"and {tensors.dtype_of(weight)}"
        )
    return tensors.dtype_of(data) if out_dtype is None else out_dtype


def grouped(array: np.ndarray, axis: int, groups: int) -> np.ndarray:
    """``axis`` as two: groups, and channels of a group."""
    shape = array.shape
    per_group = shape[axis] // groups
    return array.reshape(*shape[:axis], groups, per_group, *shape[axis + 1 :])


def _zero_padded(b: Builder, x: Buffer, window: Window) -> Buffer:
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

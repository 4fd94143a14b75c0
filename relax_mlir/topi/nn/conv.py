"""Convolutions of any number of dimensions, in any layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir import te
from relax_mlir.objects.prim.terms import Term, Terms
from relax_mlir.te import Tensor
from relax_mlir.topi.nn.padding import get_pad_tuple_generic, pad
from relax_mlir.topi.sizes import as_int, get_const_tuple, plain

__all__ = [
    "conv",
    "conv1d",
    "conv1d_ncw",
    "conv1d_nwc",
    "conv2d",
    "conv2d_hwcn",
    "conv2d_nchw",
    "conv2d_nhwc",
    "conv3d_ncdhw",
    "conv3d_ndhwc",
    "depthwise_conv2d_nchw",
    "depthwise_conv2d_nhwc",
    "group_conv1d_ncw",
    "group_conv1d_nwc",
    "group_conv2d_nchw",
    "group_conv2d_nhwc",
]


class _Axes:
    """Where batch, channels and the other dimensions of a layout lie.

    Args:
        layout: letters.
        first: the letters that come first in the plain order.
    """

    def __init__(self, layout: str, first: str) -> None:
        if any(letter not in layout for letter in first):
            raise ValueError(f"layout `{layout}`: expected one with all of {first}")
        others = [i for i, letter in enumerate(layout) if letter not in first]
        self.places = [*(layout.index(letter) for letter in first), *others]

    def plain(self, values: Sequence[Any]) -> list[Any]:
        """What belongs to the axes of the layout, in the plain order."""
        if len(values) != len(self.places):
            raise ValueError(
                f"expected {len(self.places)} dimensions, as layouts have, got {values}"
            )
        return [values[place] for place in self.places]

    def laid_out(self, values: Sequence[Any]) -> list[Any]:
        """What stands in the plain order, in the order of the layout."""
        found: list[Any] = [None] * len(values)
        for place, value in zip(self.places, values, strict=True):
            found[place] = value
        return found


def _listed(values: Any, rank: int, what: str) -> list[Any]:
    """One number per dimension.

    Raises:
        ValueError: there are as many as there are no dimensions.
    """
    listed = list(values) if isinstance(values, (tuple, list)) else [values] * rank
    if len(listed) != rank:
        raise ValueError(f"conv: expected {rank} {what}, got {values}")
    return listed


def _kernel_layout(data_layout: str, kernel_layout: str) -> str:
    """The layout of the weights, if none is said: channels where those of data are."""
    if kernel_layout:
        return kernel_layout
    others = [letter for letter in data_layout if letter not in "NC"]
    channels_first = data_layout.index("C") < data_layout.index(others[0])
    return "OI" + "".join(others) if channels_first else "".join(others) + "IO"


def _check_groups(groups: int, **channels: Any) -> None:
    if groups < 1:
        raise ValueError(f"conv: expected 1 group or more, got {groups}")
    for name, count in channels.items():
        number = as_int(count)
        if number is not None and number % groups:
            raise ValueError(
                f"conv: {number} {name} channels do not make {groups} groups"
            )


def conv(
    inp: Tensor,
    filt: Tensor,
    stride: Terms,
    padding: Terms | str,
    dilation: Terms,
    groups: int,
    data_layout: str,
    kernel_layout: str = "",
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str | None = None,
    meta_schedule_original_shape: Any = None,
    auto_scheduler_should_rewrite_layout: bool = False,
) -> Tensor:
    """A convolution.

    Args:
        inp: the data.
        filt: the weights.
        stride: how far windows lie apart, one number or one per dimension.
        padding: zeros around the data, see ``get_pad_tuple_generic``.
        dilation: how far the elements of a window lie apart.
        groups: how many groups of channels see only each other.
        data_layout: such as ``NCHW``.
        kernel_layout: such as ``OIHW``; by default what goes with the data's.
        out_dtype: of the sum; by default that of the data.
        auto_scheduler_rewritten_layout: not used.
        meta_schedule_original_shape: not used.
        auto_scheduler_should_rewrite_layout: whether the weights may be laid out anew.

    Raises:
        ValueError: sizes do not fit.
    """
    rank = inp.ndim - 2
    dtype = out_dtype or inp.dtype
    strides = _listed(stride, rank, "strides")
    dilations = _listed(dilation, rank, "dilations")
    axes = _Axes(data_layout, "NC")
    kernel_axes = _Axes(_kernel_layout(data_layout, kernel_layout), "OI")
    batch, in_channels, *sizes = axes.plain(get_const_tuple(inp.shape))
    out_channels, _, *kernel = kernel_axes.plain(get_const_tuple(filt.shape))
    _check_groups(groups, input=in_channels, output=out_channels)
    spread = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    before, after = get_pad_tuple_generic(padding, spread)
    windows = zip(sizes, spread, before, after, strides, strict=True)
    out_sizes = [plain((n - k + b + a) // s + 1) for n, k, b, a, s in windows]
    _check_sizes(out_sizes)
    padded = pad(
        inp,
        axes.laid_out([0, 0, *before]),
        axes.laid_out([0, 0, *after]),
        name="pad_temp",
    )
    rc = te.reduce_axis((0, in_channels // groups), name="rc")
    rs = [te.reduce_axis((0, k), f"r{c}") for k, c in zip(kernel, "yxz", strict=False)]

    def element(*indices: Any) -> Any:
        n, f, *window = axes.plain(indices)
        channel = rc.var
        if groups > 1:
            own = f // (out_channels // groups)
            channel = own * (in_channels // groups) + rc.var
        steps = zip(window, strides, rs, dilations, strict=True)
        places = [i * s + r.var * d for i, s, r, d in steps]
        value = padded(*axes.laid_out([n, channel, *places]))
        weight = filt(*kernel_axes.laid_out([f, rc.var, *(r.var for r in rs)]))
        return te.sum(value.astype(dtype) * weight.astype(dtype), axis=order)

    order = [axis for axis in axes.laid_out([None, rc, *rs]) if axis is not None]
    name = f"{'group_' if groups > 1 else ''}conv{rank}d_{data_layout.lower()}"
    free = {"layout_free_placeholders": [filt]}
    return te.compute(
        axes.laid_out([batch, out_channels, *out_sizes]),
        element,
        name,
        name,
        free if auto_scheduler_should_rewrite_layout else None,
        axes.laid_out(["nn", "ff", *("yy", "xx", "zz")[:rank]]),
    )


def _check_sizes(sizes: Sequence[Term]) -> None:
    if any((as_int(size) or 1) <= 0 for size in sizes):
        raise ValueError(f"conv: expected positive sizes of the result, got {sizes}")


def conv1d(
    data: Tensor,
    kernel: Tensor,
    strides: Terms = 1,
    padding: Terms | str = "VALID",
    dilation: Terms = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> Tensor:
    """A convolution of one dimension."""
    return conv(
        *(data, kernel, strides, padding, dilation, groups),
        *(data_layout, kernel_layout, out_dtype),
    )


def conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: Terms = 1,
    padding: Terms | str = "VALID",
    dilation: Terms = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """A convolution of one dimension, channels last."""
    return conv(data, kernel, strides, padding, dilation, 1, "NWC", "WIO", out_dtype)


def conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: Terms = 1,
    padding: Terms | str = "VALID",
    dilation: Terms = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """A convolution of one dimension, channels first."""
    return conv(data, kernel, strides, padding, dilation, 1, "NCW", "OIW", out_dtype)


def group_conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: Terms = 1,
    padding: Terms | str = "VALID",
    dilation: Terms = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """A convolution of one dimension in groups, channels last."""
    return conv(
        data, kernel, strides, padding, dilation, groups, "NWC", "WIO", out_dtype
    )


def group_conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: Terms = 1,
    padding: Terms | str = "VALID",
    dilation: Terms = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """A convolution of one dimension in groups, channels first."""
    return conv(
        data, kernel, strides, padding, dilation, groups, "NCW", "OIW", out_dtype
    )


def conv2d(
    input: Tensor,
    filter: Tensor,
    strides: Terms,
    padding: Terms | str,
    dilation: Terms,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> Tensor:
    """A convolution of two dimensions."""
    return conv(
        *(input, filter, strides, padding, dilation, 1),
        *(data_layout, kernel_layout, out_dtype),
    )


def conv2d_nchw(
    Input: Tensor,  # noqa: N803  TVM's names
    Filter: Tensor,  # noqa: N803
    stride: Terms,
    padding: Terms | str,
    dilation: Terms,
    out_dtype: str | None = None,
) -> Tensor:
    """A convolution of two dimensions, channels first."""
    return conv(Input, Filter, stride, padding, dilation, 1, "NCHW", "OIHW", out_dtype)


def conv2d_hwcn(
    Input: Tensor,  # noqa: N803
    Filter: Tensor,  # noqa: N803
    stride: Terms,
    padding: Terms | str,
    dilation: Terms,
    out_dtype: str | None = None,
) -> Tensor:
    """A convolution of two dimensions, the batch last."""
    return conv(Input, Filter, stride, padding, dilation, 1, "HWCN", "HWIO", out_dtype)


def conv2d_nhwc(
    Input: Tensor,  # noqa: N803
    Filter: Tensor,  # noqa: N803
    stride: Terms,
    padding: Terms | str,
    dilation: Terms,
    out_dtype: str | None = "float32",
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """A convolution of two dimensions, channels last."""
    return conv(
        *(Input, Filter, stride, padding, dilation, 1, "NHWC", "HWIO", out_dtype),
        auto_scheduler_should_rewrite_layout=True,
    )


def group_conv2d_nchw(
    Input: Tensor,  # noqa: N803
    Filter: Tensor,  # noqa: N803
    stride: Terms,
    padding: Terms | str,
    dilation: Terms,
    groups: int,
    out_dtype: str | None = None,
) -> Tensor:
    """A convolution of two dimensions in groups, channels first."""
    return conv(
        Input, Filter, stride, padding, dilation, groups, "NCHW", "OIHW", out_dtype
    )


def group_conv2d_nhwc(
    Input: Tensor,  # noqa: N803
    Filter: Tensor,  # noqa: N803
    stride: Terms,
    padding: Terms | str,
    dilation: Terms,
    groups: int,
    out_dtype: str | None = None,
) -> Tensor:
    """A convolution of two dimensions in groups, channels last."""
    return conv(
        Input, Filter, stride, padding, dilation, groups, "NHWC", "HWIO", out_dtype
    )


def conv3d_ncdhw(
    Input: Tensor,  # noqa: N803
    Filter: Tensor,  # noqa: N803
    stride: Terms,
    padding: Terms | str,
    dilation: Terms,
    groups: int,
    out_dtype: str | None = None,
) -> Tensor:
    """A convolution of three dimensions, channels first."""
    return conv(
        Input, Filter, stride, padding, dilation, groups, "NCDHW", "OIDHW", out_dtype
    )


def conv3d_ndhwc(
    Input: Tensor,  # noqa: N803
    Filter: Tensor,  # noqa: N803
    stride: Terms,
    padding: Terms | str,
    dilation: Terms,
    groups: int,
    out_dtype: str | None = "float32",
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_origin_shape: Any = None,
) -> Tensor:
    """A convolution of three dimensions, channels last."""
    return conv(
        Input, Filter, stride, padding, dilation, groups, "NDHWC", "DHWIO", out_dtype
    )


def _depthwise(
    data: Tensor,
    weights: Tensor,
    stride: Terms,
    padding: Terms | str,
    dilation: Terms,
    out_dtype: str | None,
    layout: str,
    kernel_layout: str,
) -> Tensor:
    """A convolution of every channel with weights of its own."""
    dtype = out_dtype or data.dtype
    strides, dilations = (
        _listed(stride, 2, "strides"),
        _listed(dilation, 2, "dilations"),
    )
    axes = _Axes(layout, "NC")
    kernel_axes = _Axes(kernel_layout, "OI")
    batch, channels, *sizes = axes.plain(get_const_tuple(data.shape))
    _, multiplier, *kernel = kernel_axes.plain(get_const_tuple(weights.shape))
    spread = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    before, after = get_pad_tuple_generic(padding, spread)
    windows = zip(sizes, spread, before, after, strides, strict=True)
    out_sizes = [plain((n - k + b + a) // s + 1) for n, k, b, a, s in windows]
    padded = pad(
        data,
        axes.laid_out([0, 0, *before]),
        axes.laid_out([0, 0, *after]),
        name="PaddedInput",
    )
    rs = [te.reduce_axis((0, k), c) for k, c in zip(kernel, ("di", "dj"), strict=True)]

    def element(*indices: Any) -> Any:
        n, f, *window = axes.plain(indices)
        steps = zip(window, strides, rs, dilations, strict=True)
        places = [i * s + r.var * d for i, s, r, d in steps]
        channel = f // multiplier
        value = padded(*axes.laid_out([n, channel, *places]))
        at = [channel, f % multiplier, *(r.var for r in rs)]
        weight = weights(*kernel_axes.laid_out(at))
        return te.sum(value.astype(dtype) * weight.astype(dtype), axis=rs)

    return te.compute(
        axes.laid_out([batch, channels * multiplier, *out_sizes]),
        element,
        name="DepthwiseConv2d",
        tag=f"depthwise_conv2d_{layout.lower()}",
        varargs_names=axes.laid_out(["b", "c", "i", "j"]),
    )


def depthwise_conv2d_nchw(
    Input: Tensor,  # noqa: N803
    Filter: Tensor,  # noqa: N803
    stride: Terms,
    padding: Terms | str,
    dilation: Terms,
    out_dtype: str | None = None,
) -> Tensor:
    """A convolution of every channel with weights of its own, channels first."""
    return _depthwise(
        Input, Filter, stride, padding, dilation, out_dtype, "NCHW", "OIHW"
    )


def depthwise_conv2d_nhwc(
    Input: Tensor,  # noqa: N803
    Filter: Tensor,  # noqa: N803
    stride: Terms,
    padding: Terms | str,
    dilation: Terms,
    kernel_layout: str = "HWOI",
    out_dtype: str | None = None,
) -> Tensor:
    """A convolution of every channel with weights of its own, channels last."""
    return _depthwise(
        Input, Filter, stride, padding, dilation, out_dtype, "NHWC", kernel_layout
    )

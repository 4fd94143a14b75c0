"""Convolutions in 1-D, 2-D and 3-D, in any layout, with groups and depthwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.objects.prim.terms import PrimExprLike, PrimExprLikes
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.nn.padding import get_pad_tuple_generic, pad
from relax_mlir.tvm.topi.sizes import as_int, get_const_tuple, simplified

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


class _Permutation:
    """Permutation between a layout and the canonical order of its dimensions.

    The canonical order is ``NC`` (of data) or ``OI`` (of weights), then the spatial
    dimensions.

    Args:
        layout: the layout, such as ``NHWC``.
        first: the leading dimensions of the canonical order.
    """

    def __init__(self, layout: str, first: str) -> None:
        if any(letter not in layout for letter in first):
            raise ValueError(
                f"layout `{layout}`: expected it to contain each of {first}"
            )
        spatial = [i for i, letter in enumerate(layout) if letter not in first]
        self.permutation = [*(layout.index(letter) for letter in first), *spatial]

    def from_layout(self, values: Sequence[Any]) -> list[Any]:
        """Permute values from the layout to the canonical order."""
        if len(values) != len(self.permutation):
            raise ValueError(
                f"expected {len(self.permutation)} dimensions, as in the layout, got {values}"
            )
        return [values[dim] for dim in self.permutation]

    def to_layout(self, values: Sequence[Any]) -> list[Any]:
        """Permute values from the canonical order to the layout."""
        permuted: list[Any] = [None] * len(values)
        for dim, value in zip(self.permutation, values, strict=True):
            permuted[dim] = value
        return permuted


def _per_dimension(values: Any, rank: int, what: str) -> list[Any]:
    """A list with one value per spatial dimension; a scalar is repeated.

    Raises:
        ValueError: the number of values differs from the rank.
    """
    per_dimension = (
        list(values) if isinstance(values, (tuple, list)) else [values] * rank
    )
    if len(per_dimension) != rank:
        raise ValueError(f"conv: expected {rank} {what}, got {values}")
    return per_dimension


def _kernel_layout(data_layout: str, kernel_layout: str) -> str:
    """Layout of the weights; by default channels first or last, as in the data."""
    if kernel_layout:
        return kernel_layout
    spatial = [letter for letter in data_layout if letter not in "NC"]
    channels_first = data_layout.index("C") < data_layout.index(spatial[0])
    return "OI" + "".join(spatial) if channels_first else "".join(spatial) + "IO"


def _check_groups(groups: int, **channels: Any) -> None:
    if groups < 1:
        raise ValueError(f"conv: expected 1 group or more, got {groups}")
    for name, count in channels.items():
        constant = as_int(count)
        if constant is not None and constant % groups:
            raise ValueError(
                f"conv: {constant} {name} channels are not divisible into {groups} groups"
            )


def conv(
    inp: Tensor,
    filt: Tensor,
    stride: PrimExprLikes,
    padding: PrimExprLikes | str,
    dilation: PrimExprLikes,
    groups: int,
    data_layout: str,
    kernel_layout: str = "",
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str | None = None,
    meta_schedule_original_shape: Any = None,
    auto_scheduler_should_rewrite_layout: bool = False,
) -> Tensor:
    """N-dimensional convolution.

    Args:
        inp: the data.
        filt: the weights.
        stride: strides, a scalar or one per spatial dimension.
        padding: zero padding, see ``get_pad_tuple_generic``.
        dilation: dilation of the kernel.
        groups: number of channel groups.
        data_layout: layout of the data, such as ``NCHW``.
        kernel_layout: layout of the weights, such as ``OIHW``; by default channels first
            or last, as in the data.
        out_dtype: element type of the accumulation and the result; by default that of
            the data.
        auto_scheduler_rewritten_layout: not used.
        meta_schedule_original_shape: not used.
        auto_scheduler_should_rewrite_layout: whether a schedule may change the layout of
            the weights.

    Raises:
        ValueError: the shapes do not match.
    """
    rank = inp.ndim - 2
    dtype = out_dtype or inp.dtype
    strides = _per_dimension(stride, rank, "strides")
    dilations = _per_dimension(dilation, rank, "dilations")
    data_order = _Permutation(data_layout, "NC")
    kernel_order = _Permutation(_kernel_layout(data_layout, kernel_layout), "OI")
    batch, in_channels, *sizes = data_order.from_layout(get_const_tuple(inp.shape))
    out_channels, _, *kernel = kernel_order.from_layout(get_const_tuple(filt.shape))
    _check_groups(groups, input=in_channels, output=out_channels)
    dilated_kernel = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    before, after = get_pad_tuple_generic(padding, dilated_kernel)
    windows = zip(sizes, dilated_kernel, before, after, strides, strict=True)
    out_sizes = [simplified((n - k + b + a) // s + 1) for n, k, b, a, s in windows]
    _check_sizes(out_sizes)
    padded = pad(
        inp,
        data_order.to_layout([0, 0, *before]),
        data_order.to_layout([0, 0, *after]),
        name="pad_temp",
    )
    rc = te.reduce_axis((0, in_channels // groups), name="rc")
    rs = [te.reduce_axis((0, k), f"r{c}") for k, c in zip(kernel, "yxz", strict=False)]

    def element(*indices: Any) -> Any:
        n, f, *out_positions = data_order.from_layout(indices)
        channel = rc.var
        if groups > 1:
            group = f // (out_channels // groups)
            channel = group * (in_channels // groups) + rc.var
        steps = zip(out_positions, strides, rs, dilations, strict=True)
        positions = [i * s + r.var * d for i, s, r, d in steps]
        value = padded(*data_order.to_layout([n, channel, *positions]))
        weight = filt(*kernel_order.to_layout([f, rc.var, *(r.var for r in rs)]))
        return te.sum(value.astype(dtype) * weight.astype(dtype), axis=order)

    order = [axis for axis in data_order.to_layout([None, rc, *rs]) if axis is not None]
    name = f"{'group_' if groups > 1 else ''}conv{rank}d_{data_layout.lower()}"
    free = {"layout_free_placeholders": [filt]}
    return te.compute(
        data_order.to_layout([batch, out_channels, *out_sizes]),
        element,
        name,
        name,
        free if auto_scheduler_should_rewrite_layout else None,
        data_order.to_layout(["nn", "ff", *("yy", "xx", "zz")[:rank]]),
    )


def _check_sizes(sizes: Sequence[PrimExprLike]) -> None:
    if any((as_int(size) or 1) <= 0 for size in sizes):
        raise ValueError(f"conv: expected positive sizes of the result, got {sizes}")


def conv1d(
    data: Tensor,
    kernel: Tensor,
    strides: PrimExprLikes = 1,
    padding: PrimExprLikes | str = "VALID",
    dilation: PrimExprLikes = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> Tensor:
    """1-D convolution."""
    return conv(
        *(data, kernel, strides, padding, dilation, groups),
        *(data_layout, kernel_layout, out_dtype),
    )


def conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: PrimExprLikes = 1,
    padding: PrimExprLikes | str = "VALID",
    dilation: PrimExprLikes = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """1-D convolution, NWC layout."""
    return conv(data, kernel, strides, padding, dilation, 1, "NWC", "WIO", out_dtype)


def conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: PrimExprLikes = 1,
    padding: PrimExprLikes | str = "VALID",
    dilation: PrimExprLikes = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """1-D convolution, NCW layout."""
    return conv(data, kernel, strides, padding, dilation, 1, "NCW", "OIW", out_dtype)


def group_conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: PrimExprLikes = 1,
    padding: PrimExprLikes | str = "VALID",
    dilation: PrimExprLikes = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """1-D grouped convolution, NWC layout."""
    return conv(
        data, kernel, strides, padding, dilation, groups, "NWC", "WIO", out_dtype
    )


def group_conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: PrimExprLikes = 1,
    padding: PrimExprLikes | str = "VALID",
    dilation: PrimExprLikes = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """1-D grouped convolution, NCW layout."""
    return conv(
        data, kernel, strides, padding, dilation, groups, "NCW", "OIW", out_dtype
    )


def conv2d(
    input: Tensor,
    filter: Tensor,
    strides: PrimExprLikes,
    padding: PrimExprLikes | str,
    dilation: PrimExprLikes,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> Tensor:
    """2-D convolution."""
    return conv(
        *(input, filter, strides, padding, dilation, 1),
        *(data_layout, kernel_layout, out_dtype),
    )


def conv2d_nchw(
    Input: Tensor,  # noqa: N803  names of TVM
    Filter: Tensor,  # noqa: N803
    stride: PrimExprLikes,
    padding: PrimExprLikes | str,
    dilation: PrimExprLikes,
    out_dtype: str | None = None,
) -> Tensor:
    """2-D convolution, NCHW layout."""
    return conv(Input, Filter, stride, padding, dilation, 1, "NCHW", "OIHW", out_dtype)


def conv2d_hwcn(
    Input: Tensor,  # noqa: N803
    Filter: Tensor,  # noqa: N803
    stride: PrimExprLikes,
    padding: PrimExprLikes | str,
    dilation: PrimExprLikes,
    out_dtype: str | None = None,
) -> Tensor:
    """2-D convolution, HWCN layout."""
    return conv(Input, Filter, stride, padding, dilation, 1, "HWCN", "HWIO", out_dtype)


def conv2d_nhwc(
    Input: Tensor,  # noqa: N803
    Filter: Tensor,  # noqa: N803
    stride: PrimExprLikes,
    padding: PrimExprLikes | str,
    dilation: PrimExprLikes,
    out_dtype: str | None = "float32",
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """2-D convolution, NHWC layout."""
    return conv(
        *(Input, Filter, stride, padding, dilation, 1, "NHWC", "HWIO", out_dtype),
        auto_scheduler_should_rewrite_layout=True,
    )


def group_conv2d_nchw(
    Input: Tensor,  # noqa: N803
    Filter: Tensor,  # noqa: N803
    stride: PrimExprLikes,
    padding: PrimExprLikes | str,
    dilation: PrimExprLikes,
    groups: int,
    out_dtype: str | None = None,
) -> Tensor:
    """2-D grouped convolution, NCHW layout."""
    return conv(
        Input, Filter, stride, padding, dilation, groups, "NCHW", "OIHW", out_dtype
    )


def group_conv2d_nhwc(
    Input: Tensor,  # noqa: N803
    Filter: Tensor,  # noqa: N803
    stride: PrimExprLikes,
    padding: PrimExprLikes | str,
    dilation: PrimExprLikes,
    groups: int,
    out_dtype: str | None = None,
) -> Tensor:
    """2-D grouped convolution, NHWC layout."""
    return conv(
        Input, Filter, stride, padding, dilation, groups, "NHWC", "HWIO", out_dtype
    )


def conv3d_ncdhw(
    Input: Tensor,  # noqa: N803
    Filter: Tensor,  # noqa: N803
    stride: PrimExprLikes,
    padding: PrimExprLikes | str,
    dilation: PrimExprLikes,
    groups: int,
    out_dtype: str | None = None,
) -> Tensor:
    """3-D convolution, NCDHW layout."""
    return conv(
        Input, Filter, stride, padding, dilation, groups, "NCDHW", "OIDHW", out_dtype
    )


def conv3d_ndhwc(
    Input: Tensor,  # noqa: N803
    Filter: Tensor,  # noqa: N803
    stride: PrimExprLikes,
    padding: PrimExprLikes | str,
    dilation: PrimExprLikes,
    groups: int,
    out_dtype: str | None = "float32",
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_origin_shape: Any = None,
) -> Tensor:
    """3-D convolution, NDHWC layout."""
    return conv(
        Input, Filter, stride, padding, dilation, groups, "NDHWC", "DHWIO", out_dtype
    )


def _depthwise(
    data: Tensor,
    weights: Tensor,
    stride: PrimExprLikes,
    padding: PrimExprLikes | str,
    dilation: PrimExprLikes,
    out_dtype: str | None,
    layout: str,
    kernel_layout: str,
) -> Tensor:
    """2-D depthwise convolution."""
    dtype = out_dtype or data.dtype
    strides, dilations = (
        _per_dimension(stride, 2, "strides"),
        _per_dimension(dilation, 2, "dilations"),
    )
    data_order = _Permutation(layout, "NC")
    kernel_order = _Permutation(kernel_layout, "OI")
    batch, channels, *sizes = data_order.from_layout(get_const_tuple(data.shape))
    _, multiplier, *kernel = kernel_order.from_layout(get_const_tuple(weights.shape))
    dilated_kernel = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    before, after = get_pad_tuple_generic(padding, dilated_kernel)
    windows = zip(sizes, dilated_kernel, before, after, strides, strict=True)
    out_sizes = [simplified((n - k + b + a) // s + 1) for n, k, b, a, s in windows]
    padded = pad(
        data,
        data_order.to_layout([0, 0, *before]),
        data_order.to_layout([0, 0, *after]),
        name="PaddedInput",
    )
    rs = [te.reduce_axis((0, k), c) for k, c in zip(kernel, ("di", "dj"), strict=True)]

    def element(*indices: Any) -> Any:
        n, f, *out_positions = data_order.from_layout(indices)
        steps = zip(out_positions, strides, rs, dilations, strict=True)
        positions = [i * s + r.var * d for i, s, r, d in steps]
        channel = f // multiplier
        value = padded(*data_order.to_layout([n, channel, *positions]))
        weight_index = [channel, f % multiplier, *(r.var for r in rs)]
        weight = weights(*kernel_order.to_layout(weight_index))
        return te.sum(value.astype(dtype) * weight.astype(dtype), axis=rs)

    return te.compute(
        data_order.to_layout([batch, channels * multiplier, *out_sizes]),
        element,
        name="DepthwiseConv2d",
        tag=f"depthwise_conv2d_{layout.lower()}",
        varargs_names=data_order.to_layout(["b", "c", "i", "j"]),
    )


def depthwise_conv2d_nchw(
    Input: Tensor,  # noqa: N803
    Filter: Tensor,  # noqa: N803
    stride: PrimExprLikes,
    padding: PrimExprLikes | str,
    dilation: PrimExprLikes,
    out_dtype: str | None = None,
) -> Tensor:
    """2-D depthwise convolution, NCHW layout."""
    return _depthwise(
        Input, Filter, stride, padding, dilation, out_dtype, "NCHW", "OIHW"
    )


def depthwise_conv2d_nhwc(
    Input: Tensor,  # noqa: N803
    Filter: Tensor,  # noqa: N803
    stride: PrimExprLikes,
    padding: PrimExprLikes | str,
    dilation: PrimExprLikes,
    kernel_layout: str = "HWOI",
    out_dtype: str | None = None,
) -> Tensor:
    """2-D depthwise convolution, NHWC layout."""
    return _depthwise(
        Input, Filter, stride, padding, dilation, out_dtype, "NHWC", kernel_layout
    )

"""Transposed convolutions, as convolutions of the dilated and padded input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir.errors import short_repr
from relax_mlir.objects.prim.terms import PrimExprLikes
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.nn.padding import dilate, get_pad_tuple_generic, pad
from relax_mlir.tvm.topi.ranks import PositiveInt
from relax_mlir.tvm.topi.sizes import as_int, simplified

__all__ = [
    "conv1d_transpose_ncw",
    "conv2d_transpose_nchw",
    "conv3d_transpose_ncdhw",
    "group_conv1d_transpose_ncw",
    "group_conv2d_transpose_nchw",
    "group_conv3d_transpose_ncdhw",
]


def _per_dimension(values: Any, rank: int) -> list[Any]:
    per_dimension = (
        list(values) if isinstance(values, (tuple, list)) else [values] * rank
    )
    if len(per_dimension) != rank:
        raise ValueError(
            f"conv_transpose: expected {rank} values, got {short_repr(values)}"
        )
    return per_dimension


def _dilate_and_flip(
    data: Tensor,
    kernel: Tensor,
    strides: PrimExprLikes,
    padding: PrimExprLikes | str,
    output_padding: PrimExprLikes,
) -> tuple[Tensor, Tensor]:
    """Dilate and pad the data, and flip the kernel.

    Raises:
        ValueError: the ranks are wrong, or ``output_padding`` is not below the stride.
    """
    rank = data.ndim - 2
    if rank not in _LETTERS or kernel.ndim != data.ndim:
        raise ValueError(
            "conv_transpose: expected data and a kernel of 3 to 5 dimensions, got "
            f"{data.ndim} and {kernel.ndim}"
        )
    steps, extra = _per_dimension(strides, rank), _per_dimension(output_padding, rank)
    for step, more in zip(steps, extra, strict=True):
        if (as_int(more) or 0) >= (as_int(step) or 1 << 30):
            raise ValueError(
                f"conv_transpose: expected `output_padding` below the stride {step}, "
                f"got {more}"
            )
    sizes = kernel.shape[2:]
    dilated = dilate(data, [1, 1, *steps], name="data_dilate")
    before, after = get_pad_tuple_generic(padding, sizes)
    front = [k - 1 - p for k, p in zip(sizes, before, strict=True)]
    back = [k - 1 - p + e for k, p, e in zip(sizes, after, extra, strict=True)]
    padded = pad(dilated, [0, 0, *front], [0, 0, *back], name="data_pad")

    def flipped(o: Any, i: Any, *window: Any) -> Any:
        positions = [k - 1 - w for k, w in zip(sizes, window, strict=True)]
        return kernel(i, o, *positions)

    shape = (kernel.shape[1], kernel.shape[0], *sizes)
    names = ["o", "i", *_LETTERS[rank]]
    weights = te.compute(
        shape,
        lambda *i: flipped(*i),
        "kernel" if rank == 1 else "kernel_transform",
        varargs_names=names,
    )
    return padded, weights


_LETTERS = {1: ("w",), 2: ("h", "w"), 3: ("d", "h", "w")}


def _convolve(
    padded: Tensor, weights: Tensor, out_dtype: str, groups: int, tag: str
) -> Tensor:
    """Convolution with stride 1 of prepared data and weights."""
    rank = padded.ndim - 2
    channels = padded.shape[1]
    group_channels = weights.shape[0]
    pairs = zip(padded.shape[2:], weights.shape[2:], strict=True)
    sizes = [simplified(size - k + 1) for size, k in pairs]
    dc = te.reduce_axis((0, channels // groups), name="dc")
    window = [
        te.reduce_axis((0, k), name=f"d{c}")
        for k, c in zip(weights.shape[2:], _LETTERS[rank], strict=True)
    ]

    def element(b: Any, c: Any, *positions: Any) -> Any:
        channel = dc.var
        if groups > 1:
            channel = c // group_channels * (channels // groups) + dc.var
        out = c % group_channels if groups > 1 else c
        steps = [p + w.var for p, w in zip(positions, window, strict=True)]
        value = padded(b, channel, *steps)
        weight = weights(out, channel, *(w.var for w in window))
        return te.sum(
            value.astype(out_dtype) * weight.astype(out_dtype), axis=[dc, *window]
        )

    return te.compute(
        (padded.shape[0], simplified(group_channels * groups), *sizes),
        lambda *i: element(*i),
        tag=tag,
        varargs_names=["b", "c", *_LETTERS[rank]],
    )


def _ungrouped_and_grouped(
    rank: int, layout: str
) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    name = f"conv{rank}d_transpose_{layout}"

    def grouped(
        data: Tensor,
        kernel: Tensor,
        stride: PrimExprLikes,
        padding: PrimExprLikes | str,
        out_dtype: str | None,
        output_padding: PrimExprLikes,
        groups: PositiveInt,
    ) -> Tensor:
        channels = as_int(data.shape[1])
        if channels is not None and channels % groups:
            raise ValueError(
                f"{name}: {channels} channels are not divisible into {groups} groups"
            )
        dtype = out_dtype or data.dtype
        padded, weights = _dilate_and_flip(
            data, kernel, stride, padding, output_padding
        )
        tag = f"group_{name}" if groups > 1 else name
        return _convolve(padded, weights, dtype, groups, tag)

    def ungrouped(
        Input: Tensor,  # noqa: N803  names of TVM
        Filter: Tensor,  # noqa: N803
        strides: PrimExprLikes,
        padding: PrimExprLikes | str,
        out_dtype: str | None,
        output_padding: PrimExprLikes,
    ) -> Tensor:
        return grouped(Input, Filter, strides, padding, out_dtype, output_padding, 1)

    ungrouped.__name__ = ungrouped.__qualname__ = name
    ungrouped.__doc__ = f"{rank}-D transposed convolution, {layout.upper()} layout."
    grouped.__name__ = grouped.__qualname__ = f"group_{name}"
    grouped.__doc__ = (
        f"{rank}-D grouped transposed convolution, {layout.upper()} layout."
    )
    return ungrouped, grouped


conv1d_transpose_ncw, group_conv1d_transpose_ncw = _ungrouped_and_grouped(1, "ncw")
conv2d_transpose_nchw, group_conv2d_transpose_nchw = _ungrouped_and_grouped(2, "nchw")
conv3d_transpose_ncdhw, group_conv3d_transpose_ncdhw = _ungrouped_and_grouped(
    3, "ncdhw"
)

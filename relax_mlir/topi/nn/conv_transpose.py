"""Transposed convolutions: windows that the elements are spread over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir import te
from relax_mlir.errors import shown
from relax_mlir.objects.prim.terms import Terms
from relax_mlir.te import Tensor
from relax_mlir.topi.nn.padding import dilate, get_pad_tuple_generic, pad
from relax_mlir.topi.ranks import Positive
from relax_mlir.topi.sizes import as_int, plain

__all__ = [
    "conv1d_transpose_ncw",
    "conv2d_transpose_nchw",
    "conv3d_transpose_ncdhw",
    "group_conv1d_transpose_ncw",
    "group_conv2d_transpose_nchw",
    "group_conv3d_transpose_ncdhw",
]


def _listed(values: Any, rank: int) -> list[Any]:
    found = list(values) if isinstance(values, (tuple, list)) else [values] * rank
    if len(found) != rank:
        raise ValueError(
            f"conv_transpose: expected {rank} numbers, got {shown(values)}"
        )
    return found


def _prepared(
    data: Tensor,
    kernel: Tensor,
    strides: Terms,
    padding: Terms | str,
    output_padding: Terms,
) -> tuple[Tensor, Tensor]:
    """Data spread out and padded, and the weights turned round.

    Raises:
        ValueError: more is added to the result than a stride.
    """
    rank = data.ndim - 2
    if rank not in _LETTERS or kernel.ndim != data.ndim:
        raise ValueError(
            "conv_transpose: expected data and a kernel of 3 to 5 dimensions, got "
            f"{data.ndim} and {kernel.ndim}"
        )
    steps, extra = _listed(strides, rank), _listed(output_padding, rank)
    for step, more in zip(steps, extra, strict=True):
        if (as_int(more) or 0) >= (as_int(step) or 1 << 30):
            raise ValueError(
                f"conv_transpose: expected `output_padding` below the stride {step}, "
                f"got {more}"
            )
    sizes = kernel.shape[2:]
    spread = dilate(data, [1, 1, *steps], name="data_dilate")
    before, after = get_pad_tuple_generic(padding, sizes)
    front = [k - 1 - p for k, p in zip(sizes, before, strict=True)]
    back = [k - 1 - p + e for k, p, e in zip(sizes, after, extra, strict=True)]
    padded = pad(spread, [0, 0, *front], [0, 0, *back], name="data_pad")

    def turned(o: Any, i: Any, *window: Any) -> Any:
        places = [k - 1 - w for k, w in zip(sizes, window, strict=True)]
        return kernel(i, o, *places)

    shape = (kernel.shape[1], kernel.shape[0], *sizes)
    names = ["o", "i", *_LETTERS[rank]]
    weights = te.compute(
        shape,
        lambda *i: turned(*i),
        "kernel" if rank == 1 else "kernel_transform",
        varargs_names=names,
    )
    return padded, weights


_LETTERS = {1: ("w",), 2: ("h", "w"), 3: ("d", "h", "w")}


def _convolved(
    padded: Tensor, weights: Tensor, out_dtype: str, groups: int, tag: str
) -> Tensor:
    """The sum over windows and channels of a group."""
    rank = padded.ndim - 2
    channels = padded.shape[1]
    own = weights.shape[0]
    pairs = zip(padded.shape[2:], weights.shape[2:], strict=True)
    sizes = [plain(size - k + 1) for size, k in pairs]
    dc = te.reduce_axis((0, channels // groups), name="dc")
    window = [
        te.reduce_axis((0, k), name=f"d{c}")
        for k, c in zip(weights.shape[2:], _LETTERS[rank], strict=True)
    ]

    def element(b: Any, c: Any, *places: Any) -> Any:
        channel = dc.var
        if groups > 1:
            channel = c // own * (channels // groups) + dc.var
        out = c % own if groups > 1 else c
        steps = [p + w.var for p, w in zip(places, window, strict=True)]
        value = padded(b, channel, *steps)
        weight = weights(out, channel, *(w.var for w in window))
        return te.sum(
            value.astype(out_dtype) * weight.astype(out_dtype), axis=[dc, *window]
        )

    return te.compute(
        (padded.shape[0], plain(own * groups), *sizes),
        lambda *i: element(*i),
        tag=tag,
        varargs_names=["b", "c", *_LETTERS[rank]],
    )


def _plain_and_grouped(
    rank: int, layout: str
) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    name = f"conv{rank}d_transpose_{layout}"

    def grouped(
        data: Tensor,
        kernel: Tensor,
        stride: Terms,
        padding: Terms | str,
        out_dtype: str | None,
        output_padding: Terms,
        groups: Positive,
    ) -> Tensor:
        channels = as_int(data.shape[1])
        if channels is not None and channels % groups:
            raise ValueError(f"{name}: {channels} channels do not make {groups} groups")
        dtype = out_dtype or data.dtype
        padded, weights = _prepared(data, kernel, stride, padding, output_padding)
        tag = f"group_{name}" if groups > 1 else name
        return _convolved(padded, weights, dtype, groups, tag)

    def plain_one(
        Input: Tensor,  # noqa: N803  TVM's names
        Filter: Tensor,  # noqa: N803
        strides: Terms,
        padding: Terms | str,
        out_dtype: str | None,
        output_padding: Terms,
    ) -> Tensor:
        return grouped(Input, Filter, strides, padding, out_dtype, output_padding, 1)

    sizes = f"{rank} dimension" + ("s" if rank > 1 else "")
    plain_one.__name__ = plain_one.__qualname__ = name
    plain_one.__doc__ = f"A transposed convolution of {sizes}, channels first."
    grouped.__name__ = grouped.__qualname__ = f"group_{name}"
    grouped.__doc__ = f"A transposed convolution of {sizes} in groups, channels first."
    return plain_one, grouped


conv1d_transpose_ncw, group_conv1d_transpose_ncw = _plain_and_grouped(1, "ncw")
conv2d_transpose_nchw, group_conv2d_transpose_nchw = _plain_and_grouped(2, "nchw")
conv3d_transpose_ncdhw, group_conv3d_transpose_ncdhw = _plain_and_grouped(3, "ncdhw")

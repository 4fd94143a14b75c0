"""Operators of layers: convolutions, normalization, attention, resizing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from relax_mlir.errors import ArgumentValueError, UnsupportedArgumentError, short_repr
from relax_mlir.nn.tensor import Tensor, get_default_dtype, wrap_nested
from relax_mlir.objects.argument_checks import integer_of, sequence_of
from relax_mlir.objects.expr import Expr, const
from relax_mlir.objects.prim.terms import PrimExprLikes
from relax_mlir.tvm.relax import op

__all__ = [
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv3d",
    "get_timestep_embedding",
    "group_norm",
    "interpolate",
    "layer_norm",
    "rms_norm",
    "scaled_dot_product_attention",
]


def _biased(value: Expr, bias: Tensor | None, layout: str, name: str) -> Tensor:
    """``value`` plus an optional bias per channel."""
    if bias is None:
        return wrap_nested(value, name)
    shape = [-1 if axis == "C" else 1 for axis in layout]
    return wrap_nested(op.add(value, op.reshape(bias.as_expr(), shape)), name)


def _check_layout(layout: str, known: Sequence[str]) -> None:
    if layout not in known:
        raise UnsupportedArgumentError(
            f"data_layout `{layout}`: expected {' or '.join(known)}"
        )


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: PrimExprLikes = 1,
    padding: PrimExprLikes | str = 0,
    dilation: PrimExprLikes = 1,
    groups: int = 1,
    name: str = "conv1d",
) -> Tensor:
    """1D convolution.

    Shapes:
        x: [n, groups c, w]; weight: [o, c, k]; bias: [o].
    """
    value = op.nn.conv1d(
        x.as_expr(),
        weight.as_expr(),
        strides=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
    )
    return _biased(value, bias, "NCW", name)


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: PrimExprLikes = 1,
    padding: PrimExprLikes | str = 0,
    dilation: PrimExprLikes = 1,
    groups: int = 1,
    data_layout: str = "NCHW",
    name: str = "conv2d",
) -> Tensor:
    """2D convolution.

    Shapes:
        x: [n, groups c, h, w]; weight: [o, c, kh, kw]; bias: [o].

    Raises:
        NotImplementedError: ``data_layout`` is not NCHW or NHWC.
    """
    _check_layout(data_layout, ("NCHW", "NHWC"))
    value = op.nn.conv2d(
        x.as_expr(),
        weight.as_expr(),
        strides=stride,
        padding=padding,
        dilation=dilation,
        data_layout=data_layout,
        groups=groups,
    )
    return _biased(value, bias, data_layout, name)


def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: PrimExprLikes = 1,
    padding: PrimExprLikes | str = 0,
    dilation: PrimExprLikes = 1,
    groups: int = 1,
    data_layout: str = "NCDHW",
    name: str = "conv3d",
) -> Tensor:
    """3D convolution.

    Shapes:
        x: [n, groups c, d, h, w]; weight: [o, c, kd, kh, kw]; bias: [o].

    Raises:
        NotImplementedError: ``data_layout`` is not NCDHW or NDHWC.
    """
    _check_layout(data_layout, ("NCDHW", "NDHWC"))
    value = op.nn.conv3d(
        x.as_expr(),
        weight.as_expr(),
        strides=stride,
        padding=padding,
        dilation=dilation,
        data_layout=data_layout,
        groups=groups,
    )
    return _biased(value, bias, data_layout, name)


def conv1d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: PrimExprLikes = 1,
    padding: PrimExprLikes | str = 0,
    output_padding: PrimExprLikes = 0,
    dilation: PrimExprLikes = 1,
    groups: int = 1,
    name: str = "conv1d_transpose",
) -> Tensor:
    """Transposed 1D convolution.

    Shapes:
        x: [n, c, w]; weight: [c, o / groups, k]; bias: [o].
    """
    value = op.nn.conv1d_transpose(
        x.as_expr(),
        weight.as_expr(),
        strides=stride,
        padding=padding,
        output_padding=output_padding,
        dilation=dilation,
        groups=groups,
    )
    return _biased(value, bias, "NCW", name)


def _listed(values: Any, where: str) -> list[int]:
    """One or several integers as a list."""
    several = values if isinstance(values, Iterable) else [values]
    return [integer_of(v, where) for v in sequence_of(several, where, "integers")]


def _scale_and_shift(
    weight: Tensor | None,
    bias: Tensor | None,
    shape: Sequence[int],
    dtype: str,
    where: str,
) -> tuple[Expr, Expr]:
    """Scale and shift; ones and zeros by default."""
    shape = [integer_of(size, where) for size in shape]
    if any(size < 0 for size in shape):
        raise ValueError(f"{where}: expected sizes from 0 up, got {shape}")
    try:
        scale = const(np.ones(shape), dtype) if weight is None else weight.as_expr()
        shift = const(np.zeros(shape), dtype) if bias is None else bias.as_expr()
    except (MemoryError, ValueError) as error:
        raise ArgumentValueError(
            f"{where}: no weight of shape {shape} and {dtype}: {error}"
        ) from error
    return scale, shift


def layer_norm(
    x: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    name: str = "layer_norm",
) -> Tensor:
    """Layer normalization over the last dimensions.

    Args:
        x: the tensor.
        normalized_shape: the sizes of the last dimensions.
        weight: the scale; ones by default.
        bias: the shift; zeros by default.
        eps: added to the variance.
        name: name of the result variable.
    """
    where = "layer_norm: `normalized_shape`"
    shape = _listed(normalized_shape, where)
    scale, shift = _scale_and_shift(weight, bias, shape, x.dtype, where)
    axes = list(range(-len(shape), 0))
    value = op.nn.layer_norm(x.as_expr(), scale, shift, axes=axes, epsilon=eps)
    return wrap_nested(value, name)


def rms_norm(
    x: Tensor,
    weight: Tensor,
    axes: int | Sequence[int],
    epsilon: float = 1e-5,
    name: str = "rms_norm",
) -> Tensor:
    """RMS normalization along axes, then scaled."""
    listed = _listed(axes, "rms_norm: `axes`")
    value = op.nn.rms_norm(x.as_expr(), weight.as_expr(), listed, epsilon)
    return wrap_nested(value, name)


def group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float = 1e-5,
    channel_axis: int = 1,
    axes: Sequence[int] | None = None,
    name: str = "group_norm",
) -> Tensor:
    """Group normalization.

    Args:
        x: the tensor.
        num_groups: the number of groups.
        weight: the scale per channel; ones by default.
        bias: the shift per channel; zeros by default.
        eps: added to the variance.
        channel_axis: the dimension of the channels.
        axes: the other normalized dimensions; by default all after the second.
        name: name of the result variable.
    """
    if not -x.ndim <= channel_axis < x.ndim:
        raise ArgumentValueError(
            f"group_norm: `channel_axis`: expected {-x.ndim} to {x.ndim - 1}, "
            f"got {channel_axis}"
        )
    channels = [x.shape[channel_axis]]
    where = "group_norm: the channels of `x`"
    scale, shift = _scale_and_shift(weight, bias, channels, x.dtype, where)
    listed = list(range(2, x.ndim)) if axes is None else list(axes)
    value = op.nn.group_norm(
        x.as_expr(),
        scale,
        shift,
        num_groups,
        channel_axis=channel_axis,
        axes=listed,
        epsilon=eps,
    )
    return wrap_nested(value, name)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    name: str = "scaled_dot_product_attention",
) -> Tensor:
    """Scaled dot-product attention.

    Args:
        query, key, value: tensors of shape [batch, sequence, head, head size].
        attn_mask: not supported.
        is_causal: whether to apply a causal mask.
        scale: the scale of scores; 1 / sqrt(head size) by default.
        name: name of the result variable.

    Raises:
        NotImplementedError: ``attn_mask`` is given.
    """
    if attn_mask is not None:
        raise UnsupportedArgumentError("`attn_mask`: expected None. Use `is_causal`.")
    output = op.nn.attention(
        query.as_expr(),
        key.as_expr(),
        value.as_expr(),
        causal_mask="TopLeft" if is_causal else None,
        scale=scale,
    )
    return wrap_nested(output, name)


def interpolate(
    x: Tensor,
    size: Any = None,
    scale_factor: PrimExprLikes = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool | None = None,
    data_layout: str = "NCHW",
    name: str = "interpolate",
) -> Tensor:
    """Resizing of images.

    Args:
        x: the images.
        size: the new height and width.
        scale_factor: the scale, as an alternative to ``size``.
        mode: ``nearest``, ``bilinear`` or ``bicubic``.
        align_corners: whether the centers of the corner pixels are aligned.
        recompute_scale_factor, antialias: not supported.
        data_layout: layout of the images.
        name: name of the result variable.

    Raises:
        NotImplementedError: an unsupported argument is given.
    """
    if recompute_scale_factor is not None or antialias is not None:
        raise UnsupportedArgumentError(
            "`recompute_scale_factor`, `antialias`: expected None for both"
        )
    if size is None:
        size = _scaled(x, scale_factor, data_layout)
    is_nearest = mode.startswith("nearest")
    if is_nearest:
        transform = "asymmetric"
    else:
        transform = "align_corners" if align_corners else "half_pixel"
    resized = op.image.resize2d(
        x.as_expr(),
        size,
        layout=data_layout,
        method="nearest_neighbor" if is_nearest else mode.removeprefix("bi"),
        coordinate_transformation_mode=transform,
    )
    return wrap_nested(resized, name)


def _scaled(x: Tensor, factor: Any, layout: str) -> list[int]:
    spatial = [i for i, axis in enumerate(layout) if axis not in "NC"]
    if factor is None:
        raise ValueError("interpolate: expected `size` or `scale_factor`, got neither")
    many = isinstance(factor, (list, tuple))
    factors = factor if many else [factor] * len(spatial)
    if len(factors) != len(spatial) or len(layout) != x.ndim:
        raise ValueError(
            f"interpolate: expected {len(spatial)} factors and data of {len(layout)} "
            f"dimensions, got {short_repr(factors)} and {x.shape}"
        )
    return [int(x.shape[i] * f) for i, f in zip(spatial, factors, strict=True)]


def get_timestep_embedding(
    x: Tensor,
    embedding_dim: int,
    flip_sin_to_cos: bool = False,
    downscale_freq_shift: float = 1,
    scale: float = 1,
    max_period: int = 10000,
    name: str = "get_timestep_embedding",
) -> Tensor:
    """Sinusoidal timestep embedding, at frequencies from 1 down to 1 / ``max_period``.

    Args:
        x: the timesteps, a vector.
        embedding_dim: size of the embedding; an odd one is padded with a zero.
        flip_sin_to_cos: whether the cosines come first.
        downscale_freq_shift: subtracted from the number of frequencies in the exponent.
        scale: a factor of the angles.
        max_period: the longest period, in units of 2 pi.
        name: name of the result variable.
    """
    if max_period <= 0:
        raise ValueError(f"`max_period`: expected more than 0, got {max_period}")
    half = embedding_dim // 2
    times = op.astype(x.as_expr(), "float32")
    steps = op.arange(start=0, end=half, dtype="float32")
    exponent = const(-math.log(max_period), "float32") * steps
    exponent = exponent / const(half - downscale_freq_shift, "float32")
    angles = op.expand_dims(times, 1) * op.expand_dims(op.exp(exponent), 0)
    if scale != 1:
        angles = const(scale, "float32") * angles
    parts = [op.sin(angles), op.cos(angles)]
    value = op.concat(parts[::-1] if flip_sin_to_cos else parts, axis=-1)
    if embedding_dim % 2 == 1:
        value = op.nn.pad(value, (0, 0, 0, 1))
    return wrap_nested(op.astype(value, get_default_dtype()), name)

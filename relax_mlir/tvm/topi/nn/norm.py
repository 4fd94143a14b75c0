"""Normalization layers: batch, layer, group, instance, RMS and local response."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, const, intrinsics
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.broadcast import divide, multiply
from relax_mlir.tvm.topi.math import sqrt
from relax_mlir.tvm.topi.nn.padding import pad_ends
from relax_mlir.tvm.topi.ranks import PositiveInt
from relax_mlir.tvm.topi.reduction import real_axes, sum
from relax_mlir.tvm.topi.sizes import compute_tensor
from relax_mlir.tvm.topi.tag import BROADCAST, COMM_REDUCE, ELEMWISE, INJECTIVE
from relax_mlir.tvm.topi.transform import checked_axis, reshape

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "lrn",
    "rms_norm",
]


def _accumulation_type(dtype: str) -> str:
    """Accumulation type of an element type."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def _without(values: Sequence[Any], axes: Sequence[int]) -> list[Any]:
    return [value for i, value in enumerate(values) if i not in axes]


def _count(data: Tensor, axes: Sequence[int], dtype: str) -> PrimExpr:
    """Number of elements along axes, as a value of a type."""
    sizes = [prim.cast(dtype, data.shape[axis]) for axis in axes]
    return math.prod(sizes, start=const(1.0, dtype))


def _source_indices(
    rank: int, axes: Sequence[int], outer: Sequence[Any], reduced: Sequence[Any]
) -> list[Any]:
    """Indices of the data, from the outer indices and the reduction axes."""
    outer_iter, inner = iter(outer), iter(reduced)
    return [next(inner).var if i in axes else next(outer_iter) for i in range(rank)]


def layer_norm(
    data: Tensor, gamma: Tensor, beta: Tensor | None, axis: Any, epsilon: float = 1e-5
) -> Tensor:
    """Layer normalization.

    In two passes: the mean first, then the variance of the centered elements.
    """
    axes, dtype = real_axes(data.ndim, axis), _accumulation_type(data.dtype)
    shape, count = _without(data.shape, axes), _count(data, axes, dtype)
    name = data.op.name

    def reduced() -> list[Any]:
        return [te.reduce_axis((0, data.shape[i]), f"k{i}") for i in axes]

    first = reduced()
    total = compute_tensor(
        shape,
        lambda i: te.sum(
            data(*_source_indices(data.ndim, axes, i, first)).astype(dtype), axis=first
        ),
        f"{name}_sum",
        COMM_REDUCE,
    )
    mean = compute_tensor(shape, lambda i: total(*i) / count, f"{name}_mean", BROADCAST)
    second = reduced()

    def squared(i: tuple[Any, ...]) -> Any:
        value = data(*_source_indices(data.ndim, axes, i, second)).astype(dtype)
        return te.sum((value - mean(*i)) * (value - mean(*i)), axis=second)

    square_sums = compute_tensor(shape, squared, f"{name}_var_sum", COMM_REDUCE)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        outer, inner = _without(i, axes), [i[axis] for axis in axes]
        centered = data(*i).astype(dtype) - mean(*outer)
        variance = square_sums(*outer) / count
        normalized = centered * intrinsics.rsqrt(variance + const(epsilon, dtype))
        scaled = prim.cast(data.dtype, normalized) * gamma(*inner)
        return scaled if beta is None else scaled + beta(*inner)

    return compute_tensor(data.shape, element, "T_layer_norm", INJECTIVE)


def rms_norm(data: Tensor, weight: Tensor, axis: Any, epsilon: float = 1e-5) -> Tensor:
    """Root-mean-square normalization along axes, with a scale."""
    axes = real_axes(data.ndim, axis)
    wide = _cast(data, "float32")
    square_sums = sum(multiply(wide, wide), axes)
    count = _count(data, axes, "float32")
    root = compute_tensor(
        _without(data.shape, axes),
        lambda i: intrinsics.rsqrt(square_sums(*i) / count + const(epsilon, "float32")),
        "rsqrt",
        INJECTIVE,
    )
    scale = _cast(weight, "float32")

    def element(i: tuple[Any, ...]) -> PrimExpr:
        inner = [i[axis] for axis in axes]
        return root(*_without(i, axes)) * wide(*i) * scale(*inner)

    normalized = compute_tensor(data.shape, element, "T_rms_norm", INJECTIVE)
    return _cast(normalized, data.dtype)


def _cast(x: Tensor, dtype: str) -> Tensor:
    return compute_tensor(x.shape, lambda i: x(*i).astype(dtype), "T_cast", ELEMWISE)


_TUPLE_SUM = intrinsics.comm_reducer(
    lambda a, b: (a[0] + b[0], a[1] + b[1]),
    lambda t0, t1: (const(0, t0), const(0, t1)),
    name="tuple_sum",
)


def _power_sums(data: Tensor, axes: Sequence[int], name: str) -> tuple[Tensor, Tensor]:
    """Sums of elements and of squares along axes, in one pass."""
    dtype = _accumulation_type(data.dtype)
    reduced = [te.reduce_axis((0, data.shape[i]), f"k{i}") for i in axes]

    def element(i: tuple[Any, ...]) -> Any:
        value = data(*_source_indices(data.ndim, axes, i, reduced)).astype(dtype)
        return _TUPLE_SUM((value, value * value), axis=reduced)

    return compute_tensor(
        _without(data.shape, axes), element, f"{name}_red_temp", COMM_REDUCE
    )


def _normalized(
    value: PrimExpr,
    sums: tuple[Tensor, Tensor],
    outer: Sequence[Any],
    count: PrimExpr,
    epsilon: float,
) -> PrimExpr:
    """Normalized element, from the sums of elements and squares."""
    dtype = count.dtype
    mean = sums[0](*outer) / count
    variance = sums[1](*outer) / count - mean * mean
    root = intrinsics.rsqrt(variance + const(epsilon, dtype))
    return (prim.cast(dtype, value) - mean) * root


def instance_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    channel_axis: int,
    axis: Sequence[int],
    epsilon: float = 1e-5,
) -> Tensor:
    """Instance normalization, with scale and shift per channel."""
    channel_axis = checked_axis(channel_axis, data.ndim, "instance_norm")
    axes = real_axes(data.ndim, axis)
    sums = _power_sums(data, axes, data.op.name)
    count = _count(data, axes, _accumulation_type(data.dtype))

    def element(i: tuple[Any, ...]) -> PrimExpr:
        normalized = _normalized(data(*i), sums, _without(i, axes), count, epsilon)
        channel = i[channel_axis]
        return prim.cast(data.dtype, normalized) * gamma(channel) + beta(channel)

    return compute_tensor(data.shape, element, "T_instance_norm", INJECTIVE)


def group_norm(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    num_groups: int,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
) -> Tensor:
    """Group normalization, with optional scale and shift per channel."""
    channel = checked_axis(channel_axis, data.ndim, "group_norm")
    inner = real_axes(data.ndim, axes)
    group = data.shape[channel] // num_groups
    shape = [*data.shape[:channel], num_groups, group, *data.shape[channel + 1 :]]
    grouped = reshape(data, shape)
    if _accumulation_type(data.dtype) != data.dtype:
        grouped = _cast(grouped, _accumulation_type(data.dtype))
    reduced = [channel + 1, *(a + (a > channel) for a in inner if a != channel)]
    reduced.sort()
    sums = _power_sums(grouped, reduced, data.op.name)
    count = _count(grouped, reduced, _accumulation_type(data.dtype))
    scale, shift = (
        None if param is None else reshape(param, [num_groups, group])
        for param in (gamma, beta)
    )

    def element(i: tuple[Any, ...]) -> PrimExpr:
        normalized = _normalized(
            grouped(*i), sums, _without(i, reduced), count, epsilon
        )
        value = prim.cast(data.dtype, normalized)
        group_channel = i[channel : channel + 2]
        value = value if scale is None else value * scale(*group_channel)
        return value if shift is None else value + shift(*group_channel)

    result = compute_tensor(grouped.shape, element, "T_group_norm", INJECTIVE)
    return reshape(result, data.shape)


def batch_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    moving_mean: Tensor,
    moving_var: Tensor,
    axis: int | None = None,
    epsilon: float | None = None,
    center: bool | None = None,
    scale: bool | None = None,
    training: bool | None = None,
    momentum: float | None = None,
) -> list[Tensor]:
    """Batch normalization.

    Args:
        data: the tensor.
        gamma, beta: scale and shift of the channels.
        moving_mean, moving_var: moving statistics, used for inference; in training, the
            statistics of the batch are used, and these are updated.
        axis: channel axis, by default 1.
        epsilon: added to the variance, by default 1e-5.
        center, scale: whether to apply ``beta`` and ``gamma``; by default both.
        training: whether to normalize with the statistics of the batch.
        momentum: weight of the batch in the moving statistics, by default 0.1.

    Returns:
        The result, and the updated moving mean and variance.
    """
    dim = 1 if axis is None else axis
    eps = 1e-5 if epsilon is None else epsilon
    shape: list[Any] = [1] * data.ndim
    shape[dim] = data.shape[dim]
    if not training:
        mean, variance = reshape(moving_mean, shape), reshape(moving_var, shape)
        new_moving = [multiply(moving_mean, 1), multiply(moving_var, 1)]
    else:
        rate = 0.1 if momentum is None else momentum
        axes = [i for i in range(data.ndim) if i != dim]
        count: Any = 1
        for i in axes:
            count = count * data.shape[i]
        new_mean = divide(sum(data, axes), count)
        mean = reshape(new_mean, shape)
        new_var = divide(sum((data - mean) * (data - mean), axes), count)
        variance = reshape(new_var, shape)
        pairs = ((moving_mean, new_mean), (moving_var, new_var))
        new_moving = [(1 - rate) * old + rate * new for old, new in pairs]
    out = (data - mean) / sqrt(variance + eps)
    if scale is not False:
        out = out * reshape(gamma, shape)
    if center is not False:
        out = out + reshape(beta, shape)
    return [out, *new_moving]


def lrn(
    data: Tensor,
    size: PositiveInt,
    axis: int = 1,
    alpha: float = 0.0001,
    beta: float = 0.75,
    bias: float = 2,
) -> Tensor:
    """Local response normalization across neighbours along an axis."""
    axis = checked_axis(axis, data.ndim, "lrn")
    before = [size // 2 if i == axis else 0 for i in range(data.ndim)]
    padded = pad_ends(data, before, before, const(0, data.dtype), "pad_data")
    window = te.reduce_axis((0, size), "rxs")

    def squared(i: tuple[Any, ...]) -> Any:
        value = padded(*i[:axis], i[axis] + window.var, *i[axis + 1 :])
        return te.sum(value * value, axis=window)

    total = compute_tensor(data.shape, squared, "tensor", COMM_REDUCE)

    def power(i: tuple[Any, ...]) -> PrimExpr:
        mean = const(alpha, data.dtype) * total(*i) / const(size, data.dtype)
        return intrinsics.power(const(bias, data.dtype) + mean, const(beta, data.dtype))

    return divide(data, compute_tensor(data.shape, power, "tensor", ELEMWISE))

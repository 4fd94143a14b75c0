"""Normalisations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from relax_mlir import te
from relax_mlir.objects import functions, prim
from relax_mlir.objects.prim import PrimExpr, const
from relax_mlir.te import Tensor
from relax_mlir.topi.broadcast import divide, multiply
from relax_mlir.topi.math import sqrt
from relax_mlir.topi.nn.padding import pad_ends
from relax_mlir.topi.ranks import Positive
from relax_mlir.topi.reduction import real_axes, sum
from relax_mlir.topi.sizes import elements
from relax_mlir.topi.tag import BROADCAST, COMM_REDUCE, ELEMWISE, INJECTIVE
from relax_mlir.topi.transform import checked_axis, reshape

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "lrn",
    "rms_norm",
]


def _wide(dtype: str) -> str:
    """The type in which elements are summed up."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def _kept(values: Sequence[Any], axes: Sequence[int]) -> list[Any]:
    return [value for i, value in enumerate(values) if i not in axes]


def _count(data: Tensor, axes: Sequence[int], dtype: str) -> PrimExpr:
    """How many elements there are along axes."""
    sizes = [prim.cast(dtype, data.shape[axis]) for axis in axes]
    return math.prod(sizes, start=const(1.0, dtype))


def _places(
    rank: int, axes: Sequence[int], outer: Sequence[Any], reduced: Sequence[Any]
) -> list[Any]:
    """Indices of the data, from those that stay and the reduce axes."""
    own, inner = iter(outer), iter(reduced)
    return [next(inner).var if i in axes else next(own) for i in range(rank)]


def layer_norm(
    data: Tensor, gamma: Tensor, beta: Tensor | None, axis: Any, epsilon: float = 1e-5
) -> Tensor:
    """Elements less their mean along axes, by their deviation; scaled and moved.

    The mean is taken first, and the squares of what is left of elements without it.
    """
    axes, dtype = real_axes(data.ndim, axis), _wide(data.dtype)
    shape, count = _kept(data.shape, axes), _count(data, axes, dtype)
    name = data.op.name

    def reduced() -> list[Any]:
        return [te.reduce_axis((0, data.shape[i]), f"k{i}") for i in axes]

    first = reduced()
    total = elements(
        shape,
        lambda i: te.sum(
            data(*_places(data.ndim, axes, i, first)).astype(dtype), axis=first
        ),
        f"{name}_sum",
        COMM_REDUCE,
    )
    mean = elements(shape, lambda i: total(*i) / count, f"{name}_mean", BROADCAST)
    second = reduced()

    def square(i: tuple[Any, ...]) -> Any:
        value = data(*_places(data.ndim, axes, i, second)).astype(dtype)
        return te.sum((value - mean(*i)) * (value - mean(*i)), axis=second)

    squares = elements(shape, square, f"{name}_var_sum", COMM_REDUCE)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        outer, inner = _kept(i, axes), [i[axis] for axis in axes]
        centred = data(*i).astype(dtype) - mean(*outer)
        variance = squares(*outer) / count
        normal = centred * functions.rsqrt(variance + const(epsilon, dtype))
        scaled = prim.cast(data.dtype, normal) * gamma(*inner)
        return scaled if beta is None else scaled + beta(*inner)

    return elements(data.shape, element, "T_layer_norm", INJECTIVE)


def rms_norm(data: Tensor, weight: Tensor, axis: Any, epsilon: float = 1e-5) -> Tensor:
    """Elements by the root of the mean of their squares along axes; scaled."""
    axes = real_axes(data.ndim, axis)
    wide = _cast(data, "float32")
    squares = sum(multiply(wide, wide), axes)
    count = _count(data, axes, "float32")
    root = elements(
        _kept(data.shape, axes),
        lambda i: functions.rsqrt(squares(*i) / count + const(epsilon, "float32")),
        "rsqrt",
        INJECTIVE,
    )
    scale = _cast(weight, "float32")

    def element(i: tuple[Any, ...]) -> PrimExpr:
        inner = [i[axis] for axis in axes]
        return root(*_kept(i, axes)) * wide(*i) * scale(*inner)

    normal = elements(data.shape, element, "T_rms_norm", INJECTIVE)
    return _cast(normal, data.dtype)


def _cast(x: Tensor, dtype: str) -> Tensor:
    return elements(x.shape, lambda i: x(*i).astype(dtype), "T_cast", ELEMWISE)


_PAIR_SUM = functions.comm_reducer(
    lambda a, b: (a[0] + b[0], a[1] + b[1]),
    lambda t0, t1: (const(0, t0), const(0, t1)),
    name="tuple_sum",
)


def _moments(data: Tensor, axes: Sequence[int], name: str) -> tuple[Tensor, Tensor]:
    """The sums of elements and of their squares along axes."""
    dtype = _wide(data.dtype)
    reduced = [te.reduce_axis((0, data.shape[i]), f"k{i}") for i in axes]

    def element(i: tuple[Any, ...]) -> Any:
        value = data(*_places(data.ndim, axes, i, reduced)).astype(dtype)
        return _PAIR_SUM((value, value * value), axis=reduced)

    return elements(_kept(data.shape, axes), element, f"{name}_red_temp", COMM_REDUCE)


def _normal(
    value: PrimExpr,
    sums: tuple[Tensor, Tensor],
    outer: Sequence[Any],
    count: PrimExpr,
    epsilon: float,
) -> PrimExpr:
    """An element less the mean, by the deviation."""
    dtype = count.dtype
    mean = sums[0](*outer) / count
    variance = sums[1](*outer) / count - mean * mean
    root = functions.rsqrt(variance + const(epsilon, dtype))
    return (prim.cast(dtype, value) - mean) * root


def instance_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    channel_axis: int,
    axis: Sequence[int],
    epsilon: float = 1e-5,
) -> Tensor:
    """Every image normalised by itself, scaled and moved by numbers of its channel."""
    channel_axis = checked_axis(channel_axis, data.ndim, "instance_norm")
    axes = real_axes(data.ndim, axis)
    sums = _moments(data, axes, data.op.name)
    count = _count(data, axes, _wide(data.dtype))

    def element(i: tuple[Any, ...]) -> PrimExpr:
        normal = _normal(data(*i), sums, _kept(i, axes), count, epsilon)
        channel = i[channel_axis]
        return prim.cast(data.dtype, normal) * gamma(channel) + beta(channel)

    return elements(data.shape, element, "T_instance_norm", INJECTIVE)


def group_norm(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    num_groups: int,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
) -> Tensor:
    """Every group of channels normalised by itself, scaled and moved per channel."""
    channel = checked_axis(channel_axis, data.ndim, "group_norm")
    inner = real_axes(data.ndim, axes)
    group = data.shape[channel] // num_groups
    shape = [*data.shape[:channel], num_groups, group, *data.shape[channel + 1 :]]
    grouped = reshape(data, shape)
    if _wide(data.dtype) != data.dtype:
        grouped = _cast(grouped, _wide(data.dtype))
    reduced = [channel + 1, *(a + (a > channel) for a in inner if a != channel)]
    reduced.sort()
    sums = _moments(grouped, reduced, data.op.name)
    count = _count(grouped, reduced, _wide(data.dtype))
    scale, shift = (
        None if part is None else reshape(part, [num_groups, group])
        for part in (gamma, beta)
    )

    def element(i: tuple[Any, ...]) -> PrimExpr:
        normal = _normal(grouped(*i), sums, _kept(i, reduced), count, epsilon)
        value = prim.cast(data.dtype, normal)
        place = i[channel : channel + 2]
        value = value if scale is None else value * scale(*place)
        return value if shift is None else value + shift(*place)

    made = elements(grouped.shape, element, "T_group_norm", INJECTIVE)
    return reshape(made, data.shape)


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
    """Channels less their mean, by their deviation; scaled and moved.

    Args:
        data: the tensor.
        gamma, beta: what channels are scaled by, and what is added.
        moving_mean, moving_var: mean and variance; in training they are taken of
            ``data``, and these follow.
        axis: of the channels, 1 by default.
        epsilon: added to the variance, 1e-5 by default.
        center, scale: whether ``beta`` and ``gamma`` are used; they are by default.
        training: whether this is training.
        momentum: how much of the new mean and variance goes into the moving ones.

    Returns:
        The result, and the new moving mean and variance.
    """
    place = 1 if axis is None else axis
    eps = 1e-5 if epsilon is None else epsilon
    shape: list[Any] = [1] * data.ndim
    shape[place] = data.shape[place]
    if not training:
        mean, variance = reshape(moving_mean, shape), reshape(moving_var, shape)
        moved = [multiply(moving_mean, 1), multiply(moving_var, 1)]
    else:
        rate = 0.1 if momentum is None else momentum
        axes = [i for i in range(data.ndim) if i != place]
        count: Any = 1
        for i in axes:
            count = count * data.shape[i]
        new_mean = divide(sum(data, axes), count)
        mean = reshape(new_mean, shape)
        new_var = divide(sum((data - mean) * (data - mean), axes), count)
        variance = reshape(new_var, shape)
        pairs = ((moving_mean, new_mean), (moving_var, new_var))
        moved = [(1 - rate) * old + rate * new for old, new in pairs]
    out = (data - mean) / sqrt(variance + eps)
    if scale is not False:
        out = out * reshape(gamma, shape)
    if center is not False:
        out = out + reshape(beta, shape)
    return [out, *moved]


def lrn(
    data: Tensor,
    size: Positive,
    axis: int = 1,
    alpha: float = 0.0001,
    beta: float = 0.75,
    bias: float = 2,
) -> Tensor:
    """Elements by a power of the squares of their neighbours along an axis."""
    axis = checked_axis(axis, data.ndim, "lrn")
    before = [size // 2 if i == axis else 0 for i in range(data.ndim)]
    padded = pad_ends(data, before, before, const(0, data.dtype), "pad_data")
    near = te.reduce_axis((0, size), "rxs")

    def square(i: tuple[Any, ...]) -> Any:
        value = padded(*i[:axis], i[axis] + near.var, *i[axis + 1 :])
        return te.sum(value * value, axis=near)

    total = elements(data.shape, square, "tensor", COMM_REDUCE)

    def power(i: tuple[Any, ...]) -> PrimExpr:
        mean = const(alpha, data.dtype) * total(*i) / const(size, data.dtype)
        return functions.power(const(bias, data.dtype) + mean, const(beta, data.dtype))

    return divide(data, elements(data.shape, power, "tensor", ELEMWISE))

"""Activations, and what else neural networks compute of every element."""

from __future__ import annotations

from typing import Any

from relax_mlir import te
from relax_mlir.objects import functions
from relax_mlir.objects.functions import indexdiv, indexmod
from relax_mlir.objects.prim import PrimExpr, Select, const
from relax_mlir.te import Tensor
from relax_mlir.topi.ranks import Batch, Picture, Vector
from relax_mlir.topi.sizes import is_one, may_be_same
from relax_mlir.topi.tag import BROADCAST, ELEMWISE, INJECTIVE
from relax_mlir.topi.transform import checked_axis

__all__ = [
    "bias_add",
    "flatten",
    "leaky_relu",
    "prelu",
    "relu",
    "scale_shift_nchw",
    "scale_shift_nchwc",
    "scale_shift_nhwc",
    "softplus",
]


def relu(x: Tensor) -> Tensor:
    """Every element, or 0 where it is negative."""
    zero = const(0, x.dtype)
    return te.compute(x.shape, lambda *i: te.max(x(*i), zero), tag=ELEMWISE)


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """Every element, ``alpha`` times it where it is negative."""

    def element(*i: Any) -> PrimExpr:
        value = x(*i)
        return Select(value > 0, value, value * const(alpha, x.dtype))

    return te.compute(x.shape, element, tag=ELEMWISE)


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta x)) / beta``; ``x`` itself beyond the threshold."""

    def element(*i: Any) -> PrimExpr:
        value, factor = x(*i), const(beta, x.dtype)
        scaled = factor * value
        smooth = (1 / factor) * functions.log(1 + functions.exp(scaled))
        return Select(scaled > const(threshold, x.dtype), value, smooth)

    return te.compute(x.shape, element, tag=ELEMWISE)


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """Every element, ``slope`` of its channel times it where it is negative.

    Raises:
        ValueError: there is not one slope for every channel.
    """
    if slope.ndim != 1 or not 0 <= axis < x.ndim:
        raise ValueError(
            f"prelu: expected a vector along one of {x.ndim} axes, got {slope.ndim} "
            f"dimensions along axis {axis}"
        )
    if is_one(slope.shape[0]):
        single = slope
        slope = te.compute((x.shape[axis],), lambda c: single(0), "slope_broadcasted")
    elif not may_be_same(slope.shape[0], x.shape[axis]):
        raise ValueError(
            f"prelu: expected {x.shape[axis]} slopes, got {slope.shape[0]}"
        )

    def element(*i: Any) -> PrimExpr:
        value = x(*i)
        return Select(value < 0, value * slope(i[axis]), value)

    return te.compute(x.shape, element, tag=BROADCAST)


def flatten(data: Batch) -> Tensor:
    """A tensor with all dimensions but the first as one."""
    rest: Any = 1
    for size in data.shape[1:]:
        rest = rest * size

    def element(i: Any, j: Any) -> PrimExpr:
        places: list[Any] = []
        for size in reversed(data.shape[1:]):
            places.append(indexmod(j, size))
            j = indexdiv(j, size)
        return data(i, *reversed(places))

    return te.compute((data.shape[0], rest), element, tag=INJECTIVE)


def bias_add(data: Batch, bias: Vector, axis: int = 1) -> Tensor:
    """``data`` with one number added per channel."""
    place = checked_axis(axis, data.ndim, "bias_add")

    def element(*i: Any) -> PrimExpr:
        return data(*i) + bias(i[place])

    return te.compute(data.shape, element, "T_add", BROADCAST)


def scale_shift_nchw(Input: Picture, Scale: Vector, Shift: Vector) -> Tensor:  # noqa: N803  TVM's names
    """Every element times a number of its channel, and one added."""
    return te.compute(
        Input.shape,
        lambda b, c, i, j: Input[b, c, i, j] * Scale[c] + Shift[c],
        name="ScaleShift",
        tag=BROADCAST,
    )


def scale_shift_nhwc(Input: Picture, Scale: Vector, Shift: Vector) -> Tensor:  # noqa: N803
    """Every element times a number of its channel, and one added; channels last."""
    return te.compute(
        Input.shape,
        lambda b, i, j, c: Input[b, i, j, c] * Scale[c] + Shift[c],
        name="ScaleShift",
        tag=BROADCAST,
    )


def scale_shift_nchwc(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:  # noqa: N803
    """Every element times a number of its channel, and one added; channels in blocks."""
    return te.compute(
        Input.shape,
        lambda b, cc, i, j, cb: Input[b, cc, i, j, cb] * Scale[cc, cb] + Shift[cc, cb],
        name="ScaleShift",
        tag=BROADCAST,
    )

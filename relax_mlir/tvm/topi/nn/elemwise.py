"""Activation functions, bias addition and scale-shift."""

from __future__ import annotations

from typing import Any

from relax_mlir.objects.prim import PrimExpr, Select, const, intrinsics
from relax_mlir.objects.prim.intrinsics import indexdiv, indexmod
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.ranks import AtLeastVector, Tensor4D, Vector
from relax_mlir.tvm.topi.sizes import is_one, may_be_equal
from relax_mlir.tvm.topi.tag import BROADCAST, ELEMWISE, INJECTIVE
from relax_mlir.tvm.topi.transform import checked_axis

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
    """Rectified linear unit: ``max(x, 0)``."""
    zero = const(0, x.dtype)
    return te.compute(x.shape, lambda *i: te.max(x(*i), zero), tag=ELEMWISE)


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """Leaky ReLU: negative elements are multiplied by ``alpha``."""

    def element(*i: Any) -> PrimExpr:
        value = x(*i)
        return Select(value > 0, value, value * const(alpha, x.dtype))

    return te.compute(x.shape, element, tag=ELEMWISE)


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Softplus: ``log(1 + exp(beta x)) / beta``; ``x`` where ``beta x > threshold``."""

    def element(*i: Any) -> PrimExpr:
        value, beta_const = x(*i), const(beta, x.dtype)
        scaled = beta_const * value
        smooth = (1 / beta_const) * intrinsics.log(1 + intrinsics.exp(scaled))
        return Select(scaled > const(threshold, x.dtype), value, smooth)

    return te.compute(x.shape, element, tag=ELEMWISE)


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """Parametric ReLU: negative elements are multiplied by the slope of their channel.

    Raises:
        ValueError: the number of slopes is neither 1 nor the number of channels.
    """
    if slope.ndim != 1 or not 0 <= axis < x.ndim:
        raise ValueError(
            f"prelu: expected a vector along one of {x.ndim} axes, got {slope.ndim} "
            f"dimensions along axis {axis}"
        )
    if is_one(slope.shape[0]):
        single = slope
        slope = te.compute((x.shape[axis],), lambda c: single(0), "slope_broadcasted")
    elif not may_be_equal(slope.shape[0], x.shape[axis]):
        raise ValueError(
            f"prelu: expected {x.shape[axis]} slopes, got {slope.shape[0]}"
        )

    def element(*i: Any) -> PrimExpr:
        value = x(*i)
        return Select(value < 0, value * slope(i[axis]), value)

    return te.compute(x.shape, element, tag=BROADCAST)


def flatten(data: AtLeastVector) -> Tensor:
    """Flatten all dimensions but the first."""
    rest: Any = 1
    for size in data.shape[1:]:
        rest = rest * size

    def element(i: Any, j: Any) -> PrimExpr:
        source: list[Any] = []
        for size in reversed(data.shape[1:]):
            source.append(indexmod(j, size))
            j = indexdiv(j, size)
        return data(i, *reversed(source))

    return te.compute((data.shape[0], rest), element, tag=INJECTIVE)


def bias_add(data: AtLeastVector, bias: Vector, axis: int = 1) -> Tensor:
    """Add a bias per channel."""
    dim = checked_axis(axis, data.ndim, "bias_add")

    def element(*i: Any) -> PrimExpr:
        return data(*i) + bias(i[dim])

    return te.compute(data.shape, element, "T_add", BROADCAST)


def scale_shift_nchw(Input: Tensor4D, Scale: Vector, Shift: Vector) -> Tensor:  # noqa: N803  names of TVM
    """Scale and shift per channel, NCHW layout."""
    return te.compute(
        Input.shape,
        lambda b, c, i, j: Input[b, c, i, j] * Scale[c] + Shift[c],
        name="ScaleShift",
        tag=BROADCAST,
    )


def scale_shift_nhwc(Input: Tensor4D, Scale: Vector, Shift: Vector) -> Tensor:  # noqa: N803
    """Scale and shift per channel, NHWC layout."""
    return te.compute(
        Input.shape,
        lambda b, i, j, c: Input[b, i, j, c] * Scale[c] + Shift[c],
        name="ScaleShift",
        tag=BROADCAST,
    )


def scale_shift_nchwc(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:  # noqa: N803
    """Scale and shift per channel, blocked NCHWc layout."""
    return te.compute(
        Input.shape,
        lambda b, cc, i, j, cb: Input[b, cc, i, j, cb] * Scale[cc, cb] + Shift[cc, cb],
        name="ScaleShift",
        tag=BROADCAST,
    )

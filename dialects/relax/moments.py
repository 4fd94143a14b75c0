"""Mean and variance of the input itself, and normalisation by them."""

from collections.abc import Callable, Sequence

import numpy as np

from relax_mlir.dialects.relax.elementwise import wide_type
from relax_mlir.dialects.relax.reduce import element_count
from relax_mlir.dialects.tir import Buffer, Builder, Scalar

__all__ = ["normalized", "placed", "scaled", "statistics"]


def normalized(x: np.ndarray, axes: Sequence[int], epsilon: float) -> np.ndarray:
    """An array moved and scaled to mean 0 and variance 1 over ``axes``."""
    axes = tuple(axes)
    centred = x - x.mean(axes, keepdims=True)
    variance = (centred * centred).mean(axes, keepdims=True)
    return centred / np.sqrt(variance + epsilon)


def statistics(
    b: Builder,
    x: Buffer,
    axes: Sequence[int],
    inverse: Callable[[Scalar], Scalar],
) -> tuple[Buffer, Buffer]:
    """Mean, and ``inverse`` of the variance, over ``axes``, which stay with size 1.

    The variance is the mean of squared differences from the mean: the difference of mean
    square and squared mean would cancel.
    """
    wide = wide_type(x.dtype)
    sizes = [x.shape[axis] for axis in axes]

    def squared_difference(v: Scalar, m: Scalar) -> Scalar:
        difference = b.wide(v) - m
        return difference * difference

    total = b.reduce("add", x, axes, fn=b.wide, dtype=wide, name="sum")
    mean = b.map(lambda t: t / element_count(b, sizes, wide), total, name="mean")
    squares = b.reduce(
        "add", [x, mean], axes, fn=squared_difference, dtype=wide, name="squares"
    )
    factor = b.map(
        lambda t: inverse(t / element_count(b, sizes, wide)), squares, name="factor"
    )
    return mean, factor


def scaled(
    y: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    *,
    center: bool,
    scale: bool,
) -> np.ndarray:
    """An array times gamma, plus beta, where they count."""
    y = y * gamma if scale else y
    return y + beta if center else y


def placed(values: np.ndarray, axes: Sequence[int], rank: int) -> np.ndarray:
    """An array whose axes are these of an array of ``rank``, to be broadcast to that."""
    order = np.argsort(axes)
    sizes = dict(zip(sorted(axes), values.transpose(order).shape, strict=True))
    return values.transpose(order).reshape([sizes.get(i, 1) for i in range(rank)])

"""Mean and variance over axes, shared by the normalisation operators."""

from collections.abc import Callable, Sequence

import numpy as np

from relax_mlir.dialects.relax.elementwise import wide_type
from relax_mlir.dialects.relax.reduce import element_count
from relax_mlir.dialects.tir import Buffer, Builder, Scalar

__all__ = [
    "broadcastable_weights",
    "mean_and_variance",
    "normalize_mean_variance",
    "scale_and_shift",
]


def normalize_mean_variance(
    x: np.ndarray, axes: Sequence[int], epsilon: float
) -> np.ndarray:
    """An array normalised to mean 0 and variance 1 over ``axes``."""
    axes = tuple(axes)
    centred = x - x.mean(axes, keepdims=True)
    variance = (centred * centred).mean(axes, keepdims=True)
    return centred / np.sqrt(variance + epsilon)


def mean_and_variance(
    b: Builder,
    x: Buffer,
    axes: Sequence[int],
    inverse: Callable[[Scalar], Scalar],
) -> tuple[Buffer, Buffer]:
    """Mean and ``inverse(variance)`` over ``axes``, which are kept with size 1.

    The variance is computed in two passes, as the mean of squared differences from the
    mean; E[x^2] - E[x]^2 would cancel.
    """
    wide = wide_type(x.dtype)
    sizes = [x.shape[axis] for axis in axes]

    def squared_difference(v: Scalar, m: Scalar) -> Scalar:
        difference = b.widen(v) - m
        return difference * difference

    total = b.reduce("add", x, axes, fn=b.widen, dtype=wide, name="sum")
    mean = b.map(lambda t: t / element_count(b, sizes, wide), total, name="mean")
    squares = b.reduce(
        "add", [x, mean], axes, fn=squared_difference, dtype=wide, name="squares"
    )
    factor = b.map(
        lambda t: inverse(t / element_count(b, sizes, wide)), squares, name="factor"
    )
    return mean, factor


def scale_and_shift(
    y: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    *,
    center: bool,
    scale: bool,
) -> np.ndarray:
    """The affine part of a normalisation: ``y * gamma`` if scale, ``+ beta`` if center."""
    y = y * gamma if scale else y
    return y + beta if center else y


def broadcastable_weights(
    values: np.ndarray, axes: Sequence[int], rank: int
) -> np.ndarray:
    """Reshapes values over ``axes`` of an array of ``rank`` so that they broadcast to it."""
    order = np.argsort(axes)
    sizes = dict(zip(sorted(axes), values.transpose(order).shape, strict=True))
    return values.transpose(order).reshape([sizes.get(i, 1) for i in range(rank)])

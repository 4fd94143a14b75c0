"""Activation functions of recurrent cells, for numpy arrays and for scalars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from relax_mlir.dialects.tir import Builder, Scalar

__all__ = [
    "CELL_FUNCTIONS",
    "CellFunction",
    "array_functions",
    "check_functions",
    "scalar_functions",
]


@dataclass(frozen=True)
class CellFunction:
    """An activation function of x with up to two parameters.

    Attributes:
        array: the function on numpy arrays.
        scalar: the function on scalars or vectors of a tensor program.
        alpha, beta: defaults of the parameters; None if it has no such parameter.
    """

    array: Callable[[np.ndarray, float, float], np.ndarray]
    scalar: Callable[[Builder, Scalar, float, float], Scalar]
    alpha: float | None = None
    beta: float | None = None


def _sigmoid(b: Builder, x: Scalar, alpha: float, beta: float) -> Scalar:
    return 1.0 / (1.0 + b.math("exp", -x))


def _elu(b: Builder, x: Scalar, alpha: float, beta: float) -> Scalar:
    return b.select(x >= 0, x, b.math("expm1", x.minimum(0)) * alpha)


def _softplus(b: Builder, x: Scalar, alpha: float, beta: float) -> Scalar:
    return x.maximum(0) + b.math("log1p", b.math("exp", -b.math("absf", x)))


CELL_FUNCTIONS: Mapping[str, CellFunction] = {
    "affine": CellFunction(
        lambda x, p, q: p * x + q, lambda b, x, p, q: x * p + q, 1.0, 0.0
    ),
    "elu": CellFunction(
        lambda x, p, q: np.where(x >= 0, x, p * np.expm1(np.minimum(x, 0))), _elu, 1.0
    ),
    "hardsigmoid": CellFunction(
        lambda x, p, q: np.clip(p * x + q, 0, 1),
        lambda b, x, p, q: (x * p + q).maximum(0).minimum(1),
        0.2,
        0.5,
    ),
    "leakyrelu": CellFunction(
        lambda x, p, q: np.where(x >= 0, x, p * x),
        lambda b, x, p, q: b.select(x >= 0, x, x * p),
        0.01,
    ),
    "relu": CellFunction(
        lambda x, p, q: np.maximum(x, 0), lambda b, x, p, q: x.maximum(0)
    ),
    "scaledtanh": CellFunction(
        lambda x, p, q: p * np.tanh(q * x),
        lambda b, x, p, q: b.math("tanh", x * q) * p,
        1.0,
        1.0,
    ),
    "sigmoid": CellFunction(lambda x, p, q: 1 / (1 + np.exp(-x)), _sigmoid),
    "softplus": CellFunction(
        lambda x, p, q: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), _softplus
    ),
    "softsign": CellFunction(
        lambda x, p, q: x / (1 + np.abs(x)),
        lambda b, x, p, q: x / (1.0 + b.math("absf", x)),
    ),
    "tanh": CellFunction(
        lambda x, p, q: np.tanh(x), lambda b, x, p, q: b.math("tanh", x)
    ),
    "thresholdedrelu": CellFunction(
        lambda x, p, q: np.where(x >= p, x, 0),
        lambda b, x, p, q: b.select(x >= p, x, b.constant(0, x.dtype)),
        1.0,
    ),
}


def check_functions(
    names: str, alphas: Sequence[float], betas: Sequence[float], count: int
) -> None:
    """Checks the number and names of functions, and the numbers of parameters.

    Raises:
        ValueError: a number differs from ``count``, or a name is unknown.
    """
    listed = names.split()
    if not len(listed) == len(alphas) == len(betas) == count:
        raise ValueError(
            f"expected {count} functions with alpha and beta each, got {len(listed)}, "
            f"{len(alphas)} and {len(betas)}"
        )
    for name in listed:
        if name not in CELL_FUNCTIONS:
            known = ", ".join(CELL_FUNCTIONS)
            raise ValueError(f"unknown function `{name}`: expected one of {known}")


def array_functions(
    names: str,
    alphas: Sequence[float],
    betas: Sequence[float],
    clip: float | None,
) -> list[Callable[[np.ndarray], np.ndarray]]:
    """The functions on arrays, with arguments clipped to [-clip, clip]."""

    def clipped(name: str, p: float, q: float) -> Callable[[np.ndarray], np.ndarray]:
        def function(x: np.ndarray) -> np.ndarray:
            x = x if clip is None else np.clip(x, -clip, clip)
            return CELL_FUNCTIONS[name].array(x, p, q)

        return function

    return list(map(clipped, names.split(), alphas, betas))


def scalar_functions(
    b: Builder,
    names: str,
    alphas: Sequence[float],
    betas: Sequence[float],
    clip: float | None,
) -> list[Callable[[Scalar], Scalar]]:
    """The functions on scalars; see :func:`array_functions`."""

    def clipped(name: str, p: float, q: float) -> Callable[[Scalar], Scalar]:
        def function(x: Scalar) -> Scalar:
            x = x if clip is None else x.maximum(-clip).minimum(clip)
            return CELL_FUNCTIONS[name].scalar(b, x, p, q)

        return function

    return list(map(clipped, names.split(), alphas, betas))

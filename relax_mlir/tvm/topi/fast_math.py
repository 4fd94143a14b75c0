"""Fast approximations of exp, tanh and erf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, const, intrinsics
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.broadcast import maximum, minimum
from relax_mlir.tvm.topi.math import cast
from relax_mlir.tvm.topi.sizes import compute_tensor, is_float
from relax_mlir.tvm.topi.tag import ELEMWISE

__all__ = ["fast_erf", "fast_exp", "fast_tanh"]

# Coefficients of rational approximations, highest power first.
# Source: Eigen's packet math (tanh, erf) and Cephes (exp).
_EXP = (
    *(1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3),
    *(4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
)
_TANH_NUMERATOR = (
    *(-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11),
    *(5.12229709037114e-08, 1.48572235717979e-05, 6.37261928875436e-04),
    4.89352455891786e-03,
)
_TANH_DENOMINATOR = (
    *(1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03),
    4.89352518554385e-03,
)
_ERF_NUMERATOR = (
    *(-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06),
    *(-5.69250639462346e-05, -7.34990630326855e-04, -2.95459980854025e-03),
    -1.60960333262415e-02,
)
_ERF_DENOMINATOR = (
    *(-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03),
    *(-7.37332916720468e-03, -1.42647390514189e-02),
)


def _horner(x: PrimExpr, coefficients: Sequence[float]) -> PrimExpr:
    """Evaluate a polynomial by Horner's rule; highest power first."""
    first, second, *rest = (_float32_const(c, x.dtype) for c in coefficients)
    total = x * first + second
    for coefficient in rest:
        total = x * total + coefficient
    return total


def _float32_const(value: float, dtype: str) -> PrimExpr:
    return const(float(np.float32(value)), dtype)


def fast_tanh(x: Tensor) -> Tensor:
    """Hyperbolic tangent; a rational approximation for float32."""
    if not is_float(x.dtype):
        x = cast(x, "float32")
    if x.dtype != "float32":
        return compute_tensor(
            x.shape, lambda i: intrinsics.tanh(x(*i)), "T_fast_tanh", ELEMWISE
        )
    clamped = maximum(const(-9.0, x.dtype), minimum(const(9.0, x.dtype), x))

    def element(i: tuple[Any, ...]) -> PrimExpr:
        value = clamped(*i)
        square = value * value
        numerator = value * _horner(square, _TANH_NUMERATOR)
        return numerator / _horner(square, _TANH_DENOMINATOR)

    return compute_tensor(x.shape, element, "T_fast_tanh", ELEMWISE)


def fast_erf(x: Tensor) -> Tensor:
    """Error function; a rational approximation for float32 and float16."""
    if x.dtype not in ("float32", "float16"):
        return compute_tensor(
            x.shape, lambda i: intrinsics.erf(x(*i)), "T_fast_erf", ELEMWISE
        )

    def element(i: tuple[Any, ...]) -> PrimExpr:
        bound = const(4.0, x.dtype)
        value = intrinsics.max(intrinsics.min(x(*i), bound), const(-4.0, x.dtype))
        square = value * value
        return (
            value * _horner(square, _ERF_NUMERATOR) / _horner(square, _ERF_DENOMINATOR)
        )

    return compute_tensor(x.shape, element, "T_fast_erf", ELEMWISE)


def fast_exp(x: Tensor) -> Tensor:
    """Exponential; for float32, a polynomial scaled by a power of two built from bits."""
    if not is_float(x.dtype):
        x = cast(x, "float32")
    if x.dtype != "float32":
        return compute_tensor(
            x.shape, lambda i: intrinsics.exp(x(*i)), "T_fast_exp", ELEMWISE
        )

    def element(i: tuple[Any, ...]) -> PrimExpr:
        high, low = (
            _float32_const(v, x.dtype) for v in (88.3762626647950, -88.3762626647949)
        )
        value = intrinsics.max(intrinsics.min(x(*i), high), low)
        log2e, ln2 = (
            _float32_const(v, x.dtype)
            for v in (1.44269504088896341, 0.6931471805599453)
        )
        power = intrinsics.floor(value * log2e + _float32_const(0.5, x.dtype))
        rest = value - power * ln2
        first, *others = (_float32_const(c, x.dtype) for c in _EXP)
        total = first
        for coefficient in others:
            total = total * rest + coefficient
        fraction = total * rest * rest + rest + _float32_const(1.0, x.dtype)
        exponent = prim.cast("int32", power + _float32_const(127.0, x.dtype)) << 23
        scale = intrinsics.reinterpret(x.dtype, exponent)
        return intrinsics.max(scale * fraction, x(*i))

    return compute_tensor(x.shape, element, "T_fast_exp", ELEMWISE)

"""Logarithms and inverse hyperbolic functions of f32 lanes.

Arguments are reduced to x = m * 2**e with m around 1, and log(m) is a polynomial. Error
bounds are the worst over all 2**32 floats, against glibc in double, in units in the last
place.

Source: W. J. Cody and W. Waite, Software Manual for the Elementary Functions, 1980, for
the reduction; W. Kahan, Branch Cuts for Complex Elementary Functions, 1987, for the
inverse hyperbolic functions. The coefficients are our own minimax fits.
"""

import math

from relax_mlir.schedules.vector_math.lanes import (
    Lanes,
    fma,
    horner,
    on_lanes,
    select,
    sqrt,
)

__all__ = ["acosh", "asinh", "atanh", "log", "log1p", "log2", "log10", "split_exponent"]

_LN_2 = 0.693147182
_LOG10_2 = (0.30102998, 1.54813335e-8)  # high and low part
_SQRT_HALF_BITS = 0x3F3504F3
_ONE_BITS = 0x3F800000
# log(1 + f) = f + f*f*t(f) for 1 + f in [sqrt(1/2), sqrt(2)], relative error 2**-27.2.
_LOG = (
    -0.5,
    0.333333313,
    -0.250008225,
    0.200012594,
    -0.166233212,
    0.142010495,
    -0.131598905,
    0.127652839,
    -0.0763828084,
)
# log2(1 + f) = f*C + f*t(f), C the leading constant in f32, relative error 2**-27.6.
_LOG2 = (
    1.44269502,
    (
        1.92596303e-8,
        -0.721347332,
        0.480898201,
        -0.360698581,
        0.288571686,
        -0.239577994,
        0.20447132,
        -0.191213742,
        0.187221408,
        -0.11109021,
    ),
)
_LOG10 = (
    0.434294492,
    (
        -1.01030500e-8,
        -0.217147186,
        0.144764796,
        -0.108580738,
        0.0868663043,
        -0.0721252412,
        0.0616226271,
        -0.0576175936,
        0.0558297113,
        -0.0325230435,
    ),
)

# atanh(r) = r + r**3 * p(r*r) for |r| <= 1/4, Taylor's series, relative error 2**-27.7.
_ATANH = (1 / 3, 1 / 5, 1 / 7, 1 / 9, 1 / 11)


def split_exponent(x: Lanes) -> tuple[Lanes, Lanes]:
    """The integer e and m in [sqrt(1/2), sqrt(2)) with x = m * 2**e, for finite x > 0."""
    is_subnormal = x < 2.0**-126
    bits = select(is_subnormal, x * 2.0**23, x).bits()
    exponent = (bits - _SQRT_HALF_BITS) >> 23
    mantissa = (bits - (exponent << 23)).floats()
    return exponent - select(is_subnormal, bits.like(23), 0), mantissa


def _with_specials(x: Lanes, result: Lanes) -> Lanes:
    """Override a logarithm for x = 0, x < 0, infinity and NaN."""
    special = select(x.equal(0.0), x.like(-math.inf), math.nan)
    return select(x > 0.0, select(x < math.inf, result, x), special)


@on_lanes
def log(x: Lanes) -> Lanes:
    """Natural logarithm.

    Error: 0.94 ulp, subnormal x included. log(+-0) = -inf, log(x < 0) = NaN.
    """
    exponent, mantissa = split_exponent(x)
    return _with_specials(x, _log_of(exponent, mantissa - 1.0))


def _log_of(exponent: Lanes, f: Lanes) -> Lanes:
    """Exponent * ln 2 + log(1 + f)."""
    return fma(exponent.to_f32(), _LN_2, fma(f * f, horner(f, _LOG), f))


@on_lanes
def log2(x: Lanes) -> Lanes:
    """Logarithm to base 2.

    Error: 0.99 ulp; exact for powers of two.
    """
    exponent, mantissa = split_exponent(x)
    f = mantissa - 1.0
    part = fma(f, _LOG2[0], f * horner(f, _LOG2[1]))
    return _with_specials(x, part + exponent.to_f32())


@on_lanes
def log10(x: Lanes) -> Lanes:
    """Logarithm to base 10.

    Error: 0.95 ulp.
    """
    exponent, mantissa = split_exponent(x)
    f = mantissa - 1.0
    part = fma(f, _LOG10[0], f * horner(f, _LOG10[1]))
    whole = exponent.to_f32()
    part = fma(whole, _LOG10_2[1], part)
    return _with_specials(x, fma(whole, _LOG10_2[0], part))


def _log1p(x: Lanes, is_doubled: Lanes | None = None) -> Lanes:
    """log(1 + x) for finite x > -1; log(2 (1 + x)) where ``is_doubled``."""
    u = x + 1.0
    exponent = (u.bits() - _SQRT_HALF_BITS) >> 23
    power = exponent << 23
    scale = (power.like(_ONE_BITS) - power).floats()
    f = fma(x, scale, scale - 1.0)
    f = select(x < 2.0**30, f, (u.bits() - power).floats() - 1.0)
    if is_doubled is not None:
        exponent = exponent + select(is_doubled, exponent.like(1), 0)
    return _log_of(exponent, f)


@on_lanes
def log1p(x: Lanes) -> Lanes:
    """log(1 + x).

    Error: 1.50 ulp.
    """
    result = select(x.equal(0.0), x, _log1p(x))
    special = select(x.equal(-1.0), x.like(-math.inf), math.nan)
    return select(x > -1.0, select(x < math.inf, result, x), special)


@on_lanes
def asinh(x: Lanes) -> Lanes:
    """Inverse hyperbolic sine.

    Error: 1.88 ulp.
    """
    a = abs(x)
    square = a * a
    exact = a + square / (sqrt(square + 1.0) + 1.0)
    is_large = a > 2.0**20
    result = _log1p(select(is_large, a, exact), is_large)
    result = select(a < math.inf, result, a)
    return select(a < 2.0**-12, x, result.flip(x.sign()))


@on_lanes
def acosh(x: Lanes) -> Lanes:
    """Inverse hyperbolic cosine.

    Error: 2.03 ulp. NaN for x < 1.
    """
    t = x - 1.0
    is_large = x > 2.0**20
    result = _log1p(select(is_large, x, t + sqrt(fma(t, t, t + t))), is_large)
    return select(x >= 1.0, select(x < math.inf, result, x), math.nan)


@on_lanes
def atanh(x: Lanes) -> Lanes:
    """Inverse hyperbolic tangent.

    Error: 1.75 ulp. NaN for |x| > 1, infinity at +-1.
    """
    a = abs(x)
    result = _log1p((a + a) / (1.0 - a)) * 0.5
    result = select(a < 1.0, result, select(a.equal(1.0), a.like(math.inf), math.nan))
    square = x * x
    near = fma(square * x, horner(square, _ATANH), x)
    return select(a < 0.25, near, result.flip(x.sign()))

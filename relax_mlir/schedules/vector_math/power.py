"""Powers of f32 lanes.

The logarithm is computed in f64. Pairs of f32 (high and low parts) were rejected: as fast
with 16 lanes, a quarter slower with 8, more code, and 1.0 instead of 0.53 ulp.

Source: IEEE 754-2019, section 9.2.1, for the special values. The coefficients are our
own minimax fits.
"""

import math

from relax_mlir.schedules.vector_math.integer_power import power_by_squaring
from relax_mlir.schedules.vector_math.lanes import (
    Lanes,
    constant_lanes,
    fma,
    horner,
    on_lanes,
    select,
    sqrt,
)
from relax_mlir.schedules.vector_math.logarithm import split_exponent

__all__ = ["fpowi", "pow", "rsqrt"]

# log2(m) = s * p(s*s) with s = (m - 1) / (m + 1), |s| <= 0.172, relative error 2**-45.
_LOG2 = (
    2.8853900817778495,
    0.9617966941139643,
    0.5770779421987295,
    0.41220926795509627,
    0.31990509989692006,
    0.2829081744925835,
)
# 2**r for |r| <= 0.5, relative error 2**-29.
_EXP2 = (
    1.0000000005540948,
    0.6931472057369156,
    0.24022646890807564,
    0.05550328777172691,
    0.009618488938211439,
    0.0013399931138829938,
    0.00015345817051879747,
)
_ROUND = 1.5 * 2.0**52 + 1023  # adding it rounds f64 to an integer plus exponent bias


@on_lanes
def rsqrt(x: Lanes) -> Lanes:
    """1 / sqrt(x).

    Error: 1.49 ulp over all 2**32 floats.
    """
    return 1.0 / sqrt(x)


def _log2(a: Lanes) -> Lanes:
    """log2(a) in f64, for a >= 0 or NaN."""
    exponent, mantissa = split_exponent(a)
    whole = select(a < math.inf, exponent.to_f32(), a)
    whole = select(a.equal(0.0), a.like(-math.inf), whole).to_f64()
    m = mantissa.to_f64()
    s = (m - 1.0) / (m + 1.0)
    return fma(s, horner(s * s, _LOG2), whole)


def _exp2(x: Lanes) -> Lanes:
    """2**x of an f64, as f32; the conversion handles subnormals and overflow."""
    x = x.at_most(200.0).at_least(-200.0)
    shifted = x + _ROUND
    fraction = horner(x - (shifted - _ROUND), _EXP2)
    return (fraction * (shifted.bits() << 52).floats()).to_f32()


def _simple_power(x: Lanes, exponent: float | None) -> Lanes | None:
    """x**exponent for exponents without a logarithm, else None; at most 1.9 ulp."""
    if exponent in (1, 2, 3, 4):
        return power_by_squaring(x, int(exponent))
    if exponent == -1:
        return 1.0 / x
    if exponent not in (0.5, -0.5):
        return None
    # Adding zero turns -0 to 0; IEEE pow(-inf, +-0.5) is not NaN.
    root = select(x.equal(-math.inf), x.like(math.inf), sqrt(x + 0.0))
    return root if exponent > 0 else 1.0 / root


@on_lanes
def pow(x: Lanes, y: Lanes) -> Lanes:
    """x**y, IEEE 754 pow.

    Error: 0.53 ulp, subnormal results included, on 1.2e8 random pairs: all floats,
    results of all magnitudes, bases near 1, integral exponents. Constant exponents 1, 2,
    3, 4, -1 and +-0.5 use multiplications and roots, which are faster: 1.9 ulp.
    """
    simple = _simple_power(x, constant_lanes(y.value))
    if simple is not None:
        return simple
    half = y * 0.5
    is_integer = y.truncate().equal(y)
    is_even = half.truncate().equal(half)
    sign = select(is_integer, select(is_even, x.bits().like(0), x.sign()), 0)
    is_real = is_integer | (x >= 0.0) | x.equal(-math.inf)
    a = abs(x)
    magnitude = _exp2(_log2(a) * y.to_f64())
    magnitude = select(a.equal(1.0) | y.equal(0.0), a.like(1.0), magnitude)
    return select(is_real, magnitude.flip(sign), math.nan)


@on_lanes
def fpowi(x: Lanes, n: Lanes) -> Lanes:
    """x**n for an integer n.

    As :func:`pow`, but the exponent may have any width, and its parity is exact.

    Error: 0.53 ulp.
    """
    simple = _simple_power(x, constant_lanes(n.value))
    if simple is not None:
        return simple
    a = abs(x)
    sign = select((n & 1).equal(1), x.sign(), 0)
    # |x|**(2**31 - 1) overflows or underflows for all |x| but 1.
    n = n.at_most(2**31 - 1).at_least(-(2**31)) if n.element.width > 32 else n
    magnitude = _exp2(_log2(a) * n.to_i32().to_f64())
    is_one = a.equal(1.0) | n.equal(0)
    return select(is_one, a.like(1.0), magnitude).flip(sign)

"""Exponentials and hyperbolic functions of f32 lanes.

All reduce the argument by Cody and Waite: x = n ln 2 + r, |r| <= ln 2 / 2, with ln 2
in two constants and fused multiply-adds, so that the first product is exact.

Error bounds are the worst over all 2**32 floats, against glibc in double, in units in
the last place (of 2**-149 where the result is subnormal).

Source: W. J. Cody and W. Waite, Software Manual for the Elementary Functions, 1980. The
coefficients are our own minimax fits (Remez; each rounded to f32, the rest fitted anew).
"""

from relax_mlir.schedules.vector_math.lanes import Lanes, fma, horner, on_lanes, select

__all__ = [
    "LOG2_E",
    "cosh",
    "exp",
    "exp2",
    "exp2_normal",
    "exp_not_positive",
    "expm1",
    "expm1_reduced",
    "reduce_by_ln_2",
    "sinh",
    "tanh",
]

LOG2_E = 1.44269502
_LN_2 = (0.693147182, -1.90465421e-9)  # high and low part
# Adding 1.5 * 2**23 rounds to an integer in the low mantissa bits.
_ROUND = 12582912.0
# e**r = 1 + r + r*r*q(r) for |r| <= 0.347, relative error 2**-27.8.
_EXP = (0.5, 0.166664883, 0.0416655578, 0.0083723003, 0.00140350848)
# The same for r in [-0.289, 0.407], error 2**-30.6 relative to e**r - 1.
_EXPM1 = (0.5, 0.166666731, 0.041666653, 0.00833116844, 0.00139084876, 0.000215253676)
# sinh(r) = r + r**3 * p(r*r) for |r| <= 1/2, Taylor's series, relative error 2**-26.4.
_SINH = (1 / 6, 1 / 120, 1 / 5040)
# 2**r = 1 + r*q(r) for |r| <= 0.5, relative error 2**-26.2.
_EXP2 = (
    0.693147182,
    0.240225941,
    0.0555036627,
    0.00962543581,
    0.00133878784,
    0.00013334885,
)


def _power_of_two(p: Lanes, biased: Lanes) -> Lanes:
    """p * 2**(biased - 254), as two factors: the result may be subnormal or infinite.

    Args:
        p: About 1.
        biased: In 0..508; higher bits than the tenth are ignored.
    """
    half = (biased << 22) & -(1 << 23)
    rest = (biased << 23) - half
    return p * half.floats() * rest.floats()


def reduce_by_ln_2(x: Lanes, bias: int, shift: float = 0.0) -> tuple[Lanes, Lanes]:
    """Cody-Waite reduction x = n ln 2 + r: n + bias in the low bits of an integer, and r.

    Args:
        x: In -2**22..2**22.
        bias: Added to n.
        shift: Moves r to [-ln 2 / 2, ln 2 / 2] - shift ln 2.
    """
    if shift:
        shifted = fma(x, LOG2_E, shift) + (_ROUND + bias)
    else:
        shifted = fma(x, LOG2_E, _ROUND + bias)
    n = shifted - (_ROUND + bias)
    return shifted.bits(), fma(n, -_LN_2[1], fma(n, -_LN_2[0], x))


def expm1_reduced(r: Lanes) -> Lanes:
    """e**r - 1 for |r| <= ln 2 / 2, with an error of 2**-27.8 relative to e**r."""
    return fma(r * r, horner(r, _EXP), r)


def _exp_near_one(r: Lanes) -> Lanes:
    """e**r for |r| <= ln 2 / 2."""
    return horner(r, (1.0, 1.0, *_EXP))


def _exp_times(x: Lanes, power: int = 0) -> Lanes:
    """e**x * 2**power, |power| <= 2."""
    biased, r = reduce_by_ln_2(x.at_most(90.0).at_least(-104.0), 254 + power)
    return _power_of_two(_exp_near_one(r), biased)


@on_lanes
def exp_not_positive(x: Lanes) -> Lanes:
    """e**x for x <= 0; subnormal results may be flushed to 0.

    Takes three quarters of the time of :func:`exp`: there is no overflow, and one power of
    two suffices. For softmax, whose sum is at least 1, so that 2**-126 is negligible.

    Error: 0.91 ulp for -87.3 <= x <= 0; decreases to 0 between -87.3 and -87.7.
    """
    biased, r = reduce_by_ln_2(x.at_least(-88.0), 127)
    return _exp_near_one(r) * (biased << 23).floats()


@on_lanes
def exp(x: Lanes) -> Lanes:
    """e**x.

    Error: 0.91 ulp, subnormal results included.
    """
    return _exp_times(x)


def exp2_normal(x: Lanes) -> Lanes:
    """2**x for -126 <= x <= 127, where the result is normal."""
    shifted = x + (_ROUND + 127)
    r = x - (shifted - (_ROUND + 127))
    return fma(r, horner(r, _EXP2), 1.0) * (shifted.bits() << 23).floats()


@on_lanes
def exp2(x: Lanes) -> Lanes:
    """2**x.

    Error: 0.92 ulp, subnormal results included; exact for whole x.
    """
    x = x.at_most(129.0).at_least(-151.0)
    shifted = x + (_ROUND + 254)
    r = x - (shifted - (_ROUND + 254))
    return _power_of_two(fma(r, horner(r, _EXP2), 1.0), shifted.bits())


def _expm1_times(x: Lanes, power: int) -> Lanes:
    """(e**x - 1) * 2**power for x >= -30, with e**x * 2**power finite."""
    biased, r = reduce_by_ln_2(x, 127 + power, -0.085)
    p = fma(r * r, horner(r, _EXPM1), r)
    scale = (biased << 23).floats()
    return fma(scale, p, scale - 2.0**power)


@on_lanes
def expm1(x: Lanes) -> Lanes:
    """e**x - 1.

    Error: 1.33 ulp.
    """
    result = _expm1_times(x.at_most(89.5).at_least(-30.0), -2) * 4.0
    return select(abs(x) < 2.0**-25, x, result)


@on_lanes
def sinh(x: Lanes) -> Lanes:
    """(e**x - e**-x) / 2.

    Error: 1.7 ulp.
    """
    quarter = _expm1_times(abs(x).at_most(89.5), -2)
    ratio = quarter / fma(quarter, 4.0, 1.0)  # scaled by 1/4 against inf / inf
    result = (ratio + quarter) * 2.0
    square = x * x
    near = fma(square * x, horner(square, _SINH), x)
    return select(abs(x) < 0.5, near, result.flip(x.sign()))


@on_lanes
def cosh(x: Lanes) -> Lanes:
    """(e**x + e**-x) / 2.

    Error: 1.4 ulp.
    """
    half = _exp_times(abs(x), -1)
    return half + 0.25 / half


@on_lanes
def tanh(x: Lanes) -> Lanes:
    """(e**x - e**-x) / (e**x + e**-x).

    Error: 1.95 ulp; x itself for small x. Why not Eigen's rational function: its
    relative error is 2.7e-7, up to 4.5 ulp.
    """
    # (1 - e) / (1 + e) with e = exp(-2 |x|), both from e**r - 1: small x stay exact.
    biased, r = reduce_by_ln_2((abs(x) * -2.0).at_least(-30.0), 127)
    p = fma(r * r, horner(r, _EXPM1), r)
    scale = (biased << 23).floats()
    above = fma(-scale, p, 1.0 - scale)
    return (above / fma(scale, p, scale + 1.0)).flip(x.sign())

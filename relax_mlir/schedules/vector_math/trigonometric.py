"""Sine, cosine and tangent of f32 lanes.

Arguments below 2**17 are reduced by Cody and Waite with three constants. Larger ones are
reduced by Payne and Hanek with 96 bits of 1/pi, in a branch that is taken if any lane
needs it.

Error bounds are the worst over all 2**32 floats, against glibc in double, in units in
the last place; infinity gives NaN.

Source: W. J. Cody and W. Waite, Software Manual for the Elementary Functions, 1980;
M. Payne and R. Hanek, Radian Reduction for Trigonometric Functions, 1983. Coefficients:
our own minimax fits.
"""

import itertools
import math

from relax_mlir.schedules.vector_math.lanes import (
    Lanes,
    fma,
    horner,
    if_any,
    on_lanes,
    select,
)

__all__ = ["cos", "sin", "tan"]

_PI = (3.14159274, -8.74227766e-8, -3.43024902e-15)
_ROUND = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer
_LARGE = 2.0**17
# sin(r) = r + r**3 * p(r*r) for |r| <= 1.58, relative error 2**-27.2.
_SIN = (-0.166666597, 0.00833306834, -0.000198096546, 2.60572824e-6)
# tan(r) = r + r**3 * p(r*r) for |r| <= 0.79, relative error 2**-29.3.
_TAN = (
    0.333333522,
    0.13332577,
    0.054069865,
    0.0212301109,
    0.0109722121,
    -8.47393604e-05,
    0.00446275529,
)
# The bits of 1 / (2 pi) in words of 32, after seven zero bits.
_INVERSE_TURN = (
    0x00517CC1,
    0xB727220A,
    0x94FE13AB,
    0xE8FA9A6E,
    0xE06DB14A,
    0xCC9E21C8,
    0x20FF28B1,
)


def _phase(a: Lanes) -> Lanes:
    """Payne-Hanek reduction: a / (2 pi) modulo 1 in units of 2**-64, for a >= 2**16."""
    exponent = a.bits().shift_down(23) - (127 + 16)
    first, offset = exponent >> 5, exponent & 31
    words = [_pick_word(first, start) for start in range(4)]
    high, middle, low = (
        ((upper << offset) | (lower.shift_down(1).shift_down(31 - offset))).to_i64()
        for upper, lower in itertools.pairwise(words)
    )
    mantissa = ((a.bits() & 0x7FFFFF) | 0x800000).to_i64()
    return (mantissa * high << 32) + mantissa * middle + (mantissa * low).shift_down(32)


def _pick_word(first: Lanes, start: int) -> Lanes:
    """Word ``first + start`` of 1 / (2 pi), for ``first`` in 0..3."""
    signed = [word - (word >> 31 << 32) for word in _INVERSE_TURN[start:]]
    picked = first.like(signed[0])
    for index in (1, 2, 3):
        picked = select(first.equal(index), first.like(signed[index]), picked)
    return picked


def _reduce_large(a: Lanes, step: float, half: bool) -> tuple[Lanes, Lanes, Lanes]:
    """n and r of :func:`_reduce` for a >= 2**16, and the rounding error of r.

    Args:
        a: Infinity gives NaN.
        step: Modulus of the reduction, pi or pi / 2.
        half: As for :func:`_reduce`.
    """
    phase = _phase(a)
    if step < 3.0:
        phase = phase << 1
    if half:
        phase = phase + (1 << 62)
    odd = (phase + (1 << 62)).shift_down(63)
    rest = (phase - (odd << 63)).to_f64() * (step * 2.0**-63)
    r = rest.to_f32()
    return odd.to_i32(), r + (a - a), (rest - r.to_f64()).to_f32()


def _reduce(a: Lanes, half: bool = False) -> tuple[Lanes, Lanes]:
    """Cody-Waite reduction a = n * pi + r, |r| <= pi / 2: at least the low bit of n, and r.

    Args:
        a: Nonnegative.
        half: Reduce by half-integral multiples of pi instead: a = (n - 1/2) * pi + r.
    """
    fold = 1 / math.pi
    turns = fma(a, fold, 0.5) + _ROUND if half else fma(a, fold, _ROUND)
    n = turns - _ROUND
    n = n - 0.5 if half else n
    r = a
    for part in _PI:
        r = fma(n, -part, r)
    is_large = a >= _LARGE

    def fix_large() -> tuple[Lanes, Lanes]:
        odd, rest, _ = _reduce_large(a, math.pi, half)
        return select(is_large, odd, turns.bits()), select(is_large, rest, r)

    odd, r = if_any(is_large, fix_large, (turns.bits(), r))
    return odd, r


def _reduce_exactly(a: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Reduction a = n * pi / 2 + r + low, a >= 0: at least the low bit of n, r, and low."""
    turns = fma(a, 2 / math.pi, _ROUND)
    n = turns - _ROUND
    high, middle, low = (-part / 2 for part in _PI)
    exact = fma(n, high, a)
    product = n * middle
    total = exact + product
    added = total - exact
    lost = (exact - (total - added)) + (product - added)
    lost = fma(n, low, lost + fma(n, middle, -product))
    r = total + lost
    lost = (total - r) + lost
    is_large = a >= _LARGE

    def fix_large() -> tuple[Lanes, Lanes, Lanes]:
        odd, rest, rest_lost = _reduce_large(a, math.pi / 2, False)
        return (
            select(is_large, odd, turns.bits()),
            select(is_large, rest, r),
            select(is_large, rest_lost, lost),
        )

    odd, r, lost = if_any(is_large, fix_large, (turns.bits(), r, lost))
    return odd, r, lost


def _sine(r: Lanes) -> Lanes:
    """Sine for |r| <= pi/2, with the rounding error of r*r (half an ulp near pi/2)."""
    square = r * r
    rounded_off = fma(r, r, -square)
    return fma(r, fma(square, horner(square, _SIN), rounded_off * _SIN[0]), r)


@on_lanes
def sin(x: Lanes) -> Lanes:
    """Sine.

    Error: 1.54 ulp.
    """
    n, r = _reduce(abs(x))
    return _sine(r).flip((n << 31) ^ x.sign())


@on_lanes
def cos(x: Lanes) -> Lanes:
    """Cosine.

    Error: 1.67 ulp; cos(0) is 1.
    """
    n, r = _reduce(abs(x), half=True)
    return _sine(r).flip(n << 31)


@on_lanes
def tan(x: Lanes) -> Lanes:
    """Tangent.

    Error: 1.45 ulp.
    """
    n, r, lost = _reduce_exactly(abs(x))
    square = r * r
    more = square * r * horner(square, _TAN)
    tangent = r + more
    # First-order correction by r's rounding error, with the derivative 1 + tan**2.
    low = fma(lost, fma(tangent, tangent, 1.0), (r - tangent) + more)
    reciprocal = -1.0 / tangent
    reciprocal = fma(reciprocal, reciprocal * low, reciprocal)
    is_odd = (n & 1).equal(1)
    return select(is_odd, reciprocal, tangent + low).flip(x.sign())

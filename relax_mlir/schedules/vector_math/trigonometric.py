"""Sine, cosine and tangent of f32 lanes.

Below 2**17 the argument is reduced by Cody and Waite with three constants; a branch
that is not taken when all lanes are below reduces the others with 96 bits of 1/pi.

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
# The bits of 1 / (2 pi), 32 to a word, after seven zero bits.
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
    """a / (2 pi) modulo 1 in units of 2**-64, for a >= 2**16."""
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
    """The word ``start`` places after ``first``, which is in 0..3."""
    signed = [word - (word >> 31 << 32) for word in _INVERSE_TURN[start:]]
    picked = first.like(signed[0])
    for index in (1, 2, 3):
        picked = select(first.equal(index), first.like(signed[index]), picked)
    return picked


def _reduce_any(a: Lanes, step: float, ahead: bool) -> tuple[Lanes, Lanes, Lanes]:
    """n and r as :func:`_reduce` has them, for a >= 2**16, and what r lost.

    Args:
        a: Infinity gives NaN.
        step: pi, or pi / 2, of which r is the rest.
        ahead: As there.
    """
    phase = _phase(a)
    if step < 3.0:
        phase = phase << 1
    if ahead:
        phase = phase + (1 << 62)
    odd = (phase + (1 << 62)).shift_down(63)
    rest = (phase - (odd << 63)).to_f64() * (step * 2.0**-63)
    r = rest.to_f32()
    return odd.to_i32(), r + (a - a), (rest - r.to_f64()).to_f32()


def _reduce(a: Lanes, ahead: bool = False) -> tuple[Lanes, Lanes]:
    """n (at least its lowest bit) and r with a = n * pi + r, |r| <= pi / 2.

    Args:
        a: Not negative.
        ahead: Use the multiples of pi less a half: a = (n - 1/2) * pi + r.
    """
    fold = 1 / math.pi
    turns = fma(a, fold, 0.5) + _ROUND if ahead else fma(a, fold, _ROUND)
    n = turns - _ROUND
    n = n - 0.5 if ahead else n
    r = a
    for part in _PI:
        r = fma(n, -part, r)
    is_large = a >= _LARGE

    def mend() -> tuple[Lanes, Lanes]:
        odd, rest, _ = _reduce_any(a, math.pi, ahead)
        return select(is_large, odd, turns.bits()), select(is_large, rest, r)

    odd, r = if_any(is_large, mend, (turns.bits(), r))
    return odd, r


def _reduce_exactly(a: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """n (at least its lowest bit), r and what r lost: a = n * pi / 2 + r + low, a >= 0."""
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

    def mend() -> tuple[Lanes, Lanes, Lanes]:
        odd, rest, rest_lost = _reduce_any(a, math.pi / 2, False)
        return (
            select(is_large, odd, turns.bits()),
            select(is_large, rest, r),
            select(is_large, rest_lost, lost),
        )

    odd, r, lost = if_any(is_large, mend, (turns.bits(), r, lost))
    return odd, r, lost


def _sine(r: Lanes) -> Lanes:
    """Sine for |r| <= pi/2; that r*r is rounded would cost half an ulp near pi/2."""
    square = r * r
    rounded_off = fma(r, r, -square)
    return fma(r, fma(square, horner(square, _SIN), rounded_off * _SIN[0]), r)


@on_lanes
def sin(x: Lanes) -> Lanes:
    """The sine.

    Error: 1.54 ulp.
    """
    n, r = _reduce(abs(x))
    return _sine(r).flip((n << 31) ^ x.sign())


@on_lanes
def cos(x: Lanes) -> Lanes:
    """The cosine.

    Error: 1.67 ulp; cos(0) is 1.
    """
    n, r = _reduce(abs(x), ahead=True)
    return _sine(r).flip(n << 31)


@on_lanes
def tan(x: Lanes) -> Lanes:
    """The tangent.

    Error: 1.45 ulp.
    """
    n, r, lost = _reduce_exactly(abs(x))
    square = r * r
    more = square * r * horner(square, _TAN)
    tangent = r + more
    # The derivative is 1 + tan**2; what the sum lost is added.
    low = fma(lost, fma(tangent, tangent, 1.0), (r - tangent) + more)
    reciprocal = -1.0 / tangent
    reciprocal = fma(reciprocal, reciprocal * low, reciprocal)
    is_odd = (n & 1).equal(1)
    return select(is_odd, reciprocal, tangent + low).flip(x.sign())

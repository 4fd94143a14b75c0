"""Inverse sine, cosine and tangent of f32 lanes.

Error bounds are the worst over all 2**32 floats, against glibc in double, in units in
the last place.

Source: W. J. Cody and W. Waite, Software Manual for the Elementary Functions, 1980, for
the reductions. The coefficients are our own minimax fits.
"""

from relax_mlir.schedules.vector_math.lanes import (
    Lanes,
    fma,
    horner,
    on_lanes,
    select,
    sqrt,
)

__all__ = ["acos", "asin", "atan"]

_HALF_PI = (1.57079637, -4.37113883e-8)  # high and low part
# atan(r) = r + r**3 * p(r*r) for |r| <= 1, relative error 2**-28.2.
_ATAN = (
    -0.333332986,
    0.199985296,
    -0.142640159,
    0.109508812,
    -0.0839931816,
    0.0578819066,
    -0.0310978610,
    0.0108693074,
    -0.00178297353,
)
# asin(r) = r + r**3 * p(r*r) for |r| <= 0.5625, relative error 2**-29.0.
_ASIN = (
    0.166666314,
    0.0750209764,
    0.0442321822,
    0.0340109542,
    0.00674167462,
    0.0474852435,
)
# Above it the half angle is used: twice the angle is below 1 there.
_HALF_ANGLE = 0.5625


@on_lanes
def atan(x: Lanes) -> Lanes:
    """Inverse tangent, in [-pi/2, pi/2].

    Error: 1.36 ulp.
    """
    a = abs(x)
    is_large = a > 1.0
    r = select(is_large, 1.0 / a, a)
    square = r * r
    near = fma(square * r, horner(square, _ATAN), r)
    far = _HALF_PI[0] - (near - _HALF_PI[1])
    return select(is_large, far, near).flip(x.sign())


def _half_angle(a: Lanes) -> tuple[Lanes, Lanes]:
    """Whether a > 0.5625; and acos(a) / 2 if so, else asin(a)."""
    is_large = a > _HALF_ANGLE
    square = select(is_large, fma(a, -0.5, 0.5), a * a)
    r = select(is_large, sqrt(square), a)
    return is_large, fma(square * r, horner(square, _ASIN), r)


@on_lanes
def asin(x: Lanes) -> Lanes:
    """Inverse sine, in [-pi/2, pi/2]; NaN outside -1..1.

    Error: 1.36 ulp.
    """
    is_large, angle = _half_angle(abs(x))
    far = _HALF_PI[0] - (fma(angle, 2.0, -_HALF_PI[1]))
    return select(is_large, far, angle).flip(x.sign())


@on_lanes
def acos(x: Lanes) -> Lanes:
    """Inverse cosine, in [0, pi]; NaN outside -1..1.

    Error: 1.12 ulp.
    """
    is_large, angle = _half_angle(abs(x))
    signed = angle.flip(x.sign())
    near = _HALF_PI[0] - (signed - _HALF_PI[1])
    twice = angle + angle
    back = 2 * _HALF_PI[0] - (twice - 2 * _HALF_PI[1])
    return select(is_large, select(x < 0.0, back, twice), near)

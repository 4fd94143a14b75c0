"""Activation functions of f32 lanes: sigmoid, silu and gelu.

Composed of exp, erf and tanh they would lose digits by cancellation, and become 0 where the
exponential overflows. These direct expansions are accurate everywhere, in about the same
time or less.

Error bounds are the worst over all 2**32 floats, against glibc in double, in units in
the last place (of 2**-149 where the result is subnormal).

Source: D. Hendrycks and K. Gimpel, Gaussian Error Linear Units, 2016, for gelu; M. M.
Shepherd and J. G. Laframboise, Chebyshev Approximation of (1 + 2x) exp(x**2) erfc x,
1981, for the variable in which a normal distribution's tail is a polynomial. The
coefficients are our own minimax fits (Remez; each rounded to f32, the rest fitted anew).
"""

from relax_mlir.schedules.vector_math.exponential import (
    expm1_reduced,
    reduce_by_ln_2,
)
from relax_mlir.schedules.vector_math.lanes import (
    Lanes,
    fma,
    horner,
    on_lanes,
    select,
)

__all__ = ["gelu", "gelu_tanh", "sigmoid", "silu"]

# Values of up to e**115 are scaled by 2**-40.
_SCALE_BITS = 40
_SCALE = 2.0**-_SCALE_BITS
# For larger x, 1 + e**-x rounds to 1.
_SATURATED = 18.0
# The normal CDF of x is 1/2 + x * p(x*x) for |x| <= 0.782, error 2**-25.1.
_NEAR = (0.398942292, -0.0664908662, 0.00997667294, -0.00119196181, 0.000111260073)
_FAR = 0.78125
# x * e**(x*x/2) times the upper tail, as a polynomial of (x - c) / (x + d), error 2**-26.7.
_TAIL_CENTRE = (1.5625, 4.0)
_TAIL = (
    0.312926829,
    0.366424263,
    -0.702642739,
    0.799898148,
    -0.564454198,
    0.204944611,
    0.014471934,
    -0.0467639603,
    0.0141705358,
)
# gelu_tanh is x / (1 + e**-(x * (a + b*x*x))); a and b are split into high and low parts,
# with so few bits in that of a that a + b*x*x - a is exact.
_LINEAR = (1.59576797, 1.14675222e-6)
_CUBIC = (0.0713548139, 2.3988324e-9)


def _one_plus_exp(t: Lanes, low: Lanes | None = None) -> Lanes:
    """(1 + e**(t + low)) * 2**-40 for t in -18..115 and |low| below an ulp of t."""
    biased, r = reduce_by_ln_2(t, 127 - _SCALE_BITS)
    p = expm1_reduced(r if low is None else r + low)
    power = (biased << 23).floats()
    whole = power + _SCALE
    lost = _SCALE - (whole - power)  # nonzero for powers of 2**24 and more
    return whole + fma(power, p, lost)


def _over(x: Lanes, denominator: Lanes, is_saturated: Lanes) -> Lanes:
    """x / (denominator * 2**40), or x where saturated; NaN for -infinity."""
    quotient = x.at_least(-200.0) / denominator
    return select(is_saturated, x, fma(quotient, _SCALE, x * 0.0))


@on_lanes
def sigmoid(x: Lanes) -> Lanes:
    """1 / (1 + e**-x).

    Error: 1.72 ulp, subnormal results included.
    """
    denominator = _one_plus_exp((-x).at_most(104.5).at_least(-_SATURATED))
    return x.like(_SCALE) / denominator


@on_lanes
def silu(x: Lanes) -> Lanes:
    """x / (1 + e**-x); NaN for -infinity, as x * sigmoid(x) is.

    Error: 1.8 ulp, subnormal results included.
    """
    denominator = _one_plus_exp((-x).at_most(110.0).at_least(-_SATURATED))
    return _over(x, denominator, x > _SATURATED)


@on_lanes
def gelu_tanh(x: Lanes) -> Lanes:
    """x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x**3))); NaN for -infinity.

    Error: 1.94 ulp, subnormal results included.
    """
    v = x.at_most(6.0).at_least(-11.0)
    square = v * v
    square_low = fma(v, v, -square)
    slope = fma(square, _CUBIC[0], _LINEAR[0])
    slope_low = fma(square, _CUBIC[0], _LINEAR[0] - slope)
    slope_low = slope_low + fma(square, _CUBIC[1], _LINEAR[1])
    slope_low = fma(square_low, _CUBIC[0], slope_low)
    t = -(v * slope)
    low = -fma(v, slope_low, fma(v, slope, t))
    return _over(x, _one_plus_exp(t, low), x > 6.0)


@on_lanes
def gelu(x: Lanes) -> Lanes:
    """x times the standard normal CDF of x; NaN for -infinity.

    For |x| > 0.78 the tail of the distribution is e**(-x*x/2) times a polynomial, with
    x*x in high and low parts, so that small results have a small relative error too.

    Error: 1.95 ulp, subnormal results included.
    """
    a = abs(x).at_most(15.0)
    centre, shift = _TAIL_CENTRE
    t = (a - centre) / (a + shift)
    more = t * horner(t, _TAIL[1:])
    half = a * -0.5
    power = a * half
    biased, r = reduce_by_ln_2(power, 127 + _SCALE_BITS)
    p = expm1_reduced(r + fma(a, half, -power))
    # (_TAIL[0] + more) * (1 + p), adding the largest term last.
    factor = fma(more + _TAIL[0], p, more) + _TAIL[0]
    tail = factor * (biased << 23).floats()
    below = fma(x, 0.0, tail * -_SCALE)  # NaN for -infinity
    far = select(x < 0.0, below, fma(tail, -_SCALE, x))
    near = x * fma(x, horner(x * x, _NEAR), 0.5)
    return select(a < _FAR, near, far)

"""Powers of f32 lanes."""

import math

from mlir import ir

from relax_mlir.schedules.vector_math.exponential import exp2_of_sum
from relax_mlir.schedules.vector_math.lanes import (
    Lanes,
    fma,
    horner,
    on_lanes,
    select,
    sqrt,
)
from relax_mlir.schedules.vector_math.logarithm import split

__all__ = ["fpowi", "pow", "rsqrt"]

# log2(m) = s * (K + s**2 * (K/3 + s**2 * p(s**2))), s = (m - 1) / (m + 1), K = 2 / ln 2;
# |s| <= 0.172, error of p 2**-36 relative to K. Constants as high and low parts.
_K = (2.88539004, 3.85192607e-8)
_K_3 = (0.961796701, -7.02846181e-9)
_LOG2_TAIL = (0.57708019, 0.411849916, 0.337820828)


@on_lanes
def rsqrt(x: Lanes) -> Lanes:
    """1 / sqrt(x)."""
    return 1.0 / sqrt(x)


def _ratio(m: Lanes) -> tuple[Lanes, Lanes]:
    """(m - 1) / (m + 1) as a sum of two, the second small."""
    f = m - 1.0
    inverse = 1.0 / (m + 1.0)
    high = f * inverse
    rest = fma(-high, f, fma(high, -2.0, f))
    return high, rest * inverse


def _log2(x: Lanes) -> tuple[Lanes, Lanes]:
    """log2 of finite x > 0 as a sum of two, relative error below 2**-33."""
    exponent, mantissa = split(x)
    s, s_low = _ratio(mantissa)
    square = s * s
    square_low = fma(s, s, -square) + (s + s) * s_low
    # K/3 + square * p, times square, plus K: each as a high and a low part.
    tail = fma(square, horner(square, _LOG2_TAIL), _K_3[1])
    third = tail + _K_3[0]
    third_low = tail - (third - _K_3[0])
    product = square * third
    product_low = fma(square, third, -product) + fma(
        square, third_low, square_low * third
    )
    factor = product + _K[0]
    factor_low = (product - (factor - _K[0])) + (product_low + _K[1])
    part = s * factor
    part_low = fma(s, factor, -part) + fma(s, factor_low, s_low * factor)
    whole = exponent.to_f32()
    high = whole + part
    return high, (part - (high - whole)) + part_low


def _magnitude(a: Lanes, y: Lanes, y_low: Lanes | float = 0.0) -> Lanes:
    """a**(y + y_low) for a >= 0 or NaN, ``y_low`` at most half an ulp of ``y``."""
    high, low = _log2(a)
    high = select(a < math.inf, high, a)
    high = select(a.equal(0.0), a.like(-math.inf), high)
    product = high * y
    rest = fma(high, y, -product) + low * y
    if isinstance(y_low, Lanes):
        rest = fma(high, y_low, rest)
    # Where 2**product overflows or vanishes the rest may be NaN.
    rest = select(abs(product) < 160.0, rest, 0.0)
    result = exp2_of_sum(product.at_most(160.0).at_least(-160.0), rest)
    return select(a.equal(1.0) | y.equal(0.0), a.like(1.0), result)


def _known_number(value: ir.Value) -> float | None:
    """The number that all lanes of ``value`` surely hold, if it stands in the code."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    if owner.name == "vector.broadcast":
        return _known_number(owner.operands[0])
    if owner.name != "arith.constant":
        return None
    attr = owner.attributes["value"]
    if isinstance(attr, ir.DenseElementsAttr):
        if not attr.is_splat:
            return None
        attr = attr.get_splat_value()
    return attr.value


def _simple_power(x: Lanes, exponent: float | None) -> Lanes | None:
    """x**exponent for exponents that need no logarithm; at most 1.5 ulp."""
    square = x * x
    if exponent in (1, 2, 3, 4):
        return {1: x, 2: square, 3: square * x, 4: square * square}[int(exponent)]
    if exponent == -1:
        return 1.0 / x
    if exponent not in (0.5, -0.5):
        return None
    # The zero makes -0 to 0, and the power of -inf is not NaN.
    root = select(x.equal(-math.inf), x.like(math.inf), sqrt(x + 0.0))
    return root if exponent > 0 else 1.0 / root


@on_lanes
def pow(x: Lanes, y: Lanes) -> Lanes:
    """x**y as IEEE 754 pow."""
    simple = _simple_power(x, _known_number(y.value))
    if simple is not None:
        return simple
    half = y * 0.5
    is_integer = y.truncate().equal(y)
    is_even = half.truncate().equal(half)
    sign = select(is_integer, select(is_even, x.bits().like(0), x.sign()), 0)
    is_real = is_integer | (x >= 0.0) | x.equal(-math.inf)
    return select(is_real, _magnitude(abs(x), y).flip(sign), math.nan)


def _as_f32(n: Lanes) -> tuple[Lanes, Lanes]:
    """An integer as a sum of two f32; beyond i32 that of the largest power that matters.

    Every |x| other than 1 to the power of 2**31 - 128 overflows or vanishes.
    """
    limit = 2**31 - 128
    if n.element.width >= 32:
        n = select(n < limit, n, limit)
        n = select(n > -limit, n, -limit)
    n = n.to_i32()
    high = n.to_f32()
    return high, (n - high.to_i32()).to_f32()


@on_lanes
def fpowi(x: Lanes, n: Lanes) -> Lanes:
    """x**n for an integer n."""
    simple = _simple_power(x, _known_number(n.value))
    if simple is not None:
        return simple
    is_odd = (n & 1).equal(1)
    high, low = _as_f32(n)
    result = _magnitude(abs(x), high, low)
    return select(is_odd, result.flip(x.sign()), result)

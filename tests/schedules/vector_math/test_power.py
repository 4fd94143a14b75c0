"""Vector math powers: general, integer and special values."""

import re

import numpy as np
import pytest

from relax_mlir.ir.module import IRModule
from relax_mlir.pipeline import opt
from tests.schedules.vector_math.test_vector_math import (
    INF,
    NAN,
    POWER,
    error_ulp,
    floats,
    in_double,
    kernel,
    kernel_of,
    loop,
    sweep,
)


def power_arguments() -> tuple[np.ndarray, np.ndarray]:
    """All floats; bases near 1; integral exponents; results of all magnitudes."""
    rng = np.random.default_rng(1)
    count = 2**15
    any_bits = rng.integers(0, 2**32, (2, count), np.uint32).view(np.float32)
    base = np.abs(any_bits[0][np.isfinite(any_bits[0])])
    near = 1 + rng.uniform(-1, 1, count) * 2.0 ** -rng.uniform(0, 23, count)
    bases = np.concatenate([base, near.astype(np.float32)])
    with np.errstate(all="ignore"):
        exponents = rng.uniform(-150, 150, bases.size) / np.log2(bases)
        exponents = exponents.astype(np.float32)
    whole = rng.integers(-40, 40, count)
    x = np.concatenate([any_bits[0], bases, any_bits[1]])
    y = np.concatenate([any_bits[1], exponents, whole.astype(np.float32)])
    return x, y


def test_powers_are_rounded_almost_correctly() -> None:
    x, y = power_arguments()

    errors = error_ulp(kernel("powf", POWER)(x, y), in_double("powf", x, y))

    worst = errors.argmax()
    assert errors[worst] <= 0.53, f"{x[worst]!r} ** {y[worst]!r}"


def test_powers_of_special_values_are_those_of_ieee_754() -> None:
    tiny, huge = 2.0**-149, 3e38
    few = [0, 0.5, 1, 1.5, 2, 3, 8388607.5, 2**24 - 1, 2**24, tiny, huge, INF]
    values = floats(*few, *(-v for v in few), 1 - 2**-24, -1 - 2**-23, NAN)
    x, y = (a.ravel() for a in np.meshgrid(values, values))

    actual, exact = kernel("powf", POWER)(x, y), in_double("powf", x, y)

    wrong = error_ulp(actual, exact) > 1
    assert not wrong.any(), list(zip(x[wrong], y[wrong], actual[wrong], strict=True))


@pytest.mark.parametrize("exponent", [1, 2, 3, 4, -1, 0.5, -0.5])
def test_known_exponents_need_no_logarithm(exponent: float) -> None:
    text = loop("powf", POWER, 16)
    splat = f"%v1 = arith.constant dense<{exponent:.1f}> : vector<16xf32>\n"
    text = re.sub(r"%v1 = .*\n", splat, text)
    expanded = opt(IRModule.parse(text), "schedule-expand-math")
    x = np.concatenate([sweep(), floats(INF, -INF, NAN)])

    actual = kernel_of(text)(x, x)

    exact = in_double("powf", x, np.full_like(x, exponent))
    assert error_ulp(actual, exact).max() <= 1.9
    assert "math.fma" not in str(expanded)


@pytest.mark.parametrize(("bits", "lanes"), [(32, 16), (64, 16), (16, 0), (32, 0)])
def test_floats_to_an_integer_power(bits: int, lanes: int) -> None:
    rng = np.random.default_rng(2)
    dtype = np.dtype(f"int{bits}")
    limits = np.iinfo(dtype)
    edges = [0, 1, -1, 2, limits.min, limits.max, limits.max - 1]
    n = np.concatenate([edges, rng.integers(-300, 300, 3000)]).astype(dtype)
    near_one = 1 + rng.uniform(-0.5, 0.5, n.size)
    x = (near_one * rng.choice([-1, 1], n.size)).astype(np.float32)
    x[:7], x[7:14] = 1 - 2**-24, (0, -0.0, INF, -INF, NAN, 1, -1)

    # The parity of n is lost in f64.
    sign = np.where(n % 2 == 1, np.sign(x) + (x == 0), 1)
    exact = in_double("powf", np.abs(x), n) * np.where(np.isnan(sign), 1, sign)
    exact[np.signbit(x) & (x == 0) & (n % 2 == 1)] *= -1

    actual = kernel("fpowi", ("f32", f"i{bits}", "f32"), lanes)(x, n)
    assert error_ulp(actual, exact).max() <= 0.53


def test_doubles_to_an_integer_power_go_through_libm() -> None:
    x = np.array([-1.5, 2.0, 0.1, 3.0])
    n = np.array([3, -2, 10, 0], np.int32)

    actual = kernel("fpowi", ("f64", "i32", "f64"), 4)(x, n)

    np.testing.assert_allclose(actual, x**n, rtol=1e-15)  # libm: below 1 ulp


@pytest.mark.parametrize(("bits", "lanes"), [(8, 16), (32, 5), (64, 0)])
def test_integer_powers_wrap_around(bits: int, lanes: int) -> None:
    rng = np.random.default_rng(3)
    dtype = np.dtype(f"int{bits}")
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, 200).astype(dtype)
    n = rng.integers(0, 100, 200).astype(dtype)
    x[:6], n[:6] = (0, 0, 2, -3, -1, limits.min), (0, 5, 7, 3, limits.max, 1)

    actual = kernel("ipowi", (f"i{bits}",) * 3, lanes)(x, n)

    pairs = zip(x.tolist(), n.tolist(), strict=True)
    exact = [pow(a, b, 1 << bits) for a, b in pairs]
    np.testing.assert_array_equal(actual, np.array(exact, f"uint{bits}").view(dtype))


def test_negative_integer_exponents_round_towards_zero() -> None:
    x = np.array([1, 1, -1, -1, 0, 2, -5], np.int64)
    n = np.array([-1, -2, -1, -2, -3, -1, -(2**63)], np.int64)

    actual = kernel("ipowi", ("i64",) * 3)(x, n)

    np.testing.assert_array_equal(actual, [1, 1, -1, 1, 0, 0, 0])

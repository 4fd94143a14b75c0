"""Elementwise operators, against numpy."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from relax_mlir.tvm import te, topi
from tests.tvm.te.programs import evaluate

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3, 5)).astype(np.float32)
B = RNG.standard_normal(5).astype(np.float32)
COLUMN = RNG.standard_normal((3, 1)).astype(np.float32)
WHOLE = np.array([-7, 7, 5, -1], np.int32)
OTHER = np.array([2, -2, 3, 1], np.int32)
SMALL = np.array([1, 2, 3, 0], np.int32)


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.shape == expected.shape
    # Python computes in float64, and every element is rounded to float32 once.
    np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=2e-6)


BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "floor_mod": np.mod,
    "mod": np.fmod,
    "floor_divide": np.floor_divide,
    "trunc_divide": lambda a, b: np.trunc(a / b),
    "atan2": np.arctan2,
    "log_add_exp": np.logaddexp,
    "greater": np.greater,
    "less": np.less,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater_equal": np.greater_equal,
    "less_equal": np.less_equal,
}


@pytest.mark.parametrize("name", BINARY)
def test_shapes_of_binary_operators_broadcast(name: str) -> None:
    close(evaluate(getattr(topi, name), A, B), BINARY[name](A, B))
    close(evaluate(getattr(topi, name), COLUMN, A), BINARY[name](COLUMN, A))


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "greater"])
def test_binary_operators_take_a_scalar_on_either_side(name: str) -> None:
    operator = getattr(topi, name)

    close(evaluate(lambda x: operator(x, 0.5), A), BINARY[name](A, np.float32(0.5)))
    close(evaluate(lambda x: operator(0.5, x), A), BINARY[name](np.float32(0.5), A))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mod", np.fmod(WHOLE, OTHER)),
        ("floor_mod", np.mod(WHOLE, OTHER)),
        ("floor_divide", np.floor_divide(WHOLE, OTHER)),
        ("divide", np.trunc(WHOLE / OTHER)),
        ("bitwise_and", WHOLE & OTHER),
        ("bitwise_or", WHOLE | OTHER),
        ("bitwise_xor", WHOLE ^ OTHER),
    ],
)
def test_integers_divide_and_combine_bit_by_bit(
    name: str, expected: np.ndarray
) -> None:
    close(evaluate(getattr(topi, name), WHOLE, OTHER), expected)


def test_shifts_move_bits() -> None:
    close(evaluate(topi.left_shift, OTHER, SMALL), OTHER << SMALL)
    close(evaluate(topi.right_shift, WHOLE, SMALL), WHOLE >> SMALL)
    close(evaluate(topi.bitwise_not, WHOLE), ~WHOLE)


def test_logical_operators() -> None:
    x, y = A > 0, B > 0

    close(evaluate(topi.logical_and, x, y), x & y)
    close(evaluate(topi.logical_or, x, y), x | y)
    close(evaluate(topi.logical_not, x), ~x)


def test_power_of_positive_numbers() -> None:
    close(evaluate(topi.power, np.abs(A), B), np.abs(A) ** B)


UNARY = {
    "abs": np.abs,
    "atan": np.arctan,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": np.vectorize(math.erf),
    "exp": np.exp,
    "floor": np.floor,
    "identity": lambda x: x,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "negative": np.negative,
    "round": np.round,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary_operators(name: str) -> None:
    close(evaluate(getattr(topi, name), A * 3), UNARY[name](A * 3))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("log", np.log),
        ("log2", np.log2),
        ("log10", np.log10),
        ("sqrt", np.sqrt),
        ("rsqrt", lambda x: 1 / np.sqrt(x)),
        ("acosh", np.arccosh),
        ("asinh", np.arcsinh),
    ],
)
def test_unary_operators_of_positive_numbers(
    name: str, expected: Callable[..., np.ndarray]
) -> None:
    x = np.abs(A) + 1

    close(evaluate(getattr(topi, name), x), expected(x))


def test_nan_and_infinity_predicates() -> None:
    x = np.array([1, np.nan, np.inf, -np.inf], np.float32)

    close(evaluate(topi.isnan, x), np.isnan(x))
    close(evaluate(topi.isinf, x), np.isinf(x))
    close(evaluate(topi.isfinite, x), np.isfinite(x))


def test_floating_point_functions_convert_or_reject_integers() -> None:
    close(evaluate(topi.sqrt, SMALL), np.sqrt(SMALL, dtype=np.float32))
    close(evaluate(topi.abs, WHOLE), np.abs(WHOLE))
    with pytest.raises(
        TypeError, match=r"`acos`: expected floating-point .*, got int32"
    ):
        topi.acos(te.placeholder((4,), "int32"))


def test_clip_and_cast() -> None:
    close(evaluate(lambda x: topi.clip(x, -0.5, 0.5), A), A.clip(-0.5, 0.5))
    close(evaluate(lambda x: topi.cast(x * 10.0, "int32"), A), (A * 10).astype(int))
    half = evaluate(lambda x: topi.cast(x, "float16"), A)
    assert half.dtype == np.float16
    close(half, A.astype(np.float16))


def test_reinterpret_keeps_the_bits() -> None:
    close(evaluate(lambda x: topi.reinterpret(x, "int32"), A), A.view(np.int32))


def test_fast_math_is_close_to_numpy() -> None:
    x = np.linspace(-5, 5, 41, dtype=np.float32)

    # Rational approximations of single precision, and a polynomial of degree five.
    np.testing.assert_allclose(evaluate(topi.fast_tanh, x), np.tanh(x), atol=1e-6)
    np.testing.assert_allclose(
        evaluate(topi.fast_erf, x), np.vectorize(math.erf)(x), atol=1e-6
    )
    np.testing.assert_allclose(evaluate(topi.fast_exp, x), np.exp(x), rtol=1e-5)


def test_full_and_eye() -> None:
    close(evaluate(lambda x: topi.full((2, 3), "int32", 7), A), np.full((2, 3), 7))
    close(evaluate(lambda x: topi.full_like(x, 2), A), np.full_like(A, 2))
    close(evaluate(lambda x: topi.eye(3, 4, 1), A), np.eye(3, 4, 1))
    close(evaluate(lambda x: topi.elemwise_sum([x, x, x]), A), A * 3)
    with pytest.raises(ValueError, match="inf needs a floating-point type, got int32"):
        topi.full((2,), "int32", math.inf)


def test_shapes_that_do_not_broadcast_are_rejected() -> None:
    a, b = te.placeholder((3, 4)), te.placeholder((5,))

    with pytest.raises(ValueError, match=r"shapes \[3, 4\] and \[5\] do not broadcast"):
        topi.add(a, b)

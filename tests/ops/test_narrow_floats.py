"""Exhaustive conversions of narrow floats (8 bits or fewer), with all rounding ties."""

import ml_dtypes
import numpy as np
import pytest

from relax_mlir import compile
from relax_mlir.dialects import dtypes
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.testing.cases import case_module

_TYPES = [f"float8_{f}" for f in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")]
_TYPES += ["float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"]


def _every_number(name: str) -> np.ndarray:
    bits = int(name.removeprefix("float").partition("_")[0])
    return np.arange(2**bits, dtype=np.uint8).view(getattr(ml_dtypes, name))


def _converted(x: np.ndarray, name: str) -> np.ndarray:
    case = Case((*x.shape, x.dtype.name), dtype=dtypes.dtype(name))
    (y,) = compile(case_module(AstypeOp, case))(x)
    return y


@pytest.mark.slow  # two programs are compiled
@pytest.mark.parametrize("name", _TYPES)
def test_every_number_round_trips(name: str) -> None:
    numbers = _every_number(name)

    wide = _converted(numbers, "float32")
    back = _converted(wide, name)

    np.testing.assert_array_equal(wide, numbers.astype(np.float32))
    signs, is_nan = np.signbit(numbers.astype(np.float32)), np.isnan(wide)
    np.testing.assert_array_equal(np.signbit(wide) | is_nan, signs | is_nan)
    expected = wide.astype(numbers.dtype)  # of several NaNs one
    np.testing.assert_array_equal(back.view(np.uint8), expected.view(np.uint8))


@pytest.mark.slow  # a program is compiled
@pytest.mark.parametrize("name", _TYPES)
def test_rounding_to_nearest_even(name: str) -> None:
    """Halfway cases, just below and just above; ties to even."""
    exact = np.unique(_every_number(name).astype(np.float32))
    exact = exact[np.isfinite(exact)]
    ties = exact[:-1] / 2 + exact[1:] / 2
    below, above = (
        np.nextafter(ties, to, dtype=np.float32) for to in (-np.inf, np.inf)
    )
    with np.errstate(over="ignore"):
        beyond = np.array([exact[-1] * 1.01, exact[-1] * 2, np.inf], np.float32)
    x = np.concatenate([ties, below, above, beyond, -beyond])
    # What is below f32's normal numbers, ml_dtypes makes the wrong power of two.
    x = x[np.abs(x) >= np.finfo(np.float32).tiny]

    actual = _converted(x, name)

    expected = x.astype(actual.dtype)
    np.testing.assert_array_equal(actual.view(np.uint8), expected.view(np.uint8))

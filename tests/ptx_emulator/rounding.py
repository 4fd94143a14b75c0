"""Correct rounding, in any mode, from a double-double value.

Source: T. J. Dekker (1971), exact sums and products; S. Boldo and G. Melquiond (2008), rounding
to odd: a value rounded so can be rounded again to fewer bits without double rounding.
"""

from __future__ import annotations

import numpy as np

from relax_mlir.errors import EmulationError

__all__ = ["MODES", "exact_product", "exact_sum", "rounded", "rounded_sum"]

MODES = ("rn", "rz", "rm", "rp")
"""To the nearest, towards zero, down, up."""

_SPLIT = 134217729.0  # 2**27 + 1


def exact_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum in f64 and its rounding error (TwoSum)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def exact_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The product in f64 and its rounding error (Dekker)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    rest = (a_high * b_high - product) + a_high * b_low + a_low * b_high
    return product, rest + a_low * b_low


def _halves(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Veltkamp splitting into two halves."""
    scaled = values * _SPLIT
    high = scaled - (scaled - values)
    return high, values - high


def rounded(
    values: np.ndarray, rest: np.ndarray, dtype: np.dtype, mode: str = "rn"
) -> np.ndarray:
    """``values + rest`` rounded to a type, where the rest is less than half an ulp.

    Raises:
        EmulationError: the rounding mode is not supported for 16-bit types.
    """
    if dtype == np.float64:
        return _directed(values, np.where(np.isfinite(values), rest, 0), mode)
    if dtype == np.float32 and mode == "rn" and not _is_close(values):
        return values.astype(np.float32)
    odd = _to_odd(values, rest)
    if dtype == np.float32:
        made = odd.astype(np.float32)
        left = odd - made.astype(np.float64)
        return _directed(made, np.where(np.isfinite(odd), left, 0), mode)
    if mode != "rn":
        raise EmulationError("16-bit types support rounding to nearest only")
    if dtype == np.float16:
        return odd.astype(np.float16)
    single = odd.astype(np.float32)
    left = odd - single.astype(np.float64)
    return _to_odd(single, left).astype(dtype)


def rounded_sum(
    a: np.ndarray, b: np.ndarray, dtype: np.dtype, mode: str = "rn"
) -> np.ndarray:
    """The sum in a type, correctly rounded; raises as :func:`rounded`."""
    if dtype == np.float32 and mode == "rn":
        total = a + b
        if not _is_close(total):
            return total.astype(np.float32)
    return rounded(*exact_sum(a, b), dtype, mode)


def _is_close(values: np.ndarray) -> bool:
    """Whether a rest may decide the rounding of an f64 to f32."""
    if ((values.view(np.uint64) & _LOWER_BITS) == _HALF).any():
        return True
    small = np.abs(values) < np.finfo(np.float32).tiny
    return bool(values[small].any())


# Of a double, those that f32 has not; and of these the first alone.
_LOWER_BITS, _HALF = np.uint64((1 << 29) - 1), np.uint64(1 << 28)


def _directed(values: np.ndarray, rest: np.ndarray, mode: str) -> np.ndarray:
    """Adjusts a nearest result to a directed rounding mode."""
    if mode == "rn":
        return values
    infinity = values.dtype.type(np.inf)
    down = (rest < 0) & ((mode == "rm") | ((mode == "rz") & (values > 0)))
    up = (rest > 0) & ((mode == "rp") | ((mode == "rz") & (values < 0)))
    made = np.where(down, np.nextafter(values, -infinity), values)
    return np.where(up, np.nextafter(values, infinity), made)


def _to_odd(values: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Rounding to odd."""
    bits = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
    moves = (rest != 0) & np.isfinite(values) & np.isfinite(rest) & (bits % 2 == 0)
    infinity = values.dtype.type(np.inf)
    towards = np.where(rest > 0, infinity, -infinity)
    return np.where(moves, np.nextafter(values, towards), values)

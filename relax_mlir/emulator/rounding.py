"""Numbers rounded once, in any direction, from what is exact but for a small rest.

Source: T. J. Dekker (1971), exact sums and products; S. Boldo and G. Melquiond (2008), rounding
to odd: what is rounded so can be rounded again to fewer bits, as if it had been exact.
"""

from __future__ import annotations

import numpy as np

from relax_mlir.errors import EmulationError

__all__ = ["MODES", "exact_product", "exact_sum", "rounded", "rounded_sum"]

MODES = ("rn", "rz", "rm", "rp")
"""To the nearest, towards zero, down, up."""

_SPLIT = 134217729.0  # 2**27 + 1


def exact_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum of doubles, and what it has lost."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def exact_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The product of doubles, and what it has lost."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    rest = (a_high * b_high - product) + a_high * b_low + a_low * b_high
    return product, rest + a_low * b_low


def _halves(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers of half as many bits, whose sum it is."""
    scaled = values * _SPLIT
    high = scaled - (scaled - values)
    return high, values - high


def rounded(
    values: np.ndarray, rest: np.ndarray, dtype: np.dtype, mode: str = "rn"
) -> np.ndarray:
    """``values + rest`` in a type, where the rest is less than half of a last place.

    Raises:
        EmulationError: numbers of 16 bits are rounded otherwise than to the nearest.
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
        raise EmulationError("numbers of 16 bits are rounded to the nearest alone")
    if dtype == np.float16:
        return odd.astype(np.float16)
    single = odd.astype(np.float32)
    left = odd - single.astype(np.float64)
    return _to_odd(single, left).astype(dtype)


def rounded_sum(
    a: np.ndarray, b: np.ndarray, dtype: np.dtype, mode: str = "rn"
) -> np.ndarray:
    """The sum of doubles in a type, rounded once; errors as :func:`rounded`."""
    if dtype == np.float32 and mode == "rn":
        total = a + b
        if not _is_close(total):
            return total.astype(np.float32)
    return rounded(*exact_sum(a, b), dtype, mode)


def _is_close(values: np.ndarray) -> bool:
    """Whether a rest may decide of some double which of two f32 is nearer."""
    if ((values.view(np.uint64) & _LOWER_BITS) == _HALF).any():
        return True
    small = np.abs(values) < np.finfo(np.float32).tiny
    return bool(values[small].any())


# Of a double, those that f32 has not; and of these the first alone.
_LOWER_BITS, _HALF = np.uint64((1 << 29) - 1), np.uint64(1 << 28)


def _directed(values: np.ndarray, rest: np.ndarray, mode: str) -> np.ndarray:
    """The neighbour on the other side of what is exact, if a mode asks for it."""
    if mode == "rn":
        return values
    infinity = values.dtype.type(np.inf)
    down = (rest < 0) & ((mode == "rm") | ((mode == "rz") & (values > 0)))
    up = (rest > 0) & ((mode == "rp") | ((mode == "rz") & (values < 0)))
    made = np.where(down, np.nextafter(values, -infinity), values)
    return np.where(up, np.nextafter(values, infinity), made)


def _to_odd(values: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Of the two neighbours of what is exact, the one whose last bit is set."""
    bits = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
    moves = (rest != 0) & np.isfinite(values) & np.isfinite(rest) & (bits % 2 == 0)
    infinity = values.dtype.type(np.inf)
    towards = np.where(rest > 0, infinity, -infinity)
    return np.where(moves, np.nextafter(values, towards), values)

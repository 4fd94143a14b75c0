"""Integer interval arithmetic with unbounded ends.

An interval is (least, greatest), both inclusive; None stands for no bound on that side.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

Range: TypeAlias = tuple[int | None, int | None]


def tightest_lower(values: Iterable[int | None]) -> int | None:
    """The tightest of several lower bounds of one value; None is no bound."""
    return max((value for value in values if value is not None), default=None)


def tightest_upper(values: Iterable[int | None]) -> int | None:
    """The tightest of several upper bounds of one value; None is no bound."""
    return min((value for value in values if value is not None), default=None)


def lower_of_all(values: Sequence[int | None]) -> int | None:
    """A lower bound of all of several values; None if any has none."""
    return None if None in values else tightest_upper(values)


def minimum(ranges: Sequence[Range]) -> Range:
    """The interval of the minimum of several values."""
    return lower_of_all([low for low, _ in ranges]), tightest_upper(
        high for _, high in ranges
    )


def product(a: Range, b: Range) -> Range:
    """The interval of ``x * y``."""
    corners = [_corner(x, y) for x in _ends(a) for y in _ends(b)]
    low, high = min(corners), max(corners)
    return None if low == -math.inf else int(low), None if high == math.inf else int(
        high
    )


def floordiv(a: Range, b: Range) -> Range:
    """The interval of ``x // y``, for a nonzero divisor of known sign."""
    (x_low, x_high), (y_low, y_high) = a, b
    if y_high is not None and y_high <= 0 and y_low != 0:
        return floordiv(_negated(a), _negated(b))
    if y_low is None or y_low < 0 or y_high == 0:
        return None, None
    divisors = max(y_low, 1), y_high
    low = None if x_low is None else min(_quotient(x_low, y) for y in divisors)
    high = None if x_high is None else max(_quotient(x_high, y) for y in divisors)
    return low, high


def _negated(a: Range) -> Range:
    low, high = a
    return None if high is None else -high, None if low is None else -low


def _ends(a: Range) -> tuple[float, float]:
    low, high = a
    return -math.inf if low is None else low, math.inf if high is None else high


def _corner(x: float, y: float) -> float:
    """``x * y`` with ``0 * inf == 0``, and exact where both are integers."""
    if x == 0 or y == 0:
        return 0
    if isinstance(x, int) and isinstance(y, int):
        return x * y
    return math.inf if (x > 0) == (y > 0) else -math.inf


def _quotient(x: int, y: int | None) -> int:
    return (-1 if x < 0 else 0) if y is None else x // y

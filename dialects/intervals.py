"""Integer intervals with open ends: the arithmetic behind the bounds of symbolic sizes.

An interval is (least, greatest), both inclusive; None stands for no bound on that side.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

Range: TypeAlias = tuple[int | None, int | None]


def greatest(values: Iterable[int | None]) -> int | None:
    """The best of several lower bounds of one value; None is no bound."""
    return max((value for value in values if value is not None), default=None)


def least(values: Iterable[int | None]) -> int | None:
    """The best of several upper bounds of one value; None is no bound."""
    return min((value for value in values if value is not None), default=None)


def least_of_all(values: Sequence[int | None]) -> int | None:
    """The lower bound of one of several values; None as soon as one has none."""
    return None if None in values else least(values)


def minimum(ranges: Sequence[Range]) -> Range:
    """The interval of the least of several values."""
    return least_of_all([low for low, _ in ranges]), least(high for _, high in ranges)


def product(a: Range, b: Range) -> Range:
    """The interval of ``x * y``."""
    corners = [_corner(x, y) for x in _ends(a) for y in _ends(b)]
    low, high = min(corners), max(corners)
    return None if low == -math.inf else int(low), None if high == math.inf else int(
        high
    )


def floordiv(a: Range, b: Range) -> Range:
    """The interval of ``x // y``, of whose divisor the sign is known, and which is not 0."""
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

"""Integer interval arithmetic with unbounded ends.

An interval is (least, greatest), both inclusive; None stands for no bound on that side.
Operations return an interval that contains all results. The recognisers of expressions
(sizes, scalar expressions, SSA values) are elsewhere and call these.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

Range: TypeAlias = tuple[int | None, int | None]

UNBOUNDED: Range = (None, None)


def tightest_lower(values: Iterable[int | None]) -> int | None:
    """The tightest of several lower bounds of one value; None means unbounded."""
    return max((value for value in values if value is not None), default=None)


def tightest_upper(values: Iterable[int | None]) -> int | None:
    """The tightest of several upper bounds of one value; None means unbounded."""
    return min((value for value in values if value is not None), default=None)


def lower_of_all(values: Sequence[int | None]) -> int | None:
    """A lower bound of all of several values; None if any has none."""
    return None if None in values else tightest_upper(values)


def upper_of_all(values: Sequence[int | None]) -> int | None:
    """An upper bound of all of several values; None if any has none."""
    return None if None in values else tightest_lower(values)


def hull(ranges: Sequence[Range]) -> Range:
    """The interval of a value that is in one of several intervals, as of a select."""
    lows, highs = zip(*ranges, strict=True)
    return lower_of_all(lows), upper_of_all(highs)


def intersection(ranges: Sequence[Range]) -> Range:
    """The interval of a value that is in each of several intervals."""
    lows, highs = zip(*ranges, strict=True)
    return tightest_lower(lows), tightest_upper(highs)


def contains(outer: Range, inner: Range) -> bool:
    """Whether each value of ``inner`` is one of ``outer``."""
    return intersection([outer, inner]) == inner


def single_value(a: Range) -> int | None:
    """The value of an interval that has only one; else None."""
    return a[0] if a[0] == a[1] else None


def span(a: Range) -> int | None:
    """The greatest minus the least value; None if there is no bound on a side."""
    low, high = a
    return None if low is None or high is None else high - low


def minimum(ranges: Sequence[Range]) -> Range:
    """The interval of the minimum of several values."""
    lows, highs = zip(*ranges, strict=True)
    return lower_of_all(lows), tightest_upper(highs)


def maximum(ranges: Sequence[Range]) -> Range:
    """The interval of the maximum of several values."""
    lows, highs = zip(*ranges, strict=True)
    return tightest_lower(lows), upper_of_all(highs)


# Ends of these two may also be expressions with the operators ``+`` and ``-``.


def add(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    """The interval of ``x + y``."""
    (a_low, a_high), (b_low, b_high) = a, b
    low = None if a_low is None or b_low is None else a_low + b_low
    return low, None if a_high is None or b_high is None else a_high + b_high


def subtract(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    """The interval of ``x - y``."""
    (a_low, a_high), (b_low, b_high) = a, b
    low = None if a_low is None or b_high is None else a_low - b_high
    return low, None if a_high is None or b_low is None else a_high - b_low


def negated(a: Range) -> Range:
    """The interval of ``-x``."""
    return subtract((0, 0), a)


def product(a: Range, b: Range) -> Range:
    """The interval of ``x * y``."""
    corners = [_corner(x, y) for x in _ends(a) for y in _ends(b)]
    low, high = min(corners), max(corners)
    return None if low == -math.inf else int(low), None if high == math.inf else int(
        high
    )


def scaled(a: Range, factor: int) -> Range:
    """The interval of ``factor * x``."""
    if factor < 0:
        return scaled(negated(a), -factor)
    low, high = a
    if factor == 0:
        return 0, 0
    return (
        None if low is None else factor * low,
        None if high is None else factor * high,
    )


def floordiv(a: Range, b: Range) -> Range:
    """The interval of ``x // y``, for a nonzero divisor of known sign."""
    (x_low, x_high), (y_low, y_high) = a, b
    if y_high is not None and y_high <= 0 and y_low != 0:
        return floordiv(negated(a), negated(b))
    if y_low is None or y_low < 0 or y_high == 0:
        return UNBOUNDED
    divisors = max(y_low, 1), y_high
    low = None if x_low is None else min(_quotient(x_low, y) for y in divisors)
    high = None if x_high is None else max(_quotient(x_high, y) for y in divisors)
    return low, high


def floormod(a: Range, b: Range) -> Range:
    """The interval of ``x % y``, with the sign of a nonzero divisor of known sign."""
    low, high = b
    if high is not None and high <= 0 and low != 0:
        return negated(floormod(negated(a), negated(b)))
    if low is None or low < 0 or high == 0:
        return UNBOUNDED
    whole = 0, None if high is None else high - 1
    quotient = single_value(floordiv(a, b))
    if quotient is None:
        return intersection([whole, (0, a[1])]) if _is_nonnegative(a) else whole
    return intersection([whole, subtract(a, scaled((max(low, 1), high), quotient))])


def truncmod(a: Range, b: Range) -> Range:
    """The interval of the remainder of a division rounded to 0, with the sign of ``x``."""
    low, high = hull([b, negated(b)])
    if high == 0:
        return UNBOUNDED
    size = None if low is None or high is None else (low + 1, high - 1)
    return intersection([size or UNBOUNDED, hull([a, (0, 0)])])


def _is_nonnegative(a: Range) -> bool:
    return a[0] is not None and a[0] >= 0


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

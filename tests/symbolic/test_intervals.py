"""Interval arithmetic against all values of small intervals."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from relax_mlir.symbolic import intervals
from relax_mlir.symbolic.intervals import Range

_SMALL = range(-3, 5)
_INTERVALS = [(low, high) for low in _SMALL for high in _SMALL if low <= high]
_DIVISORS = [
    (low, high) for low, high in _INTERVALS if low * high >= 0 and (low or high)
]
_FAR = 50  # stands for unbounded values


def values_of(bounds: Range) -> range:
    """The relevant values in an interval."""
    low, high = bounds
    return range(-_FAR if low is None else low, (_FAR if high is None else high) + 1)


def opened(bounds: tuple[int, int]) -> Iterator[Range]:
    """An interval, and those without its bounds."""
    low, high = bounds
    yield from [(low, high), (None, high), (low, None), (None, None)]


def mirrored(bounds: Range) -> Range:
    """The interval of the negated values."""
    low, high = bounds
    return None if high is None else -high, None if low is None else -low


def hull(values: list[int]) -> tuple[int, int]:
    return min(values), max(values)


@pytest.mark.parametrize(
    ("interval", "exact"),
    [
        (intervals.product, lambda x, y: x * y),
        (lambda a, b: intervals.minimum([a, b]), min),
    ],
)
def test_closed_intervals_are_the_hull_of_all_values(
    interval: Callable[[Range, Range], Range], exact: Callable[[int, int], int]
) -> None:
    for a, b in itertools.product(_INTERVALS, _INTERVALS):
        points = itertools.product(values_of(a), values_of(b))
        assert interval(a, b) == hull([exact(x, y) for x, y in points]), (a, b)


def test_quotients_of_closed_intervals_are_the_hull_of_all_values() -> None:
    for a, b in itertools.product(_INTERVALS, _DIVISORS):
        points = itertools.product(values_of(a), values_of(b))
        expected = hull([x // y for x, y in points if y != 0])
        assert intervals.floordiv(a, b) == expected, (a, b)


def test_products_without_bounds_are_bounded_where_all_values_are() -> None:
    ends = [(-2, -1), (-2, 0), (-1, 2), (0, 0), (0, 2), (1, 3)]
    for a, b in itertools.product(ends, ends):
        for x, y in itertools.product(opened(a), opened(b)):
            values = [p * q for p in values_of(x) for q in values_of(y)]
            assert intervals.product(x, y) == _without_far(values), (x, y)


def test_quotients_without_bounds_are_bounded_where_all_values_are() -> None:
    ends = [(-3, -1), (-3, 0), (-2, 4), (0, 0), (0, 4), (2, 4)]
    for a, b in itertools.product(ends, [(0, 3), (1, 3), (2, 3)]):
        for x, y in itertools.product(opened(a), [b, (b[0], None)]):
            values = [p // q for p in values_of(x) for q in values_of(y) if q]
            least_divisor = max(b[0], 1)
            expected = _without_far(values, far=_FAR // least_divisor)
            assert intervals.floordiv(x, y) == expected, (x, y)
            assert intervals.floordiv(mirrored(x), mirrored(y)) == expected, (x, y)


def test_quotients_by_divisors_of_unknown_sign_or_0_are_unbounded() -> None:
    for divisor in [(-1, 5), (None, 5), (None, None), (0, 0)]:
        assert intervals.floordiv((1, 2), divisor) == (None, None)


def test_minimum_without_bounds() -> None:
    for a, b in itertools.product([(1, 4), (2, 3)], [(0, 5), (2, 2)]):
        for x, y in itertools.product(opened(a), opened(b)):
            values = [min(p, q) for p in values_of(x) for q in values_of(y)]
            assert intervals.minimum([x, y]) == _without_far(values), (x, y)


def test_products_of_large_numbers_are_exact() -> None:
    large = 2**80 + 1
    assert intervals.product((large, large), (3, large)) == (3 * large, large * large)
    beyond_floats = 2**2000
    assert intervals.product((beyond_floats, None), (1, None)) == (beyond_floats, None)


def test_best_of_several_bounds() -> None:
    assert intervals.tightest_lower([3, None, 5, 4]) == 5
    assert intervals.tightest_upper([3, None, 5]) == 3
    assert intervals.tightest_lower([None]) is None
    assert intervals.tightest_upper([]) is None
    assert intervals.lower_of_all([4, 3, 5]) == 3
    assert intervals.lower_of_all([4, None, 3]) is None


def _without_far(values: list[int], far: int = _FAR) -> Range:
    low, high = hull(values)
    return None if low <= -far else low, None if high >= far else high

"""Interval arithmetic against all values of small intervals."""

import itertools
import math
from collections.abc import Callable, Iterator

import pytest

from relax_mlir.symbolic import intervals
from relax_mlir.symbolic.dims import symbol
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
        (intervals.add, lambda x, y: x + y),
        (intervals.subtract, lambda x, y: x - y),
        (intervals.product, lambda x, y: x * y),
        (lambda a, b: intervals.minimum([a, b]), min),
        (lambda a, b: intervals.maximum([a, b]), max),
    ],
)
def test_closed_intervals_are_the_hull_of_all_values(
    interval: Callable[[Range, Range], Range], exact: Callable[[int, int], int]
) -> None:
    for a, b in itertools.product(_INTERVALS, _INTERVALS):
        points = itertools.product(values_of(a), values_of(b))
        assert interval(a, b) == hull([exact(x, y) for x, y in points]), (a, b)


@pytest.mark.parametrize("factor", range(-3, 4))
def test_multiples(factor: int) -> None:
    for a in _INTERVALS:
        for x in opened(a):
            expected = intervals.product(x, (factor, factor))
            assert intervals.scaled(x, factor) == expected, (x, factor)
        assert intervals.scaled(a, factor) == hull([factor * p for p in values_of(a)])


def test_negated_intervals() -> None:
    for a in _INTERVALS:
        for x in opened(a):
            assert intervals.negated(x) == mirrored(x)


@pytest.mark.parametrize(
    ("interval", "exact"),
    [
        (intervals.add, lambda x, y: x + y),
        (intervals.subtract, lambda x, y: x - y),
        (lambda a, b: intervals.minimum([a, b]), min),
        (lambda a, b: intervals.maximum([a, b]), max),
    ],
)
def test_intervals_without_bounds_are_bounded_where_all_values_are(
    interval: Callable[[Range, Range], Range], exact: Callable[[int, int], int]
) -> None:
    for a, b in itertools.product([(-3, 1), (0, 4), (2, 2)], [(-1, 5), (1, 1)]):
        for x, y in itertools.product(opened(a), opened(b)):
            values = [exact(p, q) for p in values_of(x) for q in values_of(y)]
            assert interval(x, y) == _without_far(values, far=_FAR - 9), (x, y)


@pytest.mark.parametrize(
    ("interval", "exact"),
    [(intervals.floormod, lambda x, y: x % y), (intervals.truncmod, math.fmod)],
)
def test_remainders_contain_all_values(
    interval: Callable[[Range, Range], Range], exact: Callable[[int, int], float]
) -> None:
    for a, b in itertools.product(_INTERVALS, _DIVISORS):
        for x, y in itertools.product(opened(a), opened(b)):
            values = [int(exact(p, q)) for p in values_of(x) for q in values_of(y) if q]
            assert intervals.contains(interval(x, y), hull(values)), (x, y)


def test_remainders_by_one_divisor_are_the_hull_of_all_values() -> None:
    for a, divisor in itertools.product(_INTERVALS, (-5, -3, -1, 1, 2, 4, 9)):
        values = [x % divisor for x in values_of(a)]
        assert intervals.floormod(a, (divisor, divisor)) == hull(values), (a, divisor)


@pytest.mark.parametrize(
    ("interval", "a", "b", "expected"),
    [
        (intervals.floormod, (None, None), (1, 4), (0, 3)),
        (intervals.floormod, (None, None), (-4, 0), (-3, 0)),
        (intervals.floormod, (None, None), (1, None), (0, None)),
        (intervals.floormod, (0, 2), (2, None), (0, 2)),
        (intervals.floormod, (0, 2), (3, None), (0, 2)),
        (intervals.floormod, (1, 2), (3, 7), (1, 2)),
        (intervals.floormod, (9, 10), (6, 7), (2, 4)),
        (intervals.floormod, (9, 10), (0, 7), (0, 6)),
        (intervals.floormod, (-1, 1), (None, 4), (None, None)),
        (intervals.floormod, (3, 3), (0, 0), (None, None)),
        (intervals.truncmod, (None, None), (-4, 2), (-3, 3)),
        (intervals.truncmod, (2, None), (3, None), (0, None)),
        (intervals.truncmod, (-1, 5), (4, 4), (-1, 3)),
        (intervals.truncmod, (-9, 1), (None, 4), (-9, 1)),
        (intervals.truncmod, (3, 3), (0, 0), (None, None)),
    ],
)
def test_remainders(
    interval: Callable[[Range, Range], Range], a: Range, b: Range, expected: Range
) -> None:
    assert interval(a, b) == expected


def test_hulls_and_intersections() -> None:
    for a, b in itertools.product(_INTERVALS, _INTERVALS):
        for x, y in itertools.product(opened(a), opened(b)):
            either = [*values_of(x), *values_of(y)]
            both = {*values_of(x)} & {*values_of(y)}
            assert intervals.hull([x, y]) == _without_far(either), (x, y)
            if both:
                common = intervals.intersection([x, y])
                assert common == _without_far([*both]), (x, y)
            is_inside = both == {*values_of(y)}
            assert intervals.contains(x, y) is is_inside, (x, y)


def test_spans() -> None:
    assert [intervals.span(a) for a in [(3, 3), (-2, 5)]] == [0, 7]
    for a in [(3, None), (None, 3), (None, None)]:
        assert intervals.span(a) is None


def test_intervals_of_one_value() -> None:
    assert intervals.single_value((3, 3)) == 3
    for a in [(3, 4), (3, None), (None, 3), (None, None)]:
        assert intervals.single_value(a) is None


def test_sums_of_symbolic_ends() -> None:
    n = symbol("n")
    assert intervals.add((0, n), (n, 1)) == (n, n + 1)
    assert intervals.subtract((n, n), (1, n)) == (0, n - 1)


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
    assert intervals.upper_of_all([4, 5, 3]) == 5
    assert intervals.upper_of_all([4, None, 3]) is None


def _without_far(values: list[int], far: int = _FAR) -> Range:
    low, high = hull(values)
    return None if low <= -far else low, None if high >= far else high

"""Interval boxes against the values of expressions over domains."""

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.symbolic.dims import Dim, floordiv, mod
from relax_mlir.symbolic.symbols import evaluate, parse
from relax_mlir.tvm.tir.schedule.regions import (
    Interval,
    bounding_box,
    evaluate_interval,
)
from tests.symbolic.expressions import Tree, build, calls, points, sums

# `n` and `i` are fixed, `j` and `k` take all values of their domains.
_LIMITS: dict[str, tuple[int, int | None]] = {
    "n": (0, None),
    "i": (0, 3),
    "j": (0, 4),
    "k": (1, 3),
}
_DOMAINS = {"j": Interval(0, 4), "k": Interval(1, 3)}
_STILL = list(points({"n": (0, 5), "i": (0, 3)}))
_MOVING = list(points({"j": (0, 4), "k": (1, 3)}))

_trees: st.SearchStrategy[Tree] = st.recursive(
    st.sampled_from(["n", "i", "j", "k"]) | st.integers(-3, 6),
    lambda inner: sums(inner) | calls(["//", "%"], inner, st.sampled_from([2, 3, 4])),
    max_leaves=5,
)


@settings(max_examples=150)
@given(_trees)
def test_intervals_contain_all_values(tree: Tree) -> None:
    dim = build(tree)
    run = evaluate_interval(dim, _DOMAINS, _LIMITS)
    for still in _STILL:
        values = [evaluate(dim, {**still, **moving}) for moving in _MOVING]
        assert evaluate(run.low, still) <= min(values), (str(dim), still)
        assert max(values) <= evaluate(run.high, still), (str(dim), still)


@pytest.mark.parametrize(
    "text",
    [
        "j",
        "n",
        "4*i + j",
        "i - j",
        "2*j + 3*k - 1",
        "j*k",
        "n*j + i",
        "n - n*j",
        "j//2",
        "(4*i + j)//2",
        "(8*i + j)//8",
        "(8*i + j)%8",
        "j%8",
        "j%3",
        "k//4",
        "min(j, 2)",
        "min(j, k + 1)",
        "n - j//2",
        "3 - j%5",
        "7",
        "n//k",
        "(n - i)//k",
        "j//(k + 1)",
    ],
)
def test_intervals_end_at_values(text: str) -> None:
    dim = parse(text)
    run = evaluate_interval(dim, _DOMAINS, _LIMITS)
    for still in _STILL:
        values = [evaluate(dim, {**still, **moving}) for moving in _MOVING]
        assert evaluate(run.low, still) == min(values), (str(run.low), still)
        assert evaluate(run.high, still) == max(values), (str(run.high), still)


@pytest.mark.parametrize(
    ("dividend", "divisor"),
    [
        *(("n - j", "k + i"), ("n", "j")),
        *(("n", "j - 5"), ("j - 2", "k - 5"), ("-j", "i + k - 7"), ("n - 3", "j - k")),
        *(("j - n", "i - 7"), ("j - n", "i - 1"), ("j", "5 - n"), ("n - j", "k - 3")),
    ],
)
@pytest.mark.parametrize("divide", [floordiv, mod])
def test_varying_divisors(
    dividend: str, divisor: str, divide: Callable[[Dim, Dim], Dim]
) -> None:
    dim = divide(parse(dividend), parse(divisor))
    run = evaluate_interval(dim, _DOMAINS, _LIMITS)
    for still in _STILL:
        points_ = [{**still, **moving} for moving in _MOVING]
        points_ = [p for p in points_ if evaluate(parse(divisor), p)]
        values = [evaluate(dim, point) for point in points_]
        if not values:
            continue
        assert evaluate(run.low, still) <= min(values)
        assert max(values) <= evaluate(run.high, still)


def test_domains_of_symbolic_sizes() -> None:
    run = evaluate_interval(
        parse("4*j + k"),
        {"j": Interval(0, parse("n - 1")), "k": Interval(0, 3)},
        {"j": (0, None)},
    )
    assert run == Interval(0, parse("4*n - 1"))
    assert run.extent == parse("4*n")
    assert Interval(2, parse("n")).extent == parse("n - 1")
    assert run.map_ends(lambda end: end + 1) == Interval(1, parse("4*n"))


_ends = st.sampled_from(["0", "n", "i", "i + 2", "n - 2", "2*i", "4*n", "5", "m"])
_boxes = st.lists(
    st.lists(st.tuples(_ends, _ends), min_size=2, max_size=2), min_size=1, max_size=3
)


@settings(max_examples=60)
@given(_boxes)
def test_hulls_contain_boxes(listed: list[list[tuple[str, str]]]) -> None:
    boxes = [[Interval(parse(a), parse(b)) for a, b in box] for box in listed]
    found = bounding_box(boxes, {"i": (0, 3), "n": (2, None)})
    assert found is not None
    for n, i, m in product((2, 3, 7), range(4), (0, 9)):
        point = {"n": n, "i": i, "m": m}
        for number, run in enumerate(found):
            lows = [evaluate(box[number].low, point) for box in boxes]
            highs = [evaluate(box[number].high, point) for box in boxes]
            assert evaluate(run.low, point) == min(lows)
            assert evaluate(run.high, point) == max(highs)


@pytest.mark.parametrize(
    ("ends", "low", "high"),
    [
        (("i", "i + 2"), "i", "i + 2"),
        (("i + 2", "i"), "i", "i + 2"),
        (("i", "5"), "i", "5"),
        (("5", "i"), "i", "5"),
        (("i", "3"), "i", "3"),
        (("3", "i"), "i", "3"),
        (("n", "2"), "2", "n"),
        (("n - 2", "0"), "0", "n - 2"),
        (("n", "m"), "min(n, m)", "max(n, m)"),
        (("n", "n"), "n", "n"),
        (("n", "4*n"), "n", "4*n"),
    ],
)
def test_hulls_are_printed_concisely(
    ends: tuple[str, str], low: str, high: str
) -> None:
    boxes = [[Interval(parse(end), parse(end))] for end in ends]
    found = bounding_box(boxes, {"i": (0, 3), "n": (2, None)})
    assert found == [Interval(parse(low), parse(high))]


def test_no_boxes_have_no_hull() -> None:
    assert bounding_box([], {}) is None

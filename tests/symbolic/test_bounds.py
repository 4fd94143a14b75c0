"""Bounds of sizes against all values of their symbols."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from relax_mlir.symbolic.bounds import SIGNED, bounds, is_known_le
from relax_mlir.symbolic.dims import Dim, maximum, symbol
from relax_mlir.symbolic.limits import simplify
from relax_mlir.symbolic.symbols import evaluate, parse
from tests.symbolic.expressions import (
    NAMES,
    OPERATORS,
    Tree,
    build,
    compute,
    contains,
    points,
    ranges,
    trees,
    trees_with_symbolic_divisors,
)

_SMALL: dict[str, tuple[int, int]] = dict.fromkeys(NAMES, (0, 4))


@settings(max_examples=60)
@given(trees, ranges)
def test_bounds_hold_for_all_values(
    tree: Tree, limits: dict[str, tuple[int, int]]
) -> None:
    dim = build(tree)
    found, anywhere = bounds(dim, limits), bounds(dim)
    for values in points({**limits, "k": (0, 3)}):
        assert contains(found, compute(tree, values)), (tree, values)
        assert contains(anywhere, compute(tree, values)), (tree, values)


_SIGNED_NAMES = {"n": f"n{SIGNED}", "m": f"m{SIGNED}"}


def _build_signed(tree: Tree) -> Dim:
    """A tree whose symbols ``n`` and ``m`` may be negative."""
    if isinstance(tree, tuple):
        name, left, right = tree
        return OPERATORS[name][0](_build_signed(left), _build_signed(right))
    return symbol(_SIGNED_NAMES.get(tree, tree)) if isinstance(tree, str) else tree


@settings(max_examples=60)
@given(trees, st.integers(-4, 4))
def test_signed_symbols_are_not_assumed_to_be_sizes(tree: Tree, least: int) -> None:
    dim = _build_signed(tree)
    limits = {f"n{SIGNED}": (least, least + 3), f"m{SIGNED}": (None, 4)}
    found, anywhere, short = bounds(dim, limits), bounds(dim), simplify(dim, limits)

    for values in points({"n": (least, least + 3), "m": (-4, 4), "k": (0, 3)}):
        value = compute(tree, values)
        named = {_SIGNED_NAMES.get(n, n): v for n, v in values.items()}
        assert contains(found, value), values
        assert contains(anywhere, value), values
        assert evaluate(dim, named) == evaluate(short, named) == value, values


def test_clamps_of_integers_that_may_be_negative_are_kept() -> None:
    index = symbol(f"i{SIGNED}")

    assert bounds(index) == (None, None)
    assert maximum(index, 0) != index
    assert bounds(maximum(index, 0)) == (0, None)
    assert maximum(symbol("i"), 0) == symbol("i")


@settings(max_examples=60)
@given(trees_with_symbolic_divisors, ranges)
def test_bounds_hold_for_all_values_with_symbolic_divisors(
    tree: Tree, limits: dict[str, tuple[int, int]]
) -> None:
    try:
        dim = build(tree)
    except ValueError:
        assume(False)  # a divisor is 0
    found = bounds(dim, limits)
    for values in points({**limits, "k": (0, 3)}):
        try:
            value = compute(tree, values)
        except ZeroDivisionError:
            continue
        assert contains(found, value), (tree, values)


@settings(max_examples=40)
@given(st.integers(-3, 3), st.integers(-3, 3), st.integers(-9, 9), ranges)
def test_bounds_of_linear_sums_are_tight(
    a: int, b: int, c: int, limits: dict[str, tuple[int, int]]
) -> None:
    tree: Tree = ("+", ("+", ("*", a, "n"), ("*", b, "m")), c)
    values = [compute(tree, point) for point in points(limits)]

    assert bounds(build(tree), limits) == (min(values), max(values))


@settings(max_examples=60)
@given(trees, trees)
def test_comparisons_hold_for_all_values(left: Tree, right: Tree) -> None:
    if is_known_le(build(left), build(right)):
        for values in points(_SMALL):
            assert compute(left, values) <= compute(right, values), values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", (7, 7)),
        ("n", (0, None)),
        ("-n", (None, 0)),
        ("n*m - 3", (-3, None)),
        ("4 - n*m", (None, 4)),
        ("n - m", (None, None)),
        ("floordiv(n, 3) - 2", (-2, None)),
        ("min(n, 5)", (0, 5)),
        ("min(n, m, 5)", (0, 5)),
        ("min(n, m)", (0, None)),
        ("max(n, 5)", (5, None)),
        ("mod(n, 8)", (0, 7)),
        ("n*mod(n, 8)", (0, None)),
        ("8*ceildiv(n, 8) - n", (0, 7)),
        ("n - 8*floordiv(n, 8)", (0, 7)),
        ("2*ceildiv(n, 8) - 2*floordiv(n, 8)", (0, 3)),
        ("m*floordiv(n, m) - n", (None, 0)),
        ("n*ceildiv(m, 4)*4 - n*m", (0, None)),
        ("n*m - n*floordiv(m, 4)*4", (0, None)),
        ("n*m*floordiv(k, m) - n*k", (None, 0)),
        ("min(n, m) - n", (None, 0)),
        ("n - min(n, m)", (0, None)),
        ("max(n, m) - m", (0, None)),
        ("min(n + 3, m + 5) - min(n, m)", (3, None)),
        ("min(n + 2, 9) - min(n, 7)", (2, 2)),
        ("floordiv(n, 2) + floordiv(n + 1, 2) - n", (0, 0)),
        ("floordiv(7, n + 2)", (0, 3)),
        ("floordiv(n, m + 1) - n", (None, None)),  # the divisor is a sum
        ("floordiv(n - 3, m)*(8*ceildiv(k, 8) - k)", (None, None)),
        ("min(a, b, c, d) - a", (None, 0)),
        ("min(a, b, c, d, e) - a", (None, None)),  # more cases than are expanded
    ],
)
def test_bounds_without_limits(
    text: str, expected: tuple[int | None, int | None]
) -> None:
    assert bounds(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "limits", "expected"),
    [
        ("i", {"i": (2, 5)}, (2, 5)),
        ("i*j", {"i": (2, 5), "j": (3, None)}, (6, None)),
        ("i*j", {"j": (3, 4)}, (0, None)),
        ("floordiv(i, j)", {"i": (6, 20), "j": (2, 3)}, (2, 10)),
        ("min(i, j)", {"i": (2, 5), "j": (3, 4)}, (2, 4)),
        ("8*ceildiv(i, 8) - i", {"i": (3, None)}, (0, 7)),
        ("i - j", {"i": (2, 5), "j": (1, 1)}, (1, 4)),
    ],
)
def test_bounds_with_limits(
    text: str,
    limits: dict[str, tuple[int, int | None]],
    expected: tuple[int | None, int | None],
) -> None:
    assert bounds(parse(text), limits) == expected


@pytest.mark.parametrize(("calls", "least"), [(5, 0), (6, None)])
def test_calls_are_followed_up_to_a_depth(calls: int, least: int | None) -> None:
    text = " + ".join(f"8*ceildiv({name}, 8) - {name}" for name in "abcdef"[:calls])
    assert bounds(parse(text))[0] == least


def test_limits_of_symbols_count_in_any_order() -> None:
    dim = parse("2*i - j")
    assert bounds(dim, {"i": (1, 2), "j": (0, 1)}) == (1, 4)
    assert bounds(dim, {"j": (0, 1), "i": (1, 2)}) == (1, 4)


@pytest.mark.parametrize(
    ("left", "right", "is_known"),
    [
        ("n", "n", True),
        ("n", "n + 1", True),
        ("n + 1", "n", False),
        ("n", "m", False),
        ("n", "8*ceildiv(n, 8)", True),
        ("8*ceildiv(n, 8)", "n + 7", True),
        ("8*ceildiv(n, 8)", "n + 6", False),
        ("min(n, m)", "m", True),
        ("m", "min(n, m)", False),
        ("min(a, b, c, d)", "a + 1", True),
        ("ceildiv(ceildiv(n, 2), 3)*6", "n + 5", True),
    ],
)
def test_proved_comparisons(left: str, right: str, is_known: bool) -> None:
    assert is_known_le(parse(left), parse(right)) is is_known

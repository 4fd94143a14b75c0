"""Simplification within bounds of symbols preserves values, and folds what bounds decide."""

import pytest
from hypothesis import assume, given, settings

from relax_mlir.symbolic.limits import (
    fold_single_values,
    simplify,
    substitute_and_simplify,
)
from relax_mlir.symbolic.symbols import evaluate, parse
from tests.symbolic.expressions import (
    Tree,
    build,
    compute,
    points,
    ranges,
    trees,
    trees_with_symbolic_divisors,
)

_LIMITS = {"i": (0, 7), "j": (0, 15), "k": (3, 9), "u": (2, 2), "n": (0, None)}


@settings(max_examples=60)
@given(trees, ranges)
def test_simplified_expressions_have_the_same_values(
    tree: Tree, limits: dict[str, tuple[int, int]]
) -> None:
    dim = simplify(build(tree), limits)
    for values in points({**limits, "k": (0, 2)}):
        assert evaluate(dim, values) == compute(tree, values), values


@settings(max_examples=60)
@given(trees_with_symbolic_divisors, ranges)
def test_simplified_expressions_with_symbolic_divisors_have_the_same_values(
    tree: Tree, limits: dict[str, tuple[int, int]]
) -> None:
    try:
        dim = simplify(build(tree), limits)
    except ValueError:
        assume(False)  # a divisor is 0
    for values in points({**limits, "k": (0, 2)}):
        try:
            expected = compute(tree, values)
        except ZeroDivisionError:
            continue
        assert evaluate(dim, values) == expected, values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", "5"),
        ("3*i - n + 2", "3*i - n + 2"),
        ("(16*i + j) // 16", "i"),
        ("(16*i + j) % 16", "j"),
        ("(16*i + j) // 64", "i // 4"),
        ("(j + 16*i) // 32 % 2", "i // 2 % 2"),
        ("(32*i + 16*u + j) // 64", "(i + 1) // 2"),
        ("(16*n + j) // 16", "n"),
        ("(16*n + j + 3) // 16", "(16*n + j + 3) // 16"),
        ("(16*i + j + 32) // 16", "i + 2"),
        ("(16*i + j) // 12", "(16*i + j) // 12"),
        ("(6*n + j) // 12", "(6*n + j) // 12"),
        ("(24*n + i) // 36", "2*n // 3"),
        ("(24*n + 6*i + j) // 36", "(24*n + 6*i + j) // 36"),
        ("(16*n + k + 20) // 32", "(n + 1) // 2"),
        ("(4*n + j) // (i // 8 + 4)", "n + j // 4"),
        ("i // 8", "0"),
        ("(i + 1) // 8", "(i + 1) // 8"),
        ("(k + 7) // 10", "1"),
        ("(k + 6) // 10", "(k + 6) // 10"),
        ("n*(i // 8) + 4*(j // 16) + j // 8", "j // 8"),
        ("n // m", "n // m"),
        ("i // (i // 8 + n)", "i // n"),
        ("(i // 8 + n) // 2", "n // 2"),
        ("min(i, 7)", "i"),
        ("min(i, 6)", "min(i, 6)"),
        ("min(i, k, 8)", "min(i, k)"),
        ("min(i, k, n)", "min(i, k, n)"),
        ("min(i + k, k + 7, n)", "min(i + k, n)"),
        ("min(i // 8 + 5, n)", "min(n, 5)"),
        ("max(i, 9)", "9"),
        ("max(i, j)", "max(i, j)"),
        ("2*min(i, 7)*n", "2*i*n"),
    ],
)
def test_limits_decide(text: str, expected: str) -> None:
    assert simplify(parse(text), _LIMITS) == parse(expected)


def test_variables_of_a_single_value_are_folded() -> None:
    assert fold_single_values(parse("16*i + 3*u"), _LIMITS) == parse("16*i + 6")
    assert fold_single_values(parse("n + 3*u"), {"n": (0, None), "u": (0, 1)}) == parse(
        "n + 3*u"
    )


def test_replacement_simplifies() -> None:
    dim = parse("a // 16 + u")
    assert substitute_and_simplify(dim, {"a": parse("16*i + j")}, _LIMITS) == parse(
        "i + u"
    )

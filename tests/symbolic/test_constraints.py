"""Constraints against the symbol values that satisfy them."""

import operator
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.symbolic import constraints
from relax_mlir.symbolic.constraints import Constraint
from relax_mlir.symbolic.symbols import evaluate, parse
from tests.symbolic.expressions import NAMES, Tree, build, calls, leaves, points, trees

_SMALL = list(points(dict.fromkeys(NAMES, (0, 4))))
_RELATIONS = {"==": operator.eq, ">=": operator.ge}
_linear: st.SearchStrategy[Tree] = st.recursive(
    leaves, lambda inner: calls(["+", "-"], inner, inner), max_leaves=4
)
_relations = st.sampled_from(["==", ">="])


def holds(constraint: Constraint, values: dict[str, int]) -> bool:
    sides = (evaluate(side, values) for side in (constraint.lhs, constraint.rhs))
    return _RELATIONS[constraint.relation](*sides)


def parsed(*texts: str) -> list[Constraint]:
    return [Constraint.parse(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "is_certain", "is_impossible"),
    [
        ("n == n", True, False),
        ("n == m", False, False),
        ("n + 1 == n", False, True),
        ("2*n == 3", False, True),
        ("n//2 + ceildiv(n, 2) == n", True, False),
        ("n >= 0", True, False),
        ("n >= 1", False, False),
        ("n >= n", True, False),
        ("n >= n + 1", False, True),
        ("n + 1 >= n", True, False),
        ("0 >= n", False, False),
        ("0 >= n + 1", False, True),
    ],
)
def test_certain_and_impossible_constraints(
    text: str, is_certain: bool, is_impossible: bool
) -> None:
    constraint = Constraint.parse(text)

    assert constraint.is_certain is is_certain
    assert constraint.is_impossible is is_impossible


@pytest.mark.parametrize("text", ["n == 2*m - 1", "n >= max(m, 3)"])
def test_text_parses_back(text: str) -> None:
    assert str(Constraint.parse(text)) == text


@pytest.mark.parametrize("text", ["n", "n < 3", "n > 2", "n==3", "n >=3"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="bad constraint: expected"):
        Constraint.parse(text)


@pytest.mark.parametrize(
    ("lhs", "rhs", "expected"),
    [
        ("n", "max(n, 3)", "n >= 3"),
        ("n", "max(n, m)", "n >= m"),
        ("n + 2", "max(n + 2, m)", "n + 2 >= m"),
        ("n", "max(n, 3) + 1", "n == max(n, 3) + 1"),
        ("n", "max(n, m, 3)", "n == max(m, n, 3)"),
        ("n", "2*max(n, 3)", "n == 2*max(n, 3)"),
        ("n", "m", "n == m"),
        ("m", "min(n, m)", "m == min(m, n)"),
        ("n", "n + m*min(n, m)", "n == m*min(m, n) + n"),
    ],
)
def test_equalities_that_are_inequalities(lhs: str, rhs: str, expected: str) -> None:
    assert str(Constraint.of_equality(parse(lhs), parse(rhs))) == expected


@settings(max_examples=60)
@given(trees, _relations, trees)
def test_equalities_are_equivalent(left: Tree, relation: str, right: Tree) -> None:
    text = f"{build(left)} {relation} {build(right)}"
    constraint = Constraint.parse(text)
    assert str(constraint) == text
    lhs, rhs = constraint.equality
    back = Constraint.of_equality(lhs, rhs)
    told = {holds(constraint, values) for values in _SMALL}
    for values in _SMALL:
        expected = holds(constraint, values)
        assert (evaluate(lhs, values) == evaluate(rhs, values)) == expected
        assert holds(back, values) == expected
    assert not constraint.is_certain or told == {True}
    assert not constraint.is_impossible or told == {False}


def test_sizes_are_substituted_on_both_sides() -> None:
    made = Constraint.parse("n + m >= 2*m").substituted({"m": parse("k"), "n": 3})
    assert str(made) == "k + 3 >= 2*k"


# Assumptions of type inference.


def collected(*texts: str, may_stretch: bool = False) -> dict[str, bool]:
    with constraints.collect() as found:
        for text in texts:
            constraints.assume(parsed(text), may_stretch=may_stretch)
    return {str(constraint): stretches for constraint, stretches in found.items()}


def test_uncertain_constraints_are_collected_in_order() -> None:
    texts = ("n >= 2", "n >= 0", "m == n", "m == m", "n >= 2")

    assert list(collected(*texts)) == ["n >= 2", "m == n"]
    assert not constraints.is_collecting()
    constraints.assume(parsed("n == 3"))  # without `collect`
    with constraints.collect() as outer:
        assert constraints.is_collecting()
        with constraints.collect() as inner:
            constraints.assume(parsed("n == 3"))
        constraints.assume(parsed("n == 4"))
    assert [list(map(str, found)) for found in (outer, inner)] == [
        ["n == 4"],
        ["n == 3"],
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n == m", True),
        ("n == 5", True),
        ("5 == n", True),
        ("n == 1", False),
        ("1 == n", False),
        ("n >= m", False),
        ("n + 2 == m + 2", False),
        ("n + 2 == m", True),
        ("n + 1 == m + 2", True),
        ("8*ceildiv(n, 32) == 4*ceildiv(n, 16)", False),
        ("m*n == 2*m", True),
    ],
)
def test_which_sizes_may_be_broadcast(text: str, expected: bool) -> None:
    assert collected(text, may_stretch=True) == {text: expected}
    assert collected(text) == {text: False}


def test_a_size_that_may_be_broadcast_once_may_be_broadcast() -> None:
    both = [(True, False), (False, True)]
    for first, second in both:
        with constraints.collect() as found:
            constraints.assume(parsed("n == m"), may_stretch=first)
            constraints.assume(parsed("n == m"), may_stretch=second)
        assert list(found.values()) == [True]


_equalities = st.lists(st.tuples(*[st.integers(0, 5)] * 2), max_size=6)


@settings(max_examples=60)
@given(_equalities)
def test_equal_sizes_are_connected_by_constraints(pairs: list[tuple[int, int]]) -> None:
    names = [parse(f"s{number}") for number in range(6)]
    found = {(a, a) for pair in pairs for a in pair}
    found |= {*pairs, *((b, a) for a, b in pairs)}
    for middle, a, b in product(range(6), repeat=3):
        if {(a, middle), (middle, b)} <= found:
            found.add((a, b))
    assumed = [Constraint(names[a], "==", names[b]) for a, b in pairs]
    with constraints.with_equalities([*assumed, Constraint(names[0], ">=", names[5])]):
        for a, b in product(range(6), repeat=2):
            is_held = constraints.are_assumed_equal(names[a], names[b])
            assert is_held is ((a, b) in found)
        classes = constraints.current_equalities()
        assert sum(map(len, classes)) == len(frozenset().union(*classes))
    assert constraints.current_equalities() == frozenset()


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("n", "n", []),
        ("n", "m", ["n == m"]),
        ("n", "3", ["n == 3"]),
        ("n//2 + ceildiv(n, 2)", "n", []),
        ("n + 1", "n", None),
        ("2*n", "5", None),
    ],
)
def test_required_equalities(a: str, b: str, expected: list[str] | None) -> None:
    with constraints.collect() as found:
        if expected is None:
            with pytest.raises(ValueError, match="sizes differ: expected"):
                constraints.require_equal(parse(a), parse(b))
            return
        constraints.require_equal(parse(a), parse(b))
    assert list(map(str, found)) == expected


@pytest.mark.parametrize(
    ("a", "least", "expected"),
    [
        ("n", "0", []),
        ("n", "1", ["n >= 1"]),
        ("n + 2", "2", []),
        ("n - 2", "1", ["n >= 3"]),
        ("n + 2", "m", ["n >= m - 2"]),
        ("n - m", "0", ["-m + n >= 0"]),
        ("5", "n", ["5 >= n"]),
        ("5", "4", []),
        ("4", "5", None),
        ("n", "n + 1", None),
        ("-n", "1", None),
        ("-n", "0", ["-n >= 0"]),
    ],
)
def test_required_least_sizes(a: str, least: str, expected: list[str] | None) -> None:
    with constraints.collect() as found:
        if expected is None:
            with pytest.raises(ValueError, match="size is too small: expected at"):
                constraints.require_at_least(parse(a), parse(least))
            return
        constraints.require_at_least(parse(a), parse(least))
    assert list(map(str, found)) == expected


# Solving.


@pytest.mark.parametrize(
    ("texts", "values", "left"),
    [
        (["n == m", "m == k"], {"m": "n", "k": "n"}, []),
        (["n == m", "m == 5"], {"m": "5", "n": "5"}, []),
        (["2*n == m + 1"], {"m": "2*n - 1"}, []),
        (["2*m == n + 1"], {"n": "2*m - 1"}, []),
        (["2*m == 2*n + 4"], {"m": "n + 2"}, []),
        (["2*m == 4*n + 1", "n == m"], None, []),
        (["4*n == 12", "n >= 2"], {"n": "3"}, []),
        (["2*n == 3*m"], {}, ["2*n == 3*m"]),
        (["n == min(n, 8)", "m >= 3"], {}, ["n == min(n, 8)", "m >= 3"]),
        (["n == m", "min(m, 4) == n"], {"m": "n"}, ["min(n, 4) == n"]),
        (["n*m == n"], {}, ["m*n == n"]),
        (["n*m == k + 1"], {"k": "m*n - 1"}, []),
        (["n + m == 0"], {"m": "-n"}, []),
        (["m >= 3", "n >= 4", "n == m", "n >= 4"], {"m": "n"}, ["n >= 3", "n >= 4"]),
        (["m == m//2 + n"], {"n": "m - floordiv(m, 2)"}, []),
        (["n == 2", "n >= 3"], None, []),
        (["n == 2", "n == 3"], None, []),
        (["n + 3 == 1"], None, []),
        (["2*n == 3"], None, []),
        (["n >= n + 1"], None, []),
    ],
)
def test_solutions(
    texts: list[str], values: dict[str, str] | None, left: list[str]
) -> None:
    if values is None:
        with pytest.raises(ValueError, match="unsatisfiable sizes: expected"):
            constraints.solve(parsed(*texts), NAMES)
        return
    solved, rest = constraints.solve(parsed(*texts), NAMES)

    assert {name: str(dim) for name, dim in solved.items()} == values
    assert list(map(str, rest)) == left


@settings(max_examples=150)
@given(st.lists(st.tuples(_linear, _relations, _linear), min_size=1, max_size=3))
def test_solutions_hold_for_the_same_values(
    listed: Sequence[tuple[Tree, str, Tree]],
) -> None:
    given_ = parsed(*(f"{build(a)} {r} {build(b)}" for a, r, b in listed))
    satisfying = [v for v in _SMALL if all(holds(c, v) for c in given_)]
    try:
        values, left = constraints.solve(given_, NAMES)
    except ValueError:
        assert not satisfying
        return
    same = [
        point
        for point in _SMALL
        if all(point[name] == evaluate(dim, point) for name, dim in values.items())
        and all(holds(constraint, point) for constraint in left)
    ]
    assert same == satisfying

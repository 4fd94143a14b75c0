"""Simplification of expressions by the ranges of loop variables."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.symbolic.limits import fold_single_values, simplify
from relax_mlir.symbolic.symbols import evaluate, parse
from relax_mlir.tvm.tir.schedule.affine import is_affine
from relax_mlir.tvm.tir.schedule.regions import Interval, evaluate_interval

_LIMITS = {"i": (0, 7), "j": (0, 15), "u": (0, 0)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(16*i + j) // 16", "i"),
        ("(16*i + j) % 16", "j"),
        ("(16*i + j) // 64", "i // 4"),
        ("(j + 16*i) // 32 % 2", "i // 2 % 2"),
        ("i // 8", "0"),
        ("min(i, 7)", "i"),
        ("max(i, 9)", "9"),
        ("(16*i + j) // 12", "(16*i + j) // 12"),
    ],
)
def test_limits_decide_quotients(text, expected):
    assert simplify(parse(text), _LIMITS) == parse(expected)


def test_variables_of_one_value_are_numbers():
    assert fold_single_values(parse("16*i + 3*u"), _LIMITS) == parse("16*i")


_TERMS = st.builds(
    "({}*i + {}*j + {})".format,
    st.integers(0, 20),
    st.integers(0, 20),
    st.integers(0, 20),
)
_TEXTS = st.builds(
    "{0} // {2} + {1} % {3}".format,
    _TERMS,
    _TERMS,
    st.integers(1, 24),
    st.integers(1, 24),
)
_POINTS = list(itertools.product(range(0, 8, 3), range(0, 16, 5)))


@settings(max_examples=40)
@given(text=_TEXTS)
def test_simplified_expressions_have_the_same_values(text):
    dim = parse(text)
    short = simplify(dim, _LIMITS)

    for i, j in _POINTS:
        values = {"i": i, "j": j}
        assert evaluate(dim, values) == evaluate(short, values)


@settings(max_examples=40)
@given(text=_TEXTS)
def test_intervals_hold_all_values(text):
    dim = parse(text)
    found = evaluate_interval(dim, {"j": Interval(0, 15)}, _LIMITS)

    for i, j in _POINTS:
        value = evaluate(dim, {"i": i, "j": j})
        low, high = (evaluate(end, {"i": i}) for end in (found.low, found.high))
        assert low <= value <= high


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["i", "j"], True),
        (["16*i + j"], True),
        (["i // 4", "i % 4", "j"], True),
        (["i // 4", "i % 2"], False),
        (["2*i + j"], False),
        (["i", "i"], False),
        (["i * i"], False),
        (["8*i"], False),
    ],
)
def test_bindings_that_visit_each_point_once(values, expected):
    extents = {"i": 8, "j": 16}

    assert is_affine([parse(v) for v in values], extents, _LIMITS) is expected


def test_a_predicate_joins_the_loops_that_it_cuts_off():
    values = [parse("(12*i + j) // 5"), parse("(12*i + j) % 5")]
    extents, limits = {"i": 9, "j": 12}, {"i": (0, 8), "j": (0, 11)}

    assert is_affine(values, extents, limits, predicates=[parse("99 - 12*i - j")])
    assert not is_affine(values, extents, limits)

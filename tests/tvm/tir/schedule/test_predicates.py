"""Predicates against the points where they hold."""

import itertools
from collections.abc import Mapping
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlir import ir

from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.symbols import evaluate, parse
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols
from relax_mlir.tvm.tir.schedule.predicates import (
    Condition,
    conditions_of,
    emit_conditions,
    is_nonnegative,
    is_proved,
    without_floordiv,
)
from tests.analysis.index_programs import used_values
from tests.schedules.kernels import number
from tests.symbolic.expressions import build, calls, points, sums

_LIMITS = {"n": (0, 5), "m": (0, 4), "k": (1, 3)}
_POINTS = list(points(_LIMITS))

_trees = st.recursive(
    st.sampled_from(["n", "m"]) | st.integers(-4, 8),
    lambda inner: sums(inner) | calls(["//", "%"], inner, st.sampled_from([2, 3])),
    max_leaves=5,
)


def holds(condition: Condition, point: Mapping[str, int]) -> bool:
    lhs, rhs = (evaluate(side, point) for side in (condition.lhs, condition.rhs))
    return lhs < rhs if condition.sign == "lt" else lhs <= rhs


@settings(max_examples=60)
@given(st.sampled_from(["lt", "le"]), _trees, _trees)
def test_equivalent_conditions(sign: str, lhs: object, rhs: object) -> None:
    condition = Condition(sign, build(lhs), build(rhs))  # pyright: ignore[reportArgumentType]
    tidy = condition.canonical()
    moved = condition.replaced({"n": parse("k + 2")}, _LIMITS)
    for point in _POINTS:
        expected = holds(condition, point)
        assert (evaluate(condition.slack, point) >= 0) is expected
        assert holds(tidy, point) is expected
        there = {**point, "n": point["k"] + 2}
        assert holds(moved, point) is holds(condition, there)


@pytest.mark.parametrize(
    ("lhs", "rhs", "expected"),
    [
        ("n + 3", "5", ("n", "2")),
        ("5", "n + 3", ("2", "n")),
        ("3", "7", ("0", "4")),
        ("n + 1", "m + 2", ("n + 1", "m + 2")),
        ("n - 3", "0 - 1", ("n", "2")),
    ],
)
def test_numbers_are_moved_to_one_side(
    lhs: str, rhs: str, expected: tuple[str, str]
) -> None:
    for sign in ("lt", "le"):
        found = Condition(sign, parse(lhs), parse(rhs)).canonical()
        assert (found.lhs, found.rhs) == tuple(map(parse, expected))
        assert found.sign == sign


@pytest.mark.parametrize("rest", [None, 1, 2, 3])
def test_quotients_are_bounds_of_numbers(rest: int | None) -> None:
    condition = Condition("lt", parse("x//3"), 4)
    other = Condition("lt", parse("y%3"), 1)
    others = [] if rest is None else [Condition("lt", parse("x%3"), rest)]

    found = without_floordiv(condition, [other, *others])
    allowed = [
        x for x in range(30) if all(holds(c, {"x": x}) for c in (condition, *others))
    ]

    assert found.sign == "lt"
    assert found.lhs == parse("x")
    assert found.rhs == max(allowed) + 1


def test_other_conditions_stay_as_they_are() -> None:
    quotient, n = parse("x//3"), parse("n")
    for condition in [
        Condition("le", quotient, 4),
        Condition("lt", quotient, n),
        Condition("lt", 2 * quotient, 4),
        Condition("lt", quotient + parse("y"), 4),
        Condition("lt", quotient * parse("y"), 4),
        Condition("lt", parse("x"), 4),
        Condition("lt", parse("x//n"), 4),
        Condition("lt", parse("min(x, n)"), 4),
    ]:
        assert without_floordiv(condition, []) == condition
    others = [
        Condition("le", parse("x%3"), 1),
        Condition("lt", parse("x%3"), n),
    ]
    assert without_floordiv(Condition("lt", quotient, 4), others).rhs == 12


_SIGNS = {2: "slt", 3: "sle", 4: "sgt", 5: "sge", 0: "eq", 6: "ult"}
_TRUTHS = {
    2: lambda a, b: a < b,
    3: lambda a, b: a <= b,
    4: lambda a, b: a > b,
    5: lambda a, b: a >= b,
}


@contextmanager
def conditions(*signs: int):
    """``n sign m`` for each, and the conditions of their conjunction."""
    lines = [
        f"%c{k} = arith.cmpi {_SIGNS[sign]}, %n, %m : index\n"
        for k, sign in enumerate(signs)
    ]
    total = "%c0"
    for k in range(1, len(signs)):
        lines.append(f"%t{k} = arith.andi {total}, %c{k} : i1\n")
        total = f"%t{k}"
    text = f"""func.func @f(%n: index, %m: index, %b: i1, %i: i32) {{
      {"".join(lines)}
      "test.use"({total}, %n, %m, %b, %i) : (i1, index, index, i1, i32) -> ()
      return }}"""
    with used_values(text) as found:
        indices = IndexSymbols()
        indices.bind("n", found[1])
        indices.bind("m", found[2])
        yield found, indices


@pytest.mark.parametrize(
    "signs", [*itertools.product(_TRUTHS, repeat=2), (2,), (5,), (3, 4, 5)]
)
def test_predicates_are_conjunctions_of_conditions(signs: tuple[int, ...]) -> None:
    with conditions(*signs) as ((value, n, m, *_), indices):
        found = conditions_of(value, indices)
        assert len(found) == len(signs)
        assert {c.sign for c in found} <= {"lt", "le"}
        use = next(iter(value.uses)).owner
        with ir.InsertionPoint(use):
            again = emit_conditions(found, indices)
        assert conditions_of(again, indices) == found
        for a, b in itertools.product(range(4), repeat=2):
            point = {"n": a, "m": b}
            expected = all(_TRUTHS[sign](a, b) for sign in signs)
            assert all(holds(c, point) for c in found) is expected
            parts = _compared(again)
            assert (
                all(
                    _TRUTHS[sign](*(number(v, {n: a, m: b}) for v in sides))
                    for sign, sides in parts
                )
                is expected
            )


def _compared(value: ir.Value) -> list[tuple[int, list[ir.Value]]]:
    owner = value.owner
    if owner.name == "arith.andi":
        return [part for operand in owner.operands for part in _compared(operand)]
    sign = ir.IntegerAttr(owner.attributes["predicate"]).value
    return [(sign, list(owner.operands))]


def test_values_that_are_no_comparisons_of_indices() -> None:
    with conditions(0, 6, 2) as ((value, _, _, truth, _), indices):
        equal, below, less = conditions_of(value, indices)
        assert (less.sign, less.value) == ("lt", None)
        for unknown in (equal, below, *conditions_of(truth, indices)):
            assert unknown.sign == ""
            assert unknown.value is not None
            assert unknown.canonical() == unknown.replaced({"n": 3}, {}) == unknown
            assert not is_proved(unknown, {}, {})
        use = next(iter(value.uses)).owner
        with ir.InsertionPoint(use):
            again = emit_conditions([equal, below, less], indices)
        assert [c.sign for c in conditions_of(again, indices)] == ["", "", "lt"]


def test_comparisons_of_other_integers_are_no_conditions() -> None:
    text = """func.func @f(%i: i32) {
      %c = arith.cmpi slt, %i, %i : i32
      "test.use"(%c) : (i1) -> ()
      return }"""
    with used_values(text) as (value,):
        assert conditions_of(value, IndexSymbols()) == [Condition("", value=value)]


# `n` steps, `i` below `n`, `j` up to `i`, and `k` below 4.
_TOPS = {"i": parse("n - 1"), "j": parse("i"), "k": 3}
_BOUNDS: dict[str, tuple[int, int | None]] = {
    "i": (0, None),
    "j": (0, None),
    "k": (0, 3),
    "n": (0, None),
}
_INSIDE = [
    {"n": n, "i": i, "j": j, "k": k}
    for n in range(1, 7)
    for i in range(n)
    for j in range(i + 1)
    for k in range(4)
]
_loops = st.recursive(
    st.sampled_from(["n", "i", "j", "k"]) | st.integers(-3, 6),
    lambda inner: sums(inner) | calls(["//", "%"], inner, st.sampled_from([2, 3])),
    max_leaves=5,
)


@settings(max_examples=120)
@given(_loops)
def test_proved_conditions_hold_everywhere(tree: object) -> None:
    dim: Dim = build(tree)  # pyright: ignore[reportArgumentType]
    if is_nonnegative(dim, _BOUNDS, _TOPS):
        for point in _INSIDE:
            assert evaluate(dim, point) >= 0, (str(dim), point)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n - 1 - i", True),
        ("n - 2 - i", False),
        ("n - 1 - j", True),
        ("i - j", True),
        ("j - i", False),
        ("4*n - 1 - 4*i - k", True),
        ("4*n - 2 - 4*i - k", False),
        ("n*n - n - n*i", True),
        ("n*n - 1 - n*i", False),
        ("(n - i)//2", True),
        ("(n - i)//2 - 1", False),
        ("min(n - i, 3) - 1", True),
        ("min(n - i, i) - 1", False),
        ("(n - 1)//2 - i//2", True),
        ("n*(i//2) - (n - 1)//2", False),
        ("n*((n - 1)//2) - n*(i//2)", True),
        ("(n - 1)//2 - i//n", False),
        ("min(n - 1, 4) - min(i, 4)", True),
        ("min(n - 1, 4) - min(i, 4 - i)", False),
        ("2*(n - 1) + (n - 1)//2 - 2*i - i//2", True),
        ("i//2 - j//2", True),
        ("(n - 1)//2 - (2*j)//4 - 1", False),
        ("3 - k", True),
        ("n - 1 - (i//2)*2", True),
        ("2*(i//2) - i", False),
        ("i*i - 4*i + 3", False),
        ("max(k - 2, 2 - k) - 1", False),
        ("i + k", True),
        ("i - 1", False),
    ],
)
def test_proved_conditions(text: str, expected: bool) -> None:
    condition = Condition("le", 0, parse(text))
    assert is_proved(condition, _BOUNDS, _TOPS) is expected


def test_monotonic_sums() -> None:
    limits = {"i": (1, None), "n": (1, None)}
    assert is_nonnegative(parse("n*i - i"), limits, {"i": parse("n")})
    assert is_nonnegative(parse("n*i - n"), limits, {"i": parse("n")})
    assert not is_nonnegative(parse("n*i - n - 1"), limits, {"i": parse("n")})


def test_loops_may_begin_below_0() -> None:
    assert not is_nonnegative(parse("i + 1"), {"i": (-3, 3)}, {"i": 3})
    assert is_nonnegative(parse("i + 3"), {"i": (-3, 3)}, {"i": 3})
    assert not is_nonnegative(parse("i*n + i - 1"), {}, {"i": 3})
    n = parse("n")
    assert not is_nonnegative(n + parse("i"), {"i": (-3, None)}, {"i": n - 4})

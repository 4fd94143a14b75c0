"""Known divisors of indices against all values of loops."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlir import ir

from relax_mlir.schedules.divisibility import known_divisor
from tests.analysis.index_programs import (
    ARITHMETIC,
    program,
    used_values,
    values_at,
)
from tests.symbolic.expressions import Tree, points

# `i` starts at 4 with step 6, `j` at 0 with step 8, `k` at 5 with step 1.
_LOOPS = """
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c4 = arith.constant 4 : index
%c5 = arith.constant 5 : index
%c6 = arith.constant 6 : index
%c8 = arith.constant 8 : index
%c40 = arith.constant 40 : index
scf.for %i = %c4 to %c40 step %c6 {
scf.for %j = %c0 to %c40 step %c8 {
scf.for %k = %c5 to %c40 step %c1 {
"""
_STEPS = {"i": range(4, 40, 6), "j": range(0, 40, 8), "k": range(5, 40, 7)}
_POINTS = [
    {name: _STEPS[name][at] for name, at in point.items()}
    for point in points({name: (0, len(s) - 1) for name, s in _STEPS.items()})
]

trees: st.SearchStrategy[Tree] = st.recursive(
    st.sampled_from(["i", "j", "k"]) | st.integers(0, 12),
    lambda inner: st.tuples(st.sampled_from(list(ARITHMETIC)), inner, inner),
    max_leaves=5,
)


def multiples(listed: list[Tree], *, loops: str = _LOOPS) -> list[int]:
    with used_values(program(listed, ["n"], loops)) as found:
        return [known_divisor(value) for value in found]


@settings(max_examples=15)
@given(st.lists(trees, min_size=4, max_size=4))
def test_multiples_divide_all_values(listed: list[Tree]) -> None:
    for tree, multiple in zip(listed, multiples(listed), strict=True):
        for value in values_at(tree, _POINTS) or ():
            assert value % multiple == 0 if multiple else value == 0, (tree, value)


@pytest.mark.parametrize(
    "tree",
    [
        "i",
        "j",
        "k",
        12,
        0,
        -12,
        ("arith.addi", ("arith.muli", "j", 3), 12),
        ("arith.subi", "j", "i"),
        ("arith.muli", "i", "j"),
        ("arith.remui", "j", 12),
        ("arith.minsi", "j", 24),
        ("arith.maxsi", "i", 32),
    ],
)
def test_multiples_are_the_greatest(tree: Tree) -> None:
    values = values_at(tree, _POINTS)

    assert values is not None
    assert multiples([tree]) == [math.gcd(*values)]


def test_other_operations_and_arguments_are_multiples_of_1() -> None:
    assert multiples(["n", ("arith.divui", "j", 2), ("arith.addi", "n", "j")]) == [
        *(1, 1, 1)
    ]


def test_values_that_loops_carry_are_multiples_of_1() -> None:
    loop = """
      %c0 = arith.constant 0 : index
      %c8 = arith.constant 8 : index
      %r = scf.for %i = %c0 to %c8 step %c8 iter_args(%s = %c8) -> (index) {
        "test.use"(%s, %i, %r8) : (index, index, index) -> ()
        scf.yield %s : index
      }
      return }"""
    text = "func.func @f(%r8: index) {" + loop
    with used_values(text) as (carried, counter, argument):
        assert [known_divisor(v) for v in (carried, counter, argument)] == [1, 8, 1]


def test_numbers_are_multiples_of_their_size() -> None:
    assert known_divisor(-6) == 6
    assert known_divisor(0) == 0
    with ir.Context():
        assert known_divisor(12) == 12

"""Symbolic sizes against plain integers, and shape rules against numpy or brute force."""

import copy
import itertools
import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from relax_mlir.dialects import shapes
from relax_mlir.dialects.shapes import Dim, Expr, parse, symbol

Tree: TypeAlias = "int | str | tuple[str, Tree, Tree]"
Values: TypeAlias = dict[str, int]

few = settings(derandomize=True, deadline=None, max_examples=100)
many = settings(derandomize=True, deadline=None, max_examples=400)

NAMES = ("n", "m", "k")
OPERATORS: Mapping[str, tuple[Callable[[Dim, Dim], Dim], Callable[[int, int], int]]] = {
    "+": (lambda a, b: a + b, lambda a, b: a + b),
    "-": (lambda a, b: a - b, lambda a, b: a - b),
    "*": (lambda a, b: a * b, lambda a, b: a * b),
    "//": (shapes.floordiv, lambda a, b: a // b),
    "%": (shapes.mod, lambda a, b: a % b),
    "ceildiv": (shapes.ceildiv, lambda a, b: -(-a // b)),
    "min": (shapes.minimum, min),
    "max": (shapes.maximum, max),
}

values = st.fixed_dictionaries({name: st.integers(0, 12) for name in NAMES})
numbers = st.integers(-9, 9)
leaves = st.sampled_from(NAMES) | numbers
trees: st.SearchStrategy[Tree] = st.recursive(
    leaves,
    lambda inner: st.tuples(st.sampled_from(sorted(OPERATORS)), inner, inner),
    max_leaves=7,
)
# Divisors are numbers here: the value of such a tree is always defined.
total_trees: st.SearchStrategy[Tree] = st.recursive(
    leaves,
    lambda inner: (
        st.tuples(st.sampled_from(["+", "-", "*", "min", "max"]), inner, inner)
        | st.tuples(
            st.sampled_from(["//", "%", "ceildiv"]),
            inner,
            st.sampled_from([-3, 1, 2, 3, 4, 6]),
        )
    ),
    max_leaves=7,
)


def build(tree: Tree) -> Dim:
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return symbol(tree)
    operator, left, right = tree
    return OPERATORS[operator][0](build(left), build(right))


def compute(tree: Tree, given_values: Values) -> int:
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return given_values[tree]
    operator, left, right = tree
    return OPERATORS[operator][1](compute(left, given_values), compute(right, given_values))


exprs = total_trees.map(build)


@many
@given(total_trees, values)
def test_canonical_expressions_have_the_value_of_plain_arithmetic(tree: Tree, env: Values) -> None:
    assert shapes.evaluate(build(tree), env) == compute(tree, env)


@many
@given(trees, values)
def test_symbolic_divisors_have_the_value_of_plain_arithmetic(tree: Tree, env: Values) -> None:
    try:
        expected = compute(tree, env)
        dim = build(tree)
    except (ZeroDivisionError, ValueError):
        assume(False)
    assert shapes.evaluate(dim, env) == expected

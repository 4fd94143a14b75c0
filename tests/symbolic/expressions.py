"""Random size expressions as trees, evaluated symbolically and as Python integers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import TypeAlias

from hypothesis import strategies as st

from relax_mlir.dialects import shapes
from relax_mlir.dialects.shapes import Dim, symbol

Tree: TypeAlias = "int | str | tuple[str, Tree, Tree]"
Values: TypeAlias = dict[str, int]

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

leaves = st.sampled_from(NAMES) | st.integers(-9, 9)


def calls(
    names: Sequence[str], left: st.SearchStrategy[Tree], right: st.SearchStrategy[Tree]
) -> st.SearchStrategy[Tree]:
    return st.tuples(st.sampled_from(names), left, right)


def sums(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return calls(["+", "-", "*", "min", "max"], inner, inner)


QUOTIENTS = ("//", "%", "ceildiv")
divisors = st.sampled_from([-3, 1, 2, 3, 4, 6])
trees: st.SearchStrategy[Tree] = st.recursive(
    leaves,
    lambda inner: sums(inner) | calls(QUOTIENTS, inner, divisors),
    max_leaves=7,
)
trees_with_symbolic_divisors: st.SearchStrategy[Tree] = st.recursive(
    leaves, lambda inner: sums(inner) | calls(QUOTIENTS, inner, inner), max_leaves=7
)


def build(tree: Tree) -> Dim:
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return symbol(tree)
    name, left, right = tree
    return OPERATORS[name][0](build(left), build(right))


def compute(tree: Tree, env: Values) -> int:
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return env[tree]
    name, left, right = tree
    return OPERATORS[name][1](compute(left, env), compute(right, env))


# Inclusive bounds of two of the symbols.
ranges = st.fixed_dictionaries(
    {name: st.tuples(st.integers(0, 5), st.integers(0, 4)) for name in NAMES[:2]}
).map(lambda found: {n: (low, low + more) for n, (low, more) in found.items()})


def points(limits: Mapping[str, tuple[int, int]]) -> Iterator[Values]:
    """All assignments of numbers within inclusive bounds."""
    for values in product(*(range(low, high + 1) for low, high in limits.values())):
        yield dict(zip(limits, values, strict=True))


def contains(limits: tuple[int | None, int | None], value: int) -> bool:
    """Whether a value lies within inclusive bounds; None is unbounded."""
    low, high = limits
    return (low is None or low <= value) and (high is None or value <= high)

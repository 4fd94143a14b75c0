"""Random integer PrimExprs, and their values."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from hypothesis import strategies as st

from relax_mlir.objects import prim
from relax_mlir.objects.prim import IntImm, PrimExpr, Var, intrinsics

I, J = Var("i"), Var("j")  # noqa: E741  as scripts call them
Limits = Mapping[Var, tuple[int, int]]

SUMS = (prim.Add, prim.Sub, prim.Min, prim.Max)
DIVISIONS = (prim.FloorDiv, prim.FloorMod, prim.Div, prim.Mod)
COMPARISONS = (prim.LT, prim.LE, prim.GT, prim.GE, prim.EQ, prim.NE)
_ARITHMETIC: Mapping[type, Callable[[Any, Any], Any]] = {
    prim.Add: lambda a, b: a + b,
    prim.Sub: lambda a, b: a - b,
    prim.Mul: lambda a, b: a * b,
    prim.FloorDiv: lambda a, b: a // b,
    prim.FloorMod: lambda a, b: a % b,
    prim.Div: lambda a, b: int(a / b),
    prim.Mod: lambda a, b: a - b * int(a / b),
    prim.Min: min,
    prim.Max: max,
    prim.LT: lambda a, b: a < b,
    prim.LE: lambda a, b: a <= b,
    prim.GT: lambda a, b: a > b,
    prim.GE: lambda a, b: a >= b,
    prim.EQ: lambda a, b: a == b,
    prim.NE: lambda a, b: a != b,
    prim.And: lambda a, b: a and b,
    prim.Or: lambda a, b: a or b,
}


def value_of(term: PrimExpr, values: Mapping[Var, int]) -> int:
    """The value of a PrimExpr of small integers."""
    if isinstance(term, IntImm):
        return term.value
    if isinstance(term, Var):
        return values[term]
    parts = [value_of(child, values) for child in term.children()]
    if isinstance(term, prim.Not):
        return not parts[0]
    if isinstance(term, prim.Cast):
        return parts[0]
    if isinstance(term, prim.Select) or (
        isinstance(term, prim.Call) and term.op_name == "if_then_else"
    ):
        return parts[1] if parts[0] else parts[2]
    return _ARITHMETIC[type(term)](*parts)


def points(limits: Limits) -> Iterator[dict[Var, int]]:
    """All values of variables within inclusive bounds."""
    for values in product(*(range(low, high + 1) for low, high in limits.values())):
        yield dict(zip(limits, values, strict=True))


def binary(
    kinds: Sequence[type[prim.BinaryExpr]],
    left: st.SearchStrategy[Any],
    right: st.SearchStrategy[Any],
) -> st.SearchStrategy[PrimExpr]:
    """Expressions built by constructors, without folding."""
    return st.builds(lambda kind, a, b: kind(a, b), st.sampled_from(kinds), left, right)


numbers = st.integers(-4, 9).map(prim.const)
divisors = st.sampled_from([-6, -3, -2, -1, 1, 2, 3, 4, 6, 12]).map(prim.const)
leaves = st.sampled_from([I, J]) | numbers
# Quasi-affine expressions: with quotients, remainders, minima and maxima.
indices: st.SearchStrategy[PrimExpr] = st.recursive(
    leaves,
    lambda inner: (
        binary(SUMS, inner, inner)
        | binary([prim.Mul], inner, numbers)
        | binary([prim.Mul], numbers, inner)
        | binary(DIVISIONS, inner, divisors)
    ),
    max_leaves=6,
)
conditions: st.SearchStrategy[PrimExpr] = st.recursive(
    binary(COMPARISONS, indices, indices),
    lambda inner: binary([prim.And, prim.Or], inner, inner) | inner.map(prim.Not),
    max_leaves=3,
)
terms = (
    indices
    | binary([prim.Mul], indices, indices)
    | st.builds(prim.Select, conditions, indices, indices)
    | st.builds(intrinsics.if_then_else, conditions, indices, indices)
)
limits = st.fixed_dictionaries(
    {var: st.tuples(st.integers(-4, 5), st.integers(0, 5)) for var in (I, J)}
).map(lambda found: {v: (low, low + more) for v, (low, more) in found.items()})

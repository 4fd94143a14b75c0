"""Symbolic shape inference against numpy, for all values of the symbols."""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.dialects import shapes
from relax_mlir.dialects.shapes import Dim, Shape
from relax_mlir.symbolic import constraints
from relax_mlir.symbolic.constraints import Constraint
from relax_mlir.symbolic.symbols import evaluate, parse
from tests.symbolic.expressions import Values, points

Sizes = tuple[int, ...]
_POINTS = list(points({"n": (0, 3), "m": (0, 3)}))
N, M = parse("n"), parse("m")

_sizes = st.sampled_from(
    ["0", "1", "1", "2", "3", "n", "n", "m", "n + 1", "2*n", "min(n, 1)", "max(n, m)"]
).map(parse)
_shapes = st.lists(_sizes, max_size=3).map(tuple)


def at(shape: Sequence[Dim], values: Values) -> Sizes:
    return tuple(evaluate(dim, values) for dim in shape)


def by_numpy(rule: Callable[..., Sizes], *args: object) -> Sizes | None:
    try:
        return rule(*args)
    except ValueError:
        return None


def holds(constraint: Constraint, values: Values) -> bool:
    lhs, rhs = (evaluate(side, values) for side in (constraint.lhs, constraint.rhs))
    return lhs == rhs if constraint.relation == "==" else lhs >= rhs


EITHER: Sizes = (-1,)  # numpy rejects it, but there is one shape that fits


def compare(
    rule: Callable[[], Shape],
    expected: Callable[[Values], Sizes | None],
    is_refused_too: Callable[[Values], bool] = lambda values: False,
) -> None:
    """Checks a rule: where its constraints hold, the shape is numpy's; else numpy raises.

    Args:
        rule: returns a shape, or raises ``ValueError``.
        expected: numpy's shape for values of the symbols; None if numpy raises.
        is_refused_too: values that the rule may reject although numpy accepts them.
    """
    with constraints.collect() as found:
        try:
            result: Shape | None = rule()
        except ValueError:
            result = None
    for values in _POINTS:
        wanted = expected(values)
        if result is not None and all(holds(c, values) for c in found):
            assert wanted in (at(result, values), EITHER), (values, result)
        else:
            is_right = wanted in (None, EITHER) or is_refused_too(values)
            assert is_right, (values, result)


def stretches(listed: Sequence[Shape], values: Values) -> bool:
    """Whether a symbolic size evaluates to 0 or 1, as `min(n, 1)` may."""
    return any(
        not isinstance(d, int) and evaluate(d, values) <= 1 for s in listed for d in s
    )


def test_axes() -> None:
    shape = (N, 1, 5)
    for axes in product(range(-4, 4), repeat=2):
        inside = all(-3 <= axis < 3 for axis in axes)
        plain = [axis % 3 for axis in axes]
        if not inside:
            for rule in (shapes.normalize_axes, shapes.distinct_axes):
                with pytest.raises(
                    ValueError, match=r"axis is out of range: .* -3 to 2"
                ):
                    rule(axes, 3)
            continue
        assert shapes.distinct_axes(axes, 3) == tuple(dict.fromkeys(plain))
        if plain[0] == plain[1]:
            with pytest.raises(ValueError, match="axes repeat"):
                shapes.normalize_axes(axes, 3)
            continue
        assert shapes.normalize_axes(axes, 3) == tuple(plain)
        kept = tuple(1 if axis in plain else shape[axis] for axis in range(3))
        left = tuple(shape[axis] for axis in range(3) if axis not in plain)
        assert shapes.reduced(shape, axes, True) == kept
        assert shapes.reduced(shape, axes, False) == left
    for perm in product(range(-1, 4), repeat=3):
        if sorted(perm) == [0, 1, 2]:
            assert shapes.transposed(shape, perm) == tuple(shape[a] for a in perm)
        else:
            with pytest.raises(ValueError, match="each of 0 to 2 once"):
                shapes.transposed(shape, perm)


def test_require_nonnegative() -> None:
    with constraints.collect() as found:
        shapes.require_nonnegative((N - 1, 3, M))
        for negative in (-1, -N - 1):
            with pytest.raises(ValueError, match=r"negative: got \[n, "):
                shapes.require_nonnegative((N, negative))
    assert list(map(str, found)) == ["n >= 1"]


@pytest.mark.parametrize(
    ("shape", "target", "allowzero", "expected"),
    [
        ("n 4 m", "0 2 -1", False, "n 2 2*m"),
        ("n 4 m", "0 0 0", False, "n 4 m"),
        ("n 4", "0 2 0", False, None),  # there is no third size
        ("0 4", "0 4", True, "0 4"),
        ("0 4", "0 -1", True, None),
        ("0 4", "4 0", False, None),
        ("n*m 6", "n -1 3", False, "n 2*m 3"),
        ("4 n", "-1", False, "4*n"),
        ("4", "-1 -1", False, None),
        ("4", "-2 -2", False, None),
        ("2*n", "2 n + 1", False, None),
        ("n 3", "-1 2", False, None),  # only some sizes divide
        ("2 3", "4 -1", False, None),
    ],
)
def test_reshapes(
    shape: str, target: str, allowzero: bool, expected: str | None
) -> None:
    def read(text: str) -> Shape:
        return tuple(map(parse, text.replace(" + ", "+").split()))

    if expected is None:
        with pytest.raises(ValueError, match=r"cannot (reshape|copy)"):
            shapes.reshape(read(shape), read(target), allowzero)
    else:
        found = shapes.reshape(read(shape), read(target), allowzero)
        assert found == read(expected)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("n", "4", "4"),
        ("n", "n", "n"),
        ("n", "min(n, 9)", "n"),
        ("min(n, 9)", "n", "n"),
        ("n//2 + ceildiv(n, 2)", "n", "floordiv(n, 2) + ceildiv(n, 2)"),
    ],
)
def test_unify_prefers_the_larger_size(a: str, b: str, expected: str) -> None:
    assert shapes.unify(parse(a), parse(b)) == parse(expected)


def test_unify_needs_known_equality_without_collection() -> None:
    for rule in (
        lambda: shapes.unify(N, M),
        lambda: shapes.broadcast((N,), (M,)),
        lambda: shapes.broadcast_into((N,), (M,)),
        lambda: shapes.concat([(N, 1), (M, 1)], 1),
        lambda: shapes.matmul((2, N), (M, 2)),
    ):
        with pytest.raises(ValueError, match="sizes differ: expected `n`, got `m`"):
            rule()
        with constraints.with_equalities([Constraint(N, "==", M)]):
            rule()


def test_broadcast_of_sizes_of_at_most_one() -> None:
    for rule in (shapes.broadcast, shapes.broadcast_into):
        with constraints.collect() as found:
            rule((N, M), (M, 1))
        assert {str(c): may for c, may in found.items()} == {"n == m": True}


@pytest.mark.parametrize(
    ("listed", "expected", "assumed"),
    [
        (["n", "4"], "4", ["4 == n"]),
        (["n", "m", "4"], "4", ["4 == n", "4 == m"]),
        (["n", "min(n, 1)"], "n", []),
        (["min(n, 1)", "n"], "n", []),
        (["m", "min(n, 1)"], "m", ["1 == min(n, 1)"]),
        (["0", "min(n, 1)"], "0", ["0 == min(n, 1)"]),
        (["6*n + 1", "5"], "5", ["1 == 6*n + 1"]),
        (["5", "6*n + 1"], "5", ["1 == 6*n + 1"]),
        (["n + 2", "1"], "n + 2", []),
        (["1", "1"], "1", []),
    ],
)
def test_constraints_of_broadcast(
    listed: list[str], expected: str, assumed: list[str]
) -> None:
    with constraints.collect() as found:
        result = shapes.broadcast(*((parse(text),) for text in listed))
    assert result == (parse(expected),)
    assert list(map(str, found)) == assumed


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda: shapes.broadcast((2, 3), (4,)), r"cannot broadcast \[2, 3\] and \[4\]: .*`3`, got `4`"),
        (lambda: shapes.broadcast_into((N,), (M, N)), r"\[m, n\] to \[n\]: expected rank 1 at most, got 2"),
        (lambda: shapes.matmul((), (2,)), r"cannot multiply \[\] and \[2\]: one is a scalar"),
        (lambda: shapes.matmul((2,), ()), "one is a scalar"),
        (lambda: shapes.matmul((2, 3), (4, 2)), "inner sizes differ: expected `3`, got `4`"),
        (lambda: shapes.concat([], 0), "cannot concatenate nothing: expected equal ranks"),
        (lambda: shapes.concat([(2, 3), (4, 4)], 0), r"\[2, 3\] and \[4, 4\] along axis 0: sizes"),
        (lambda: shapes.concat([(2,), (4, 4)], 0), "expected equal ranks"),
        (lambda: shapes.split_sizes(7, (9, -2)), r"negative: got \[9, -2\]"),
        (lambda: shapes.split_sizes(7, 5), "cannot split 7 into 5 parts of 2: nothing is left"),
        (lambda: shapes.split_sizes(7, 0), "expected 1 or more, got 0"),
        (lambda: shapes.split_sizes(7, (2, 4)), "add up: expected `7`, got `6`"),
        (lambda: shapes.pad_shape((2,), (-1, -2)), r"pads \[-1, -2\] remove too much from \[2\]"),
        (lambda: shapes.pad_shape((N, 4), (1, 1)), "expected 4, got 2"),
    ],
)  # fmt: skip
def test_errors_name_the_shapes(rule: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rule()


@settings(max_examples=150)
@given(st.lists(_shapes, max_size=3))
def test_broadcasts(listed: list[Shape]) -> None:
    compare(
        lambda: shapes.broadcast(*listed),
        lambda v: by_numpy(np.broadcast_shapes, *(at(s, v) for s in listed)),
        lambda v: stretches(listed, v),
    )


@settings(max_examples=100)
@given(_shapes, _shapes)
def test_broadcasts_into_a_shape(into: Shape, other: Shape) -> None:
    def expected(values: Values) -> Sizes | None:
        wanted = at(into, values)
        found = by_numpy(np.broadcast_shapes, wanted, at(other, values))
        return wanted if found == wanted else None

    compare(
        lambda: shapes.broadcast_into(into, other),
        expected,
        lambda v: stretches([into, other], v),
    )


@settings(max_examples=100)
@given(_shapes, _shapes)
def test_matmul(a: Shape, b: Shape) -> None:
    def expected(values: Values) -> Sizes | None:
        arrays = [np.zeros(at(shape, values)) for shape in (a, b)]
        return by_numpy(lambda: np.matmul(*arrays).shape)

    compare(lambda: shapes.matmul(a, b), expected, lambda v: stretches([a, b], v))


@settings(max_examples=100)
@given(st.lists(_shapes, min_size=1, max_size=3), st.integers(-3, 2))
def test_concatenations(listed: list[Shape], axis: int) -> None:
    def expected(values: Values) -> Sizes | None:
        arrays = [np.zeros(at(shape, values)) for shape in listed]
        return by_numpy(lambda: np.concatenate(arrays, axis).shape)

    compare(lambda: shapes.concat(listed, axis), expected)


_targets = st.lists(_sizes | st.just(-1), max_size=3).map(tuple)


@settings(max_examples=200)
@given(_shapes, _targets)
def test_reshapes_as_views(shape: Shape, target: Shape) -> None:
    def expected(values: Values) -> Sizes | None:
        array, wanted = np.zeros(at(shape, values)), at(target, values)
        if wanted.count(-1) == 1 and array.size == 0 == np.prod(wanted):
            return EITHER
        return by_numpy(lambda: np.reshape(array, wanted).shape)

    compare(lambda: shapes.reshape(shape, target, allowzero=True), expected)


@settings(max_examples=60)
@given(_shapes, st.data())
def test_pads(shape: Shape, data: st.DataObject) -> None:
    one = _sizes | st.integers(-2, 0)
    count = 2 * len(shape)
    pads = data.draw(st.lists(one, min_size=count, max_size=count))

    def expected(values: Values) -> Sizes | None:
        sizes, widths = at(shape, values), at(pads, values)
        padded = [
            a + b + c
            for a, b, c in zip(widths, sizes, widths[len(sizes) :], strict=False)
        ]
        return None if min(padded, default=0) < 0 else tuple(padded)

    compare(lambda: shapes.pad_shape(shape, pads), expected)


@settings(max_examples=60)
@given(_sizes, st.lists(_sizes | st.integers(-2, -1), max_size=3))
def test_split_into_parts(dim: Dim, parts: list[Dim]) -> None:
    def expected(values: Values) -> Sizes | None:
        sizes = at(parts, values)
        fits = sum(sizes) == evaluate(dim, values) and min(sizes, default=0) >= 0
        return sizes if fits else None

    compare(lambda: shapes.split_sizes(dim, parts), expected)


@settings(max_examples=60)
@given(_sizes, st.integers(-1, 4))
def test_split_by_count(dim: Dim, parts: int) -> None:
    def expected(values: Values) -> Sizes | None:
        size = evaluate(dim, values)
        if parts < 1:
            return None
        whole = -(-size // parts)
        last = size - whole * (parts - 1)
        return None if last < 0 else (*[whole] * (parts - 1), last)

    compare(lambda: shapes.split_sizes(dim, parts), expected)


@settings(max_examples=60)
@given(_sizes, _sizes)
def test_unify(a: Dim, b: Dim) -> None:
    def expected(values: Values) -> Sizes | None:
        x, y = at((a, b), values)
        return (x,) if x == y else None

    compare(lambda: (shapes.unify(a, b),), expected)

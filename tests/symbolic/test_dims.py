"""Symbolic sizes against plain integers: values, canonical forms, text, solving."""

import copy
import operator
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from relax_mlir.dialects import shapes
from relax_mlir.dialects.shapes import Dim, parse, symbol
from tests.symbolic.expressions import (
    NAMES,
    Tree,
    Values,
    build,
    calls,
    compute,
    contains,
    leaves,
    trees,
    trees_with_symbolic_divisors,
)

few = settings(max_examples=60)
many = settings(max_examples=200)

environments = st.fixed_dictionaries({name: st.integers(0, 12) for name in NAMES})
scales = st.integers(1, 9)
dims = trees.map(build)
polynomials = st.recursive(
    leaves, lambda inner: calls(["+", "-", "*"], inner, inner), max_leaves=6
).map(build)
n, m, k = map(symbol, NAMES)


class TestCanonicalForm:
    @pytest.mark.parametrize("dim", [n, n + 1, n * m + 3, n * n + k])
    @pytest.mark.parametrize(("inner", "outer"), [(2, 2), (2, 3), (3, 2), (4, 6)])
    def test_quotients_of_quotients_join(
        self, dim: Dim, inner: int, outer: int
    ) -> None:
        floor = shapes.floordiv(shapes.floordiv(dim, inner), outer)
        ceil = shapes.ceildiv(shapes.ceildiv(dim, inner), outer)
        assert floor == shapes.floordiv(dim, inner * outer)
        assert ceil == shapes.ceildiv(dim, inner * outer)

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ("0", 0),
            ("n*0", 0),
            ("n - n + 3", 3),
            ("n^2 + 2*n*m - m*2*n", "n*n"),
            ("(n + m)*(n - m)", "-m*m + n*n"),
            ("4 - n", "-n + 4"),
            ("floordiv(n, 1)", "n"),
            ("mod(n, 1)", 0),
            ("floordiv(0, n)", 0),
            ("floordiv(4*n + 6, 2)", "2*n + 3"),
            ("floordiv(4*n + 7, 4)", "n + 1"),
            ("floordiv(2*n + 1, 4)", "floordiv(n, 2)"),
            ("floordiv(n*m, m)", "n"),
            ("floordiv(n*m + 2*m, m)", "n + 2"),
            ("floordiv(6*n*m, 4*m)", "n + floordiv(n, 2)"),
            ("floordiv(n*n - 1, n + 1)", "n - 1"),
            ("floordiv(n, -2)", "-n + floordiv(n, 2)"),
            ("ceildiv(n, 2)", "ceildiv(n, 2)"),
            ("floordiv(n - 1, 2) + 1", "ceildiv(n, 2)"),
            ("-floordiv(-n, 4)", "ceildiv(n, 4)"),
            ("-floordiv(-n, m)", "floordiv(n - 1, m) + 1"),
            ("floordiv(n + m - 1, m)", "floordiv(n - 1, m) + 1"),
            ("ceildiv(0, m)", 0),
            ("ceildiv(1, m)", 1),
            ("mod(6*n + 4, 3)", 1),
            ("mod(n*m, m)", 0),
            ("mod(mod(n, 2), 4)", "mod(n, 2)"),
            ("mod(-n, 2)", "mod(n, 2)"),
            ("floordiv(mod(n, 8), 8)", 0),
            ("floordiv(mod(n, 2) + 1, 4)", 0),
            ("floordiv(-1, n)", -1),
            ("floordiv(1, n)", "floordiv(1, n)"),
            ("floordiv(n, m + n + 1)", 0),
            ("floordiv(n, m + n)", "floordiv(n, m + n)"),
            ("floordiv(-n - 1, m + n + 1)", -1),
            ("floordiv(min(m, n) - n - 1, k + n + 1)", -1),
            ("floordiv(-2, n)", "-floordiv(1, n) - 1"),
            ("n + mod(-n, 8)", "8*ceildiv(n, 8)"),
            ("n - m*(n // m)", "mod(n, m)"),
            ("n % (m + 1)", "mod(n, m + 1)"),
            ("max(n, 0)", "n"),
            ("min(n, n + 3)", "n"),
            ("min(n, 5, m, 7, n)", "min(m, n, 5)"),
            ("min(min(n, m), 3)", "min(m, n, 3)"),
            ("max(n, max(m, 3))", "max(m, n, 3)"),
            ("min(2*n, 6)", "2*min(n, 3)"),
            ("max(n - 3, 0)", "max(n, 3) - 3"),
            ("min(n, 3) + max(n - 3, 0)", "n"),
            ("min(max(n, 3), 5) - max(3, min(n, 5))", 0),
            ("min(ceildiv(n, 8)*8, n)", "n"),
            ("max(-1, n - n // 2)", "n - floordiv(n, 2)"),
        ],
    )
    def test_text_of(self, given: str, expected: str | int) -> None:
        dim = parse(given)
        assert str(dim) == str(expected)
        assert isinstance(dim, int) == isinstance(expected, int)

    def test_equal_expressions_are_one_object(self) -> None:
        assert symbol("n") is symbol("n")
        assert n + m is m + n
        assert hash(2 * n + 1) == hash(1 + n + n)
        assert shapes.Expr(n.terms) == n
        assert n != m
        assert n != "n"

    def test_expressions_survive_copy_and_pickle(self) -> None:
        dim = shapes.ceildiv(n, 2) * m + 1
        assert copy.deepcopy(dim) == pickle.loads(pickle.dumps(dim)) == dim

    def test_operators_reflect_integers(self) -> None:
        assert [str(d) for d in (3 - n, 2 * n, 3 + n, 7 // n, -n)] == [
            *("-n + 3", "2*n", "n + 3", "floordiv(7, n)", "-n")
        ]
        assert str(n % 4) == "mod(n, 4)"
        assert 7 % n == 7 - n * (7 // n)
        assert n // 4 == shapes.floordiv(n, 4)

    @pytest.mark.parametrize(
        ("function", "left", "right"),
        [
            (operator.add, np.int64(3), n),
            (operator.mul, np.int64(3), n),
            (operator.add, n, 1.5),
            (operator.sub, n, "m"),
            (operator.floordiv, n, 1.5),
            (operator.lt, n, m),
        ],
    )
    def test_operators_refuse_the_rest(
        self, function: Callable[[object, object], object], left: object, right: object
    ) -> None:
        with pytest.raises(TypeError):
            function(left, right)

    def test_expressions_have_a_largest_size(self) -> None:
        many_names = [symbol(f"x{number}") for number in range(143)]
        a, b, c, d = (sum(many_names[:count], 0 * n) for count in (143, 40, 25, 7))
        huge = 1 << 4095
        assert shapes.minimum(*many_names[:32]) == shapes.minimum(*many_names[31::-1])
        assert b * c == c * b
        assert huge * n == n * huge
        for left, right in [(a, d), (d, a), (n, 2 * huge), (2 * n + m * huge, 2)]:
            with pytest.raises(ValueError, match="size expression is too large"):
                _ = left * right
        with pytest.raises(ValueError, match="over 32 arguments"):
            shapes.minimum(*many_names[:33])

    @few
    @given(dims, dims, dims)
    def test_sums_and_products_form_a_ring(self, a: Dim, b: Dim, c: Dim) -> None:
        assert a + b - b == a
        assert a + b == b + a
        assert a * b == b * a
        assert (a + b) + c == a + (b + c)
        assert a * (b + c) == a * b + a * c
        assert a - a == 0

    @few
    @given(dims)
    def test_text_reads_back(self, dim: Dim) -> None:
        assert parse(str(dim)) == dim

    @few
    @given(dims, dims, st.integers(1, 8))
    def test_whole_multiples_leave_a_quotient(self, a: Dim, b: Dim, by: int) -> None:
        assert shapes.floordiv(a + by * b, by) == shapes.floordiv(a, by) + b
        assert shapes.mod(a + by * b, by) == shapes.mod(a, by)
        assert shapes.mod(shapes.mod(a, 2 * by), by) == shapes.mod(a, by)
        assert shapes.mod(a, by) + by * shapes.floordiv(a, by) == a

    @few
    @given(dims, dims)
    def test_products_divide_exactly(self, a: Dim, b: Dim) -> None:
        assume(b != 0)
        assert shapes.floordiv(a * b, b) == a
        assert shapes.mod(a * b, b) == 0
        assert shapes.divide(a * b, b) == (a, 0)

    @few
    @given(polynomials, polynomials, polynomials)
    def test_division_leaves_one_remainder(self, a: Dim, b: Dim, q: Dim) -> None:
        assume(b != 0)
        quotient, rest = shapes.divide(a, b)

        assert quotient * b + rest == a
        assert shapes.divide(a + q * b, b) == (quotient + q, rest)

    @few
    @given(dims, dims, dims)
    def test_minimum_and_maximum(self, a: Dim, b: Dim, c: Dim) -> None:
        assert shapes.minimum(a, b) == shapes.minimum(b, a)
        assert shapes.minimum(a, b) + shapes.maximum(a, b) == a + b
        assert shapes.minimum(a + c, b + c) == shapes.minimum(a, b) + c
        assert shapes.minimum(a, a) == shapes.maximum(a) == a


class TestText:
    @pytest.mark.parametrize(
        "text",
        ["n", "4", "2*n", "n + 1", "n - 1", "m*n", "n*n", "p2o.Dim.0", "_x", "mod"],
    )
    def test_canonical_text_is_kept(self, text: str) -> None:
        assert str(parse(text)) == text

    def test_negative_sizes_only_mean_something_to_reshape(self) -> None:
        assert parse("-1") == -1
        with pytest.raises(ValueError, match="expected 0 or more, got -1"):
            shapes.dims_from_text(["n", "-1"])

    def test_shapes_read_back(self) -> None:
        shape = (n, 4, 2 * n * m)
        assert shapes.dims_to_text(shape) == ("n", "4", "2*m*n")
        assert shapes.dims_from_text(("n", "4", "2*m*n")) == shape

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "at 0: expected a size, got the end"),
            ("n +", "at 3: expected a size, got the end"),
            ("n m", "at 2: expected an operator, got `m`"),
            ("n)", r"at 1: expected an operator, got `\)`"),
            ("(n", r"at 2: expected `\)`, got the end"),
            ("2*$", r"at 2: expected a size, got `\$`"),
            ("1 + \u0663", "at 4: expected a size"),
            ("log(n)", "at 0: expected one of floordiv, .*, got `log`"),
            ("1 + mod(n)", "at 7: expected 2 arguments, got 1"),
            ("n // 0", "at 2: division of `n` by zero"),
            ("n^m", "at 2: expected an exponent up to 64, got `m`"),
            ("n^65", "at 2: expected an exponent up to 64, got `65`"),
            ("9" * 30, "at 0: expected a number"),
            ("(" * 60 + "n", "at 50: over 50 parentheses"),
            ("((2^64)^64)^64", "at .*: the number is too large"),
            ("(n^64)*n", "at 6: size expression is too large"),
            ("(a + b + c + d + e)^32", "too large: the product has too many terms"),
            (f"min({', '.join(f'a{i}' for i in range(40))})", "over 32 arguments"),
            ("n+" * 6000 + "n", "too long"),
        ],
    )
    def test_errors_say_where(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            parse(text)

    @pytest.mark.parametrize("name", ["", "1n", ".n", "a b", "a-b", "\u00e9"])
    def test_bad_symbol_names(self, name: str) -> None:
        with pytest.raises(ValueError, match="bad symbol name"):
            symbol(name)


class TestSymbols:
    def test_symbols_are_sorted(self) -> None:
        assert shapes.symbols_of(shapes.floordiv(n + 1, m) + k) == ("k", "m", "n")
        assert shapes.symbols_of(4) == ()

    def test_evaluate_names_what_is_missing(self) -> None:
        with pytest.raises(ValueError, match="no value for `m`"):
            shapes.evaluate(n * m, {"n": 2})
        with pytest.raises(ValueError, match="by zero"):
            shapes.evaluate(shapes.floordiv(n, m), {"n": 2, "m": 0})

    def test_substitution_is_simultaneous(self) -> None:
        assert shapes.substitute(2 * n + m, {"n": m, "m": n}) == 2 * m + n

    @few
    @given(polynomials, st.integers(1, 9), st.integers(0, 9), st.integers(0, 9))
    def test_bind_finds_the_one_unknown(
        self, dim: Dim, factor: int, x: int, y: int
    ) -> None:
        offset = shapes.substitute(dim, {"k": n, "m": n})
        pattern = factor * m + offset
        value = shapes.evaluate(pattern, {"m": x, "n": y})

        assert shapes.bind(pattern, value, {"n": y}) == {"m": x, "n": y}

    def test_bind(self) -> None:
        assert shapes.bind(2 * n + 1, 9, {}) == {"n": 4}
        assert shapes.bind(2 * n + 1, 8, {}) is None
        assert shapes.bind(n + 5, 4, {}) is None  # n would be negative
        assert shapes.bind(n * m, 12, {"m": 4}) == {"m": 4, "n": 3}
        assert shapes.bind(2 * n, 4 * m + 2 * n, {}) == {"n": 2 * m + n}  # two scopes
        assert shapes.bind(n + 1, m + 1, {"n": m}) == {"n": m}
        assert shapes.bind(n + 1, m + 2, {"n": m}) is None
        assert shapes.bind(3, 3, {}) == {}

    @pytest.mark.parametrize("pattern", [n * m, n * n, shapes.floordiv(n, 2)])
    def test_bind_refuses_what_it_cannot_solve(self, pattern: Dim) -> None:
        with pytest.raises(ValueError, match="cannot solve"):
            shapes.bind(pattern, 4, {})

    def test_bind_shape_waits_for_what_other_sizes_tell(self) -> None:
        pattern = (n * m, shapes.ceildiv(n, 2), n, 2 * m)
        assert shapes.bind_shape(pattern, (15, 2, 3, 10)) == {"n": 3, "m": 5}
        with pytest.raises(
            ValueError, match=r"dimension 1 .*expected `ceildiv\(n, 2\)`, got `9`"
        ):
            shapes.bind_shape(pattern, (15, 9, 3, 10))
        with pytest.raises(ValueError, match="cannot solve"):
            shapes.bind_shape((n * m,), (15,))
        with pytest.raises(ValueError, match="ranks differ: expected 4, got 1"):
            shapes.bind_shape(pattern, (15,))

    def test_what_term_by_term_bounds_miss(self) -> None:
        assert shapes.is_known_le(n, 8 * shapes.ceildiv(n, 8))
        assert shapes.is_known_le(8 * shapes.ceildiv(n, 8), n + 7)
        assert shapes.is_known_le(m * shapes.floordiv(n, m), n)
        assert shapes.is_known_le(shapes.minimum(n, m), n * k + m)
        assert shapes.is_known_equal(shapes.floordiv(n, 2) + shapes.ceildiv(n, 2), n)
        assert shapes.is_known_unequal(2 * n, 2 * m + 1)
        assert shapes.is_known_unequal(n, n + m + 1)
        assert shapes.bounds(shapes.mod(n, 8)) == (0, 7)
        assert shapes.bounds(n * m - k, {"n": (2, 3), "m": (4, 5), "k": (0, 1)}) == (
            7,
            15,
        )
        assert shapes.bounds(n - m) == (None, None)
        assert not shapes.is_known_le(n, m)
        assert not shapes.is_known_equal(n, m)
        assert not shapes.is_known_unequal(n, m)


class TestValues:
    """Every simplification keeps the value that plain integers give."""

    @many
    @given(trees, environments)
    def test_constant_divisors(self, tree: Tree, env: Values) -> None:
        assert shapes.evaluate(build(tree), env) == compute(tree, env)

    @many
    @given(trees_with_symbolic_divisors, environments)
    def test_symbolic_divisors(self, tree: Tree, env: Values) -> None:
        try:
            expected = compute(tree, env)
        except ZeroDivisionError:
            assume(False)
        assert shapes.evaluate(build(tree), env) == expected

    @many
    @given(
        st.lists(st.integers(-9, 9), min_size=5, max_size=5),
        environments,
        scales,
        scales,
    )
    def test_nested_quotients(
        self, factors: list[int], env: Values, k: int, j: int
    ) -> None:
        a, b, c, d, e = factors
        dim = shapes.floordiv(d * shapes.floordiv(a * n + b * m + c, k) + e * n, j)
        x, y = env["n"], env["m"]

        assert (
            shapes.evaluate(dim, env) == (d * ((a * x + b * y + c) // k) + e * x) // j
        )

    @many
    @given(trees, environments, st.integers(0, 3), st.integers(0, 3))
    def test_bounds_contain_the_value(
        self, tree: Tree, env: Values, below: int, above: int
    ) -> None:
        value, dim = compute(tree, env), build(tree)
        ranges = {name: (max(0, env[name] - below), env[name] + above) for name in "nm"}

        assert contains(shapes.bounds(dim), value)
        assert contains(shapes.bounds(dim, ranges), value)

    @few
    @given(trees, trees, environments)
    def test_comparisons_hold(self, left: Tree, right: Tree, env: Values) -> None:
        a, b = compute(left, env), compute(right, env)
        if shapes.is_known_le(build(left), build(right)):
            assert a <= b
        if shapes.is_known_equal(build(left), build(right)):
            assert a == b
        if shapes.is_known_unequal(build(left), build(right)):
            assert a != b

    @few
    @given(trees, st.dictionaries(st.sampled_from(NAMES), trees), environments)
    def test_substitution(
        self, tree: Tree, replaced: dict[str, Tree], env: Values
    ) -> None:
        result = shapes.substitute(
            build(tree), {x: build(t) for x, t in replaced.items()}
        )
        inner = {**env, **{x: compute(t, env) for x, t in replaced.items()}}
        assume(all(value >= 0 for value in inner.values()))  # symbols are sizes

        assert shapes.evaluate(result, env) == compute(tree, inner)

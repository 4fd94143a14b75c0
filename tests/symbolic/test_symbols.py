"""Symbolic sizes parsed, evaluated, compared and solved, against numbers."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.symbolic import symbols
from relax_mlir.symbolic.dims import floordiv, minimum, symbol
from relax_mlir.symbolic.symbols import parse
from tests.symbolic.expressions import NAMES, Tree, build, compute, points, trees

N, M, K = map(symbol, NAMES)
_SMALL = list(points(dict.fromkeys(NAMES, (0, 3))))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("2 + 3*4", 14),
        ("2*3 + 4", 10),
        ("10 - 4 - 3", 3),
        ("20 // 3 // 2", 3),
        ("20 // 3 * 2", 12),
        ("20 % 7 * 2", 12),
        ("-7 // 2", -4),
        ("-7 % 3", 2),
        ("--3", 3),
        ("---3", -3),
        ("2 - -3", 5),
        ("-2^2", -4),
        ("2^3*2", 16),
        ("3^0", 1),
        ("2^64", 2**64),
        ("(2 + 3)*4", 20),
        ("((((5))))", 5),
        ("floordiv(7, 2)", 3),
        ("ceildiv(7, 2)", 4),
        ("mod(7, 4)", 3),
        ("min(4)", 4),
        ("min(4, 3, 5)", 3),
        ("max(4, 3, 5)", 5),
        ("max(1, min(2, 3))", 2),
        ("9" * 20, 10**20 - 1),
    ],
)
def test_numbers_are_computed(text: str, value: int) -> None:
    assert parse(text) == value


def infix(tree: Tree) -> str:
    """A tree as text, with all parentheses."""
    if not isinstance(tree, tuple):
        return str(tree)
    name, left, right = tree
    sides = (infix(left), infix(right))
    if name in ("ceildiv", "min", "max"):
        return f"{name}({', '.join(sides)})"
    return f"({sides[0]} {name} {sides[1]})"


@settings(max_examples=100)
@given(trees)
def test_parsed_text_has_the_value_of_its_tree(tree: Tree) -> None:
    dim = parse(infix(tree))
    assert dim == build(tree)
    for values in _SMALL[::5]:
        assert symbols.evaluate(dim, values) == compute(tree, values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "`` at 0: expected a size, got the end"),
        ("n +", "at 3: expected a size, got the end"),
        ("n + * m", r"at 4: expected a size, got `\*`"),
        ("n m", "at 2: expected an operator, got `m`"),
        ("(n", r"at 2: expected `\)`, got the end"),
        ("(n, m)", "at 0: expected 1 arguments, got 2"),
        ("min()", r"at 4: expected a size, got `\)`"),
        ("log(n)", "at 0: expected one of floordiv, ceildiv, mod, min, max, got `log`"),
        ("1 + mod(n)", "at 7: expected 2 arguments, got 1"),
        ("ceildiv(n, 2, 3)", "at 7: expected 2 arguments, got 3"),
        ("n + m // 0", "at 6: division of `m` by zero"),
        ("mod(n, 0)", "at 0: division of `n` by zero"),
        ("n^m", "at 2: expected an exponent up to 64, got `m`"),
        ("n^65", "at 2: expected an exponent up to 64, got `65`"),
        ("9" * 21, "at 0: expected a number up to 1" + "0" * 20),
        ("(2^64)^63 * 2^64", "at 10: the number is too large"),
        ("(" * 51 + "n", "at 50: over 50 parentheses are open"),
        ("n+" * 5000 + "n", "too long: expected up to 10000 characters"),
    ],
)
def test_syntax_errors_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_limits_of_text_are_reached() -> None:
    assert parse("(" * 50 + "n" + ")" * 50) == N
    assert parse("(n) + " * 60 + "0") == 60 * N  # closed parentheses do not count
    assert parse("n+" * 4999 + "nn") == 4999 * N + symbol("nn")
    assert parse("(2^64)^63 * 2^63") == 2 ** (64 * 63 + 63)
    assert symbols.symbols_of(parse("n^64")) == ("n",)


def test_shapes_are_parsed_and_printed() -> None:
    texts = ("2*n + 1", "0", "-n")

    assert symbols.dims_from_text(texts) == (2 * N + 1, 0, -N)
    assert symbols.dims_to_text((2 * N + 1, 0, -N)) == texts
    with pytest.raises(ValueError, match="negative: expected 0 or more, got -1"):
        symbols.dims_from_text(["n", "-1"])


def test_symbols_and_numbers_in_a_size() -> None:
    dim = parse("floordiv(n + 30, 7)*m - 5*min(k, 12)*n + 4")

    assert symbols.symbols_of(dim) == ("k", "m", "n")
    assert symbols.symbols_of(9) == ()
    assert symbols.largest_number(dim) == 12
    assert symbols.largest_number(parse("n - 40")) == 40
    assert symbols.largest_number(-7) == 7
    assert symbols.largest_number(N) == 1


@settings(max_examples=60)
@given(trees, st.dictionaries(st.sampled_from(NAMES), trees))
def test_substitution_is_simultaneous(tree: Tree, replaced: dict[str, Tree]) -> None:
    dim = symbols.substitute(build(tree), {n: build(t) for n, t in replaced.items()})
    for values in _SMALL[::3]:
        inner = {n: compute(t, values) for n, t in replaced.items()}
        if min(inner.values(), default=0) >= 0:
            expected = compute(tree, {**values, **inner})
            assert symbols.evaluate(dim, values) == expected


def test_missing_values_are_errors() -> None:
    assert symbols.substitute(floordiv(N, M), {"m": 2}) == floordiv(N, 2)
    assert symbols.substitute(4, {"m": 2}) == 4
    with pytest.raises(ValueError, match=r"`m\*n`: no value for `m`, `n`"):
        symbols.evaluate(N * M, {})
    with pytest.raises(ValueError, match="by zero"):
        symbols.evaluate(floordiv(N, M), {"n": 2, "m": 0})


@pytest.mark.parametrize(
    ("left", "right", "is_equal", "is_unequal"),
    [
        ("n", "n", True, False),
        ("n", "m", False, False),
        ("3", "4", False, True),
        ("3", "3", True, False),
        ("n//2 + ceildiv(n, 2)", "n", True, False),
        ("n", "n + 1", False, True),
        ("n + 1", "n", False, True),
        ("n", "n + m", False, False),
        ("n", "n + m + 1", False, True),
        ("n + m + 1", "n", False, True),
        ("n", "-1", False, True),
        ("n", "0", False, False),
        ("2*n", "2*m + 1", False, True),
        ("2*n", "2*m + 2", False, False),
        ("6*n", "9*m + 3", False, False),
        ("6*n", "9*m + 4", False, True),
    ],
)
def test_comparisons(left: str, right: str, is_equal: bool, is_unequal: bool) -> None:
    assert symbols.is_known_equal(parse(left), parse(right)) is is_equal
    assert symbols.is_known_unequal(parse(left), parse(right)) is is_unequal


@settings(max_examples=60)
@given(trees, trees)
def test_comparisons_hold_for_all_values(left: Tree, right: Tree) -> None:
    a, b = build(left), build(right)
    for values in _SMALL:
        are_same = compute(left, values) == compute(right, values)
        assert are_same or not symbols.is_known_equal(a, b)
        assert not are_same or not symbols.is_known_unequal(a, b)


_small = st.integers(-3, 3)


@settings(max_examples=150)
@given(_small, _small, _small, st.integers(-4, 9), st.integers(0, 3))
def test_one_unknown_is_solved_for(a: int, b: int, c: int, value: int, m: int) -> None:
    pattern = a * N + b * N * M + c
    fitting = [n for n in range(40) if a * n + b * n * m + c == value]
    factor = a + b * m
    if "n" in symbols.symbols_of(pattern) and factor == 0:
        with pytest.raises(ValueError, match="cannot solve"):
            symbols.bind(pattern, value, {"m": m})
        return
    found = symbols.bind(pattern, value, {"m": m})
    if "n" not in symbols.symbols_of(pattern):
        assert found == ({"m": m} if c == value else None)
    else:
        assert found == ({"m": m, "n": fitting[0]} if fitting else None)


@pytest.mark.parametrize(
    ("pattern", "value", "known", "expected"),
    [
        ("2*n + 1", "9", {}, {"n": "4"}),
        ("2*n + 1", "8", {}, None),
        ("n + 5", "5", {}, {"n": "0"}),
        ("n + 5", "4", {}, None),
        ("2*n", "4*m + 2*n", {}, {"n": "2*m + n"}),  # of another scope
        ("n + m", "k", {"m": "k"}, {"m": "k", "n": "0"}),
        ("m*n", "k*m", {"m": "m"}, {"m": "m", "n": "k"}),
        ("n", "k - 3", {}, {"n": "k - 3"}),
        ("n", "-k - 1", {}, None),
        ("n + 1", "m + 1", {"n": "m"}, {"n": "m"}),
        ("n + 1", "m + 2", {"n": "m"}, None),
        ("3", "3", {}, {}),
        ("3", "4", {}, None),
        ("m + floordiv(k, 2) + n", "9", {"k": "4", "m": "1"}, {"k": "4", "m": "1", "n": "6"}),
    ],
)  # fmt: skip
def test_solutions(
    pattern: str,
    value: str,
    known: Mapping[str, str],
    expected: Mapping[str, str] | None,
) -> None:
    given_ = {name: parse(text) for name, text in known.items()}
    found = symbols.bind(parse(pattern), parse(value), given_)
    assert (found and {n: str(d) for n, d in found.items()}) == expected


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("m*n", "expected one unknown, got `m`, `n`"),
        ("n*n", "for `n`: it is not linear"),
        ("floordiv(n, 2)", "for `n`: it is not linear"),
        ("n*floordiv(n, 2)", "for `n`: it is not linear"),
        ("n + min(n, 3)", "for `n`: it is not linear"),
    ],
)
def test_unsolvable_equations_are_errors(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        symbols.bind(parse(pattern), 4, {})


def test_shapes_are_solved_in_the_order_that_works() -> None:
    pattern = (N * M, floordiv(N, 2), N, 2 * M)

    assert symbols.bind_shape(pattern, (15, 1, 3, 10)) == {"n": 3, "m": 5}
    assert symbols.bind_shape((M,), (4,), {"k": 2}) == {"k": 2, "m": 4}
    assert symbols.bind_shape((), ()) == {}
    for shape, message in [
        (
            (15, 2, 3, 10),
            r"dimension 1 does not fit: expected `floordiv\(n, 2\)`, got `2`",
        ),
        ((15, 1, 3, 11), r"dimension 3 does not fit: expected `2\*m`, got `11`"),
        ((15,), "ranks differ: expected 4, got 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            symbols.bind_shape(pattern, shape)
    with pytest.raises(ValueError, match="cannot solve `m\\*n` = `15`: expected one"):
        symbols.bind_shape((N * M, minimum(N, M)), (15, 3))

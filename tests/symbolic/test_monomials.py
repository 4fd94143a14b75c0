"""Monomials against their values."""

import itertools
import math

import pytest

from relax_mlir.symbolic import monomials
from relax_mlir.symbolic.dims import Expr, minimum
from relax_mlir.symbolic.monomials import Atom, Monomial
from relax_mlir.symbolic.symbols import parse

_VALUES = {"a": 2, "b": 3, "c": 5}
_ATOMS = [Atom("symbol", (), name) for name in _VALUES]
_SMALL = [
    atoms
    for count in range(4)
    for atoms in itertools.combinations_with_replacement(_ATOMS, count)
]


def value(monomial: Monomial) -> int:
    return math.prod(_VALUES[atom.text] for atom in monomial)


def expression(text: str) -> Expr:
    dim = parse(text)
    assert isinstance(dim, Expr)
    return dim


def test_products_and_quotients_of_all_small_monomials() -> None:
    for a, b in itertools.product(_SMALL, _SMALL):
        merged = monomials.multiply_monomials(a, b)
        assert value(merged) == value(a) * value(b)
        assert merged == tuple(sorted(merged, key=lambda atom: atom.text))
        assert monomials.divide_monomials(merged, b) == a
        quotient = monomials.divide_monomials(a, b)
        if value(a) % value(b):  # primes: this is divisibility of monomials
            assert quotient is None
        else:
            assert quotient is not None
            assert value(quotient) * value(b) == value(a)


def test_calls_sort_after_symbols() -> None:
    (((call,), _),) = expression("floordiv(a, 2)").terms
    symbol = _ATOMS[2]

    assert monomials.multiply_monomials((call,), (symbol,)) == (symbol, call)
    assert monomials.multiply_monomials((symbol,), (call,)) == (symbol, call)
    assert monomials.atom_order(symbol) == "c"


def test_order_is_by_falling_degree_then_lexical_and_kept_by_products() -> None:
    ordered = sorted(_SMALL, key=monomials.monomial_order)

    assert [len(m) for m in ordered] == sorted(map(len, _SMALL), reverse=True)
    for left, right in itertools.pairwise(ordered):
        if len(left) == len(right):
            assert [a.text for a in left] < [a.text for a in right]
        for other in _SMALL:
            products = [monomials.multiply_monomials(m, other) for m in (left, right)]
            assert products == sorted(products, key=monomials.monomial_order)


def test_degrees_are_limited() -> None:
    (a, *_) = _ATOMS
    assert len(monomials.multiply_monomials((a,) * 63, (a,))) == 64
    with pytest.raises(ValueError, match="degree over 64"):
        monomials.multiply_monomials((a,) * 64, (a,))
    assert monomials.multiply_monomials((a,) * 64, ()) == (a,) * 64


def test_atoms_are_compared_by_text_alone() -> None:
    made = Atom("min", (parse("a"), parse("b")), "min(a, b)")
    assert Atom("symbol", (), "min(a, b)") == made
    assert minimum(parse("b"), parse("a")) == Expr((((made,), 1),))


def test_terms_and_coefficients() -> None:
    a, b, _ = _ATOMS
    dim = expression("3*a*b - 2*a + 7")

    assert monomials.terms_of(dim) == (((a, b), 3), ((a,), -2), ((), 7))
    assert monomials.terms_of(4) == (((), 4),)
    assert monomials.coefficients(dim) == [3, -2]
    assert monomials.coefficients(4) == []


def test_extreme_coefficients_count_missing_terms_as_0() -> None:
    a, b, _ = _ATOMS
    listed = [expression("3*a + 2*b + 1"), expression("a - b"), 5]

    assert monomials.extreme_coefficients(listed, min) == {(a,): 0, (b,): -1, (): 0}
    assert monomials.extreme_coefficients(listed, max) == {(a,): 3, (b,): 2, (): 5}

"""The printer of sizes: short and canonical text that parses back."""

import pytest
from hypothesis import given, settings

from relax_mlir.symbolic.dims import Expr, symbol
from relax_mlir.symbolic.symbols import parse
from relax_mlir.symbolic.text import argument_order, text_of
from tests.symbolic.expressions import (
    Tree,
    build,
    trees,
    trees_with_symbolic_divisors,
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # sums
        ("-n", "-n"),
        ("-2*n", "-2*n"),
        ("n+1", "n + 1"),
        ("-n-1", "-n - 1"),
        ("1-n", "-n + 1"),
        ("-n*m", "-m*n"),
        ("n*n*m", "m*n*n"),
        ("3*n*m-2*k+1", "3*m*n - 2*k + 1"),
        # quotients and remainders
        ("-(n//2)", "-floordiv(n, 2)"),
        ("2*(n//2)", "2*floordiv(n, 2)"),
        ("n%2", "mod(n, 2)"),
        ("-(n%2)", "-n + 2*floordiv(n, 2)"),
        ("3*(n%2)", "3*mod(n, 2)"),
        ("n+5-2*(n//2)", "mod(n, 2) + 5"),
        ("2*n-2*(n//2)", "2*n - 2*floordiv(n, 2)"),
        ("n-4*(n//2)", "n - 4*floordiv(n, 2)"),
        ("m*(n%2)", "m*n - 2*m*floordiv(n, 2)"),
        ("n%m", "mod(n, m)"),
        ("k*(n%m)", "-k*m*floordiv(n, m) + k*n"),
        ("n%(2*m)", "mod(n, 2*m)"),
        ("n%(m+1)", "mod(n, m + 1)"),
        ("2*(n%(m+1))", "2*mod(n, m + 1)"),
        ("(n+m)%3+m", "mod(m + n, 3) + m"),
        ("(n*m)%(k*2)", "mod(m*n, 2*k)"),
        ("n%2+m%3", "mod(m, 3) + mod(n, 2)"),
        ("n//2+n%2", "n - floordiv(n, 2)"),
        ("7%n", "mod(7, n)"),
        ("n+m+k-2*j*((n+m+k)//2)", "-2*j*floordiv(k + m + n, 2) + k + m + n"),
        ("n%7%5", "mod(n + 3*floordiv(n, 7), 5)"),
        # quotients rounded up
        ("ceildiv(n,2)", "ceildiv(n, 2)"),
        ("ceildiv(n,2)*2-n", "-n + 2*ceildiv(n, 2)"),
        ("n-2*ceildiv(n,2)", "mod(n + 1, 2) - 1"),
        ("(n+1)//3", "floordiv(n + 1, 3)"),
        ("(n+2)//3", "ceildiv(n, 3)"),
        ("(n-1)//3", "ceildiv(n, 3) - 1"),
        ("(-n-1)//3", "-floordiv(n, 3) - 1"),
        # minima and maxima
        ("min(n,m)", "min(m, n)"),
        ("-min(n,m)", "-min(m, n)"),
        ("max(n,m)", "max(m, n)"),
        ("2*max(n,m)", "2*max(m, n)"),
        ("-max(n,m)", "-m - n + min(m, n)"),
        ("max(n,m)+1", "max(m, n) + 1"),
        ("max(n,m,k)", "max(k, m, n)"),
        ("max(5,n)", "max(n, 5)"),
        ("max(n-3,0)", "max(n, 3) - 3"),
        ("max(5-n,0)", "-min(n, 5) + 5"),
        ("max(n,m)-min(n,m)", "m + n - 2*min(m, n)"),
        ("max(n,m)*k", "k*m + k*n - k*min(m, n)"),
        ("max(n,m)+max(k,5)", "max(k, 5) + max(m, n)"),
        ("max(n,m)-n", "m - min(m, n)"),
        ("max(2*n,3*m)", "max(2*n, 3*m)"),
        ("max(n*m,n*k)", "max(k*n, m*n)"),
        ("max(n+m,k)", "max(k, m + n)"),
        ("max(n,m)+n%2", "max(m, n) + mod(n, 2)"),
        ("max(n%4,2)", "max(4*floordiv(n, 4) + 2, n) - 4*floordiv(n, 4)"),
        ("min(n,m)*min(n,m)", "min(m, n)*min(m, n)"),
    ],
)
def test_canonical_text(given: str, expected: str) -> None:
    dim = parse(given)
    assert isinstance(dim, Expr)
    assert text_of(dim) == expected
    assert parse(expected) == dim


def test_numbers_follow_expressions() -> None:
    n, m = symbol("n"), symbol("m")

    assert sorted([5, n, m, 3, 10], key=argument_order) == [m, n, 10, 3, 5]


@settings(max_examples=100)
@given(trees)
def test_text_parses_back(tree: Tree) -> None:
    dim = build(tree)
    assert parse(str(dim)) == dim


@settings(max_examples=60)
@given(trees_with_symbolic_divisors)
def test_text_with_symbolic_divisors_parses_back(tree: Tree) -> None:
    try:
        dim = build(tree)
    except ValueError:  # a divisor is 0
        return
    assert parse(str(dim)) == dim

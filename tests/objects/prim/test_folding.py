"""Simplification of expressions, and constant folding of scalar functions."""

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var, intrinsics
from relax_mlir.objects.prim.simplify import simplify

A, B, C, N = Var("i"), Var("j"), Var("k"), Var("n")


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ((A + 1 - 1) * 2 + A, "i * 3"),
        (((A * 4 + B) * 4 + C) // 8 % 4, "(i * 2 + (j * 4 + k) // 8) % 4"),
        (((A * 4 + B) * 4 + C) % 8, "(j * 4 + k) % 8"),
        ((A * 32 + B * 4 + C) // 8 // 4, "(j * 4 + k) // 32 + i"),
        (A // 4 % 3, "i % 12 // 4"),
        (A * 4 % 8, "i % 2 * 4"),
        (A * 16 // 12, "i * 16 // 12"),
        (A * N // N, "i"),
        (A * N % N, "0"),
        (8 - A, "8 - i"),
        (B - A, "j - i"),
        (A * (N * 2), "i * n * 2"),
        (A >= 1, "1 <= i"),
        (A - 1 < 8, "i < 9"),
        (A + 2 <= B + 1, "i < j"),
        (prim.LE(0, 3 - A), "i <= 3"),
        (prim.Not(A < 3), "3 <= i"),
        (intrinsics.if_then_else(A < A + 1, B, C), "j"),
        (intrinsics.max(intrinsics.min(A, 31), 0) % 32, "T.max(T.min(i, 31), 0)"),
        (intrinsics.truncdiv(intrinsics.truncdiv(A, 4), 2), "T.Div(i, 8)"),
        (intrinsics.min(A * 2 + 1, 5) - A * 2, "T.min(1, 5 - i * 2)"),
    ],
    ids=str,
)
def test_terms_get_a_plain_form(term: PrimExpr, expected: str) -> None:
    assert str(simplify(term)) == expected


def _terms(rng: random.Random, depth: int) -> PrimExpr:
    if depth == 0:
        return rng.choice([A, B, prim.const(rng.randint(-4, 9))])
    a, b = _terms(rng, depth - 1), _terms(rng, depth - 1)
    number = rng.randint(1, 6)
    choices = [
        lambda: prim.Add(a, b),
        lambda: prim.Sub(a, b),
        lambda: prim.Mul(a, number),
        lambda: prim.FloorDiv(a, number),
        lambda: prim.FloorMod(a, number),
        lambda: prim.Min(a, b),
        lambda: prim.Max(a, b),
        lambda: prim.Div(a, number),
        lambda: prim.Mod(a, number),
        lambda: prim.Select(prim.LT(a, b), a, b),
        lambda: prim.Select(prim.LE(a, number), b, a),
        lambda: prim.Select(prim.EQ(a, b), a, 7),
    ]
    return rng.choice(choices)()


@pytest.mark.parametrize("seed", range(40))
def test_the_plain_form_has_the_same_value(seed: int) -> None:
    term = _terms(random.Random(seed), 3)
    plain = simplify(term)

    for i, j in itertools.product((-9, -1, 0, 5, 13), repeat=2):
        values = {A: prim.const(i), B: prim.const(j)}
        assert _folded(plain, values) == _folded(term, values), str(term)


def _folded(term: PrimExpr, values: dict[Var, PrimExpr]) -> Any:
    """The constant that an expression folds to in its constructors alone."""
    if isinstance(term, Var):
        return values[term]
    children = [_folded(child, values) for child in term.children()]
    if isinstance(term, prim.Select):
        return children[1] if children[0].value else children[2]
    return term.with_children(children) if children else term


@pytest.mark.parametrize(
    ("kind", "dtype", "a", "b", "expected"),
    [
        (prim.Add, "int8", 100, 100, -56),
        (prim.Sub, "uint8", 1, 2, 255),
        (prim.Mul, "int32", 2**20, 2**12 + 1, 2**20),
        (prim.Mul, "int64", 2**62, 4, 0),
        (prim.Mod, "float32", 5.5, -2.0, 1.5),
    ],
)
def test_numbers_are_what_the_machine_computes(
    kind: type[prim.BinaryExpr], dtype: str, a: float, b: float, expected: float
) -> None:
    found: Any = prim.binary(kind, prim.const(a, dtype), prim.const(b, dtype))

    assert (found.value, found.dtype) == (expected, dtype)


def test_a_quotient_of_floats_is_a_whole_number() -> None:
    """Also if the divisor is 1."""
    x = Var("x", "float32")

    assert isinstance(prim.binary(prim.FloorDiv, x, 1.0), prim.FloorDiv)


def test_functions_fold_where_numbers_are_known() -> None:
    x = Var("x", "float32")

    assert intrinsics.floor(A) is A
    assert intrinsics.floor(2.5) == 2.0
    assert intrinsics.abs(-3) == 3
    assert str(intrinsics.abs(A)) == "T.Select(i >= 0, i, 0 - i)"
    assert not intrinsics.isnan(A)
    assert str(intrinsics.power(x, 2)) == "T.pow(x, T.float32(2.0))"
    assert str(-x) == "x * T.float32(-1.0)"
    assert intrinsics.if_then_else(True, A, B) is A
    assert str(intrinsics.max(A, 3)) == "T.max(i, 3)"
    assert int(intrinsics.max(1, 4, 2)) == 4


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: intrinsics.sin(A),
            TypeError,
            "expected a floating-point number, got int32",
        ),
        (lambda: intrinsics.power(A, 2), TypeError, "expected a floating-point number"),
        (
            lambda: intrinsics.if_then_else(A, 1, 2),
            TypeError,
            "expected a bool condition",
        ),
        (intrinsics.all, ValueError, "expected at least one condition"),
        (lambda: intrinsics.sum(A, axis=[B]), ValueError, "expected a reduce axis"),
    ],
)
def test_what_is_no_term_is_refused(
    make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()

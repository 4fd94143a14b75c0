"""Simplified expressions against all values of their variables, and their canonical forms."""

import pytest
from hypothesis import given, settings

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var, intrinsics
from relax_mlir.objects.prim.bounds import assuming
from relax_mlir.objects.prim.simplify import simplify
from tests.objects.prim.terms import (
    I,
    J,
    Limits,
    conditions,
    limits,
    points,
    terms,
    value_of,
)

K, N = Var("k"), Var("n")
B, X, U = Var("b", "bool"), Var("x", "float32"), Var("u", "uint8")


def call(name: str, value: float) -> PrimExpr:
    return prim.Call("float32", name, [prim.const(value)])


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        # sums
        (I * 2 + J * 3 - I * 2, "j * 3"),
        (I + J * -1, "i - j"),
        (3 - I - J * 2, "3 - i - j * 2"),
        (I * -1 - J, "0 - i - j"),
        (I * -1 - 3, "0 - i - 3"),
        (prim.Mul(I, 0), "0"),
        (prim.Mul(I * 3, -1), "i * -3"),
        (I - 3, "i - 3"),
        (Var("l", "int64") * 2 - Var("l", "int64"), "l * 2 - l"),  # two variables
        (I % 4 * 3 + J // 2 * 3 + I // 4 * 3 + J, "i // 4 * 3 + j // 2 * 3 + i % 4 * 3 + j"),
        (I + I // 2 + I % 8 + I % 4 + I // 3, "i // 3 + i // 2 + i + i % 8 + i % 4"),
        # products
        (I * 3 * (J * 2), "i * j * 6"),
        (I * 3 * (J + 1), "i * (j + 1) * 3"),
        ((I + J) * (J * 2), "(i + j) * j * 2"),
        ((I + 1) * (J + 1), "(i + 1) * (j + 1)"),
        # quotients
        (I * 4 // 2, "i * 2"),
        ((I * 4 + 3) // 2, "i * 2 + 1"),
        ((I * 4 + J) // 4, "j // 4 + i"),
        ((I * 4 + 6) // 4, "i + 1"),
        ((I * 4 + J + 6) // 4, "(j + 6) // 4 + i"),
        ((I * 4 + J + 8) // 4, "j // 4 + i + 2"),
        (prim.FloorDiv(I * 2, -2), "i * 2 // -2"),
        (prim.FloorDiv(I * 2, 0), "i * 2 // 0"),
        (prim.FloorMod(I * 2, 0), "i * 2 % 0"),
        (prim.FloorMod(I * 2, 1), "0"),
        (prim.FloorDiv(I * 2, 1), "i * 2"),
        (prim.Div(prim.Div(I, 0), 2), "T.Div(T.Div(i, 0), 2)"),
        (prim.Div(prim.Div(I, 2), 0), "T.Div(T.Div(i, 2), 0)"),
        (prim.Div(prim.Div(I, 1), 2), "T.Div(i, 2)"),
        (prim.Div(prim.Div(I, 2), 1), "T.Div(i, 2)"),
        (I * 3 // 6, "i // 2"),
        (I * -3 // 6, "(0 - i * 3) // 6"),
        (I * 4 // 6, "i * 4 // 6"),
        (I // 3 // 4, "i // 12"),
        (I // 3 * 2 // 4, "i // 6"),
        (I // N // 4, "i // n // 4"),
        (N * I // N, "i"),
        (N // N, "1"),
        (I * N * J // N, "i * j"),
        (I // N, "i // n"),
        # remainders
        (I % -2, "i % -2"),
        (N % N, "0"),
        (I % N, "i % n"),
        ((I + 4) % 4, "i % 4"),
        ((I + 5) % 4, "(i + 1) % 4"),
        ((I * 4 + 5) % 4, "1"),
        ((I * 6 + J * 4) % 4, "i * 6 % 4"),
        (I * 3 % 6, "i % 2 * 3"),
        (I * -3 % 6, "(0 - i * 3) % 6"),
        (I * 4 % 6, "i * 4 % 6"),
        (I % 8 % 4, "i % 4"),
        (I % 6 % 4, "i % 6 % 4"),
        (I % N % 4, "i % n % 4"),
        (I // 3 % 4, "i % 12 // 3"),
        (I * 3 // 2 % 4, "i * 3 % 8 // 2"),
        (I % 3 % 5, "i % 3"),
        (I // 3 * 2 % 4, "i // 3 % 2 * 2"),
        # division that truncates
        (prim.Div(prim.Div(I, 4), 2), "T.Div(i, 8)"),
        (prim.Div(prim.Div(I, -4), 2), "T.Div(T.Div(i, -4), 2)"),
        (prim.Div(prim.Div(I, 4), -2), "T.Div(T.Div(i, 4), -2)"),
        (prim.Mod(prim.Div(I, 4), 2), "T.Div(T.truncmod(i, 8), 4)"),
        (prim.Mod(prim.Mod(I, 4), 2), "T.truncmod(T.truncmod(i, 4), 2)"),
        (prim.Div(prim.Div(I, J), 2), "T.Div(T.Div(i, j), 2)"),
        (prim.Div(prim.Div(I, 2), J), "T.Div(T.Div(i, 2), j)"),
        (prim.Div(prim.Div(U, 4), 2), "T.Div(T.Div(u, T.uint8(4)), T.uint8(2))"),
        # minima and maxima
        (prim.Min(I, I), "i"),
        (prim.Min(I, I + 1), "i"),
        (prim.Max(I, I + 1), "i + 1"),
        (prim.Max(I + 1, I), "i + 1"),
        (prim.Min(I + 1, I), "i"),
        (prim.Min(X, X), "x"),
        (prim.Min(U, U + 1), "T.min(u, u + T.uint8(1))"),
        (prim.Min(I + 3, J) - I, "T.min(3, j - i)"),
        (prim.Min(J, I + 2) - (I + 2), "T.min(j - i, 2) - 2"),
        (prim.Max(I + 3, J) - I - 1, "T.max(3, j - i) - 1"),
        (prim.Min(I, J) - I * 2, "T.min(i, j) - i * 2"),
        (prim.Min(I, J) - K, "T.min(i, j) - k"),
        (prim.Min(I + K, J) - (I + K), "T.min(i + k, j) - i - k"),
        # comparisons
        (prim.LT(I, I), "T.bool(False)"),
        (prim.LE(I, I), "T.bool(True)"),
        (prim.LT(I + 1, I), "T.bool(False)"),
        (prim.LT(I + 1, J + 1), "i < j"),
        (prim.LT(I, J + 1), "i <= j"),
        (prim.LE(I, J - 1), "i < j"),
        (prim.LE(I, J + 1), "i <= j + 1"),
        (prim.LT(I, J - 1), "i < j - 1"),
        (prim.LT(I, 1), "i < 1"),
        (prim.LE(I - J, 3), "i - j <= 3"),
        (prim.LE(3, I - J), "3 <= i - j"),
        (prim.LT(0, -I), "i < 0"),
        (prim.LT(-I, 0), "0 < i"),
        (prim.LE(-I - J, 2), "-2 <= i + j"),
        (prim.LE(2, -I - J), "i + j <= -2"),
        (prim.LT(I * 2, I), "i < 0"),
        (prim.LT(I, I * 2 + J), "0 - i < j"),
        (prim.GT(I, J), "j < i"),
        (prim.GE(I, J), "j <= i"),
        (prim.GE(J, I + 1), "i < j"),
        (prim.EQ(I, I + 1), "T.bool(False)"),
        (prim.NE(I, I + 1), "T.bool(True)"),
        (prim.EQ(I + 1, J), "i == j - 1"),
        (prim.NE(0, -I), "i != 0"),
        (prim.LT(X, X), "x < x"),
        (prim.EQ(X, X), "x == x"),
        # truth values
        (prim.Not(prim.Not(B)), "b"),
        (prim.Not(prim.LT(I, J)), "j <= i"),
        (prim.Not(prim.GT(I, J)), "i <= j"),
        (prim.Not(prim.LT(X, 1.0)), "not x < T.float32(1.0)"),
        (prim.Not(prim.And(prim.LT(I, J), B)), "j <= i or not b"),
        (prim.Not(prim.Or(prim.LE(I, J), B)), "j < i and not b"),
        (prim.Not(prim.EQ(I, J)), "i != j"),
        (prim.Not(prim.NE(I, J)), "i == j"),
        (prim.Not(prim.LE(I, I)), "T.bool(False)"),
        (prim.Select(prim.LT(I, I), J, K), "k"),
        (prim.Select(B, K + 1, 1 + K), "k + 1"),
        (prim.Select(B, I, K), "T.Select(b, i, k)"),
        (prim.Select(B, X * 0.5, X * 0.5), "x * T.float32(0.5)"),
        (prim.Select(B, -0.0, 0.0), "T.Select(b, T.float32(-0.0), T.float32(0.0))"),
        (intrinsics.if_then_else(prim.LE(I, I), J, K), "j"),
        (intrinsics.if_then_else(B, J, K), "T.if_then_else(b, j, k)"),
        (prim.Call("bool", "likely", [prim.LE(I, I)]), "T.bool(True)"),
        (prim.Call("bool", "likely", [prim.LE(I, J)]), "T.likely(i <= j)"),
        # other types
        (prim.Cast("int64", prim.const(3)), "3"),
        (prim.Cast("int32", I), "i"),
        (X + 1.0 - 1.0, "x"),
        (X + 2.0 - 3.0, "x + T.float32(2.0) - T.float32(3.0)"),
        (prim.Add(prim.Add(X, 1.0), 1.0), "x + T.float32(1.0) + T.float32(1.0)"),
        (U * 2 // 2, "u * T.uint8(2) // T.uint8(2)"),
        (prim.FloorMod(U * 2, 2), "u * T.uint8(2) % T.uint8(2)"),
        # roundings
        (call("floor", 2.5), "T.float32(2.0)"),
        (call("ceil", 2.5), "T.float32(3.0)"),
        (call("trunc", -2.5), "T.float32(-2.0)"),
        (call("round", 2.5), "T.float32(2.0)"),
        (call("nearbyint", 3.5), "T.float32(4.0)"),
        (call("sin", 3.5), "T.sin(T.float32(3.5))"),
        (call("floor", float("inf")), 'T.floor(T.float32("inf"))'),
    ],
    ids=str,
)  # fmt: skip
def test_canonical_forms(term: PrimExpr, expected: str) -> None:
    assert str(simplify(term)) == expected


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (I // 8, "0"),
        (I // 7, "i // 7"),
        ((J * 8 + I) // 8, "j"),
        ((J * 8 + I + 1) // 8, "(i + 1) // 8 + j"),
        (I % 8, "i"),
        (I % 7, "i % 7"),
        ((I - 1) % 8, "(i + 7) % 8"),
        ((J * 8 + I) % 8, "i"),
        (prim.Min(I, 7), "i"),
        (prim.Min(I, 0), "0"),
        (prim.Max(I, 7), "7"),
        (prim.Max(I, 0), "i"),
        (prim.Max(0, I), "i"),
        (prim.Min(I, 6), "T.min(i, 6)"),
        (prim.Max(I, 1), "T.max(i, 1)"),
        (prim.LT(I, 8), "T.bool(True)"),
        (prim.LT(I, 7), "i < 7"),
        (prim.LE(I, 7), "T.bool(True)"),
        (prim.LE(8, I), "T.bool(False)"),
        (prim.LT(I, 0), "T.bool(False)"),
        (prim.LE(I, 0), "i <= 0"),
    ],
    ids=str,
)
def test_limits_decide(term: PrimExpr, expected: str) -> None:
    with assuming({I: (0, 7)}):
        assert str(simplify(term)) == expected


def test_canonical_expressions_stay_the_same_objects() -> None:
    term = prim.Select(B, X, X + 1.0)

    assert simplify(term) is term
    assert simplify(prim.Call("int32", "f", [I + 1 - 1])) is not term


@settings(max_examples=40)
@given(terms)
def test_simplification_is_idempotent(term: PrimExpr) -> None:
    once = simplify(term)
    assert str(simplify(once)) == str(once)


@settings(max_examples=100)
@given(terms, limits)
def test_simplified_terms_have_the_same_values(term: PrimExpr, known: Limits) -> None:
    plain = simplify(term)
    with assuming(known):
        bounded = simplify(term)
    for values in points(known):
        expected = value_of(term, values)
        assert value_of(plain, values) == expected, (str(plain), values)
        assert value_of(bounded, values) == expected, (str(bounded), values)


@settings(max_examples=100)
@given(conditions, limits)
def test_simplified_conditions_have_the_same_values(
    term: PrimExpr, known: Limits
) -> None:
    plain = simplify(term)
    with assuming(known):
        bounded = simplify(term)
    for values in points(known):
        expected = value_of(term, values)
        assert value_of(plain, values) == expected, (str(plain), values)
        assert value_of(bounded, values) == expected, (str(bounded), values)

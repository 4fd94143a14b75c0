"""Range of PrimExprs against all values of their variables."""

import pytest
from hypothesis import given, settings

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim.bounds import assuming, bounds, is_assuming
from relax_mlir.symbolic.intervals import UNBOUNDED, Range, contains
from tests.objects.prim.terms import I, J, Limits, indices, limits, points, value_of


@settings(max_examples=150)
@given(indices, limits)
def test_bounds_hold_for_all_values(term: PrimExpr, known: Limits) -> None:
    with assuming(known):
        found = bounds(term)
    with assuming({I: known[I]}):
        less_known = bounds(term)
    assert contains(bounds(term), less_known)
    assert contains(less_known, found)
    for values in points(known):
        value = value_of(term, values)
        assert contains(found, (value, value)), (str(term), values)


@pytest.mark.parametrize("number", [-3, -1, 1, 2, 5])
@pytest.mark.parametrize("kind", [prim.Mul, prim.FloorDiv, prim.FloorMod, prim.Mod])
@pytest.mark.parametrize("ends", [(-4, 4), (-9, -3), (0, 2), (1, 7), (3, 3)])
def test_operations_with_numbers_are_the_hull_of_all_values(
    kind: type[prim.BinaryExpr], number: int, ends: tuple[int, int]
) -> None:
    term = kind(I, number)
    values = [value_of(term, point) for point in points({I: ends})]
    with assuming({I: ends}):
        found = bounds(term)

    if kind in (prim.Mul, prim.FloorDiv) or len({*values}) == abs(number):
        assert found == (min(values), max(values))
    assert contains(found, (min(values), max(values)))


@pytest.mark.parametrize("kind", [prim.Add, prim.Sub, prim.Min, prim.Max])
def test_operations_of_two_are_the_hull_of_all_values(
    kind: type[prim.BinaryExpr],
) -> None:
    term = kind(I, J)
    for known in ({I: (-2, 3), J: (0, 4)}, {I: (2, 9), J: (-7, -3)}):
        values = [value_of(term, point) for point in points(known)]
        with assuming(known):
            assert bounds(term) == (min(values), max(values))


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (prim.const(-3), (-3, -3)),
        (I, (2, None)),
        (J, UNBOUNDED),
        (I + 3, (5, None)),
        (3 - I, (None, 1)),
        (I * -2, (None, -4)),
        (I // -2, (None, -1)),
        (I * J, UNBOUNDED),
        (prim.Mul(J, 0), (0, 0)),
        (prim.FloorDiv(I, 0), UNBOUNDED),
        (prim.FloorMod(I, 0), UNBOUNDED),
        (prim.Mod(I, 0), UNBOUNDED),
        (prim.FloorMod(J, 4), (0, 3)),
        (prim.FloorMod(J, -4), (-3, 0)),
        (prim.FloorMod(I - 4, 4), (0, 3)),
        (prim.FloorMod(prim.Min(I, 3), 4), (2, 3)),
        (prim.FloorMod(prim.Max(-I, -3), -4), (-3, -2)),
        (prim.Mod(I, 4), (0, 3)),
        (prim.Mod(prim.Min(I, 2), 4), (0, 2)),
        (prim.Mod(J, -4), (-3, 3)),
        (prim.Div(I, 2), UNBOUNDED),
        (prim.Min(I, 7), (2, 7)),
        (prim.Max(J, 7), (7, None)),
    ],
    ids=str,
)
def test_bounds_of_unbounded_terms(term: PrimExpr, expected: Range) -> None:
    with assuming({I: (2, None)}):
        assert bounds(term) == expected


@pytest.mark.parametrize(
    ("dtype", "kind", "number", "expected"),
    [
        ("int8", prim.Add, 100, (100, 109)),
        ("int8", prim.Add, 119, None),
        ("int8", prim.Sub, 9, (-9, 0)),
        ("uint8", prim.Sub, 0, (0, 9)),
        ("uint8", prim.Sub, 1, None),
        ("uint8", prim.Mul, 28, (0, 252)),
        ("uint8", prim.Mul, 29, None),
        ("uint64", prim.Mul, 29, (0, 261)),
        ("uint64", prim.Sub, 1, None),
        ("int64", prim.Sub, 1, (-1, 8)),
    ],
)
def test_integers_that_may_wrap_around_have_no_bounds(
    dtype: str, kind: type[prim.BinaryExpr], number: int, expected: Range | None
) -> None:
    x, y = Var("x", dtype), Var("y", dtype)
    with assuming({x: (0, 9)}):
        assert bounds(kind(x, number)) == (expected or UNBOUNDED)
        assert bounds(prim.Max(y, 3)) == ((3 if dtype == "int64" else None), None)


def test_assumptions_end_with_their_block() -> None:
    assert not is_assuming()
    with assuming({I: (0, 3)}):
        assert is_assuming()
        with assuming({J: (1, 2)}):
            assert bounds(I + J) == (1, 5)
            with assuming({I: (1, 3)}):
                assert bounds(I + J) == (2, 5)
        assert bounds(I) == (0, 3)
        assert bounds(J) == UNBOUNDED
    assert bounds(I) == UNBOUNDED
    with assuming({}):
        assert not is_assuming()

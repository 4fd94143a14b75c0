"""Digits of loops against all steps of the loops, and bindings made of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.symbols import evaluate, parse, symbols_of
from relax_mlir.tir.schedule.affine import (
    Digit,
    are_separate,
    chained,
    digits_of,
    is_affine,
    value_of,
)
from tests.analysis.expressions import points

_digits = st.builds(
    "{}*(({})//{}%{})".format,
    st.integers(1, 4),
    st.sampled_from(["i", "j", "j + 4*i", "i + 6*j"]),
    st.sampled_from([1, 2, 3, 4]),
    st.sampled_from([2, 3, 4, 6, 24]),
)
_bindings = st.lists(_digits, min_size=1, max_size=2).map(" + ".join)
_extents = st.fixed_dictionaries(
    {"i": st.sampled_from([1, 2, 6, 10]), "j": st.sampled_from([1, 3, 4, 12])}
)


def affine(texts: list[str], extents: dict[str, int]) -> bool:
    limits = {name: (0, extent - 1) for name, extent in extents.items()}
    return is_affine([parse(text) for text in texts], extents, limits)


@pytest.mark.parametrize("factors", [(2, 3, 4), (4, 3, 2), (3, 1, 4)])
def test_splits_and_fusions_of_loops_are_affine(factors: tuple[int, int, int]) -> None:
    a, b, c = factors
    apart = [f"i//{b * c}", f"i//{c}%{b}", f"i%{c}"]
    together = [f"i*{b * c} + j*{c} + k"]
    extents = {"i": a, "j": b, "k": c}

    assert affine(apart, {"i": a * b * c})
    assert affine(apart[::-1], {"i": a * b * c})
    assert affine(apart[1:], {"i": a * b * c})
    assert affine(together, extents)
    assert affine([f"{text} + 0" for text in "kji"], extents)
    assert not affine(["i + j"], {"i": 3, "j": 3})
    assert not affine([f"i*{c} + k"], {"i": a, "k": c + 1})


def test_symbolic_extents() -> None:
    n, four = parse("n"), {"i": (0, None), "n": (0, None)}

    def known(texts: list[str], extent: Dim) -> bool:
        return is_affine([parse(t) for t in texts], {"i": extent}, four)

    assert known(["i"], n)
    assert known(["i//4", "i%4"], 4 * n)
    assert not known(["i//n"], 4 * n)


def test_digits_may_overlap_if_that_is_asked_for() -> None:
    values, limits = [parse("2*i + j")], {"i": (0, 3), "j": (0, 2)}
    extents = {"i": 4, "j": 3}

    assert not is_affine(values, extents, limits)
    assert is_affine(values, extents, limits, may_overlap=True)
    values, extents = [parse("4*i + j")], {"i": 4, "j": 3}
    assert not is_affine(values, extents, limits, may_overlap=True)


@settings(max_examples=60)
@given(_bindings, _extents)
def test_digits_add_up(text: str, extents: dict[str, int]) -> None:
    dim = parse(text)
    digits = digits_of(dim, extents)
    if digits is None:
        return
    rest = dim
    for digit in digits:
        rest = rest - digit.scale * value_of(digit, extents)
    assert not set(extents) & set(symbols_of(rest))
    for point in points({name: (0, extent - 1) for name, extent in extents.items()}):
        for digit in digits:
            plain = point[digit.source] // digit.lower % digit.extent
            assert evaluate(value_of(digit, extents), point) == plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i", [Digit("i", 1, 10)]),
        ("3*i + 7", [Digit("i", 1, 10, 3)]),
        ("i//4", [Digit("i", 4, 3)]),
        ("i//5", [Digit("i", 5, 2)]),
        ("i%5", [Digit("i", 1, 5)]),
        ("i//2%3", [Digit("i", 2, 3)]),
        ("n*i + j", [Digit("i", 1, 10, parse("n")), Digit("j", 1, 4)]),
        ("n + 3", []),
        ("i*j", None),
        ("(i + j)//2", None),
        ("i*i", None),
        ("5 - i//4", None),
    ],
)
def test_digits_of(text: str, expected: list[Digit] | None) -> None:
    found = digits_of(parse(text), {"i": 10, "j": 4})
    assert found == expected


def test_sums_that_say_what_each_digit_is() -> None:
    low, high, unit = Digit("i", 1, 4), Digit("j", 1, 3, 4), Digit("k", 1, 1)

    assert are_separate([high, low, unit])
    assert are_separate([low, Digit("j", 1, 3, 5)])
    assert are_separate([Digit("i", 1, 4, 2)])
    assert are_separate([])
    assert not are_separate([low, Digit("j", 1, 3, 3)])
    assert not are_separate([low, Digit("j", 1, 3, parse("n"))])


def test_chains_of_digits_of_one_loop() -> None:
    low, middle, top = Digit("i", 1, 4), Digit("i", 4, 3), Digit("i", 12, 2)

    assert chained([top, low, middle], 24) == [low, middle, top]
    assert chained([top, low, middle], 25) is None
    assert chained([middle, top], 20) == [middle, top]
    assert chained([low, top], 24) is None
    assert chained([low, low], 4) is None
    assert chained([low, middle, middle], 12) is None

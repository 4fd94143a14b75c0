"""Iteration map detection against enumeration of all loop iterations."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.symbols import evaluate, parse, symbols_of
from relax_mlir.tvm.tir.schedule.affine import (
    IterSplit,
    is_affine,
    is_uniquely_decomposable,
    iter_splits_of,
    ordered_splits,
    split_value,
)
from tests.symbolic.expressions import points

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


def affine(
    texts: Sequence[str],
    extents: dict[str, int],
    predicates: Sequence[str] = (),
    *,
    may_overlap: bool = False,
    may_end_early: bool = False,
) -> bool:
    limits = {name: (0, extent - 1) for name, extent in extents.items()}
    return is_affine(
        [parse(text) for text in texts],
        extents,
        limits,
        predicates=[parse(text) for text in predicates],
        may_overlap=may_overlap,
        may_end_early=may_end_early,
    )


def visited(
    texts: Sequence[str], extents: dict[str, int], predicates: Sequence[str]
) -> list[tuple[int, ...]]:
    """The values of axes at all iterations whose predicates hold (are non-negative)."""
    values = [parse(text) for text in texts]
    slacks = [parse(text) for text in predicates]
    return [
        tuple(evaluate(value, point) for value in values)
        for point in points({name: (0, extent - 1) for name, extent in extents.items()})
        if all(evaluate(slack, point) >= 0 for slack in slacks)
    ]


_parts = st.builds(
    "({}//{}%{})".format,
    st.sampled_from("ij"),
    st.sampled_from([1, 1, 2, 4]),
    st.sampled_from([2, 3, 4, 100]),
)
_values = _parts | st.builds(
    "{} + {}*{}".format, _parts, st.sampled_from([-6, -1, 2, 3, 4, 8]), _parts
)
_apart = st.sampled_from(
    [
        ("i//4", "i%4"),
        ("i%3", "i//3"),
        ("(j + 4*i)//3", "(j + 4*i)%3"),
        ("j + 4*i",),
        ("3*(i//4) + j", "i%4"),
    ]
)
_some_predicates = st.lists(
    st.builds(
        "{} - {}".format,
        st.sampled_from([3, 5, 7, 11, 14]),
        _parts | st.sampled_from(["(j + 4*i)", "(j + 3*(i//4))"]),
    )
    | st.just("i - 1"),
    max_size=2,
)


@settings(max_examples=250)
@given(
    _apart | st.lists(_values, min_size=1, max_size=2),
    st.fixed_dictionaries(
        {"i": st.sampled_from([1, 4, 6, 8, 9, 10]), "j": st.sampled_from([1, 3, 4])}
    ),
    _some_predicates,
    st.booleans(),
)
def test_affine_bindings_visit_every_combination(
    texts: Sequence[str],
    extents: dict[str, int],
    predicates: list[str],
    may_overlap: bool,
) -> None:
    if not affine(texts, extents, predicates, may_overlap=may_overlap):
        return
    found = visited(texts, extents, predicates)
    axes = [sorted(set(values)) for values in zip(*found, strict=True)]
    assert len(set(found)) == (math.prod(map(len, axes)) if found else 0)
    if found and not predicates:
        assert [axis[-1] - axis[0] + 1 for axis in axes] == list(map(len, axes))


_TILES = ["i*16 + j", "k*16 + l"]


@pytest.mark.parametrize(
    ("texts", "extents", "predicates", "expected"),
    [
        (["i//4", "i%4"], {"i": 10}, [], False),
        (["i//4", "i%4"], {"i": 12}, [], True),
        (["i%4"], {"i": 10}, [], True),
        (["i//4"], {"i": 12}, [], False),  # the lower digit is not used
        # A loop with a predicate ends early.
        (["i//4", "i%4"], {"i": 12}, ["9 - i"], False),
        (["i//4", "i%4"], {"i": 16}, ["11 - i"], True),
        (["i//4", "i%4"], {"i": 12}, ["10 - 2*i"], False),
        (["i//4", "i%4"], {"i": 12}, ["i - 4"], False),
        (["i"], {"i": 12}, ["i - 4"], True),
        (["i//4", "i%4"], {"i": 10}, ["11 - i"], False),
        # Two loops in place of one of 12, or of 10.
        (["(j + 8*i)//4", "j%4"], {"i": 2, "j": 8}, ["11 - 8*i - j"], True),
        (["(j + 8*i)//4", "j%4"], {"i": 2, "j": 8}, ["9 - 8*i - j"], False),
        (["(j + 8*i)//4", "j%4"], {"i": 2, "j": 8}, [], True),
        # An unused loop beside them.
        (["(j + 8*i)//4", "j%4"], {"i": 2, "j": 8, "k": 1}, ["11 - 8*i - j - k"], True),
        (["(j + 8*i)//4", "j%4"], {"i": 2, "j": 8, "k": 3}, ["11 - 8*i - j"], True),
        # Predicates of digits of one axis, of two, and of a loop of no axis.
        (["i//4", "i%4"], {"i": 12}, ["1 - i//4"], True),
        (["i//4", "i%4"], {"i": 12}, ["i//4 - 1"], True),
        (["i//4", "i%4"], {"i": 12}, ["2 - i//4 - i%4"], False),
        (["i", "j"], {"i": 4, "j": 4}, ["2 - i*i"], True),
        (["i", "j"], {"i": 4, "j": 4}, ["2 - i*j"], False),
        (["i"], {"i": 4, "j": 4}, ["2 - 2*j"], False),
        (["i + 4*(j//3)", "j%3"], {"i": 4, "j": 6}, ["5 - i - 4*(j//3)"], True),
        (["i + 4*(j//3)", "j%3"], {"i": 4, "j": 6}, ["5 - i - 4*j"], False),
        (["i + 4*(j//3)", "j%3"], {"i": 4, "j": 6}, ["5 - i - 4*(j%3)"], False),
        # The lower digits of a bound that they divide make no difference.
        (_TILES, {"i": 3, "j": 16, "k": 2, "l": 16}, ["639 - 256*i - 16*j - l"], True),
        (_TILES, {"i": 3, "j": 16, "k": 2, "l": 16}, ["638 - 256*i - 16*j - l"], False),
        (
            _TILES,
            {"i": 3, "j": 16, "k": 2, "l": 16},
            ["29 - 16*k - l", "639 - 256*i - 16*j - l"],
            True,
        ),
        # One predicate after another.
        (["j + 4*i"], {"i": 3, "j": 4}, ["9 - j - 4*i", "1 - j"], False),
        (["j + 4*i", "k"], {"i": 3, "j": 4, "k": 2}, ["9 - j - 4*i", "1 - k"], True),
        (
            ["(j + 4*i)//5", "(j + 4*i)%5"],
            {"i": 3, "j": 4},
            ["9 - j - 4*i", "1 - j"],
            False,
        ),
    ],
)
def test_bindings(
    texts: list[str], extents: dict[str, int], predicates: list[str], expected: bool
) -> None:
    assert affine(texts, extents, predicates) is expected


def test_loops_may_end_early_on_request() -> None:
    assert affine(["i//4", "i%4"], {"i": 10}, may_end_early=True)
    assert not affine(["i//4", "i%5"], {"i": 10}, may_end_early=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("j + 2*i", True), ("j - 2*i", False), ("j + 4*i", False), ("2*i", False)],
)
def test_overlapping_digits_cover_all_numbers(text: str, expected: bool) -> None:
    assert affine([text], {"i": 4, "j": 3}, may_overlap=True) is expected


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

    def cut(texts: list[str], bound: str) -> bool:
        extents = {"i": parse("ceildiv(n, 4)"), "j": 4}
        slack = parse(f"{bound} - 1 - 4*i - j")
        limits = {**four, "j": (0, 3)}
        return is_affine([parse(t) for t in texts], extents, limits, predicates=[slack])

    assert cut(["j + 4*i"], "n")
    assert not cut(["(j + 4*i)//8", "(j + 4*i)%8"], "n")
    assert known(["i"], n)
    assert known(["i//4", "i%4"], 4 * n)
    assert not known(["i//n"], 4 * n)


def test_digits_may_overlap_on_request() -> None:
    values, limits = [parse("2*i + j")], {"i": (0, 3), "j": (0, 2)}
    extents = {"i": 4, "j": 3}

    assert not is_affine(values, extents, limits)
    assert is_affine(values, extents, limits, may_overlap=True)
    values, extents = [parse("4*i + j")], {"i": 4, "j": 3}
    assert not is_affine(values, extents, limits, may_overlap=True)


@settings(max_examples=60)
@given(_bindings, _extents)
def test_digits_sum_to_the_index(text: str, extents: dict[str, int]) -> None:
    dim = parse(text)
    digits = iter_splits_of(dim, extents)
    if digits is None:
        return
    rest = dim
    for digit in digits:
        rest = rest - digit.scale * split_value(digit, extents)
    assert not set(extents) & set(symbols_of(rest))
    for point in points({name: (0, extent - 1) for name, extent in extents.items()}):
        for digit in digits:
            plain = point[digit.source] // digit.lower_factor % digit.extent
            assert evaluate(split_value(digit, extents), point) == plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i", [IterSplit("i", 1, 10)]),
        ("3*i + 7", [IterSplit("i", 1, 10, 3)]),
        ("i//4", [IterSplit("i", 4, 3)]),
        ("i//5", [IterSplit("i", 5, 2)]),
        ("i%5", [IterSplit("i", 1, 5)]),
        ("i//2%3", [IterSplit("i", 2, 3)]),
        ("n*i + j", [IterSplit("i", 1, 10, parse("n")), IterSplit("j", 1, 4)]),
        ("n + 3", []),
        ("i*j", None),
        ("(i + j)//2", None),
        ("i*i", None),
        ("5 - i//4", None),
    ],
)
def test_digits_of(text: str, expected: list[IterSplit] | None) -> None:
    found = iter_splits_of(parse(text), {"i": 10, "j": 4})
    assert found == expected


def test_sums_that_determine_each_digit() -> None:
    low, high, unit = (
        IterSplit("i", 1, 4),
        IterSplit("j", 1, 3, 4),
        IterSplit("k", 1, 1),
    )

    assert is_uniquely_decomposable([high, low, unit])
    assert is_uniquely_decomposable([low, IterSplit("j", 1, 3, 5)])
    assert is_uniquely_decomposable([IterSplit("i", 1, 4, 2)])
    assert is_uniquely_decomposable([])
    assert not is_uniquely_decomposable([low, IterSplit("j", 1, 3, 3)])
    assert not is_uniquely_decomposable([low, IterSplit("j", 1, 3, parse("n"))])


def test_chains_of_digits_of_one_loop() -> None:
    low, middle, top = IterSplit("i", 1, 4), IterSplit("i", 4, 3), IterSplit("i", 12, 2)

    assert ordered_splits([top, low, middle], 24) == [low, middle, top]
    assert ordered_splits([top, low, middle], 25) is None
    assert ordered_splits([middle, top], 20) == [middle, top]
    assert ordered_splits([low, top], 24) is None
    assert ordered_splits([low, low], 4) is None
    assert ordered_splits([], 4) is None
    assert ordered_splits([low, middle, middle], 12) is None

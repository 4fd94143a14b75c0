"""Inverses of index maps against all indices."""

from collections.abc import Mapping, Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.symbolic.dims import Dim, symbol
from relax_mlir.symbolic.symbols import evaluate, parse
from relax_mlir.tvm.tir.schedule.inversion import (
    Inverse,
    PaddingRegion,
    final_symbol,
    invert,
)
from tests.symbolic.expressions import points


def inverse(texts: Sequence[str], extents: Mapping[str, int]) -> Inverse | None:
    return invert([parse(text) for text in texts], extents)


def is_padding(one: PaddingRegion, point: Mapping[str, int]) -> bool:
    if evaluate(one.upper, point) != evaluate(one.top, point):
        return False
    lower, bound = evaluate(one.lower, point), evaluate(one.bound, point)
    if one.is_below:
        return lower < bound
    return lower == bound if one.is_greatest else lower >= bound


def check(texts: Sequence[str], extents: Mapping[str, int], found: Inverse) -> None:
    """The inverse undoes the map, and its predicate marks indices that nothing maps to."""
    final: list[Dim] = [parse(text) for text in texts]
    image: dict[tuple[int, ...], dict[str, int]] = {}
    for old in points({name: (0, extent - 1) for name, extent in extents.items()}):
        image[tuple(evaluate(dim, old) for dim in final)] = old
    shape = [max(values) + 1 for values in zip(*image, strict=True)]
    for new in product(*map(range, shape)):
        named = {final_symbol(number): value for number, value in enumerate(new)}
        if new in image:
            values = {n: evaluate(dim, named) for n, dim in found.values.items()}
            assert values == image[new], (texts, extents, new)
        padded = any(is_padding(one, named) for one in found.padding)
        assert padded is (new not in image), (texts, extents, new)


_splits = st.sampled_from([2, 3, 4, 8])
_starts = st.sampled_from([0, 0, 1, 3])


@st.composite
def _maps(draw: st.DrawFn) -> tuple[list[str], dict[str, int]]:
    """Indices split, fused, offset and combined in any order."""
    extents = {
        name: draw(st.sampled_from([1, 2, 3, 4, 6, 7, 10])) for name in ("i", "j")
    }
    parts: list[tuple[str, int]] = []
    wholes = list(extents.items())
    if draw(st.booleans()):
        (_, a), (_, b) = wholes
        wholes = [(f"(j + {b}*i)", a * b)]
    for text, extent in wholes:
        start, factor = draw(_starts), draw(_splits)
        total = f"({text} + {start})" if start else text
        if start or draw(st.booleans()):
            parts.append((f"{total}//{factor}", -(-(extent + start) // factor)))
            parts.append((f"{total}%{factor}", factor))
        else:
            parts.append((total, extent))
    parts = draw(st.permutations(parts))
    if len(parts) > 1 and draw(st.booleans()):
        (high, _), (low, count), *others = parts
        return [f"{count}*({high}) + {low}", *(text for text, _ in others)], extents
    return [text for text, _ in parts], extents


@settings(max_examples=150)
@given(_maps())
def test_inverses_undo_maps(made: tuple[list[str], dict[str, int]]) -> None:
    found = inverse(*made)
    if found is not None:
        check(*made, found)


@pytest.mark.parametrize(
    ("texts", "extents"),
    [
        (["i"], {"i": 5}),
        (["j", "i"], {"i": 5, "j": 3}),
        (["i//4", "i%4"], {"i": 12}),
        (["i//4", "i%4"], {"i": 10}),
        (["i//4", "i%4"], {"i": 11}),
        (["i%4", "i//4"], {"i": 10}),
        (["j + 3*i"], {"i": 4, "j": 3}),
        (["(j + 3*i)//8", "(j + 3*i)%8"], {"i": 4, "j": 3}),
        (["(j + 3*i)//8", "(j + 3*i)%8"], {"i": 8, "j": 3}),
        (["(j + 3*i)//8", "(j + 3*i)%8"], {"i": 5, "j": 3}),
        (["(j + 3*i + 1)//8", "(j + 3*i + 1)%8"], {"i": 5, "j": 3}),
        (["(i + 3)//4", "(i + 3)%4"], {"i": 9}),
        (["(i + 3)//4", "(i + 3)%4"], {"i": 10}),
        (["(i + 1)//4", "(i + 1)%4"], {"i": 10}),
        (["(i + 3)//8", "(i + 3)%8"], {"i": 2}),
        (["i//4", "i//2%2", "i%2"], {"i": 9}),
        (["i//4", "j", "i%4"], {"i": 8, "j": 1}),
        (["i", "k"], {"i": 4, "j": 1, "k": 2}),
        (["(2*i + j//2)//6", "(2*i + j//2)%6", "j%2"], {"i": 6, "j": 4}),
        (["(2*i + j//2)//6", "(2*i + j//2)%6", "j%2"], {"i": 5, "j": 4}),
        (["((j + 3*i)//8)//2", "(j + 3*i)//8%2", "(j + 3*i)%8"], {"i": 8, "j": 3}),
        (["j%2 + 2*(i//3)", "j//2", "i%3"], {"i": 6, "j": 4}),
    ],
)
def test_inverses_that_are_found(texts: list[str], extents: dict[str, int]) -> None:
    found = inverse(texts, extents)
    assert found is not None
    check(texts, extents, found)


@pytest.mark.parametrize(
    ("texts", "extents"),
    [
        (["i//4"], {"i": 8}),
        (["i%4"], {"i": 8}),
        (["i"], {"i": 8, "j": 2}),
        (["i + j"], {"i": 4, "j": 3}),
        (["2*i"], {"i": 4}),
        (["i + 1"], {"i": 4}),
        (["i", "i"], {"i": 4}),
        (["i*i"], {"i": 4}),
        (["i//2", "i%4"], {"i": 8}),
        (["(2*i + 2*j)//4", "(2*i + 2*j)%4"], {"i": 2, "j": 2}),
        (["(i*j)//2", "(i*j)%2"], {"i": 2, "j": 2}),
        (["(j + 3*i)//4", "(j + 3*i)%4", "i"], {"i": 4, "j": 3}),
        (["(j + 3*i)//4", "j + 3*i"], {"i": 4, "j": 3}),
    ],
)
def test_maps_without_an_inverse(texts: list[str], extents: dict[str, int]) -> None:
    assert inverse(texts, extents) is None


def test_symbolic_sizes() -> None:
    n = parse("n")
    found = invert([parse("i//4"), parse("i%4")], {"i": 4 * n})
    assert found is not None
    assert not found.padding
    assert found.values == {"i": 4 * symbol(final_symbol(0)) + symbol(final_symbol(1))}

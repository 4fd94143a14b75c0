"""Convolution shapes against enumeration of their elements and windows."""

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.symbolic.convolution_shapes import (
    ConvolutionShape,
    memory_extent,
    packed_strides,
)

_LIMIT = 2**31


def offsets(sizes: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The offsets of all elements of a tensor, in row-major order."""
    places = itertools.product(*map(range, sizes))
    return [sum(map(int.__mul__, place, strides)) for place in places]


def made(
    image: Sequence[int],
    *,
    channels: int = 4,
    filters: int = 6,
    groups: int = 2,
    window: int = 2,
    step: int = 1,
    dilation: int = 1,
    pad: int = 0,
    channels_last: bool = False,
) -> ConvolutionShape:
    """A dense shape with matching output sizes."""
    rank = len(image)
    shape = ConvolutionShape(
        channels=channels,
        filters=filters,
        groups=groups,
        image=tuple(image),
        window=(window,) * rank,
        result=(),
        steps=(step,) * rank,
        dilations=(dilation,) * rank,
        pads=(pad,) * rank,
        image_strides=(),
        result_strides=(),
        channels_last=channels_last,
    )
    result = shape.counts
    return replace(
        shape,
        result=result,
        image_strides=packed_strides(channels, image, channels_last),
        result_strides=packed_strides(filters, result, channels_last),
    )


PLAIN = made((5, 7))


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    *[st.integers(1, 3)] * 3,
    st.integers(0, 2),
    st.booleans(),
)
@settings(max_examples=60)
def test_dense_shapes_are_valid(
    image: list[int],
    window: int,
    step: int,
    dilation: int,
    pad: int,
    channels_last: bool,
) -> None:
    reach = (window - 1) * dilation + 1
    counts = tuple(
        sum(start + reach <= n + 2 * pad for start in range(0, n + 2 * pad, step))
        for n in image
    )
    if 0 in counts:
        return
    shape = made(
        image,
        window=window,
        step=step,
        dilation=dilation,
        pad=pad,
        channels_last=channels_last,
    )
    shape.check()
    assert shape.result == shape.counts == counts
    assert shape.is_packed(channels_last=channels_last)
    assert shape.terms == 2 * window ** len(image)
    assert shape.weight_elements == 6 * shape.terms
    assert shape.image_elements(3) == 3 * 4 * math.prod(image)
    assert shape.result_elements(3) == 3 * 6 * math.prod(counts)
    weights = offsets((6, 2, *shape.window), shape.weight_strides)
    assert sorted(weights) == list(range(shape.weight_elements))


@pytest.mark.parametrize(
    ("image", "counts"), [((3, 5), (2, 4)), ((1, 5), (0, 4)), ((0, 1), (-1, 0))]
)
def test_windows_that_do_not_fit_are_not_counted(
    image: tuple[int, ...], counts: tuple[int, ...]
) -> None:
    assert replace(PLAIN, image=image).counts == counts


@pytest.mark.parametrize("sizes", [(), (3,), (2, 3), (2, 3, 4), (1, 3), (2, 1, 2)])
@pytest.mark.parametrize("channels", [1, 3])
def test_packed_strides_leave_no_gap(channels: int, sizes: tuple[int, ...]) -> None:
    every = list(range(2 * channels * math.prod(sizes)))

    first = packed_strides(channels, sizes, False)
    assert offsets((2, channels, *sizes), first) == every
    whole, step, *along = packed_strides(channels, sizes, True)
    assert offsets((2, *sizes, channels), (whole, *along, step)) == every


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), max_size=4),
)
def test_spans_end_after_the_last_element(axes: list[tuple[int, int]]) -> None:
    sizes, strides = [n for n, _ in axes], [s for _, s in axes]
    assert memory_extent(sizes, strides) == max(offsets(sizes, strides)) + 1


@settings(max_examples=150)
@given(
    st.tuples(*[st.integers(1, 3)] * 3),
    st.permutations([1, 2, 3, 6]),
    st.tuples(*[st.integers(0, 2)] * 4),
)
def test_elements_of_accepted_strides_do_not_overlap(
    sizes: tuple[int, int, int], base: list[int], more: tuple[int, ...]
) -> None:
    channels, *image = sizes
    strides = tuple(map(int.__add__, base, more))
    shape = made(image, channels=channels, filters=2, groups=1, window=1)
    images = replace(shape, image_strides=strides)
    results = made(image, channels=2, filters=channels, groups=1, window=1)
    results = replace(results, result_strides=strides)
    assert is_accepted(images) == is_accepted(results)
    if is_accepted(images):
        places = offsets((4, *sizes), strides)
        assert len({*places}) == len(places)


def is_accepted(shape: ConvolutionShape) -> bool:
    try:
        shape.check()
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("strides", "is_apart"),
    [
        ((12, 6, 3, 1), True),
        ((12, 6, 3, 2), False),  # 2 + 2 is beyond 3
        ((11, 6, 3, 1), False),
        ((13, 6, 3, 1), True),
        ((12, 1, 6, 2), True),
        ((2, 4, 1, 1), False),
    ],
)
def test_which_strides_are_accepted(strides: tuple[int, ...], is_apart: bool) -> None:
    shape = made((2, 3), channels=2, groups=1, window=1)
    shape = replace(shape, image_strides=strides)
    if is_apart:
        shape.check()
    else:
        with pytest.raises(ValueError, match="elements overlap"):
            shape.check()


@pytest.mark.parametrize(
    ("field", "axis"), [("image_strides", a) for a in range(4)] + [("result_strides", 1)]
)  # fmt: skip
def test_gaps_are_not_packed(field: str, axis: int) -> None:
    strides = list(getattr(PLAIN, field))
    strides[axis] += 1
    changed = replace(PLAIN, **{field: tuple(strides)})

    assert PLAIN.is_packed(channels_last=False)
    assert not PLAIN.is_packed(channels_last=True)
    assert not changed.is_packed(channels_last=False)


def test_strides_of_unit_axes_are_ignored() -> None:
    shape = made((1, 7), channels=1, filters=1, groups=1, window=1)
    whole, _, _, step = shape.image_strides
    shape = replace(shape, image_strides=(whole, 99, 77, step))

    assert shape.is_packed(channels_last=False)
    assert shape.is_packed(channels_last=True)
    assert not replace(shape, image_strides=(1, 1, 1, 1)).is_packed(channels_last=False)


def test_shapes_are_written_and_read_as_json() -> None:
    fields = json.loads(json.dumps(PLAIN.fields()))

    assert ConvolutionShape.from_fields(fields) == PLAIN
    with pytest.raises(TypeError):
        ConvolutionShape.from_fields(fields[:-1])


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_one_to_three_axes(rank: int) -> None:
    made((3,) * rank).check()
    with pytest.raises(ValueError, match="invalid convolution"):
        made((3,) * 4).check()
    with pytest.raises(ValueError, match="invalid convolution"):
        made(()).check()


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        *[(name, bad) for name in ("channels", "filters", "groups") for bad in (0, "4", True, _LIMIT)],
        *[
            (name, bad)
            for name in ("image", "window", "result", "steps", "dilations")
            for bad in ((0, 4), (4,), (4, 4, 4), [4, 4], 4, (4, 1.0), (_LIMIT, 4))
        ],
        *[("pads", bad) for bad in ((-1, 0), (0,), [0, 0], (0, _LIMIT))],
        *[
            (name, bad)
            for name in ("image_strides", "result_strides")
            for bad in ((140, 35, 7), (140, 35, 7, 0), (140, 35, 7, 1, 1), (_LIMIT, 35, 7, 1))
        ],
        ("channels_last", 0),
    ],
)  # fmt: skip
def test_invalid_convolutions_are_refused(field: str, wrong: object) -> None:
    with pytest.raises(ValueError, match="invalid convolution"):
        replace(PLAIN, **{field: wrong}).check()


def test_the_greatest_numbers_are_accepted() -> None:
    last = _LIMIT - 1
    replace(PLAIN, image_strides=(last, 35, 7, 1)).check()
    shape = made((1,), channels=1, filters=last, groups=1, window=1)
    replace(shape, result_strides=(last, 1, 1)).check()


@pytest.mark.parametrize("groups", [3, 4])
def test_groups_divide_channels_and_filters(groups: int) -> None:
    with pytest.raises(ValueError, match=f"filters, got {groups}"):
        replace(PLAIN, groups=groups).check()


def test_output_sizes_are_numbers_of_windows() -> None:
    with pytest.raises(
        ValueError, match=r"output size: expected \(4, 6\), got \(4, 5\)"
    ):
        replace(PLAIN, result=(4, 5)).check()

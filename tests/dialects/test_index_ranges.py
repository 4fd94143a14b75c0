"""Errors for out-of-range indices against a scalar implementation."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.index_ranges import (
    IndexOperand,
    IndexRange,
    axis_range,
    length_range,
    nonnegative_axis_range,
    out_of_range_message,
)
from relax_mlir.ir.context import new_context
from relax_mlir.symbolic.symbols import parse


def expected(
    indices: np.ndarray, limits: Sequence[int], least: int | None, ignored: int | None
) -> str | None:
    """The error message, by a loop over the indices."""
    for place in itertools.product(*map(range, indices.shape)):
        index = int(indices[place])
        limit = limits[place[-1]] if len(limits) > 1 else limits[0]
        low = -limit if least is None else least
        if index == ignored or low <= index < limit:
            continue
        span = f"{low} to {limit - 1}" if low < limit else "none"
        return f"index out of range at {list(place)}: expected {span}, got {index}"
    return None


@settings(max_examples=200)
@given(
    st.lists(st.tuples(*[st.integers(-5, 5)] * 2), min_size=1, max_size=3),
    st.lists(st.integers(0, 4), min_size=1, max_size=2),
    st.sampled_from([None, -1, 0, 1]),
    st.sampled_from([None, None, -1, 4]),
    st.sampled_from(["int8", "int32", "int64"]),
)
def test_signed_indices(
    rows: list[tuple[int, int]],
    limits: list[int],
    least: int | None,
    ignored: int | None,
    kind: str,
) -> None:
    indices = np.array(rows, kind)
    wanted = expected(indices, limits, least, ignored)

    assert out_of_range_message(indices, limits, least, ignored) == wanted


@pytest.mark.parametrize("kind", ["uint8", "uint32", "uint64"])
@pytest.mark.parametrize("least", [None, 0])
@pytest.mark.parametrize("ignored", [None, 7])
def test_unsigned_indices(kind: str, least: int | None, ignored: int | None) -> None:
    top = np.iinfo(kind).max
    for values in itertools.product([0, 2, 3, 7, top - 2, top - 1, top], repeat=2):
        indices = np.array(values, kind)
        wanted = expected(indices, [3], least, ignored)
        assert out_of_range_message(indices, [3], least, ignored) == wanted, values


def test_large_uint64_indices_are_out_of_range() -> None:
    index = np.array([2**64 - 1], np.uint64)

    assert out_of_range_message(index, [3], None, None) is not None
    assert out_of_range_message(index, [3], -1, -1) is not None


def test_empty_indices_are_in_range() -> None:
    assert out_of_range_message(np.zeros((0, 2), np.int32), [0], 0, None) is None
    assert out_of_range_message(np.array(1), [2], 0, None) is None
    assert out_of_range_message(np.array(2), [2], 0, None) == (
        "index out of range at []: expected 0 to 1, got 2"
    )


def test_ranges_along_an_axis() -> None:
    with new_context(), ir.Location.unknown():
        data = tensors.tensor_type((parse("n"), 5), dtype("float32"))

        for axis, size in [(0, parse("n")), (1, 5), (-1, 5), (-2, parse("n"))]:
            assert axis_range(data, axis) == IndexRange((size,), None, None)
            assert nonnegative_axis_range(data, axis) == IndexRange((size,), 0)
            assert nonnegative_axis_range(data, axis, ignored=-1) == IndexRange(
                (size,), 0, -1
            )
            assert length_range(data, axis) == IndexRange((size + 1,), 0)
        for rule in (axis_range, nonnegative_axis_range, length_range):
            with pytest.raises(ValueError, match="axis is out of range"):
                rule(data, 2)


def test_unlimited_operands() -> None:
    made = IndexOperand.unlimited("wraps around")

    assert made.is_unlimited
    assert (made.out_of_range, made.column) == ("wraps around", None)
    assert made.ranges(1, 2, axis=3) is None
    described = IndexOperand(axis_range, "is clamped")
    assert (described.column, described.is_unlimited) == (None, False)

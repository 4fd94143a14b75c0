"""Choice of the vectorized axis: no cheaper one exists."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlir import ir

from relax_mlir.schedules.kernel_view import Access, Statement
from relax_mlir.schedules.vector_axis import lane_count, vector_axis
from relax_mlir.symbolic.affine_forms import AffineForm
from tests.schedules.kernels import buffers

_BITS = 256  # eight lanes of f32
_COSTS = {0: 0.3, 1: 1.0, 2: 3.0}  # of an access, by its stride


def statement(
    kinds: str,
    extents: Sequence[int | ir.Value],
    operands: Sequence[tuple[ir.Value, Sequence[int]]],
) -> Statement:
    """A statement whose operands, the result last, have one index each: coefficients of axes."""
    *inputs, output = (
        Access(value, (AffineForm({a: f for a, f in enumerate(factors) if f}),))
        for value, factors in operands
    )
    nothing: ir.OpView = None  # pyright: ignore[reportAssignmentType]
    return Statement(nothing, kinds, tuple(extents), tuple(inputs), (output,))


_strides = st.tuples(*[st.sampled_from([0, 0, 1, 1, 2, 3, 8])] * 2)


@settings(max_examples=40)
@given(
    st.sampled_from(["SS", "SR", "RS"]),
    st.tuples(*[st.integers(1, 17)] * 2),
    st.lists(_strides, min_size=1, max_size=3),
)
def test_no_axis_costs_less(
    kinds: str, extents: tuple[int, int], strides: list[tuple[int, int]]
) -> None:
    with buffers(*["memref<99xf32>"] * len(strides)) as values:
        found = vector_axis(
            statement(kinds, extents, list(zip(values, strides, strict=True))), _BITS
        )
    costs: dict[int | None, float] = {None: 8.0 * len(strides)}
    for axis, kind in enumerate(kinds):
        if strides[-1][axis] != (1 if kind == "S" else 0):
            continue
        one = sum(_COSTS.get(s[axis], 7.2) for s in strides)
        one += 0.1 if kind == "R" else 0
        vectors = -(-extents[axis] // 8)
        costs[axis] = one * vectors * 8 / extents[axis]
    assert costs[found] == pytest.approx(min(costs.values()))
    # Among equal costs, the innermost; and vectors before scalars.
    cheapest = [a for a, c in costs.items() if c == costs[found]]
    assert found == cheapest[-1]


def test_dynamic_sizes_are_assumed_to_fill_vectors() -> None:
    with buffers("memref<99xf32>", "index") as (x, n):
        assert vector_axis(statement("S", [n], [(x, (1,))]), _BITS) == 0
        assert vector_axis(statement("S", [1], [(x, (1,))]), _BITS) == 0
        assert vector_axis(statement("S", [1], [(x, (2,)), (x, (1,))]), _BITS) is None
        assert vector_axis(statement("S", [0], [(x, (1,))]), _BITS) == 0


def test_several_results() -> None:
    with buffers("memref<99xf32>") as (x,):
        both = statement("SS", [8, 8], [(x, (8, 1)), (x, (8, 1))])
        ((read,), written) = both.inputs, both.outputs
        turned = Access(x, (AffineForm({0: 1, 1: 8}),))
        alike = Statement(both.op, "SS", (8, 8), (), (read, *written))
        unlike = Statement(both.op, "SS", (8, 8), (), (turned, *written))

        assert vector_axis(alike, _BITS) == 1
        assert vector_axis(unlike, _BITS) is None


@pytest.mark.parametrize(
    ("types", "lanes"),
    [
        (["f32", "f32"], 16),
        (["i8", "i8"], 16),
        (["f64", "i8"], 8),
        (["f16", "f64"], 8),
        (["f16"], 16),
    ],
)
def test_the_widest_type_counts(types: list[str], lanes: int) -> None:
    with buffers(*(f"memref<99x{type_}>" for type_ in types)) as values:
        assert (
            lane_count(statement("S", [8], [(v, (1,)) for v in values]), 512) == lanes
        )

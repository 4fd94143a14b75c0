"""Merged axes of contractions against the elements that each point touches."""

from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.analysis.index_maps import IndexForm, TiledIndex
from relax_mlir.schedules.contraction_axes import Axis, merge_axes, mergeable_groups
from relax_mlir.schedules.kernel_view import Access
from relax_mlir.symbolic.affine_forms import AffineForm
from tests.schedules.kernels import buffers, offset_of

_AXES = 3
_forms = st.builds(
    lambda factors, more: AffineForm({a: f for a, f in enumerate(factors) if f}, more),
    st.tuples(*[st.sampled_from([0, 0, 1, 1, 2, 3])] * _AXES),
    st.integers(0, 1),
)
_singles = st.integers(0, _AXES - 1).map(lambda axis: AffineForm({axis: 1}))
_extents = st.tuples(*[st.integers(1, 3)] * _AXES)


@settings(max_examples=40)
@given(
    _extents,
    st.lists(
        st.sampled_from([(0, 1, 2), (0, 1), (1, 2), (2, 0), (0,)])
        | st.lists(_forms, min_size=1, max_size=3),
        min_size=1,
        max_size=2,
    ),
    st.permutations(range(_AXES)),
    st.sampled_from([(), (1,)]),
)
def test_merged_axes_touch_the_same_elements(
    extents: tuple[int, ...],
    indices: list[list[IndexForm] | tuple[int, ...]],
    axes: list[int],
    apart: tuple[int, ...],
) -> None:
    listed: list[tuple[list[IndexForm], list[int]]] = []
    for one in indices:
        if isinstance(one, tuple):  # whole dimensions
            listed.append(
                ([AffineForm({a: 1}) for a in one], [extents[a] for a in one])
            )
        else:
            listed.append((one, [3] * len(one)))
    types = ["x".join(map(str, shape)) for _, shape in listed]
    with buffers(*(f"memref<{type_}xf32>" for type_ in types)) as values:
        accesses = [
            Access(value, tuple(forms))
            for value, (forms, _) in zip(values, listed, strict=True)
        ]
        found = mergeable_groups(axes, extents, accesses, apart)
        walked = merge_axes(axes, extents, accesses, apart)

        assert [a for group in found for a in group] == (
            [a for a in axes if extents[a] != 1] or [axes[-1]]
        )
        for access in accesses:
            assert _walk(access, [Axis(a, extents[a]) for a in axes]) == _walk(
                access, walked
            )
        for outer, inner in pairwise(found):
            pair = (outer[-1], inner[0])
            assert {*apart} & {*pair} or not all(
                _goes_on(access, *pair, extents[inner[0]]) for access in accesses
            )


def _walk(access: Access, axes: list[Axis]) -> list[int]:
    """The touched elements, in order."""
    found = []
    for steps in product(*(range(int(str(axis.extent))) for axis in axes)):
        point = [0] * _AXES
        for axis, step in zip(axes, steps, strict=True):
            point[axis.number] = step
        found.append(offset_of(access, point))
    return found


def _goes_on(access: Access, outer: int, inner: int, extent: int) -> bool:
    """Whether the next step of ``outer`` is where ``inner`` would continue."""
    far, near = [0] * _AXES, [0] * _AXES
    far[outer], near[inner] = 1, extent
    return offset_of(access, far) == offset_of(access, near)


def test_row_axes_are_merged() -> None:
    with buffers("memref<2x3x4xf32>", "memref<2x3x4xf32>") as (x, y):
        rows = Access(x, (AffineForm({0: 1}), AffineForm({1: 1}), AffineForm({2: 1})))
        turned = Access(y, (AffineForm({0: 1}), AffineForm({2: 1}), AffineForm({1: 1})))
        extents = (2, 3, 4)

        assert merge_axes([0, 1, 2], extents, [rows]) == [Axis(2, 24)]
        assert mergeable_groups([0, 1, 2], extents, [rows]) == [[0, 1, 2]]
        assert mergeable_groups([0, 1, 2], extents, [rows], apart=[1]) == [
            [0],
            [1],
            [2],
        ]
        assert mergeable_groups([0, 1, 2], extents, [rows], apart=[2]) == [[0, 1], [2]]
        assert mergeable_groups([0, 1, 2], extents, [rows, turned]) == [[0], [1], [2]]
        assert mergeable_groups([1, 2], (2, 1, 1), [rows]) == [[2]]
        assert mergeable_groups([1], (2, 1, 1), [rows]) == [[1]]
        assert mergeable_groups([1], (2, 1, 1), [rows], apart=[1]) == [[1]]
        assert mergeable_groups([1], (2, 3, 1), [rows]) == [[1]]


@pytest.mark.parametrize("is_inner", [True, False])
def test_tiled_indices_are_not_merged(is_inner: bool) -> None:
    with buffers("memref<2x3x4xf32>") as (x,):
        access = Access(
            x, (AffineForm({0: 1}), AffineForm({1: 1}), TiledIndex(2, 4, is_inner))
        )
        assert mergeable_groups([0, 1, 2], (2, 3, 4), [access]) == [[0, 1], [2]]
        part = Access(
            x, (TiledIndex(0, 4, is_inner), AffineForm({1: 1}), AffineForm({2: 1}))
        )
        assert mergeable_groups([0, 1, 2], (2, 3, 4), [part]) == [[0], [1, 2]]


def test_axes_of_dynamic_sizes() -> None:
    with buffers("memref<?x4xf32>", "memref<4x?xf32>", "index") as (x, y, n):
        inside = Access(x, (AffineForm({0: 1}), AffineForm({1: 1})))
        outside = Access(y, (AffineForm({0: 1}), AffineForm({1: 1})))

        ((axis,), group) = merge_axes([0, 1], (n, 4), [inside]), mergeable_groups
        assert axis.number == 1
        assert "%0 = arith.muli %arg2, %c4" in str(axis.extent)
        assert group([0, 1], (4, n), [outside]) == [[0], [1]]
        # An axis of 4 along rows of dynamic length.
        assert group([0, 1], (4, 4), [outside]) == [[0], [1]]

"""Flat offsets of accesses against the elements that they touch."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlir import ir

from relax_mlir.analysis.index_maps import OffsetIndex, TiledIndex
from relax_mlir.schedules.builder import IndexLike, op
from relax_mlir.schedules.flat_buffers import (
    FlatAccess,
    buffer_extents,
    flat_view,
    view_at_offset,
)
from relax_mlir.schedules.kernel_view import Access
from relax_mlir.symbolic.affine_forms import AffineForm
from tests.schedules.kernels import buffers, element_of, number, offset_of, row_major

_forms = st.builds(
    lambda factors, more: AffineForm({a: f for a, f in enumerate(factors) if f}, more),
    st.tuples(*[st.sampled_from([0, 1, 1, 2])] * 3),
    st.integers(0, 2),
)


@settings(max_examples=25)
@given(st.lists(_forms, min_size=3, max_size=3), st.tuples(*[st.integers(1, 4)] * 3))
def test_offsets_are_those_of_elements(
    forms: list[AffineForm[int]], shape: tuple[int, ...]
) -> None:
    with buffers(f"memref<{'x'.join(map(str, shape))}xf32>") as (x,):
        access = Access(x, tuple(forms))
        flat = FlatAccess.of(access)

        assert flat.blocks == {}
        assert str(flat.view.type) == f"memref<{shape[0] * shape[1] * shape[2]}xf32>"
        for point in product(range(3), repeat=3):
            where = offset_of(access, point)
            assert flat.offset(dict(enumerate(point))) == where
        assert flat.offset({}) == flat.constant == offset_of(access, (0, 0, 0))
        for axis in range(3):
            point = [int(a == axis) for a in range(3)]
            assert flat.step(axis) == offset_of(access, point) - flat.constant


def test_offsets_after_a_symbolic_size() -> None:
    with buffers("memref<4x5x6xf32>", "index", "index") as (x, n, m):
        forms = (
            OffsetIndex(AffineForm({0: 2}, 1), n),
            AffineForm({1: 1}, 3),
            OffsetIndex(AffineForm({2: 1}), m),
        )
        flat = FlatAccess.of(Access(x, forms))
        sizes = {n: 7, m: 11}
        for point in ((0, 0, 0), (1, 2, 3)):
            names = {"%arg1": 7, "%arg2": 11}
            places = [element_of(form, point, names) for form in forms]
            where = sum(s * p for s, p in zip((30, 6, 1), places, strict=True))
            assert number(flat.offset(dict(enumerate(point))), sizes) == where


@pytest.mark.parametrize("base", [2, 4])
def test_blocked_layouts(base: int) -> None:
    shape = (3, 5, base)
    with buffers(f"memref<{'x'.join(map(str, shape))}xf32>") as (x,):
        parts = (
            TiledIndex(1, base, is_inner=False),
            AffineForm({0: 1}),
            TiledIndex(1, base, True),
        )
        access = Access(x, parts)
        flat = FlatAccess.of(access)

        assert flat.steps == {0: base}
        for point in product(range(5), range(3 * base)):
            block = point[1] // base
            within = point[1] % base
            there = flat.offset({0: point[0]})
            assert isinstance(there, int)
            blocks: Sequence[IndexLike] = [flat.blocks[1]]
            assert there + block * int(str(blocks[0])) + within == offset_of(
                access, point
            )


def test_dynamic_sizes() -> None:
    with buffers("memref<5x3x7xf32>") as (static,):
        x = op("memref.cast", ir.Type.parse("memref<?x3x?xf32>"), static)
        access = Access(
            x, (AffineForm({0: 1}, 1), AffineForm({1: 1}), AffineForm({2: 1, 0: 2}))
        )
        flat = FlatAccess.of(access)

        assert [number(size, {}) for size in buffer_extents(x)] == [5, 3, 7]
        assert str(flat.view.type) == "memref<?xf32>"
        for point in ((0, 0, 0), (2, 1, 3)):
            places = [element_of(form, point, {}) for form in access.forms]
            strides = row_major([5, 3, 7])
            where = sum(s * p for s, p in zip(strides, places, strict=True))
            assert number(flat.offset(dict(enumerate(point))), {}) == where


def test_views_begin_at_their_first_element() -> None:
    with buffers("memref<4x5xf32>") as (x,):
        whole = flat_view(x)
        assert view_at_offset(whole, 0) == whole
        flat = FlatAccess.of(Access(x, (AffineForm({0: 1}, 1), AffineForm({1: 1}, 2))))
        assert str(flat.begin.type) == "memref<1xf32, strided<[1], offset: 7>>"
        begin = FlatAccess.of(Access(x, (AffineForm({0: 1}), AffineForm({1: 1}))))
        assert begin.begin == begin.view

"""Scheduled PrimFuncs compute the same results."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.tir.schedule import Schedule
from tests.tvm.tir.schedule.evaluate import evaluate
from tests.tvm.tir.schedule.programs import (
    matmul_relu,
    scale_shift,
    strided_sum,
    symbolic,
)


def _inputs(*shapes):
    random = np.random.default_rng(0)
    return [random.integers(-4, 5, shape).astype(np.float64) for shape in shapes]


_SHAPES = {
    "matmul_relu": (matmul_relu, [(6, 5), (5, 4), (6, 4)]),
    "scale_shift": (scale_shift, [(12, 10), (12, 10)]),
    "strided_sum": (strided_sum, [(4, 6), (4,)]),
}


def _split_ragged(s):
    for loop in s.get_loops("C"):
        s.split(loop, [None, 4])


def _fuse_all(s):
    fused = s.fuse(*s.get_loops("D"))
    s.split(fused, [None, 5])


def _tile(s):
    i, j, _ = s.get_loops("C")
    s.tile(s.get_block("C"), i, j, 4, 3)
    s.parallel(s.get_loops("C")[0])


def _compute_at(s):
    i, _ = s.get_loops("D")
    outer, _ = s.split(i, [None, 4])
    s.compute_at("C", outer)


def _reverse_compute_at(s):
    i, j, _ = s.get_loops("C")
    outer, inner = s.split(j, [None, 3])
    s.reorder(outer, i, inner)
    s.reverse_compute_at("D", outer)


def _caches(s):
    i, j, k = s.get_loops("C")
    outer, _ = s.split(k, [None, 2])
    s.reorder(outer, i, j)
    copy = s.cache_read("C", "A", "shared")
    s.compute_at(copy, outer)
    s.cache_write("C", 0, "local")


def _decompose(s):
    _i, j, k = s.get_loops("C")
    s.split(k, [None, 2])
    s.decompose_reduction("C", j)


def _rfactor(s):
    _, _, k = s.get_loops("C")
    outer, _ = s.split(k, [5, None])
    s.rfactor(outer, 1)


def _inline(s):
    s.compute_inline("B")


def _reverse_inline(s):
    s.reverse_compute_inline("C")


def _row_by_row(s):
    fused = s.fuse(*s.get_loops("C"))
    outer, _ = s.split(fused, [None, 7])
    s.compute_at("B", outer)


def _partition(s):
    s.loop_partition(s.get_loops("B")[0], [3, None])


def _swap_axes(s):
    s.reorder_block_iter_var("C", [1, 0])
    s.add_unit_loop(s.get_block("C"))
    s.storage_align("B", 0, 0, 4, 1)


def _strided_rfactor(s):
    i, k = s.get_loops("B")
    outer, inner = s.split(k, [None, 3])
    s.reorder(inner, i, outer)
    s.rfactor(inner, -1)
    s.reverse_compute_at("B", s.get_loops(s.get_block("B_rf"))[0])


def _tiles(s):
    i, j, k = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, 3])
    k_0, k_1 = s.split(k, [1, None])
    s.reorder(i_0, j, k_0, i_1, k_1)
    s.blockize(i_1)


def _two_blocks_in_one(s):
    s.compute_at("B", s.get_loops("C")[0])
    s.blockize([s.get_block("B"), s.get_block("C")])


def _padded_layout(s):
    s.transform_layout("C", "C", lambda i, j: (j // 3, i, j % 3), pad_value=1.0)
    s.transform_block_layout("D", lambda i, j: (i * 4 + j,))


def _layout(s):
    s.split(s.get_loops("B")[0], [None, 5])
    s.transform_layout("C", ("read", 0), lambda i, j: (j // 5, i // 4, j % 5, i % 4))
    s.set_axis_separator("C", "B", [2])


def _reindexed(s):
    s.reindex("C", ("read", 1))
    s.reindex("C", ("write", 0))
    s.reindex_cache_read("C", 0, "shared", lambda i, j, k: (k, i))
    s.reindex_cache_write("D", 0, "local", lambda i, j: (j * 6 + i,))


def _other_elements(s):
    s.unsafe_set_dtype("B", 0, "float64")
    s.set_scope("B", 0, "local")
    s.annotate_buffer_access("C", 0, "read", lambda i, j: ((i, i + 2), j))
    s.unsafe_hide_buffer_access("C", "read", [0])


_CASES = [
    ("matmul_relu", _tiles),
    ("scale_shift", _two_blocks_in_one),
    ("matmul_relu", _padded_layout),
    ("scale_shift", _layout),
    ("matmul_relu", _reindexed),
    ("scale_shift", _other_elements),
    ("matmul_relu", _split_ragged),
    ("matmul_relu", _fuse_all),
    ("matmul_relu", _tile),
    ("matmul_relu", _compute_at),
    ("matmul_relu", _reverse_compute_at),
    ("matmul_relu", _caches),
    ("matmul_relu", _decompose),
    ("matmul_relu", _rfactor),
    ("scale_shift", _inline),
    ("scale_shift", _reverse_inline),
    ("scale_shift", _row_by_row),
    ("scale_shift", _partition),
    ("scale_shift", _swap_axes),
    ("strided_sum", _strided_rfactor),
]


@pytest.mark.parametrize(
    ("name", "apply"), _CASES, ids=lambda c: getattr(c, "__name__", c)
)
def test_primitives_keep_the_values(name, apply):
    program, shapes = _SHAPES[name]
    arrays = _inputs(*shapes)
    schedule = Schedule(program)

    apply(schedule)

    schedule.mod.verify()
    wanted = evaluate(program, *arrays)[-1]
    np.testing.assert_array_equal(evaluate(schedule.mod["main"], *arrays)[-1], wanted)


@pytest.mark.parametrize("n", [1, 5, 8])
def test_split_of_a_size_that_nobody_knows_leaves_out_what_is_too_much(n):
    schedule = Schedule(symbolic)
    outer, _ = schedule.split(schedule.get_loops("B")[1], [None, 4])
    schedule.fuse(schedule.get_loops("B")[0], outer)
    (a,) = _inputs((3, n))

    got = evaluate(schedule.mod["main"], a, np.full((3, n), np.nan), sizes=[n])

    np.testing.assert_array_equal(got[-1], a + 1)


_FACTORS = st.sampled_from([1, 2, 3, 4, 7])


@pytest.mark.slow
@settings(max_examples=60)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["split", "fuse", "reorder", "at", "cache", "reverse"]),
            st.sampled_from(["C", "D"]),
            st.integers(0, 5),
            _FACTORS,
        ),
        max_size=5,
    )
)
def test_any_sequence_of_primitives_keeps_the_values(steps):
    arrays = _inputs((6, 5), (5, 4), (6, 4))
    schedule = Schedule(matmul_relu)

    for step in steps:
        before = str(schedule.state.module)
        try:
            _apply(schedule, *step)
        except ScheduleError:
            assert str(schedule.state.module) == before

    schedule.mod.verify()
    wanted = evaluate(matmul_relu, *arrays)[-1]
    np.testing.assert_array_equal(evaluate(schedule.mod["main"], *arrays)[-1], wanted)


def _apply(schedule, what, block, number, factor):
    loops = schedule.get_loops(block)
    loop = loops[number % len(loops)]
    if what == "split":
        schedule.split(loop, [None, factor])
    elif what == "fuse":
        schedule.fuse(*loops[number % len(loops) :][:2])
    elif what == "reorder":
        schedule.reorder(loops[-1], loop) if loop is not loops[-1] else None
    elif what == "at":
        other = schedule.get_loops("D")
        schedule.compute_at("C", other[number % len(other)])
    elif what == "reverse":
        other = schedule.get_loops("C")
        schedule.reverse_compute_at("D", other[number % len(other)])
    else:
        schedule.cache_read(block, 0, "shared")

"""Blocks whose bodies use loop variables stay in these loops."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir import Schedule
from tests.tvm.tir.schedule.apply import check_schedule


@T.prim_func
def _counts(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6,))
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[vi] = A[vi] * T.Cast("float32", i)
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi] + T.Cast("float32", i)


@T.prim_func
def _sums_from_numbers(A: T.Buffer((6, 5), "float32"), C: T.Buffer((6,), "float32")):
    for i, k in T.grid(6, 5):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.Cast("float32", i)
            C[vi] = C[vi] + A[vi, vk]


@T.prim_func
def _sums_and_numbers(A: T.Buffer((6, 5), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6,))
    for i, k in T.grid(6, 5):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi] + T.Cast("float32", i)


@pytest.mark.parametrize(
    ("before", "apply"),
    [
        (_counts, lambda s: s.compute_inline("B")),
        (_counts, lambda s: s.reverse_compute_inline("C")),
        (_counts, lambda s: s.transform_block_layout("B", lambda i: (i // 2, i % 2))),
        (_sums_from_numbers, lambda s: s.blockize(s.get_loops("B")[0])),
        (
            _sums_from_numbers,
            lambda s: s.decompose_reduction("B", s.get_loops("B")[0]),
        ),
        (_sums_and_numbers, lambda s: s.fuse_reduction_epilogue("B", "C")),
    ],
)
def test_blocks_do_not_leave_loops_whose_variables_they_use(before, apply):
    schedule = Schedule(before)

    with pytest.raises(ScheduleError, match="uses the variable of loop `i` inside"):
        apply(schedule)

    check_schedule(schedule, before)


@pytest.mark.parametrize(
    ("before", "apply"),
    [
        (_sums_from_numbers, lambda s: s.blockize(s.get_loops("B")[1])),
        (
            _sums_from_numbers,
            lambda s: s.decompose_reduction("B", s.get_loops("B")[1]),
        ),
        (
            _counts,
            lambda s: s.transform_layout(
                "B", "B", lambda i: (i // 4, i % 4), pad_value=0.0
            ),
        ),
    ],
)
def test_loops_outside_may_be_used_inside(before, apply):
    schedule = Schedule(before)

    apply(schedule)

    check_schedule(schedule, before)

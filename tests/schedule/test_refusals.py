"""What primitives refuse because it would change what a program computes."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

import numpy as np
import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.script import from_source
from relax_mlir.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tir import Schedule
from tests.schedule.apply import check_schedule
from tests.schedule.evaluate import evaluate
from tests.schedule.programs import scale_shift


@T.prim_func
def _guarded_read(A: T.Buffer((4,), "float32"), C: T.Buffer((5,), "float32")):
    B = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
    for i in range(5):
        with T.block("C"):
            vi = T.axis.spatial(5, i)
            C[vi] = T.if_then_else(vi < 4, B[vi], T.float32(2))


@T.prim_func
def _open_sizes(a: T.handle, c: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,))
    C = T.match_buffer(c, (n,))
    B = T.alloc_buffer((n,))
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi] * 2.0
    for i in range(n):
        with T.block("C"):
            vi = T.axis.spatial(n, i)
            C[vi] = B[vi] + 1.0


@T.prim_func
def _gather(
    A: T.Buffer((8,), "float32"),
    P: T.Buffer((8,), "int32"),
    B: T.Buffer((8,)),
):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[P[vi]]


def test_consumers_keep_points_that_read_nothing() -> None:
    schedule = Schedule(_guarded_read)
    loop = schedule.get_loops("B")[0]

    with pytest.raises(ScheduleError, match="axis 0 of block `C` goes from 0 to 4"):
        schedule.reverse_compute_at("C", loop)


def test_loops_of_open_sizes_merge() -> None:
    schedule = Schedule(_open_sizes)
    loops = [schedule.get_loops(name)[0] for name in ("B", "C")]

    schedule.merge(*loops)

    a = np.arange(5.0)
    got = evaluate(schedule.mod["main"], a, np.zeros(5), sizes=[5])[-1]
    np.testing.assert_array_equal(got, 2 * a + 1)


def test_said_regions_stay_beside_those_that_memory_chooses() -> None:
    schedule = Schedule(_gather)

    schedule.annotate_buffer_access("B", 1, "read", lambda vi: [(0, 8)])

    script = schedule.mod["main"].script()
    assert "P[0:8]" in script
    assert "P[0:8]" in from_source(script).script()


def test_said_boxes_have_the_rank_of_the_buffer() -> None:
    schedule = Schedule(scale_shift)
    schedule.transform_block_layout("B", "lambda i, j: (i * 10 + j,)")

    with pytest.raises(ScheduleError, match="has 2 dimensions"):
        schedule.annotate_buffer_access("B", 0, "read", lambda v: [(0, 12)])


def test_refused_tiles_leave_loops_alone() -> None:
    schedule = Schedule(scale_shift)
    first, second = schedule.get_loops("B")[0], schedule.get_loops("C")[0]
    before, calls = str(schedule.mod), len(schedule.trace.insts)

    with pytest.raises(ScheduleError, match="reorder"):
        schedule.tile("B", first, second, 2, 2)

    assert str(schedule.mod) == before
    assert len(schedule.trace.insts) == calls
    schedule.split(first, [None, 5])
    check_schedule(schedule, scale_shift)


@T.prim_func
def _repeated_sums(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i, _j, k in T.grid(4, 3, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


def test_loops_that_repeat_a_sum_stay_outside_of_it() -> None:
    schedule = Schedule(_repeated_sums)
    _, j, k = schedule.get_loops("B")

    with pytest.raises(ScheduleError, match="loop `_j` repeats block `B`"):
        schedule.reorder(k, j)


@T.prim_func
def _running_sums(A: T.Buffer((6,), "float32"), B: T.Buffer((6,), "float32")):
    for i in range(6):
        with T.block("B"):
            vi = T.axis.opaque(6, i)
            B[vi] = T.if_then_else(vi > 0, B[vi - 1], T.float32(0)) + A[vi]


def test_points_in_order_keep_it() -> None:
    schedule = Schedule(_running_sums)

    with pytest.raises(ScheduleError, match="expected spatial and reduce axes"):
        schedule.transform_block_layout("B", "lambda i: (i % 2, i // 2)")


def test_said_boxes_do_not_hold_in_another_layout() -> None:
    schedule = Schedule(scale_shift)
    schedule.annotate_buffer_access("C", 0, "read", lambda i, j: [(0, 12), (0, 10)])
    assert "T.reads(B[0:12, 0:10])" in schedule.mod["main"].script()

    schedule.transform_layout("B", ("write", 0), lambda i, j: (i, j // 5, j % 5))

    assert "T.reads(B[vi, vj // 5, vj % 5])" in schedule.mod["main"].script()
    check_schedule(schedule, scale_shift)

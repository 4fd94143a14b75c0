"""Rejections of primitives that would change results."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

import numpy as np
import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir import Schedule
from tests.tvm.tir.schedule.apply import check_schedule
from tests.tvm.tir.schedule.evaluate import evaluate
from tests.tvm.tir.schedule.programs import scale_shift


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
def _padded(A: T.Buffer((4,), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = T.if_then_else(vi >= 2, B[vi - 2], T.float32(0))


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

    with pytest.raises(ScheduleError, match="may not write all that it reads"):
        schedule.reverse_compute_at("C", loop)


def test_empty_regions_are_not_cached() -> None:
    schedule = Schedule(_padded)
    schedule.loop_partition(schedule.get_loops("C")[0], [2])
    before = schedule.mod.script()

    with pytest.raises(ScheduleError, match="no element of `B` is accessed"):
        schedule.cache_read("C_i0", 0, "global")

    assert schedule.mod.script() == before


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

    with pytest.raises(ScheduleError, match="expected spatial and reduce ones"):
        schedule.transform_block_layout("B", "lambda i: (i % 2, i // 2)")


def test_said_boxes_do_not_hold_in_another_layout() -> None:
    schedule = Schedule(scale_shift)
    schedule.annotate_buffer_access("C", 0, "read", lambda i, j: [(0, 12), (0, 10)])
    assert "T.reads(B[0:12, 0:10])" in schedule.mod["main"].script()

    schedule.transform_layout("B", ("write", 0), lambda i, j: (i, j // 5, j % 5))

    assert "T.reads(B[vi, vj // 5, vj % 5])" in schedule.mod["main"].script()
    check_schedule(schedule, scale_shift)


@T.prim_func
def _doubled_sums(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6,))
    for i in range(6):
        with T.block("B"):
            vi = T.axis.opaque(6, i)
            B[vi] = T.if_then_else(vi > 0, B[vi - 1], T.float32(0)) + A[vi]
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi] * 2.0


def test_what_a_block_before_reads_in_the_next_step_is_kept() -> None:
    schedule = Schedule(_doubled_sums)
    schedule.cache_inplace("B", 0, "global")

    with pytest.raises(ScheduleError, match="reads `B`, too"):
        schedule.reverse_compute_inline("C")

    check_schedule(schedule, _doubled_sums)


@T.prim_func
def _overwritten(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6,))
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[vi] = A[vi] * 2.0
    for i in range(6):
        with T.block("A"):
            vi = T.axis.spatial(6, i)
            A[vi] = C[vi]
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[5 - vi]


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (
            lambda s: s.compute_inline("B"),
            "block `B` reads `A` before block `A` writes it",
        ),
        (
            lambda s: s.reverse_compute_inline("C"),
            "block `A` reads `C` before block `C` writes it",
        ),
    ],
)
def test_blocks_stay_before_what_they_read_is_written(apply, message) -> None:
    schedule = Schedule(_overwritten)

    with pytest.raises(ScheduleError, match=message):
        apply(schedule)

    check_schedule(schedule, _overwritten)


@T.prim_func
def _reversed_in_place(A: T.Buffer((6,), "float32"), X: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6,))
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[vi] = A[vi] * 2.0
    for i in range(6):
        with T.block("A"):
            vi = T.axis.spatial(6, i)
            A[vi] = B[5 - vi]
    for i in range(6):
        with T.block("X"):
            vi = T.axis.spatial(6, i)
            X[vi] = A[vi]
    for i in range(6):
        with T.block("later"):
            vi = T.axis.spatial(6, i)
            A[vi] = 0.0


def test_a_consumer_does_not_overwrite_what_it_then_reads() -> None:
    schedule = Schedule(_reversed_in_place)

    with pytest.raises(ScheduleError, match="`B` reads `A` before block `A` writes"):
        schedule.compute_inline("B")

    check_schedule(schedule, _reversed_in_place)


def test_what_is_written_behind_the_consumers_stays_where_it_is() -> None:
    @T.prim_func
    def cleared(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
        B = T.alloc_buffer((6,))
        for i in range(6):
            with T.block("B"):
                vi = T.axis.spatial(6, i)
                B[vi] = A[vi] * 2.0
        for i in range(6):
            with T.block("C"):
                vi = T.axis.spatial(6, i)
                C[vi] = B[5 - vi]
        for i in range(6):
            with T.block("A"):
                vi = T.axis.spatial(6, i)
                A[vi] = 0.0

    schedule = Schedule(cleared)
    schedule.compute_inline("B")
    check_schedule(schedule, cleared)


@T.prim_func
def _read_outside(
    A: T.Buffer((2, 6), "float32"),
    C: T.Buffer((2, 6), "float32"),
    D: T.Buffer((2, 6), "float32"),
):
    B = T.alloc_buffer((2, 6))
    for i in range(2):
        with T.block("rows"):
            vi = T.axis.spatial(2, i)
            for j in range(6):
                with T.block("B"):
                    vj = T.axis.spatial(6, j)
                    B[vi, vj] = A[vi, vj] * 2.0
            for j in range(6):
                with T.block("C"):
                    vj = T.axis.spatial(6, j)
                    C[vi, vj] = B[vi, vj] + 1.0
    for i, j in T.grid(2, 6):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj]


def test_what_blocks_of_other_scopes_read_is_kept() -> None:
    schedule = Schedule(_read_outside)

    with pytest.raises(ScheduleError, match="block `D` reads `B`, too"):
        schedule.reverse_compute_inline("C")

    check_schedule(schedule, _read_outside)

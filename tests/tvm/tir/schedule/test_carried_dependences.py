"""Primitives reject loop-carried dependences between blocks and within one, and nothing else."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

from collections.abc import Callable

import numpy as np
import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir import Schedule
from tests.tvm.tir.schedule.apply import check_schedule
from tests.tvm.tir.schedule.evaluate import interpret

Steps = Callable[[Schedule], object]


def _parallel(name: str, number: int = 0) -> Steps:
    return lambda s: s.parallel(s.get_loops(name)[number])


def _bind(name: str, thread: str, number: int = 0) -> Steps:
    return lambda s: s.bind(s.get_loops(name)[number], thread)


def _reverse(name: str) -> Steps:
    return lambda s: s.reorder(*s.get_loops(name)[::-1])


def _split_and_reverse(name: str) -> Steps:
    return lambda s: s.reorder(*s.split(s.get_loops(name)[0], [2, None])[::-1])


def _decompose(name: str, number: int = 0) -> Steps:
    return lambda s: s.decompose_reduction(name, s.get_loops(name)[number])


@T.prim_func
def written_in_the_first_step(
    X: T.Buffer((6,), "float32"), C: T.Buffer((4, 6), "float32")
):
    A = T.alloc_buffer((6,))
    for i in range(4):
        for j in range(6):
            with T.block("A"):
                vj = T.axis.spatial(6, j)
                T.where(i < 1)
                A[vj] = X[vj]
        for j in range(6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vj]


@T.prim_func
def written_with_gaps(X: T.Buffer((6,), "float32"), C: T.Buffer((4, 3), "float32")):
    A = T.alloc_buffer((12,))
    for i in range(4):
        for j in range(3):
            with T.block("A"):
                vj = T.axis.spatial(3, j)
                A[vj * 2] = X[vj]
        for j in range(3):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vj + 1]


@T.prim_func
def start_of_the_one_before(
    A: T.Buffer((8, 4), "float32"), C: T.Buffer((8,), "float32")
):
    for i, k in T.grid(8, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.if_then_else(vi > 0, C[vi - 1], T.float32(0))
            C[vi] = C[vi] + A[vi, vk]


@T.prim_func
def own_start_of_the_one_before(
    A: T.Buffer((8, 4), "float32"), C: T.Buffer((8,), "float32")
):
    S = T.alloc_buffer((8,))
    for i in range(8):
        for k in range(4):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = T.if_then_else(vi > 0, S[vi - 1], T.float32(0))
                S[vi] = S[vi] + A[vi, vk]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = S[vi]


@T.prim_func
def product_with_the_one_before(
    A: T.Buffer((8, 4), "float32"), C: T.Buffer((8,), "float32")
):
    for i, k in T.grid(8, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(1)
            C[vi] = C[vi] + A[vi, vk] * T.if_then_else(vi > 0, C[vi - 1], T.float32(1))


@T.prim_func
def moved_in_place(X: T.Buffer((9,), "float32")):
    for i in range(8):
        with T.block("X"):
            vi = T.axis.spatial(8, i)
            X[vi] = X[vi + 1] + 1.0


@T.prim_func
def last_of_diagonals(X: T.Buffer((5, 4), "float32"), C: T.Buffer((8,), "float32")):
    for i, j in T.grid(5, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi + vj] = X[vi, vj]


@T.prim_func
def last_of_rows(X: T.Buffer((5, 4), "float32"), C: T.Buffer((4,), "float32")):
    for i, j in T.grid(5, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vj] = X[vi, vj]


@T.prim_func
def written_in_the_next_step(
    X: T.Buffer((8,), "float32"),
    B: T.Buffer((9,), "float32"),
    C: T.Buffer((8,), "float32"),
):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = X[vi]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi + 1]


@T.prim_func
def sums_of_one_buffer_in_rounds(
    X: T.Buffer((4, 3), "float32"), C: T.Buffer((5, 3), "float32")
):
    S = T.alloc_buffer((3,))
    for k in range(4):
        for i in range(5):
            for j in range(3):
                with T.block("S"):
                    vj, vk = T.axis.remap("SR", [j, k])
                    with T.init():
                        S[vj] = 0.0
                    S[vj] = S[vj] + X[vk, vj]
            for j in range(3):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = S[vj]


@T.prim_func
def both_ways(X: T.Buffer((4,), "float32"), C: T.Buffer((3, 4, 4), "float32")):
    A = T.alloc_buffer((4, 4))
    for t in range(3):
        for i, j in T.grid(4, 4):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = X[vi]
                A[vj, vi] = X[vj] * 2.0
        for i, j in T.grid(4, 4):
            with T.block("C"):
                vt, vi, vj = T.axis.remap("SSS", [t, i, j])
                C[vt, vi, vj] = A[vi, vj]


_CONDITION = """
@T.prim_func
def main(X: T.Buffer((8,), "float32"), Z: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        {condition}
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = X[vi] * 2.0
        with T.block("Z"):
            vi = T.axis.spatial(8, i)
            Z[7 - vi] = 1.0
"""
decided_by_steps = from_source(_CONDITION.format(condition="if Z[i] > 0.0:"))
decided_by_none = from_source(_CONDITION.format(condition="if X[i] > 0.0:"))


@pytest.mark.parametrize(
    ("before", "apply"),
    [
        (written_in_the_first_step, _parallel("C")),
        (written_in_the_first_step, _bind("C", "blockIdx.x")),
        (written_with_gaps, _parallel("C")),
        (start_of_the_one_before, _parallel("C")),
        (start_of_the_one_before, _bind("C", "threadIdx.x")),
        (own_start_of_the_one_before, _parallel("S")),
        (start_of_the_one_before, _reverse("C")),
        (product_with_the_one_before, _parallel("C")),
        (product_with_the_one_before, _reverse("C")),
        (
            start_of_the_one_before,
            lambda s: s.transform_block_layout("C", lambda i, k: (k, i)),
        ),
        (
            moved_in_place,
            lambda s: s.transform_block_layout("X", lambda i: (i % 4, i // 4)),
        ),
        (moved_in_place, _split_and_reverse("X")),
        (last_of_diagonals, _reverse("C")),
        (last_of_diagonals, _parallel("C")),
        (last_of_rows, _parallel("C")),
        (last_of_rows, lambda s: s.vectorize(s.get_loops("C")[0])),
        (written_in_the_next_step, _bind("B", "threadIdx.x")),
        (written_in_the_next_step, _parallel("B")),
        (sums_of_one_buffer_in_rounds, _parallel("S", 1)),
        (both_ways, _parallel("A")),
        (decided_by_steps, _parallel("C")),
        (decided_by_steps, _split_and_reverse("C")),
        (decided_by_steps, _split_and_reverse("Z")),
    ],
)
def test_loops_that_carry_a_dependence_keep_the_order_of_their_steps(before, apply):
    schedule = Schedule(before)

    with pytest.raises(
        ScheduleError, match=r"in another iteration of loop `\w+`: expected"
    ):
        apply(schedule)


@T.prim_func
def halves_in_turn(X: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i, j in T.grid(2, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vj] = X[vj] * T.Cast("float32", vi)


@T.prim_func
def doubled_in_place(X: T.Buffer((4, 6), "float32")):
    for i, j in T.grid(4, 6):
        with T.block("X"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi, vj] = X[vi, vj] * 2.0


@T.prim_func
def mirrored(X: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, 5 - vj] = X[vi, vj]


@T.prim_func
def rows_of_steps(X: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    A = T.alloc_buffer((4, 6))
    for i in range(4):
        for j in range(6):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = X[vi, vj]
        for j in range(6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, 5 - vj]


@T.prim_func
def tiles_that_overlap(X: T.Buffer((10,), "float32"), C: T.Buffer((8,), "float32")):
    A = T.alloc_buffer((10,))
    for i in range(3):
        for j in range(5):
            with T.block("A"):
                vi = T.axis.spatial(10, i * 3 + j)
                T.where(i * 3 + j < 10)
                A[vi] = X[vi]
        for j in range(3):
            with T.block("C"):
                vi = T.axis.spatial(8, i * 3 + j)
                T.where(i * 3 + j < 8)
                C[vi] = A[vi] + A[vi + 2]


@T.prim_func
def element_of_a_thread(X: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    A = T.alloc_buffer((1,), scope="local")
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[0] = X[vi]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[0] * 2.0


def _fuse_and_split(schedule):
    loop = schedule.fuse(*schedule.get_loops("C"))
    outer, inner = schedule.split(loop, [None, 5])
    schedule.bind(outer, "blockIdx.x")
    schedule.bind(inner, "threadIdx.x")


@pytest.mark.parametrize(
    ("before", "apply"),
    [
        (halves_in_turn, _reverse("C")),
        (halves_in_turn, _parallel("C", 1)),
        (doubled_in_place, _reverse("X")),
        (mirrored, _fuse_and_split),
        (rows_of_steps, _parallel("C")),
        (rows_of_steps, _bind("C", "threadIdx.x")),
        (tiles_that_overlap, _parallel("C")),
        (tiles_that_overlap, _bind("C", "threadIdx.x")),
        (element_of_a_thread, _bind("C", "threadIdx.x")),
        (element_of_a_thread, _bind("C", "blockIdx.x")),
        (decided_by_none, _parallel("C")),
    ],
)
def test_steps_with_elements_of_their_own_take_any_order(before, apply):
    schedule = Schedule(before)

    apply(schedule)

    check_schedule(schedule, before)


@pytest.mark.parametrize(
    ("scope", "thread"),
    [("global", "threadIdx.x"), ("shared", "threadIdx.x"), ("global", "blockIdx.x")],
)
def test_elements_that_threads_share_are_not_those_of_one(scope, thread):
    text = element_of_a_thread.script().replace('scope="local"', f'scope="{scope}"')
    schedule = Schedule(from_source(text))

    with pytest.raises(
        ScheduleError, match="`A` that block `A` writes in another iteration"
    ):
        schedule.bind(schedule.get_loops("C")[0], thread)


# Blocks that are computed elsewhere.


@T.prim_func
def behind_by_one(X: T.Buffer((4, 8), "float32"), C: T.Buffer((8,), "float32")):
    A = T.alloc_buffer((8,))
    B = T.alloc_buffer((8,))
    for t in range(4):
        for i in range(8):
            with T.block("A"):
                vt, vi = T.axis.remap("SS", [t, i])
                A[vi] = X[vt, vi]
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = T.if_then_else(vi < 7, A[vi + 1], T.float32(0)) * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]


@T.prim_func
def mirrored_in_rounds(X: T.Buffer((4, 8), "float32"), C: T.Buffer((8,), "float32")):
    A = T.alloc_buffer((8,))
    B = T.alloc_buffer((8,))
    for t in range(4):
        for i in range(8):
            with T.block("A"):
                vt, vi = T.axis.remap("SS", [t, i])
                A[vi] = X[vt, vi]
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[7 - vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]


@T.prim_func
def of_the_round_before(X: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    A = T.alloc_buffer((8,))
    B = T.alloc_buffer((9,))
    for i in range(8):
        with T.block("Z"):
            vi = T.axis.spatial(8, i)
            C[0, vi] = 0.0
    for t in range(4):
        for i in range(8):
            with T.block("A"):
                vt, vi = T.axis.remap("SS", [t, i])
                A[vi] = X[vt, vi]
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * 2.0
            with T.block("C"):
                vt, vi = T.axis.remap("SS", [t, i])
                C[vt, vi] = T.if_then_else(vt > 0 and vi < 7, B[vi + 1], T.float32(0))


@T.prim_func
def of_the_same_round(X: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    A = T.alloc_buffer((8,))
    B = T.alloc_buffer((8,))
    for t in range(4):
        for i in range(8):
            with T.block("A"):
                vt, vi = T.axis.remap("SS", [t, i])
                A[vi] = X[vt, vi]
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[7 - vi] * 2.0
        for i in range(8):
            with T.block("C"):
                vt, vi = T.axis.remap("SS", [t, i])
                C[vt, vi] = B[vi]


@T.prim_func
def read_before_it_is_written(
    A: T.Buffer((8,), "float32"),
    C: T.Buffer((9,), "float32"),
    D: T.Buffer((8,), "float32"),
):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + 1.0
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = C[vi + 1]


@T.prim_func
def read_after_it_is_written(
    A: T.Buffer((8,), "float32"),
    C: T.Buffer((9,), "float32"),
    D: T.Buffer((8,), "float32"),
):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + 1.0
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = C[vi]


_DECIDED = """
@T.prim_func
def main(X: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = X[vi] * 2.0
    for i in range(8):
        if {decider}[i] > 0.0:
            with T.block("D"):
                vi = T.axis.spatial(8, i)
                D[vi] = {value}
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
"""
deciding = from_source(_DECIDED.format(decider="B", value="1.0"))
deciding_later = from_source(_DECIDED.format(decider="C", value="1.0"))


def _move_b(schedule):
    schedule.compute_at("B", schedule.get_loops("C")[0])


def _move_into_the_same_round(schedule):
    schedule.compute_at("B", schedule.get_loops("C")[1])


def _move_c(schedule):
    schedule.reverse_compute_at("C", schedule.get_loops("B")[0])


@pytest.mark.parametrize(
    ("before", "apply", "message"),
    [
        (behind_by_one, lambda s: s.compute_inline("B"), "`A` may overwrite `A`"),
        (mirrored_in_rounds, lambda s: s.compute_inline("B"), "`A` may overwrite `A`"),
        (mirrored_in_rounds, _move_b, "`A` may overwrite `A`"),
        (of_the_round_before, lambda s: s.compute_inline("B"), "may overwrite `A`"),
        (
            read_before_it_is_written,
            lambda s: s.reverse_compute_inline("C"),
            "`D` accesses `C` in iterations of loop `i` before block `C` does",
        ),
        (
            read_before_it_is_written,
            _move_c,
            "`D` accesses `C` in iterations of loop `i` before block `C` does",
        ),
        (
            deciding,
            lambda s: s.cache_write("B", 0, "global"),
            "a predicate or a bound reads `B`, which block `B` writes",
        ),
        (
            deciding,
            lambda s: s.reindex_cache_write("B", 0, "global", lambda i: (i,)),
            "a predicate or a bound reads `B`, which block `B` writes",
        ),
        (deciding, _move_b, "a predicate or a bound reads `B`, which block `B` writes"),
        (deciding_later, _move_c, "`D` reads `C` before block `C` writes it"),
        (
            deciding_later,
            lambda s: s.reverse_compute_inline("C"),
            "`D` reads `C` before block `C` writes it",
        ),
    ],
)
def test_blocks_stay_where_they_see_other_values_elsewhere(before, apply, message):
    schedule = Schedule(before)

    with pytest.raises(ScheduleError, match=message):
        apply(schedule)


@pytest.mark.parametrize(
    ("before", "apply"),
    [
        (of_the_same_round, lambda s: s.compute_inline("B")),
        (of_the_same_round, _move_into_the_same_round),
        (read_after_it_is_written, lambda s: s.reverse_compute_inline("C")),
        (read_after_it_is_written, _move_c),
        (deciding, lambda s: s.compute_inline("B")),
    ],
)
def test_blocks_are_computed_elsewhere_where_nobody_sees_it(before, apply):
    schedule = Schedule(before)

    apply(schedule)

    check_schedule(schedule, before)


@T.prim_func
def of_one_round_each(
    X: T.Buffer((4,), "float32"),
    Y: T.Buffer((8,), "float32"),
    C: T.Buffer((2, 4), "float32"),
):
    for t in range(2):
        for i in range(4):
            with T.block("Y"):
                vt, vi = T.axis.remap("SS", [t, i])
                Y[vi * 2 + vt] = X[vi]
        for i in range(4):
            with T.block("C"):
                vt, vi = T.axis.remap("SS", [t, i])
                C[vt, vi] = Y[vi * 2 + 1]


def test_blocks_are_not_computed_again_of_other_values():
    schedule = Schedule(of_one_round_each)

    with pytest.raises(
        ScheduleError, match="`Y` overwrites `Y` in each iteration of loop `t`"
    ):
        schedule.reverse_compute_at("C", schedule.get_loops("Y")[1])


@T.prim_func
def every_other_element(
    X: T.Buffer((4,), "float32"),
    B: T.Buffer((7,), "float32"),
    C: T.Buffer((7,), "float32"),
):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi * 2] = X[vi]
    for i in range(7):
        with T.block("C"):
            vi = T.axis.spatial(7, i)
            C[vi] = B[vi] * 2.0


@T.prim_func
def copied_in_each_round(
    X: T.Buffer((4,), "float32"),
    Y: T.Buffer((8,), "float32"),
    D: T.Buffer((2, 8), "float32"),
):
    C = T.alloc_buffer((8,))
    for t in range(2):
        for i in range(4):
            with T.block("B"):
                vt, vi = T.axis.remap("SS", [t, i])
                Y[vi * 2 + vt] = X[vi]
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = Y[vi]
        for i in range(8):
            with T.block("D"):
                vt, vi = T.axis.remap("SS", [t, i])
                D[vt, vi] = C[vi]


@pytest.mark.parametrize(
    ("before", "apply", "message"),
    [
        (
            of_one_round_each,
            lambda s: s.reverse_compute_at("Y", s.get_loops("C")[1]),
            "`C` accesses `Y` in iterations of loop `t` before block `Y` does",
        ),
        (
            every_other_element,
            _move_c,
            "may not write all that it reads in an iteration of",
        ),
        (
            copied_in_each_round,
            lambda s: s.reverse_compute_at("C", s.get_loops("B")[1]),
            "may not write all that it reads in an iteration of loop `t`",
        ),
    ],
)
def test_moved_consumers_keep_their_iteration_domain_and_order(before, apply, message):
    schedule = Schedule(before)

    with pytest.raises(ScheduleError, match=message):
        apply(schedule)


@T.prim_func
def one_after_the_other(X: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    B = T.alloc_buffer((4, 8))
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = X[vi, vj] * 2.0
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


def _fused(schedule, name):
    return schedule.fuse(*schedule.get_loops(name))


@pytest.mark.parametrize(
    ("of_producer", "of_consumer"),
    [
        (_fused, None),
        (lambda s, n: s.split(_fused(s, n), [None, 5])[0], None),
        (lambda s, n: s.split(s.get_loops(n)[1], [None, 3])[0], None),
        (
            lambda s, n: s.get_loops(n)[0],
            lambda s, n: s.split(_fused(s, n), [None, 5]),
        ),
        (
            lambda s, n: s.split(s.get_loops(n)[1], [None, 5])[0],
            lambda s, n: s.split(s.get_loops(n)[0], [None, 3]),
        ),
    ],
)
def test_consumers_move_under_non_divisible_splits(of_producer, of_consumer):
    schedule = Schedule(one_after_the_other)
    if of_consumer is not None:
        of_consumer(schedule, "C")

    schedule.reverse_compute_at("C", of_producer(schedule, "B"))

    check_schedule(schedule, one_after_the_other)


@T.prim_func
def rounds_of_rows(
    X: T.Buffer((4, 3), "float32"),
    C: T.Buffer((5,), "float32"),
    D: T.Buffer((3,), "float32"),
):
    B = T.alloc_buffer((4, 3))
    for t, i in T.grid(4, 3):
        for p, q in T.grid(4, 3):
            with T.block("B"):
                vp, vq = T.axis.remap("SS", [p, q])
                B[vp, vq] = X[vp, vq] * 2.0
        with T.block("C"):
            vt, vi = T.axis.remap("SS", [t, i])
            C[vi] = B[vt, vi]
        with T.block("D"):
            vi = T.axis.spatial(3, i)
            D[vi] = C[vi + 1]


@T.prim_func
def diagonals_of_products(X: T.Buffer((4, 3), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((4, 3))
    for j, i in T.grid(3, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = X[vi, vj] * 2.0
    for i, j in T.grid(4, 3):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi + vj] = B[vi, vj]


@T.prim_func
def sums_that_go_on(X: T.Buffer((8, 3), "float32"), D: T.Buffer((8,), "float32")):
    C = T.alloc_buffer((8,))
    for i, k in T.grid(8, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.if_then_else(vi > 0, C[vi - 1], T.float32(0))
            C[vi] = C[vi] + X[vi, vk]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = C[7 - vi]


def test_instances_that_read_one_another_are_not_reordered():
    schedule = Schedule(sums_that_go_on)

    with pytest.raises(ScheduleError, match="or read what another one writes"):
        schedule.compute_at("C", schedule.get_loops("D")[0])


@pytest.mark.parametrize("before", [rounds_of_rows, diagonals_of_products])
@pytest.mark.parametrize(
    "apply",
    [
        lambda s: s.reverse_compute_inline("C"),
        lambda s: s.reverse_compute_at("C", s.get_loops("B")[-1]),
    ],
)
def test_elements_that_points_share_are_written_in_order(before, apply):
    schedule = Schedule(before)

    with pytest.raises(
        ScheduleError, match="several instances of block `C` may write the"
    ):
        apply(schedule)


_TIED = """
@T.prim_func
def main(
    X: T.Buffer((3,), "float32"), C: T.Buffer((4,), "float32"),
    D: T.Buffer((3,), "float32"),
):
    B = T.alloc_buffer((3,))
    for t in range(3):
        for i in range({steps}):
            with T.block("B"):
                vi = T.axis.spatial(3, {axis})
                B[vi] = X[vi] * 2.0
        with T.block("C"):
            vi = T.axis.spatial(3, t)
            C[vi] = B[vi]
        with T.block("D"):
            vi = T.axis.spatial(3, t)
            D[vi] = C[vi + 1]
"""


def test_a_producer_of_all_steps_computes_none_of_them_before():
    all_steps = _TIED.format(steps=3, axis="i")
    schedule = Schedule(from_source(all_steps))

    with pytest.raises(
        ScheduleError, match="`D` accesses `C` in iterations of loop `t`"
    ):
        schedule.reverse_compute_inline("C")

    one_step = from_source(_TIED.format(steps=1, axis="t"))
    schedule = Schedule(one_step)
    schedule.reverse_compute_inline("C")
    check_schedule(schedule, one_step)


@pytest.mark.parametrize(
    ("before", "apply"),
    [
        (of_one_round_each, lambda s: s.cache_write("Y", 0, "global")),
        (decided_by_none, lambda s: s.cache_write("C", 0, "global")),
        (decided_by_none, lambda s: s.write_at(s.get_loops("C")[0], "C", 0, "local")),
        (
            decided_by_none,
            lambda s: s.reindex_cache_write("C", 0, "local", lambda i: (i,)),
        ),
    ],
)
def test_elements_that_a_step_leaves_out_are_not_copied_back(before, apply):
    schedule = Schedule(before)

    with pytest.raises(ScheduleError, match="may leave out elements"):
        apply(schedule)


@T.prim_func
def places_of_maxima(
    X: T.Buffer((3, 8), "float32"),
    P: T.Buffer((3,), "int32"),
    M: T.Buffer((3,), "float32"),
):
    for i, k in T.grid(3, 8):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                P[vi] = -1
                M[vi] = T.min_value("float32")
            place: T.int32 = T.Select(M[vi] >= X[vi, vk], P[vi], vk)
            top: T.float32 = T.Select(M[vi] >= X[vi, vk], M[vi], X[vi, vk])
            P[vi] = place
            M[vi] = top


_REPEATED_SUMS = """
@T.prim_func
def main(X: T.Buffer((4, 3), "float32"), C: T.Buffer((2, 4), "float32"), D: T.Buffer((4,), "float32")):
    A = T.alloc_buffer((4,), scope="{scope}")
    for i in range(2):
        for j, k in T.grid(4, 3):
            with T.block("A"):
                vj, vk = T.axis.remap("SR", [j, k])
                with T.init():
                    A[vj] = 0.0
                A[vj] = A[vj] + X[vj, vk]
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vj]
    for j in range(4):
        with T.block("D"):
            vj = T.axis.spatial(4, j)
            D[vj] = {last}
"""


@pytest.mark.parametrize(
    ("scope", "last", "apply"),
    [
        ("global", "A[vj]", _parallel("C")),
        ("global", "A[vj]", lambda s: s.vectorize(s.get_loops("C")[0])),
        *(
            (scope, "0.0", _bind("C", thread))
            for scope, thread in [
                ("global", "threadIdx.x"),
                ("shared", "threadIdx.x"),
                ("global", "blockIdx.x"),
                ("global", "vthread"),
                ("shared", "vthread"),
            ]
        ),
    ],
)
def test_concurrent_iterations_share_no_partial_sums(scope, last, apply):
    schedule = Schedule(from_source(_REPEATED_SUMS.format(scope=scope, last=last)))

    with pytest.raises(
        ScheduleError, match="that block `A` writes in another iteration"
    ):
        apply(schedule)


_WRITTEN_ONCE = """
@T.prim_func
def main(X: T.Buffer((6,), "float32"), C: T.Buffer((3, 6), "float32")):
    A = T.alloc_buffer((6,), scope="{scope}")
    for i in range(3):
        for j in range(6):
            with T.block("A"):
                vj = T.axis.spatial(6, j)
                T.where(i < 1)
                A[vj] = X[vj] * 2.0
        for j in range(6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vj]
"""


@T.prim_func
def sums_that_continue(X: T.Buffer((7, 6), "float32"), C: T.Buffer((7,), "float32")):
    A = T.alloc_buffer((7,), scope="local")
    for i in range(7):
        for k in range(6):
            with T.block("A"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    A[vi] = T.if_then_else(vi > 0, A[vi - 1], T.float32(0))
                A[vi] = A[vi] + X[vi, vk]
        with T.block("C"):
            vi = T.axis.spatial(7, i)
            C[vi] = A[vi]


def test_sums_of_a_thread_begin_with_no_sum_of_another():
    schedule = Schedule(sums_that_continue)

    with pytest.raises(
        ScheduleError, match="that block `A` writes in another iteration"
    ):
        _bind("C", "threadIdx.x")(schedule)


def test_threads_read_no_registers_of_one_another():
    local = Schedule(from_source(_WRITTEN_ONCE.format(scope="local")))
    with pytest.raises(
        ScheduleError, match="that block `A` writes in another iteration"
    ):
        _bind("C", "threadIdx.x")(local)

    shared = Schedule(from_source(_WRITTEN_ONCE.format(scope="shared")))
    _bind("C", "threadIdx.x")(shared)


@pytest.mark.parametrize(
    ("scope", "apply"),
    [
        ("global", _parallel("C")),
        ("local", _bind("C", "threadIdx.x")),
        ("local", _bind("C", "vthread")),
        ("local", _bind("C", "blockIdx.x")),
        ("shared", _bind("C", "blockIdx.x")),
    ],
)
def test_concurrent_iterations_have_partial_sums_of_their_own(scope, apply):
    before = from_source(_REPEATED_SUMS.format(scope=scope, last="0.0"))
    schedule = Schedule(before)
    apply(schedule)
    program = schedule.mod["main"]
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    arrays = x, np.zeros((2, 4), np.float32), np.zeros(4, np.float32)

    for order in ("backwards", "lockstep"):
        _, c, _ = interpret(program, *arrays, order=order).arrays
        np.testing.assert_array_equal(c, np.broadcast_to(x.sum(1), (2, 4)))


def test_the_first_of_equal_maxima_counts():
    schedule = Schedule(places_of_maxima)
    _, k = schedule.get_loops("M")
    outer, inner = schedule.split(k, [2, None])

    with pytest.raises(
        ScheduleError, match="that block `M` writes in another iteration"
    ):
        schedule.reorder(inner, outer)

    schedule.bind(inner, "threadIdx.x")


def test_conditions_read_elements_of_the_buffer_alone():
    schedule = Schedule(decided_by_none)
    (loop,) = schedule.get_loops("C")

    with pytest.raises(ScheduleError, match=r"predicate or a bound in .* reads `X`"):
        schedule.split(loop, [3, None])

    schedule.split(loop, [4, None])
    check_schedule(schedule, decided_by_none)


# Epilogues that a reduction applies.

_EPILOGUE = """
@T.prim_func
def main(
    A: T.Buffer((8, 4), "float32"), X: T.Buffer((8,), "float32"),
    D: T.Buffer((9,), "float32"), G: T.Buffer((8,), "float32"),
):
    C = T.alloc_buffer((8,))
    for i in range(8):
        {before}
        for k in range(4):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = 0.0
                C[vi] = C[vi] + A[vi, vk] * {factor}
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = C[vi] + X[vi]
        {behind}
"""
_READER = """with T.block("G"):
            vi = T.axis.spatial(8, i)
            G[vi] = D[vi + 1]"""


def _epilogue(before=None, factor="2.0", behind=None):
    text = _EPILOGUE
    for name, statement in (("before", before), ("behind", behind)):
        line = f"        {{{name}}}\n"
        text = text if statement else text.replace(line, "")
    return from_source(text.format(before=before, factor=factor, behind=behind))


@pytest.mark.parametrize(
    "options",
    [
        {"before": _READER},
        {"factor": "D[vi]"},
        {"factor": "D[vk]"},
        {"behind": _READER},
    ],
)
def test_an_epilogue_that_others_see_stays_behind(options):
    schedule = Schedule(_epilogue(**options))

    with pytest.raises(ScheduleError, match="is computed between block `C` and"):
        schedule.fuse_reduction_epilogue("C", "D")


def test_an_epilogue_that_nobody_sees_is_applied_at_once():
    before = _epilogue()
    schedule = Schedule(before)

    schedule.fuse_reduction_epilogue("C", "D")

    check_schedule(schedule, before)


# Values that are written first.


@T.prim_func
def between_what_is_set(
    A: T.Buffer((8, 2, 3), "float32"),
    C: T.Buffer((16,), "float32"),
    D: T.Buffer((2, 7), "float32"),
):
    for i in range(2):
        for j, k in T.grid(8, 3):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vj * 2 + vi] = 0.0
                C[vj * 2 + vi] = C[vj * 2 + vi] + A[vj, vi, vk]
        for j in range(7):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = C[vj * 2 + 1]


@T.prim_func
def terms_of_the_one_before(
    A: T.Buffer((8, 4), "float32"), C: T.Buffer((8,), "float32")
):
    for i, k in T.grid(8, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk] * T.if_then_else(vi > 0, C[vi - 1], T.float32(1))


@T.prim_func
def sums_of_pairs(A: T.Buffer((8, 4), "float32"), C: T.Buffer((4,), "float32")):
    for i, k in T.grid(8, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi // 2] = 0.0
            C[vi // 2] = C[vi // 2] + A[vi, vk]


@T.prim_func
def padded_and_mirrored(
    X: T.Buffer((8,), "float32"),
    C: T.Buffer((10,), "float32"),
    G: T.Buffer((10,), "float32"),
):
    for i in range(10):
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi] = T.if_then_else(
                vi >= 1 and vi < 9, X[vi - 1], T.float32(0), dtype="float32"
            )
        with T.block("G"):
            vi = T.axis.spatial(10, i)
            G[vi] = C[9 - vi]


@T.prim_func
def padded_pairs(X: T.Buffer((8,), "float32"), C: T.Buffer((5,), "float32")):
    for i in range(10):
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi // 2] = T.if_then_else(
                vi >= 1 and vi < 9, X[vi - 1], T.float32(0), dtype="float32"
            )


def _separate(schedule):
    schedule.decompose_padding("C", schedule.get_loops("C")[0])


@pytest.mark.parametrize(
    ("before", "apply", "message"),
    [
        (
            start_of_the_one_before,
            _decompose("C"),
            "that it writes in another iteration",
        ),
        (
            product_with_the_one_before,
            _decompose("C"),
            "that it writes in another iteration",
        ),
        (sums_of_pairs, _decompose("C"), "that it writes in another iteration"),
        (
            terms_of_the_one_before,
            lambda s: s.rfactor(s.get_loops("C")[1], 0),
            "that it writes in another iteration",
        ),
        (
            start_of_the_one_before,
            lambda s: s.blockize(s.get_loops("C")[0]),
            "that it writes in another iteration",
        ),
        (
            between_what_is_set,
            _decompose("C"),
            "`D` may read `C` before block `C` initialises",
        ),
        (
            padded_and_mirrored,
            _separate,
            "`G` may read `C` before block `C` initialises",
        ),
        (padded_pairs, _separate, "that it writes in another iteration"),
    ],
)
def test_values_that_are_written_first_are_not_seen(before, apply, message):
    schedule = Schedule(before)

    with pytest.raises(ScheduleError, match=message):
        apply(schedule)


@pytest.mark.parametrize(
    "apply",
    [
        _decompose("C", 1),
        lambda s: s.blockize(s.get_loops("C")[1]),
    ],
)
def test_start_values_stay_in_the_step_of_their_element(apply):
    schedule = Schedule(start_of_the_one_before)

    apply(schedule)

    check_schedule(schedule, start_of_the_one_before)

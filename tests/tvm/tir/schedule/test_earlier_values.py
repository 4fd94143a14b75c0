"""Blocks that read earlier values of a buffer, before the PrimFunc or an iteration writes it."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir import Schedule
from tests.tvm.tir.schedule.apply import check_schedule


@T.prim_func
def _before_its_sum(
    X: T.Buffer((6, 5), "float32"),
    A: T.Buffer((6,), "float32"),
    C: T.Buffer((6,), "float32"),
):
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = A[vi]
        for k in range(5):
            with T.block("A"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    A[vi] = 0.0
                A[vi] = A[vi] + X[vi, vk]


@T.prim_func
def _before_the_next_sum(
    X: T.Buffer((6, 5), "float32"),
    A: T.Buffer((6,), "float32"),
    C: T.Buffer((6,), "float32"),
):
    for i in range(6):
        for k in range(5):
            with T.block("A"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    A[vi] = 0.0
                A[vi] = A[vi] + X[vi, vk]
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = A[5 - vi]


@T.prim_func
def _behind_its_sum(
    X: T.Buffer((6, 5), "float32"),
    A: T.Buffer((6,), "float32"),
    C: T.Buffer((6,), "float32"),
):
    for i in range(6):
        for k in range(5):
            with T.block("A"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    A[vi] = 0.0
                A[vi] = A[vi] + X[vi, vk]
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = A[vi]


@pytest.mark.parametrize("before", [_before_its_sum, _before_the_next_sum])
def test_start_values_are_set_behind_who_reads_earlier_values(before):
    schedule = Schedule(before)

    with pytest.raises(
        ScheduleError, match="`C` may read `A` before block `A` initialises it"
    ):
        schedule.decompose_reduction("A", schedule.get_loops("A")[0])

    schedule.decompose_reduction("A", schedule.get_loops("A")[1])
    check_schedule(schedule, before)


def test_start_values_are_set_before_who_reads_sums():
    schedule = Schedule(_behind_its_sum)

    schedule.decompose_reduction("A", schedule.get_loops("A")[0])

    check_schedule(schedule, _behind_its_sum)


@T.prim_func
def _from_a_number_of_its_step(
    X: T.Buffer((6, 5), "float32"), A: T.Buffer((6,), "float32")
):
    B = T.alloc_buffer((6,))
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[vi] = X[vi, 0] * 2.0
        for k in range(5):
            with T.block("A"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    A[vi] = B[vi]
                A[vi] = A[vi] + X[vi, vk]


def test_start_values_are_set_behind_what_they_are_made_of():
    schedule = Schedule(_from_a_number_of_its_step)

    with pytest.raises(
        ScheduleError, match="`B` writes `B`, from which block `A` computes"
    ):
        schedule.decompose_reduction("A", schedule.get_loops("A")[0])

    schedule.decompose_reduction("A", schedule.get_loops("A")[1])
    check_schedule(schedule, _from_a_number_of_its_step)


@T.prim_func
def _some_elements(
    X: T.Buffer((4,), "float32"),
    A: T.Buffer((6,), "float32"),
    C: T.Buffer((6,), "float32"),
):
    for i in range(4):
        with T.block("A"):
            vi = T.axis.spatial(4, i)
            A[vi] = X[vi]
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = A[vi]


@pytest.mark.parametrize("before", [_before_the_next_sum, _some_elements])
def test_copies_have_all_that_is_read(before):
    schedule = Schedule(before)

    with pytest.raises(
        ScheduleError, match="`C` may read elements of `A` that block `A`"
    ):
        schedule.cache_read("C", 0, "global")

    check_schedule(schedule, before)


def test_what_a_step_writes_is_copied_for_who_reads_that():
    schedule = Schedule(_behind_its_sum)

    schedule.cache_read("C", 0, "global")

    check_schedule(schedule, _behind_its_sum)

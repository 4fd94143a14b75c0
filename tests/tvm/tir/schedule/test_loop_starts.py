"""Loops that do not start at 0, and their bindings."""

# ruff: noqa: N803  scripts name buffers in capitals

import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir.schedule import Schedule
from tests.tvm.tir.schedule.apply import check_schedule, script_lines


@T.prim_func
def quotients(A: T.Buffer((12,), "float32"), B: T.Buffer((3, 4), "float32")):
    for i in T.serial(2, 10):
        with T.block("B"):
            vi = T.axis.spatial(3, i // 4)
            vj = T.axis.spatial(4, i % 4)
            B[vi, vj] = A[vi * 4 + vj]


@T.prim_func
def tiles(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
    for i in T.serial(2, 10):
        for j in range(4):
            with T.block("B"):
                vi = T.axis.spatial(40, i * 4 + j)
                B[vi] = A[vi]


@T.prim_func
def remainders(A: T.Buffer((12,), "float32"), B: T.Buffer((3, 4), "float32")):
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(3, i // 4)
            vj = T.axis.spatial(4, i % 4)
            B[vi, vj] = A[vi * 4 + vj]


@pytest.mark.parametrize("program", [quotients, remainders])
def test_loops_that_end_inside_of_a_block_bind_no_digits(program):
    schedule = Schedule(program)
    with pytest.raises(ScheduleError, match="not quasi-affine"):
        schedule.parallel(schedule.get_loops("B")[0])


def test_loops_from_2_on_are_parallel():
    schedule = Schedule(tiles)
    schedule.parallel(schedule.get_loops("B")[0])

    assert "for i in T.parallel(2, 10):" in script_lines(schedule)
    check_schedule(schedule, tiles)


@pytest.mark.parametrize("program", [quotients, remainders])
def test_blocks_of_all_of_them_keep_their_axes(program):
    schedule = Schedule(program)
    schedule.blockize(schedule.get_loops("B")[0])

    assert any(
        line.startswith("vi_i = T.axis.spatial(3, i ")
        for line in script_lines(schedule)
    )
    check_schedule(schedule, program)


def test_blocks_in_loops_from_2_on_are_refused():
    schedule = Schedule(tiles)
    with pytest.raises(ScheduleError, match="can not be blockized"):
        schedule.blockize(schedule.get_loops("B")[1])

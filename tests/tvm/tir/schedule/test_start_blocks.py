"""Blocks nested in an init block, which cannot use buffers of the body."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir import Schedule
from tests.tvm.tir.schedule.apply import check_schedule


@T.prim_func
def _started(
    A: T.Buffer((2, 4, 3), "float32"),
    X: T.Buffer((8, 3), "float32"),
    W: T.Buffer((3, 2), "float32"),
    Y: T.Buffer((2, 4, 3), "float32"),
    N: T.Buffer((2,), "float32"),
):
    for i, k in T.grid(2, 5):
        with T.block("tile"):
            vi, _vk = T.axis.remap("SR", [i, k])
            with T.init():
                for x, y, z in T.grid(4, 3, 2):
                    with T.block("start"):
                        vx, vy, vz = T.axis.remap("SSR", [x, y, z])
                        with T.init():
                            Y[vi, vx, vy] = T.float32(0)
                        Y[vi, vx, vy] = Y[vi, vx, vy] + X[vx * 2, vy] * W[vy, vz]
                for x, y in T.grid(4, 3):
                    with T.block("scale"):
                        vx, vy = T.axis.remap("SS", [x, y])
                        Y[vi, vx, vy] = Y[vi, vx, vy] * 2.0
                for x in range(6):
                    with T.block("norm"):
                        vx = T.axis.reduce(6, x)
                        with T.init():
                            N[vi] = T.float32(0)
                        N[vi] = N[vi] + X[vx, 0]
            for x, y in T.grid(4, 3):
                with T.block("sum"):
                    vx, vy = T.axis.remap("SS", [x, y])
                    Y[vi, vx, vy] = Y[vi, vx, vy] + A[vi, vx, vy] * X[vx, vy]


@pytest.mark.parametrize(
    "apply",
    [
        lambda s: s.cache_read("start", "X", "global"),
        lambda s: s.cache_read("sum", "X", "global"),
        lambda s: s.cache_read("sum", "A", "global", ["start"]),
        lambda s: s.cache_inplace("scale", 0, "global"),
        lambda s: s.cache_index("start", "global", 0),
        lambda s: s.reindex("start", ("read", 0)),
        lambda s: s.reindex_cache_read("start", 1, "global", lambda x, y, z: (y, z)),
        lambda s: s.reindex_cache_write("start", 0, "global", lambda x, y, z: (x, y)),
        lambda s: s.rfactor(s.get_loops("norm")[0], 0),
        lambda s: s.read_at(s.get_loops("start")[0], "start", 0, "global"),
        lambda s: s.write_at(s.get_loops("start")[0], "start", 0, "global"),
        lambda s: s.pad_einsum("start", [8, 1, 1]),
    ],
)
def test_a_start_value_uses_no_buffer_of_the_body(apply):
    schedule = Schedule(_started)
    before = str(schedule.mod)

    with pytest.raises(ScheduleError, match="is in the init block of block `tile`"):
        apply(schedule)

    assert str(schedule.mod) == before
    check_schedule(schedule, _started)


@T.prim_func
def _started_beside(
    X: T.Buffer((4, 2), "float32"),
    Y: T.Buffer((2, 4), "float32"),
    Z: T.Buffer((2, 4), "float32"),
):
    for i, k in T.grid(2, 5):
        with T.block("tile"):
            vi, vk = T.axis.remap("SR", [i, k])
            B = T.alloc_buffer((4,))
            with T.init():
                for x in range(4):
                    with T.block("start"):
                        vx = T.axis.spatial(4, x)
                        Y[vi, vx] = X[vx, 0]
            for x in range(4):
                with T.block("B"):
                    vx = T.axis.spatial(4, x)
                    B[vx] = X[vx, 1] + T.Cast("float32", vk)
            for x in range(4):
                with T.block("use"):
                    vx = T.axis.spatial(4, x)
                    Z[vi, vx] = Y[vi, vx] + B[vx]


def test_blocks_do_not_move_from_the_body_to_the_start_value():
    schedule = Schedule(_started_beside)

    with pytest.raises(ScheduleError, match="the init block of block `tile`"):
        schedule.reverse_compute_at("B", schedule.get_loops("start")[0])

    check_schedule(schedule, _started_beside)

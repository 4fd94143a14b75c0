"""Primitives keep the iterations of parallel, vectorized and thread-bound loops independent."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir import Schedule
from relax_mlir.tvm.tir.schedule.testing import verify_trace_roundtrip
from tests.tvm.tir.schedule.apply import check_schedule

_KINDS = ("parallel", "vectorized", "blockIdx.x", "threadIdx.x", "vthread")


@T.prim_func
def summed_later(X: T.Buffer((8,), "float32"), C: T.Buffer((2,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = X[vi] * 2.0
    for j, k in T.grid(2, 8):
        with T.block("C"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                C[vj] = 0.0
            C[vj] = C[vj] + B[vk]


_SUMMED_BEFORE = """
@T.prim_func
def main(X: T.Buffer((8, 4), "float32"), C: T.Buffer((2, 8), "float32")):
    B = T.alloc_buffer((8,), scope="{scope}")
    for i, k in T.grid(8, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + X[vi, vk]
    for j, k in T.grid(2, 8):
        with T.block("C"):
            vj, vk = T.axis.remap("SS", [j, k])
            C[vj, vk] = B[vk]
"""


def _set_kind(schedule, loop, kind):
    if kind == "parallel":
        schedule.parallel(loop)
    elif kind == "vectorized":
        schedule.vectorize(loop)
    else:
        schedule.bind(loop, kind)


@pytest.mark.parametrize("kind", [k for k in _KINDS if k != "threadIdx.x"])
def test_reductions_over_concurrent_loops_are_rejected(kind):
    schedule = Schedule(summed_later)
    (loop,) = schedule.get_loops("B")
    _set_kind(schedule, loop, kind)
    before = schedule.mod.script()

    with pytest.raises(
        ScheduleError, match="`C` has a reduce iter var that depends on"
    ):
        schedule.reverse_compute_at("C", loop)

    assert schedule.mod.script() == before


def test_threads_reduce():
    schedule = Schedule(summed_later)
    (loop,) = schedule.get_loops("B")
    schedule.bind(loop, "threadIdx.x")

    schedule.reverse_compute_at("C", loop)


def test_reductions_over_serial_and_unrolled_loops_are_accepted():
    for kind in ("serial", "unroll"):
        schedule = Schedule(summed_later)
        (loop,) = schedule.get_loops("B")
        if kind == "unroll":
            schedule.unroll(loop)
        schedule.reverse_compute_at("C", loop)

        check_schedule(schedule, summed_later)


@pytest.mark.parametrize(
    ("scope", "kind", "is_accepted"),
    [
        ("global", "parallel", True),
        ("global", "blockIdx.x", False),
        ("global", "threadIdx.x", False),
        ("global", "vthread", False),
        ("shared", "blockIdx.x", True),
        ("shared", "threadIdx.x", False),
        ("shared", "vthread", False),
        ("local", "blockIdx.x", True),
        ("local", "threadIdx.x", True),
        ("local", "vthread", True),
    ],
)
def test_iterations_share_no_partial_sums(scope, kind, is_accepted):
    schedule = Schedule(from_source(_SUMMED_BEFORE.format(scope=scope)))
    loop = schedule.get_loops("C")[0]
    _set_kind(schedule, loop, kind)
    before = schedule.mod.script()

    if is_accepted:
        schedule.compute_at("B", loop)
        return
    with pytest.raises(
        ScheduleError, match=r"loop `j` is thread binding: block `B` may touch"
    ):
        schedule.compute_at("B", loop)
    assert schedule.mod.script() == before


@T.prim_func
def racy(X: T.Buffer((8,), "float32"), C: T.Buffer((1,), "float32")):
    for i in T.parallel(8):
        with T.block("C"):
            vi = T.axis.reduce(8, i)
            C[0] = C[0] + X[vi]


def test_loops_that_were_illegal_before_do_not_block_other_primitives():
    schedule = Schedule(racy)
    schedule.annotate(schedule.get_loops("C")[0], "k", 1)

    assert '"k": 1' in schedule.mod.script()


@T.prim_func
def row_minimum(
    X: T.Buffer((3, 2, 7), "float32"),
    Y: T.Buffer((7,), "float32"),
    C: T.Buffer((3, 2, 7), "float32"),
):
    for i, j, k in T.grid(3, 2, 7):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            C[vi, vj, vk] = T.min(X[vi, vj, vk], Y[vk])


def test_a_trace_replays_what_tile_applies():
    schedule = Schedule(row_minimum)
    schedule.read_at(schedule.get_loops("C")[1], "C", 1, "local")
    outer, inner, _ = schedule.get_loops("C")
    schedule.parallel(inner)
    before = schedule.mod.script()

    # The copy under the predicate of the split is not proved to be private to an iteration.
    with pytest.raises(ScheduleError, match="loop `j` is parallel"):
        schedule.split(outer, [None, 2])
    with pytest.raises(ScheduleError, match="loop `j` is parallel"):
        schedule.tile("C", outer, inner, 2, 3)

    assert schedule.mod.script() == before
    verify_trace_roundtrip(schedule, row_minimum)

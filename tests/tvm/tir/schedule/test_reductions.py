"""Reductions that can be factorised, and their loops."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir.schedule import Schedule
from tests.tvm.tir.schedule.apply import check_schedule


def _factored(program, number, axis=0, block="B"):
    schedule = Schedule(program)
    schedule.rfactor(schedule.get_loops(block)[number], axis)
    check_schedule(schedule, program)
    return schedule


@T.prim_func
def unit_loops(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for _u, i, k, _v in T.grid(1, 4, 6, 1):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


def test_loops_that_no_axis_needs_are_kept():
    schedule = _factored(unit_loops, 2)

    names = [schedule.get(loop).loop_var.name for loop in schedule.get_loops("B")]
    assert names == ["_u", "i", "k", "_v"]


@T.prim_func
def named(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i, k_0, k_1 in T.grid(4, 2, 3):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(6, k_0 * 3 + k_1)
            with T.init():
                B[vi] = 0.0
            total: T.float32 = B[vi] + A[vi, vk]
            B[vi] = total


def test_the_name_of_an_only_result_is_left_out():
    schedule = _factored(named, 1)

    assert "total" not in schedule.mod["main"].script()


@T.prim_func
def shared_loops(A: T.Buffer((3, 4, 6), "float32"), D: T.Buffer((3, 4), "float32")):
    B = T.alloc_buffer((3, 4))
    for i in range(3):
        for j in range(4):
            for k_0, k_1 in T.grid(2, 3):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    vk = T.axis.reduce(6, k_0 * 3 + k_1)
                    with T.init():
                        B[vi, vj] = 0.0
                    B[vi, vj] = B[vi, vj] + A[vi, vj, vk]
        for j, k in T.grid(4, 6):
            with T.block("D"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    D[vi, vj] = 0.0
                D[vi, vj] = D[vi, vj] + A[vi, vj, vk] * B[vi, vj]


def test_partial_results_come_before_loops_that_hold_more():
    schedule = _factored(shared_loops, 2, 2)

    assert schedule.get(schedule.get_loops("B_rf")[0]).loop_var.name == "i"
    around = [schedule.get_sref(schedule.get_loops(b)[0]) for b in ("B", "D")]
    assert around[0] is around[1]


def test_what_comes_later_in_its_loops_is_not_factored():
    schedule = Schedule(shared_loops)

    with pytest.raises(ScheduleError, match="expected that block `D` comes first"):
        schedule.rfactor(schedule.get_loops("D")[2], 0)


def _greatest(starts, body, rows=4):
    return f"""
@T.prim_func
def program(
    A: T.Buffer((4, 6), "float32"),
    N: T.Buffer((4, 6), "int32"),
    M: T.Buffer((4,), "float32"),
    P: T.Buffer(({rows},), "int32"),
):
    for i, k in T.grid(4, 6):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                {starts}
            {body}
"""


_STARTS = 'M[vi] = T.min_value("float32"); P[vi] = -1'
_BEST = "best: T.float32 = T.Select(M[vi] >= A[vi, vk], M[vi], A[vi, vk])"
_PLACE = "place: T.int32 = T.Select(M[vi] >= A[vi, vk], P[vi], N[vi, vk])"


def _parsed(starts, body, rows=4):
    from relax_mlir.tvm.script import from_source

    return from_source(_greatest(starts, body, rows))


def test_results_come_in_the_order_in_which_they_are_named():
    program = _parsed(_STARTS, f"{_PLACE}; {_BEST}; M[vi] = best; P[vi] = place")

    schedule = _factored(program, 1, block="M")

    buffers = schedule.get(schedule.get_block("root")).alloc_buffers
    assert [b.name for b in buffers] == ["P_rf", "M_rf"]


@pytest.mark.parametrize(
    ("starts", "body", "rows", "message"),
    [
        (_STARTS, f"{_BEST}; {_PLACE}; M[vi] = best; P[vi] = place", 5, "one shape"),
        (
            'low: T.float32 = T.min_value("float32"); M[vi] = low; P[vi] = -1',
            f"{_BEST}; {_PLACE}; M[vi] = best; P[vi] = place",
            4,
            "initial values without `let`",
        ),
        (
            _STARTS,
            f"{_BEST}; P[vi] = T.Select(M[vi] >= A[vi, vk], P[vi], N[vi, vk]); M[vi] = best",
            4,
            "results that are bound by `let`",
        ),
        (
            _STARTS,
            f"{_BEST}; {_PLACE}; M[vi] = best; P[vi] = place".replace(">=", "* 2.0 >="),
            4,
            "one comparison of old with new values selects",
        ),
    ],
)
def test_results_that_do_not_belong_together_are_refused(starts, body, rows, message):
    schedule = Schedule(_parsed(starts, body, rows))

    with pytest.raises(ScheduleError, match=message):
        schedule.rfactor(schedule.get_loops("M")[1], 0)


@T.prim_func
def _sums_in_steps(A: T.Buffer((4, 6), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6,))
    for i in range(6):
        with T.block("start"):
            vi = T.axis.spatial(6, i)
            C[vi] = T.float32(0)
    for k in range(2):
        with T.block("step"):
            vk = T.axis.opaque(2, k)
            P = T.alloc_buffer((6,))
            for i in range(6):
                with T.block("P"):
                    vi = T.axis.spatial(6, i)
                    P[vi] = T.Cast("float32", vi)
            for kk, i in T.grid(2, 6):
                with T.block("B"):
                    vr = T.axis.reduce(4, vk * 2 + kk)
                    vi = T.axis.spatial(6, i)
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vr, vi] * P[vi]
            for i in range(6):
                with T.block("C"):
                    vi = T.axis.opaque(6, i)
                    C[vi] = C[vi] + B[vi]


@pytest.mark.parametrize(
    "apply",
    [
        lambda s, loops: s.decompose_reduction("B", loops[0]),
        lambda s, loops: s.rfactor(loops[0], 0),
        lambda s, _: s.reverse_compute_at("B", s.get_loops("P")[0]),
    ],
)
def test_a_reduction_that_the_next_step_goes_on_with_is_kept(apply):
    schedule = Schedule(_sums_in_steps)

    with pytest.raises(
        ScheduleError, match="`vr` of block `B` depends on variables from"
    ):
        apply(schedule, schedule.get_loops("B"))

    check_schedule(schedule, _sums_in_steps)


def test_loops_of_such_a_reduction_are_parallel():
    schedule = Schedule(_sums_in_steps)
    schedule.parallel(schedule.get_loops("B")[1])
    check_schedule(schedule, _sums_in_steps)


@T.prim_func
def _fused_sums(A: T.Buffer((24,), "float32"), B: T.Buffer((4,), "float32")):
    for f in range(24):
        with T.block("B"):
            vi = T.axis.spatial(4, f // 6)
            vk = T.axis.reduce(6, f % 6)
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi * 6 + vk]


def test_a_sum_begins_before_it_goes_on():
    schedule = Schedule(_fused_sums)
    outer, inner = schedule.split(schedule.get_loops("B")[0], [5, 5])

    with pytest.raises(ScheduleError, match="spatial and reduce axes of block `B`"):
        schedule.reorder(inner, outer)

    check_schedule(schedule, _fused_sums)


def test_loops_of_axes_of_their_own_are_reordered():
    schedule = Schedule(_fused_sums)
    outer, inner = schedule.split(schedule.get_loops("B")[0], [4, 6])
    first, last = schedule.split(inner, [2, 3])
    schedule.reorder(last, outer, first)
    check_schedule(schedule, _fused_sums)


@T.prim_func
def _products(
    A: T.Buffer((6, 8), "float32"),
    B: T.Buffer((8,), "float32"),
    C: T.Buffer((6,), "float32"),
):
    for k, u, i in T.grid(8, 1, 6):
        with T.block("C"):
            vk, _vu, vi = T.axis.remap("RSS", [k, u, i])
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk] * B[vk]


def test_an_axis_that_is_no_index_is_not_padded():
    schedule = Schedule(_products)

    with pytest.raises(ScheduleError, match="axis `_vu` is not an index of `C`"):
        schedule.pad_einsum("C", [1, 2, 4])

    schedule.pad_einsum("C", [1, 1, 4])
    check_schedule(schedule, _products)

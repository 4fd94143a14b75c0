"""Blocks that are delayed read the same values as before."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir import Schedule
from tests.tvm.tir.schedule.apply import check_schedule
from tests.tvm.tir.schedule.evaluate import evaluate


@T.prim_func
def _prefix_sums(X: T.Buffer((6, 4), "float32"), C: T.Buffer((4, 6), "float32")):
    A = T.alloc_buffer((6,))
    B = T.alloc_buffer((4, 6))
    for k in range(4):
        for i in range(6):
            with T.block("A"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    A[vi] = 0.0
                A[vi] = A[vi] + X[vi, vk]
        for i in range(6):
            with T.block("B"):
                vk, vi = T.axis.remap("SS", [k, i])
                B[vk, vi] = A[vi] * 2.0
    for k, i in T.grid(4, 6):
        with T.block("C"):
            vk, vi = T.axis.remap("SS", [k, i])
            C[vk, vi] = B[vk, vi]


@T.prim_func
def _rows_in_one(X: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    A = T.alloc_buffer((6,))
    B = T.alloc_buffer((4, 6))
    for k in range(4):
        for i in range(6):
            with T.block("A"):
                vk, vi = T.axis.remap("SS", [k, i])
                A[vi] = X[vk, vi]
        for i in range(6):
            with T.block("B"):
                vk, vi = T.axis.remap("SS", [k, i])
                B[vk, vi] = A[vi] * 2.0
    for k, i in T.grid(4, 6):
        with T.block("C"):
            vk, vi = T.axis.remap("SS", [k, i])
            C[vk, vi] = B[vk, vi]


@T.prim_func
def _of_a_changing_element(
    X: T.Buffer((4,), "float32"),
    Y: T.Buffer((6,), "float32"),
    C: T.Buffer((4, 6), "float32"),
):
    Z = T.alloc_buffer((1,))
    A = T.alloc_buffer((6,))
    B = T.alloc_buffer((4, 6))
    for k in range(4):
        with T.block("Z"):
            vk = T.axis.opaque(4, k)
            Z[0] = X[vk]
        for i in range(6):
            with T.block("A"):
                vi = T.axis.spatial(6, i)
                A[vi] = Y[vi] + Z[0]
        for i in range(6):
            with T.block("B"):
                vk, vi = T.axis.remap("SS", [k, i])
                B[vk, vi] = A[vi] * 2.0
    for k, i in T.grid(4, 6):
        with T.block("C"):
            vk, vi = T.axis.remap("SS", [k, i])
            C[vk, vi] = B[vk, vi]


@T.prim_func
def _ahead_of_its_step(
    X: T.Buffer((7,), "float32"),
    A: T.Buffer((7,), "float32"),
    C: T.Buffer((6,), "float32"),
):
    B = T.alloc_buffer((6,))
    for i in range(6):
        with T.block("A"):
            vi = T.axis.spatial(6, i)
            A[vi] = X[vi]
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[vi] = A[vi + 1] * 2.0
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi]


@T.prim_func
def _last_of_few(X: T.Buffer((4, 6), "float32"), C: T.Buffer((6,), "float32")):
    A = T.alloc_buffer((6,))
    B = T.alloc_buffer((6,))
    for k in range(4):
        for i in range(6):
            with T.block("A"):
                vk, vi = T.axis.remap("SS", [k, i])
                A[vi] = X[vk, vi]
        for i in range(6):
            with T.block("B"):
                vi = T.axis.spatial(6, i)
                T.where(k < 2)
                B[vi] = A[vi] * 2.0
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi]


@T.prim_func
def _fewer_each_step(X: T.Buffer((4, 6), "float32"), C: T.Buffer((6,), "float32")):
    A = T.alloc_buffer((6,))
    B = T.alloc_buffer((6,))
    for k in range(4):
        for i in range(6):
            with T.block("A"):
                vk, vi = T.axis.remap("SS", [k, i])
                A[vi] = X[vk, vi]
        for i in range(6 - k):
            with T.block("B"):
                vi = T.axis.spatial(6, i)
                B[vi] = A[vi] * 2.0
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi]


@T.prim_func
def _of_a_loop_itself(X: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    A = T.alloc_buffer((6,))
    B = T.alloc_buffer((4, 6))
    for k in range(4):
        for i in range(6):
            with T.block("A"):
                vi = T.axis.spatial(6, i)
                A[vi] = X[k, vi]
        for i in range(6):
            with T.block("B"):
                vk, vi = T.axis.remap("SS", [k, i])
                B[vk, vi] = A[vi] * 2.0
    for k, i in T.grid(4, 6):
        with T.block("C"):
            vk, vi = T.axis.remap("SS", [k, i])
            C[vk, vi] = B[vk, vi]


@T.prim_func
def _halves_in_one(X: T.Buffer((2, 6), "float32"), C: T.Buffer((2, 6), "float32")):
    A = T.alloc_buffer((6,))
    B = T.alloc_buffer((2, 6))
    for k in range(2):
        for i in range(6):
            with T.block("A"):
                vk, vi = T.axis.remap("SS", [k, i])
                A[vi] = X[vk, vi]
        for i in range(6):
            with T.block("B"):
                vk, vi = T.axis.remap("SS", [k, i])
                B[vk, vi] = A[vi] * 2.0
    for k, i in T.grid(2, 6):
        with T.block("C"):
            vk, vi = T.axis.remap("SS", [k, i])
            C[vk, vi] = B[vk, vi]


@T.prim_func
def _behind_its_step(
    X: T.Buffer((6,), "float32"),
    A: T.Buffer((10,), "float32"),
    C: T.Buffer((6,), "float32"),
):
    B = T.alloc_buffer((6,))
    for i in range(6):
        with T.block("A"):
            vi = T.axis.spatial(6, i)
            A[9 - vi] = X[vi]
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[vi] = A[8 - vi] * 2.0
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi]


def _inline(schedule):
    schedule.compute_inline("B")


def _move(schedule):
    schedule.compute_at("B", schedule.get_loops("C")[0])


@pytest.mark.parametrize(
    ("before", "apply"),
    [
        (_prefix_sums, _inline),
        (_prefix_sums, _move),
        (_rows_in_one, _inline),
        (_rows_in_one, _move),
        (_of_a_changing_element, _inline),
        (_ahead_of_its_step, _inline),
        (_last_of_few, _inline),
        (_fewer_each_step, _inline),
        (_of_a_loop_itself, _inline),
        (_halves_in_one, _inline),
        (_behind_its_step, _inline),
    ],
)
def test_what_loops_overwrite_is_read_before(before, apply):
    schedule = Schedule(before)

    with pytest.raises(
        ScheduleError, match="`A` may overwrite `A` in each iteration of"
    ):
        apply(schedule)

    check_schedule(schedule, before)


@T.prim_func
def _elements_of_steps(X: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    A = T.alloc_buffer((4, 6))
    B = T.alloc_buffer((4, 6))
    for k in range(4):
        for i in range(6):
            with T.block("A"):
                vk, vi = T.axis.remap("SS", [k, i])
                A[vk, vi] = X[vk, vi] + 1.0
        for i in range(6):
            with T.block("B"):
                vk, vi = T.axis.remap("SS", [k, i])
                B[vk, vi] = A[vk, 5 - vi] * 2.0
    for k, i in T.grid(4, 6):
        with T.block("C"):
            vk, vi = T.axis.remap("SS", [k, i])
            C[vk, vi] = B[vk, vi]


@T.prim_func
def _elements_from_before(
    X: T.Buffer((6,), "float32"),
    A: T.Buffer((6,), "float32"),
    C: T.Buffer((6,), "float32"),
):
    B = T.alloc_buffer((6,))
    for i in range(6):
        with T.block("A"):
            vi = T.axis.spatial(6, i)
            A[vi] = X[vi]
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[vi] = A[vi] * 2.0
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi]


@T.prim_func
def _windows(X: T.Buffer((8, 3), "float32"), C: T.Buffer((6,), "float32")):
    A = T.alloc_buffer((8,))
    B = T.alloc_buffer((6,))
    for i, k in T.grid(8, 3):
        with T.block("A"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                A[vi] = 0.0
            A[vi] = A[vi] + X[vi, vk]
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[vi] = A[vi] + A[vi + 1] + A[vi + 2]
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi] * 2.0


@T.prim_func
def _last_step(X: T.Buffer((4, 6), "float32"), C: T.Buffer((6,), "float32")):
    A = T.alloc_buffer((6,))
    B = T.alloc_buffer((6,))
    for k in range(4):
        for i in range(6):
            with T.block("A"):
                vk, vi = T.axis.remap("SS", [k, i])
                A[vi] = X[vk, vi]
        for i in range(6):
            with T.block("B"):
                vi = T.axis.spatial(6, i)
                B[vi] = A[vi] * 2.0
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi]


@T.prim_func
def _the_same_in_each_step(
    X: T.Buffer((1, 6), "float32"), C: T.Buffer((4, 6), "float32")
):
    A = T.alloc_buffer((6,))
    E = T.alloc_buffer((1,))
    B = T.alloc_buffer((4, 6))
    for k in range(4):
        for i in range(6):
            with T.block("A"):
                v0 = T.axis.spatial(1, 0)
                vi = T.axis.spatial(6, i)
                A[vi] = X[v0, vi] + 1.0
                E[0] = 2.0
        for i in range(6):
            with T.block("B"):
                vk, vi = T.axis.remap("SS", [k, i])
                B[vk, vi] = A[vi] * 2.0
    for k, i in T.grid(4, 6):
        with T.block("C"):
            vk, vi = T.axis.remap("SS", [k, i])
            C[vk, vi] = B[vk, vi]


@T.prim_func
def _a_sum_in_each_step(X: T.Buffer((3,), "float32"), C: T.Buffer((4,), "float32")):
    A = T.alloc_buffer((1,))
    B = T.alloc_buffer((4,))
    for k in range(4):
        for r in range(3):
            with T.block("A"):
                vr = T.axis.reduce(3, r)
                with T.init():
                    A[0] = 0.0
                A[0] = A[0] + X[vr]
        with T.block("B"):
            vk = T.axis.spatial(4, k)
            B[vk] = A[0] * 2.0
    for k in range(4):
        with T.block("C"):
            vk = T.axis.spatial(4, k)
            C[vk] = B[vk]


@T.prim_func
def _beside_others(
    X: T.Buffer((7,), "float32"),
    A: T.Buffer((6,), "float32"),
    C: T.Buffer((6,), "float32"),
):
    E = T.alloc_buffer((1,))
    B = T.alloc_buffer((6,))
    for i in range(6):
        with T.block("A"):
            vi = T.axis.spatial(6, i)
            A[vi] = X[vi]
            E[0] = X[vi]
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[vi] = A[vi] * X[vi + 1]
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi]


@pytest.mark.parametrize(
    "before",
    [
        _elements_of_steps,
        _elements_from_before,
        _windows,
        _last_step,
        _the_same_in_each_step,
        _a_sum_in_each_step,
        _beside_others,
    ],
)
def test_blocks_are_computed_later_where_that_changes_nothing(before):
    schedule = Schedule(before)
    if before is _windows:
        schedule.compute_at("A", schedule.get_loops("B")[0])

    schedule.compute_inline("B")

    check_schedule(schedule, before)


@T.prim_func
def _of_an_earlier_step(
    X: T.Buffer((6, 5), "float32"),
    A: T.Buffer((6, 5), "float32"),
    C: T.Buffer((6, 5), "float32"),
):
    for i, j in T.grid(6, 5):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = X[vi, vj] * 2.0
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.if_then_else(
                vi > 0 and vj < 4, A[vi - 1, vj + 1], T.float32(0)
            )


@T.prim_func
def _of_all_columns(X: T.Buffer((6, 5), "float32"), C: T.Buffer((6, 5), "float32")):
    A = T.alloc_buffer((5,))
    for i, j in T.grid(6, 5):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vj] = X[vi, vj] * 2.0
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vj // 2] * 2.0


@T.prim_func
def _of_an_earlier_step_alone(
    X: T.Buffer((6, 5), "float32"), C: T.Buffer((6, 5), "float32")
):
    A = T.alloc_buffer((6, 5))
    for i, j in T.grid(6, 5):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = X[vi, vj] * 2.0
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.if_then_else(
                vi > 0 and vj < 4, A[vi - 1, vj + 1], T.float32(0)
            )


@T.prim_func
def _of_one_element(X: T.Buffer((6, 5), "float32"), C: T.Buffer((6, 5), "float32")):
    A = T.alloc_buffer((1,))
    for i, j in T.grid(6, 5):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[0] = X[vi, vj] * 2.0
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[0] + 1.0


@T.prim_func
def _of_the_same_step(
    X: T.Buffer((6, 5), "float32"),
    A: T.Buffer((6, 5), "float32"),
    C: T.Buffer((6, 5), "float32"),
):
    for i, j in T.grid(6, 5):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = X[vi, vj] * 2.0
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + 1.0


@pytest.mark.parametrize(
    "before",
    [_of_an_earlier_step, _of_an_earlier_step_alone, _of_all_columns, _of_one_element],
)
def test_steps_keep_their_order_where_blocks_depend_on_it(before):
    schedule = Schedule(before)

    with pytest.raises(
        ScheduleError, match="that block `A` writes in another iteration"
    ):
        schedule.reorder(*schedule.get_loops("A")[::-1])

    schedule.reorder(*schedule.get_loops("A"))
    check_schedule(schedule, before)


def test_steps_that_do_not_depend_on_one_another_take_any_order():
    schedule = Schedule(_of_the_same_step)

    schedule.reorder(*schedule.get_loops("A")[::-1])

    assert [schedule.get(o).loop_var.name for o in schedule.get_loops("C")] == [
        "j",
        "i",
    ]
    check_schedule(schedule, _of_the_same_step)


@pytest.mark.parametrize("kind", ["parallel", "vectorize", "blockIdx.x"])
def test_steps_that_depend_on_one_another_are_not_parallel(kind):
    schedule = Schedule(_of_an_earlier_step)
    loop = schedule.get_loops("A")[0]

    is_thread = kind == "blockIdx.x"
    steps = (
        partial(schedule.bind, loop, kind)
        if is_thread
        else partial(getattr(schedule, kind), loop)
    )

    with pytest.raises(
        ScheduleError, match="that block `A` writes in another iteration"
    ):
        steps()


def test_steps_that_do_not_depend_on_one_another_are_parallel():
    schedule = Schedule(_of_the_same_step)

    schedule.parallel(schedule.get_loops("A")[0])

    check_schedule(schedule, _of_the_same_step)


# Random pairs of blocks, of which the second reads what the first writes.

_places = st.sampled_from(
    ["vi", "vk", "vi + 1", "vi + 2", "vk + vi", "4 - vi", "vi // 2", "vk * 4 + vi", "0"]
)
_values = st.sampled_from(["X[vk, vi]", "X[0, vi]", "X[vk, 0]", "X[k, vi]"])
_conditions = st.sampled_from(["", "", "", "T.where(k < 1)", "T.where(i < k + 2)"])
_extents = st.sampled_from(["4", "4", "4 - k"])
_PAIR = """
@T.prim_func
def main({arguments}):
    {own}
    B = T.alloc_buffer((3, 4))
    {outer}
        {first}
            with T.block("A"):
                vk, vi = T.axis.remap("SS", [k, i])
                {conditions[0]}
                A[{places[0]}] = {value}
        {second}
            with T.block("B"):
                vk, vi = T.axis.remap("SS", [k, i])
                {conditions[1]}
                B[vk, vi] = A[{places[1]}] * 2.0
    for k, i in T.grid(3, 4):
        with T.block("C"):
            vk, vi = T.axis.remap("SS", [k, i])
            C[vk, vi] = B[vk, vi]
"""


def _pair(is_own, is_nest, places, value, conditions, extents):
    buffers = {"X": "(3, 4)", "A": "(14,)", "C": "(3, 4)"}
    listed = [f'{n}: T.Buffer({s}, "float32")' for n, s in buffers.items()]
    own = "A = T.alloc_buffer((14,))" if is_own else ""
    heads = ["if True:"] * 2 if is_nest else [f"for i in range({e}):" for e in extents]
    return from_source(
        _PAIR.format(
            arguments=", ".join(p for p in listed if not (is_own and p[0] == "A")),
            own=own,
            outer="for k, i in T.grid(3, 4):" if is_nest else "for k in range(3):",
            first=heads[0],
            second=heads[1],
            places=places,
            value=value,
            conditions=conditions,
        )
    )


def _swap(schedule):
    schedule.reorder(*schedule.get_loops("A")[::-1])


@settings(max_examples=100, deadline=None)
@given(
    is_own=st.booleans(),
    is_nest=st.booleans(),
    places=st.tuples(_places, _places),
    value=_values,
    conditions=st.tuples(_conditions, _conditions),
    extents=st.tuples(_extents, _extents),
)
def test_steps_that_are_not_refused_compute_the_same(is_nest, **options):
    before = _pair(is_nest=is_nest, **options)
    random = np.random.default_rng(0)
    arrays = [
        random.integers(1, 99, [int(n) for n in b.shape])
        for b in before.buffer_map.values()
    ]
    expected = evaluate(before, *arrays)
    for apply in (_swap, _inline) if is_nest else (_inline, _move):
        schedule = Schedule(before)
        try:
            apply(schedule)
        except ScheduleError:
            continue

        actual = evaluate(schedule.mod["main"], *arrays)

        for left, right in zip(actual, expected, strict=True):
            is_known = ~np.isnan(right)  # no value where a step reads what none wrote
            np.testing.assert_array_equal(left[is_known], right[is_known])

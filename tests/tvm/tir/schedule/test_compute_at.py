"""Access regions determine compute locations and required domains."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir.schedule import Schedule
from tests.tvm.tir.schedule.apply import check_schedule, script_lines
from tests.tvm.tir.schedule.programs import (
    corner,
    fused_rows,
    guarded,
    mirrored,
    neighbours,
)


def test_a_producer_that_counts_backwards_moves():
    schedule = Schedule(mirrored)
    schedule.compute_at("B", schedule.get_loops("C")[0])

    assert "vj = T.axis.spatial(5, 4 - i)" in script_lines(schedule)
    check_schedule(schedule, mirrored)


def test_a_consumer_of_a_corner_leaves_out_the_rest():
    schedule = Schedule(corner)
    outer, _ = schedule.split(schedule.get_loops("B")[1], [3, 3])
    schedule.reverse_compute_at("C", outer, preserve_unit_loops=True)

    assert "T.where(i < 1 and j_0 * 3 + ax1 < 2)" in script_lines(schedule)
    check_schedule(schedule, corner)


@T.prim_func
def in_tiles(A: T.Buffer((12,), "float32"), C: T.Buffer((11,), "float32")):
    B = T.alloc_buffer((3, 4))
    for i, j in T.grid(3, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi * 4 + vj] * 2.0
    for i in range(11):
        with T.block("C"):
            vi = T.axis.spatial(11, i)
            C[vi] = B[vi // 4, vi % 4] + 1.0


def test_a_consumer_of_tiles_stays_in_its_bounds():
    schedule = Schedule(in_tiles)
    schedule.reverse_compute_inline("C")

    assert "T.where(i * 4 + j < 11)" in script_lines(schedule)
    check_schedule(schedule, in_tiles)


def test_what_a_fused_loop_leaves_out_has_one_end():
    schedule = Schedule(fused_rows)
    schedule.reverse_compute_inline("C")

    assert "T.where(f < 27 and f % 7 < 6)" in script_lines(schedule)
    check_schedule(schedule, fused_rows)


def test_a_predicate_that_says_enough_is_kept_alone():
    schedule = Schedule(guarded)
    schedule.reverse_compute_inline("C")

    script = script_lines(schedule)
    assert "T.where(i < 5)" in script
    assert not any("alloc_buffer" in line for line in script)
    check_schedule(schedule, guarded)


@T.prim_func
def shifted(A: T.Buffer((4,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = T.if_then_else(vi >= 4, B[vi - 4], 0.0)


def test_a_consumer_with_points_of_its_own_is_not_inlined():
    with pytest.raises(ScheduleError, match=r"expected indices in 0\.\.3, got -4\.\.3"):
        Schedule(shifted).reverse_compute_inline("C")


@T.prim_func
def partly(A: T.Buffer((6, 4), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6,))
    for i, k in T.grid(3, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi] + 1.0


def test_blocks_write_what_they_read():
    schedule = Schedule(partly)
    attempts = (
        lambda: schedule.compute_at("B", schedule.get_loops("C")[0]),
        lambda: schedule.rfactor(schedule.get_loops("B")[1], 0),
    )

    for attempt in attempts:
        with pytest.raises(
            ScheduleError, match=r"read `B` from 0 to 5 .* write it from 0 to 2"
        ):
            attempt()


@T.prim_func
def rows_of_sums(A: T.Buffer((4, 3, 5), "float32"), C: T.Buffer((4, 3), "float32")):
    B = T.alloc_buffer((4, 3))
    for i, j in T.grid(4, 3):
        for k in range(5):
            with T.block("B"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    B[vi, vj] = 0.0
                B[vi, vj] = B[vi, vj] + A[vi, vj, vk]
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * 2.0


@pytest.mark.parametrize(
    "apply",
    [
        lambda s: s.reindex_cache_write("B", 0, "local", lambda i, j, k: (j, i)),
        lambda s: s.reindex_cache_read("C", 0, "local", lambda i, j: (j, i)),
        lambda s: s.rfactor(s.get_loops("B")[2], 2),
    ],
    ids=["reindex_cache_write", "reindex_cache_read", "rfactor"],
)
def test_copies_stand_between_who_writes_and_who_reads(apply):
    schedule = Schedule(rows_of_sums)
    apply(schedule)

    check_schedule(schedule, rows_of_sums)


@T.prim_func
def called(A: T.Buffer((8, 8), "float16"), B: T.Buffer((8, 8), "float16")):
    for i in range(8):
        with T.block("copy"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:8])
            T.writes(B[vi, 0:8])
            T.evaluate(
                T.call_extern(
                    "void",
                    "copy_row",
                    B.access_ptr("w", offset=vi * 8),
                    A.access_ptr("r", offset=vi * 8),
                )
            )


def test_an_address_is_for_reading_or_for_writing():
    schedule = Schedule(called)
    schedule.cache_read("copy", 0, "local")
    schedule.cache_write("copy", 0, "local")

    script = schedule.mod["main"].script()
    assert "B_local.data" in script
    assert "A_local.data" in script
    assert "T.reads(B_local" not in script.split('T.block("copy")')[1].split("for")[0]


@T.prim_func
def tiles_of_sums(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(2):
        with T.block("tile"):
            vi = T.axis.spatial(2, i)
            for j, k in T.grid(2, 6):
                with T.block("B"):
                    vj, vk = T.axis.remap("SR", [j, k])
                    with T.init():
                        B[vi * 2 + vj] = 0.0
                    B[vi * 2 + vj] = B[vi * 2 + vj] + A[vi * 2 + vj, vk]


def test_a_block_that_holds_whole_sums_runs_in_parallel():
    schedule = Schedule(tiles_of_sums)
    schedule.parallel(schedule.get_loops("tile")[0])

    assert "for i in T.parallel(2):" in script_lines(schedule)
    outputs = schedule.get_output_blocks("root")
    assert [schedule.get(b).name_hint for b in outputs] == ["tile", "B"]


@T.prim_func
def windows(A: T.Buffer((16, 13), "float32"), C: T.Buffer((5, 8), "float32")):
    B = T.alloc_buffer((14, 13))
    for i, j, k in T.grid(14, 13, 3):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                B[vi, vj] = 0.0
            B[vi, vj] = B[vi, vj] + A[vi + vk, vj]
    for i, j, k, m in T.grid(5, 8, 4, 2):
        with T.block("C"):
            vi, vj, vk, vm = T.axis.remap("SSRR", [i, j, k, m])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + B[vi * 2 + vk, vj + vm * 5]


@pytest.mark.parametrize("tile", [(1, 8), (2, 4), (3, 3), (2, 8)])
def test_rings_hold_what_tiles_have_in_common(tile):
    schedule = Schedule(windows)
    i, j, *_ = schedule.get_loops("C")
    i_0, i_1 = schedule.split(i, [None, tile[0]])
    j_0, j_1 = schedule.split(j, [None, tile[1]])
    schedule.reorder(i_0, j_0, i_1, j_1)
    schedule.compute_at("B", j_0)
    schedule.rolling_buffer("B", 0)

    assert f"B = T.alloc_buffer(({2 * tile[0] + 2}, 13))" in script_lines(schedule)
    check_schedule(schedule, windows)


@T.prim_func
def three_stages(A: T.Buffer((16,), "float32"), D: T.Buffer((10,), "float32")):
    B = T.alloc_buffer((14,))
    C = T.alloc_buffer((12,))
    for i in range(14):
        with T.block("B"):
            vi = T.axis.spatial(14, i)
            B[vi] = T.max(A[vi], A[vi + 2])
    for i in range(12):
        with T.block("C"):
            vi = T.axis.spatial(12, i)
            C[vi] = T.max(B[vi], B[vi + 2])
    for i in range(10):
        with T.block("D"):
            vi = T.axis.spatial(10, i)
            D[vi] = T.max(C[vi], C[vi + 2])


@pytest.mark.parametrize("order", ["BC", "CB"])
def test_circular_buffers_read_circular_buffers(order):
    schedule = Schedule(three_stages)
    outer, _ = schedule.split(schedule.get_loops("D")[0], [None, 2])
    schedule.compute_at("C", outer)
    schedule.compute_at("B", outer)

    for name in order:
        schedule.rolling_buffer(name, 0)

    check_schedule(schedule, three_stages)


@T.prim_func
def rounds_of_columns(
    X: T.Buffer((6,), "float32"),
    Y: T.Buffer((12,), "float32"),
    C: T.Buffer((2, 6), "float32"),
):
    for t in range(2):
        for i in range(6):
            with T.block("Y"):
                vt, vi = T.axis.remap("SS", [t, i])
                Y[vi * 2 + vt] = X[vi]
        for i in range(6):
            with T.block("C"):
                vt, vi = T.axis.remap("SS", [t, i])
                C[vt, vi] = Y[vi * 2 + vt]


def test_circular_buffers_reuse_only_loop_invariant_elements():
    schedule = Schedule(rounds_of_columns)
    schedule.cache_read("C", 0, "global")

    with pytest.raises(ScheduleError, match="`Y` may overwrite `Y` in each iteration"):
        schedule.rolling_buffer("Y_global", 0)


def test_only_serial_loops_turn_a_ring():
    schedule = Schedule(neighbours)
    (i,) = schedule.get_loops("C")
    schedule.compute_at("B", i)
    schedule.parallel(i)

    with pytest.raises(ScheduleError, match="loop `i` is parallel: expected a serial"):
        schedule.rolling_buffer("B", 0)


def test_rings_need_whole_tiles():
    schedule = Schedule(neighbours)
    schedule.compute_at("B", schedule.get_loops("C")[0])
    schedule.split(schedule.get_loops("B")[1], [None, 3])

    with pytest.raises(ScheduleError, match="does not only constrain its iter vars"):
        schedule.rolling_buffer("B", 0)


@T.prim_func
def made_once(A: T.Buffer((9,), "float32"), C: T.Buffer((2, 8), "float32")):
    B = T.alloc_buffer((9,))
    for r, i in T.grid(2, 8):
        for u in range(2):
            with T.block("B"):
                vi = T.axis.spatial(9, i + u)
                T.where(r < 1)
                B[vi] = A[vi] * 2.0
        with T.block("C"):
            vr, vi = T.axis.remap("SS", [r, i])
            C[vr, vi] = B[vi] + B[vi + 1]


def test_rings_need_tiles_in_each_step():
    schedule = Schedule(made_once)

    with pytest.raises(
        ScheduleError, match="expected that each iteration computes its tile"
    ):
        schedule.rolling_buffer("B", 0)


@T.prim_func
def made_in_columns(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    B = T.alloc_buffer((16,))
    for j in range(8):
        for i in range(2):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi * 8 + vj] = A[vi * 8 + vj] * 2.0
        for u in range(9):
            with T.block("C"):
                vj, vu = T.axis.remap("SS", [j, u])
                C[vj + vu] = B[vj + vu]


def test_rings_need_tiles_without_gaps():
    schedule = Schedule(made_in_columns)

    with pytest.raises(ScheduleError, match="may leave out elements of a tile"):
        schedule.rolling_buffer("B", 0)


@T.prim_func
def overwritten_by_rows(X: T.Buffer((4, 4), "float32"), C: T.Buffer((7,), "float32")):
    B = T.alloc_buffer((7,))
    for i in range(4):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi + vj] = X[vi, vj]
        for j in range(4):
            with T.block("C"):
                v = T.axis.opaque(7, i + j)
                C[v] = B[v]


def test_circular_buffers_keep_no_elements_that_are_overwritten():
    schedule = Schedule(overwritten_by_rows)

    with pytest.raises(ScheduleError, match="`B` may write the same element of `B`"):
        schedule.rolling_buffer("B", 0)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_copies_at_a_loop_hold_all_that_is_under_it(number):
    schedule = Schedule(rows_of_sums)
    *outer, _ = schedule.get_loops("B")
    schedule.split(outer[1], [2, 2])
    loop = schedule.get_loops("B")[number]
    schedule.read_at(loop, "B", 0, "shared")
    schedule.write_at(loop, "C", 0, "local")

    check_schedule(schedule, rows_of_sums)


@T.prim_func
def padded(A: T.Buffer((6,), "float32"), B: T.Buffer((10,), "float32")):
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
            B[vi] = T.if_then_else(vi >= 2 and vi < 8, A[vi - 2], T.float32(3))


def test_a_copy_inside_a_block_holds_what_lies_in_the_buffer():
    schedule = Schedule(padded)
    schedule.blockize(schedule.get_loops("B")[0])
    schedule.cache_read("B", 0, "local")

    assert 'A_local = T.alloc_buffer((6,), scope="local")' in script_lines(schedule)
    check_schedule(schedule, padded)


@T.prim_func
def triangle(A: T.Buffer((5,), "float32"), C: T.Buffer((5,), "float32")):
    for i in range(5):
        with T.block("row"):
            vi = T.axis.spatial(5, i)
            for j in range(vi + 1):
                with T.block("C"):
                    vj = T.axis.reduce(vi + 1, j)
                    with T.init():
                        C[vi] = 0.0
                    C[vi] = C[vi] + A[vj]


def test_a_copy_inside_a_block_has_one_size_in_all_steps():
    schedule = Schedule(triangle)
    schedule.cache_read("C", 0, "local")

    assert 'A_local = T.alloc_buffer((5,), scope="local")' in script_lines(schedule)
    assert "for ax0 in range(vi + 1):" in script_lines(schedule)
    check_schedule(schedule, triangle)


@T.prim_func
def running_sums(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6,))
    for i in range(6):
        with T.block("B"):
            vi = T.axis.opaque(6, i)
            B[vi] = T.if_then_else(vi > 0, B[vi - 1], 0.0) + A[vi]
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi]


def test_a_copy_for_readers_is_made_of_what_was_written_before():
    schedule = Schedule(running_sums)
    schedule.cache_inplace("B", 0, "global")

    with pytest.raises(ScheduleError, match="expected readers after it"):
        schedule.cache_read("C", 0, "local")
    schedule.cache_read("C", 0, "local", ["C"])

    check_schedule(schedule, running_sums)


@T.prim_func
def counted_up(A: T.Buffer((6,), "float32")):
    for i in range(6):
        with T.block("A"):
            vi = T.axis.spatial(6, i)
            A[vi] = A[vi] + 1.0


def test_a_copy_at_a_loop_does_not_miss_what_is_written():
    schedule = Schedule(counted_up)
    (loop,) = schedule.get_loops("A")

    with pytest.raises(
        ScheduleError, match="is written under loop `i` after it is read"
    ):
        schedule.read_at(loop, "A", 0, "local")
    with pytest.raises(ScheduleError, match="is read before it is written"):
        schedule.write_at(loop, "A", 0, "local")


_SUMS_OF_AXES = """
@T.prim_func
def main(A: T.Buffer((12,), "float32"), C: T.Buffer((12,), "float32")):
    B = T.alloc_buffer((12,))
    for i, j in T.grid({rows}, {columns}):
        with T.block("B"):
            vi = T.axis.spatial({rows}, i)
            vj = T.axis.spatial({columns}, j)
            B[{index}] = A[{index}] * 2.0
    for i in range(12):
        with T.block("C"):
            vi = T.axis.spatial(12, i)
            C[vi] = B[vi] + 1.0
"""


@pytest.mark.parametrize(
    ("rows", "columns", "index", "loops"),
    [
        (12, 1, "vi + vj", 1),
        (3, 4, "vi * 4 + vj", 1),
        (3, 4, "11 - vi * 4 - vj", 1),
    ],
)
def test_producers_whose_indices_are_sums_of_axes_move(rows, columns, index, loops):
    text = _SUMS_OF_AXES.format(rows=rows, columns=columns, index=index)
    before = from_source(text)
    schedule = Schedule(before)

    schedule.compute_at("B", schedule.get_loops("C")[0])

    assert len(schedule.get_loops("B")) == loops
    check_schedule(schedule, before)


@pytest.mark.parametrize(
    ("rows", "columns", "index"),
    [
        (4, 6, "vi * 2 + vj"),  # more than one point writes an element
        (4, 3, "vi * 3 + (2 - vj)"),  # which is not proved of sums that rise and fall
    ],
)
def test_producers_several_points_of_which_may_write_an_element_stay(
    rows, columns, index
):
    schedule = Schedule(
        from_source(_SUMS_OF_AXES.format(rows=rows, columns=columns, index=index))
    )

    with pytest.raises(ScheduleError, match="several instances of block `B` may write"):
        schedule.compute_at("B", schedule.get_loops("C")[0])


_FIRST_ELEMENT = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((1, 1), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
    for i, j in T.grid(1, 1):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[{index}] + 1.0
"""


@pytest.mark.parametrize("index", ["vi", "vi + vj", "vi * 2", "3 - vi - vj * 2"])
@pytest.mark.parametrize(
    "step",
    [
        lambda s: s.reverse_compute_inline("C"),
        lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]),
    ],
    ids=["inline", "at"],
)
def test_consumers_of_one_element_leave_out_the_others(step, index):
    before = from_source(_FIRST_ELEMENT.format(index=index))
    schedule = Schedule(before)

    step(schedule)

    assert any(line.startswith("T.where") for line in script_lines(schedule))
    check_schedule(schedule, before)

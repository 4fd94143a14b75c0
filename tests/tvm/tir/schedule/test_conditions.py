"""Predicates stay in force, and blocks that share a loop stay in order."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir.schedule import Schedule, predicates, tree
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols
from tests.tvm.tir.schedule.apply import check_schedule, script_lines
from tests.tvm.tir.schedule.programs import (
    corner,
    fused_rows,
    guarded,
    matmul_relu,
    mirrored,
    neighbours,
    padded,
    scale_shift,
    strided_sum,
)

KEEPING = {
    "reverse_compute_at": (
        lambda s: s.reverse_compute_at("B", s.get_loops("C")[0], index=0),
        "T.where(ax0 < 5)",
    ),
    "transform_block_layout": (
        lambda s: s.transform_block_layout("B", lambda i: (i // 2, i % 2)),
        "T.where(ax0 * 2 + ax1 < 5)",
    ),
    "reindex": (
        lambda s: s.reindex("B", ("write", 0)),
        "T.where(ax0 < 5)",
    ),
    "reindex_cache_write": (
        lambda s: s.reindex_cache_write("B", 0, "local", lambda i: (i,)),
        "T.where(i < 5)",
    ),
}


@pytest.mark.parametrize("name", KEEPING)
def test_a_block_goes_on_leaving_out_elements(name):
    step, expected = KEEPING[name]
    schedule = Schedule(guarded)
    step(schedule)

    assert expected in script_lines(schedule)
    check_schedule(schedule, guarded)


def test_a_consumer_of_one_row_leaves_out_the_others():
    schedule = Schedule(corner)
    schedule.reverse_compute_inline("C")

    assert "T.where(i < 1 and j < 2)" in script_lines(schedule)
    check_schedule(schedule, corner)


def test_a_predicate_of_a_fused_loop_is_one_of_axes():
    schedule = Schedule(fused_rows)
    schedule.reverse_compute_inline("C")
    schedule.reindex("B", ("write", 0))

    assert "T.where(ax0 * 7 + ax1 < 27 and ax1 < 6)" in script_lines(schedule)
    check_schedule(schedule, fused_rows)


def test_predicates_that_are_taken_away_leave_nothing():
    schedule = Schedule(triangle)
    schedule.split(schedule.get_loops("B")[0], [3, 2])
    function = schedule.state.function("main")
    (block,) = tree.find_blocks(function, "B")
    assert str(function).count("scf.if") == 1

    predicates.set_predicate(block, [], IndexSymbols())

    assert str(function).count("scf.if") == 0
    assert tree.predicate_of(block) is None
    assert function.verify()


@T.prim_func
def triangle(A: T.Buffer((5, 6), "float32"), B: T.Buffer((5, 6), "float32")):
    for i, j in T.grid(5, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i + j < 6)
            B[vi, vj] = A[vi, vj] + 1.0


def test_a_predicate_of_several_axes_outlives_a_split():
    schedule = Schedule(triangle)
    schedule.split(schedule.get_loops("B")[0], [3, 2])
    schedule.reindex("B", ("write", 0))

    assert "T.where(ax0 + ax1 < 6)" in script_lines(schedule)
    check_schedule(schedule, triangle)


@T.prim_func
def two_in_a_loop(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = T.if_then_else(vi < 6, A[vi], 0.0)
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + 1.0


def test_a_loop_of_several_blocks_is_not_narrowed():
    schedule = Schedule(two_in_a_loop)
    schedule.decompose_padding("B", schedule.get_loops("B")[0])

    assert "T.where(i < 6)" in script_lines(schedule)
    check_schedule(schedule, two_in_a_loop)


def test_copies_of_an_axis_whose_loops_end_early_are_refused():
    schedule = Schedule(scale_shift)
    column = schedule.get_loops("B")[1]
    *_, unit = schedule.split(column, [None, 4, 1], preserve_unit_iters=False)
    schedule.split(unit, [None, 2])

    with pytest.raises(ScheduleError, match="does not only constrain its iter vars"):
        schedule.reindex_cache_write("B", 0, "local", lambda i, j: (i, j))

    check_schedule(schedule, scale_shift)


def _written_and_decomposed(schedule):
    schedule.decompose_reduction("B", schedule.get_loops("B")[1])
    schedule.reindex_cache_write("B_update", 0, "local", lambda i, _: (i,))


def _read_before_it_is_made(schedule):
    row, column = schedule.get_loops("D")
    schedule.read_at(row, "D", 0, "local")
    schedule.reverse_compute_at("C", column)


@T.prim_func
def summed_twice(
    X: T.Buffer((4, 3), "float32"),
    W: T.Buffer((4, 2), "float32"),
    C: T.Buffer((2,), "float32"),
):
    B = T.alloc_buffer((4,))
    for i, k in T.grid(4, 3):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + X[vi, vk]
    for i, k in T.grid(2, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + B[vk] * W[vk, vi]


def _summed_in_a_fused_loop(schedule):
    schedule.fuse(*schedule.get_loops("B"))
    schedule.reverse_compute_at("C", schedule.get_loops("B")[0])


def test_a_sum_of_sums_moves_to_where_each_is_ready():
    schedule = Schedule(summed_twice)
    schedule.reverse_compute_at("C", schedule.get_loops("B")[0])

    check_schedule(schedule, summed_twice)


def _padded_after_a_part(schedule):
    schedule.decompose_padding("C", schedule.get_loops("C")[0])
    schedule.pad_einsum("C", [4])


def _rolled_copy(schedule):
    schedule.cache_write("B", 0, "local")
    copy = schedule.read_at(schedule.get_loops("C")[0], "C", 0, "local")
    schedule.rolling_buffer(copy, 0)


def _repeated(schedule):
    row, _ = schedule.get_loops("D")
    schedule.reverse_compute_at("C", row, index=0)
    schedule.decompose_reduction("C", schedule.get_loops("C")[0])


def _copied_over(schedule):
    start = schedule.decompose_padding("B", schedule.get_loops("B")[1])
    schedule.reindex_cache_write(start, 0, "local", lambda i, j: (i, j))


REFUSED = {
    "a copy over what another wrote": (
        padded,
        _copied_over,
        "block `B` writes `B` after block `B_pad_const`",
    ),
    "a sum that is repeated": (
        matmul_relu,
        _repeated,
        "decompose_reduction: loop `i` repeats block `C`",
    ),
    "a sum of unfinished sums": (
        summed_twice,
        lambda s: s.reverse_compute_at("C", s.get_loops("B")[1]),
        "block `C` would combine some values several times under loop `k`",
    ),
    "a sum of unfinished sums in a fused loop": (
        summed_twice,
        _summed_in_a_fused_loop,
        "the producers of block `C` may not write all that it reads",
    ),
    "a writer in the loop": (
        two_in_a_loop,
        lambda s: s.reindex("C", ("read", 0)),
        "reindex: block `B` uses `B`, and is in a loop with block `C`",
    ),
    "a reader in the loop": (
        two_in_a_loop,
        lambda s: s.reindex("B", ("write", 0)),
        "reindex: block `C` uses `B`, and is in a loop with block `B`",
    ),
    "elements outside of the buffer": (
        padded,
        lambda s: s.reindex_cache_read("B", 0, "local", lambda i, j: (j, i)),
        "accesses `A` under a condition, at indices from -2 to 8 of 7",
    ),
    "a sum that goes on": (
        strided_sum,
        _written_and_decomposed,
        "block `B_update` updates the earlier value of `B`",
    ),
    "a consumer that comes first": (
        matmul_relu,
        _read_before_it_is_made,
        "block `C_local` reads the result of block `C` and comes before loop `j`",
    ),
    "a part of a buffer": (
        guarded,
        _padded_after_a_part,
        "pad_einsum: block `C`: axis `vi` covers 3 of 5 elements of `B`",
    ),
    "a copy with loops of its own": (
        neighbours,
        _rolled_copy,
        "rolling_buffer: block `B_local` writes `B_local` in loops of its own",
    ),
    "elements that other steps make": (
        mirrored,
        lambda s: s.merge(s.get_loops("B")[0], s.get_loops("C")[0]),
        "merge: loop `i` has extent 5: expected 6",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_change_results_is_refused(name):
    program, attempt, message = REFUSED[name]
    schedule = Schedule(program)

    with pytest.raises(ScheduleError, match=message):
        attempt(schedule)

    check_schedule(schedule, program)


@T.prim_func
def turned(A: T.Buffer((6, 6), "float32"), C: T.Buffer((6, 6), "float32")):
    B = T.alloc_buffer((6, 6))
    for i, j in T.grid(6, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(6, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vj, vi] + 1.0


@T.prim_func
def tiled(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32")):
    B = T.alloc_buffer((32,))
    for i, u in T.grid(8, 4):
        with T.block("B"):
            vi, vu = T.axis.remap("SS", [i, u])
            B[vi * 4 + vu] = A[vi * 4 + 3 - vu] * 2.0
    for i, u in T.grid(8, 4):
        with T.block("C"):
            vi, vu = T.axis.remap("SS", [i, u])
            C[vi * 4 + vu] = B[vi * 4 + 3 - vu] + 1.0


@T.prim_func
def columns(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
    B = T.alloc_buffer((6,))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vj] = A[vi, vj] * 2.0
    for i, j in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vj] + 1.0


def test_loops_over_tiles_merge():
    schedule = Schedule(tiled)
    schedule.merge(schedule.get_loops("B")[0], schedule.get_loops("C")[0])

    assert script_lines(schedule).count("for i_m in range(8):") == 1
    check_schedule(schedule, tiled)


def test_loops_that_touch_all_of_a_buffer_in_each_step_do_not_merge():
    schedule = Schedule(columns)
    with pytest.raises(ScheduleError, match="share `B`, and one writes it"):
        schedule.merge(schedule.get_loops("B")[1], schedule.get_loops("C")[1])


def test_loops_whose_steps_need_one_another_do_not_merge():
    schedule = Schedule(turned)

    with pytest.raises(ScheduleError, match="share `B`, and one writes it"):
        schedule.merge(schedule.get_loops("B")[1], schedule.get_loops("C")[1])

    merged = Schedule(scale_shift)
    merged.merge(merged.get_loops("B")[1], merged.get_loops("C")[1])
    check_schedule(merged, scale_shift)


def test_the_root_stays_known_when_primitives_are_refused():
    schedule = Schedule(scale_shift)
    root = schedule.get_block("root")

    for _ in range(2):
        with pytest.raises(ScheduleError, match="not in the map"):
            schedule.reindex_cache_read("B", 0, "local", lambda i, j: (i,))

    assert len(schedule.get_child_blocks(root)) == 2
    check_schedule(schedule, scale_shift)


@T.prim_func
def _row_sums(A: T.Buffer((3, 4), "float32"), B: T.Buffer((3,), "float32")):
    for i, k in T.grid(3, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


@pytest.mark.parametrize(
    "apply",
    [
        lambda s, loops: s.blockize(loops[0], preserve_unit_iters=False),
        lambda s, loops: s.decompose_reduction("B", loops[0]),
    ],
)
def test_a_start_value_leaves_out_what_a_loop_of_one_step_does(apply):
    schedule = Schedule(_row_sums)
    first, _ = schedule.get_loops("B")
    schedule.split(first, [None, 5], preserve_unit_iters=False)

    apply(schedule, schedule.get_loops("B"))

    assert "T.where(i_1 < 3)" in [
        line.replace("i_1_init", "i_1") for line in script_lines(schedule)
    ]
    check_schedule(schedule, _row_sums)


@T.prim_func
def _corner_sums(A: T.Buffer((8, 4), "float32"), B: T.Buffer((6,), "float32")):
    for i, k in T.grid(8, 4):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            vk = T.axis.reduce(4, k)
            T.where(i + k < 6)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


def test_a_start_value_is_set_where_the_first_value_is_added():
    schedule = Schedule(_corner_sums)
    schedule.blockize(schedule.get_loops("B")[0])

    assert "T.where(i < 6)" in script_lines(schedule)
    check_schedule(schedule, _corner_sums)


@T.prim_func
def _changed_rows(A: T.Buffer((3, 4), "float32")):
    for i, j in T.grid(3, 4):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = A[vi, vj] * 2.0


@pytest.mark.parametrize(
    "apply",
    [
        lambda s: s.reindex("A", ("read", 0)),
        lambda s: s.reindex_cache_read("A", 0, "shared", lambda i, j: (i, j)),
    ],
)
def test_a_block_does_not_only_write_a_copy_of_what_it_reads(apply):
    schedule = Schedule(_changed_rows)

    with pytest.raises(
        ScheduleError, match="`A` also writes `A`: expected that it only"
    ):
        apply(schedule)

    check_schedule(schedule, _changed_rows)


_GUARDED_READ = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, ({size}, n), "float32")
    C = T.match_buffer(c, ({extent}, n), "float32")
    for i, j in T.grid({extent}, n):
        with T.block("C"):
            vi = T.axis.spatial({extent}, i)
            vj = T.axis.spatial(n, j)
            T.where(i < {end})
            C[vi, vj] = T.if_then_else(vi < {size}, A[vi, vj], T.float32(2))
"""


@pytest.mark.parametrize(
    ("size", "extent", "end", "is_inside"),
    [
        ("n", "(n + 1) // 2 * 2", "n + 2", False),
        ("n + 1", "(n + 1) // 2 * 2", "n + 2", True),
        ("5", "8", "7", False),
        ("5", "8", "5", True),
        ("n", "n + 4", "n + 1", False),
        ("n", "n + 4", "n", True),
    ],
)
@pytest.mark.parametrize(
    "step",
    [
        lambda s: s.reindex("C", ("read", 0)),
        lambda s: s.reindex_cache_read("C", 0, "local", lambda i, j: (j, i)),
    ],
    ids=["reindex", "reindex_cache_read"],
)
def test_copies_of_guarded_reads_stay_inside_of_the_buffer(
    step, size, extent, end, is_inside
):
    text = _GUARDED_READ.format(size=size, extent=extent, end=end)
    schedule = Schedule(from_source(text))
    if not is_inside:
        with pytest.raises(ScheduleError, match="expected indices within"):
            step(schedule)
        return

    step(schedule)

    predicates = [o for o in script_lines(schedule) if o.startswith("T.where")]
    assert len(predicates) == 2 or end == "n + 2"  # which leaves out nothing

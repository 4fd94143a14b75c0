"""Primitives that recognise computations, and the assumptions of primitives that move blocks."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

import collections

import numpy as np
import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir.schedule import Schedule
from relax_mlir.tvm.tir.schedule.testing import verify_trace_roundtrip
from tests.tvm.tir.schedule.apply import (
    check_same_results,
    check_schedule,
    script_lines,
)
from tests.tvm.tir.schedule.evaluate import evaluate
from tests.tvm.tir.schedule.programs import (
    matmul_relu,
    neighbours,
    padded,
    scale_shift,
    strided_sum,
)


@T.prim_func
def windows(A: T.Buffer((14,), "float32"), C: T.Buffer((12,), "float32")):
    B = T.alloc_buffer((14,))
    for i in range(14):
        with T.block("B"):
            vi = T.axis.spatial(14, i)
            B[vi] = A[vi] * 2.0
    for i, k in T.grid(12, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + B[vi + vk]


@T.prim_func
def doubled(A: T.Buffer((9,), "float32"), C: T.Buffer((18,), "float32")):
    B = T.alloc_buffer((9,))
    for i in range(9):
        with T.block("B"):
            vi = T.axis.spatial(9, i)
            B[vi] = A[vi] * 2.0
    for i in range(18):
        with T.block("C"):
            vi = T.axis.spatial(18, i)
            C[vi] = B[vi // 2] + 1.0


@T.prim_func
def row_maxima(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.min_value("float32")
            B[vi] = T.max(B[vi], A[vi, vk])


@T.prim_func
def limited(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,))
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = T.max(T.min(B[vi], 3.0), -3.0)


@T.prim_func
def scaled(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,))
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi] * 2.0


@T.prim_func
def biased(
    A: T.Buffer((4, 6), "float32"), X: T.Buffer((4,)), C: T.Buffer((4,), "float32")
):
    B = T.alloc_buffer((4,))
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi] + X[vi]


@T.prim_func
def shared_rows(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    B = T.alloc_buffer((6,))
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("RS", [i, j])
            with T.init():
                B[vj] = 0.0
            B[vj] = B[vj] + A[vi, vj]
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vj]


def test_limits_apply_at_every_step():
    @T.prim_func
    def expected(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4,), "float32")):
        B = T.alloc_buffer((4,))  # noqa: F841  nobody uses it now
        for i, k in T.grid(4, 6):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.max(T.min(T.float32(0.0), 3.0), -3.0)
                C[vi] = T.max(T.min(C[vi] + A[vi, vk], 3.0), -3.0)

    schedule = Schedule(limited)
    schedule.fuse_reduction_epilogue("B", "C")

    assert_structural_equal(
        schedule.mod["main"], expected.with_attr("global_symbol", "main")
    )
    verify_trace_roundtrip(schedule, limited)


@pytest.mark.parametrize("tile", [3, 4, 9])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_padding_is_taken_apart_inside_of_tiles(tile, number):
    schedule = Schedule(padded)
    _, j, _ = schedule.get_loops("C")
    outer, _ = schedule.split(j, [None, tile])
    schedule.compute_at("B", outer)
    loop = schedule.get_loops("B")[number]
    schedule.decompose_padding("B", loop)

    check_schedule(schedule, padded)


def _padded_where(condition):
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = T.if_then_else({condition}, A[vi], 3.0)
""")


@pytest.mark.parametrize("condition", ["vi >= 3 and vi < 12", "vi >= -2 and vi < 5"])
def test_what_padding_leaves_lies_in_the_block(condition):
    program = _padded_where(condition)
    schedule = Schedule(program)
    schedule.decompose_padding("B", schedule.get_loops("B")[0])

    assert "vi = T.axis.spatial(5, i)" in script_lines(schedule)
    check_schedule(schedule, program)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("vi < 9", "pads nothing"),
        ("vi >= 8", "stores no elements"),
        ("vi >= 5 and vi < 4", "stores no elements"),
    ],
)
def test_padding_alone_and_no_padding_are_not_taken_apart(condition, message):
    schedule = Schedule(_padded_where(condition))

    with pytest.raises(ScheduleError, match=message):
        schedule.decompose_padding("B", schedule.get_loops("B")[0])


def test_what_can_be_decomposed_is_known():
    schedule = Schedule(padded)

    assert schedule.can_decompose_padding("B", schedule.get_loops("B")[0])
    assert not schedule.can_decompose_padding("C", schedule.get_loops("C")[0])
    assert not schedule.can_decompose_padding("B", schedule.get_loops("C")[0])


@T.prim_func
def masked(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6,), "bool")
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[vi] = A[vi] > 1.0
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = T.Select(B[vi], A[vi], 2.0)


def test_truth_values_are_padded_with_false():
    schedule = Schedule(masked)
    schedule.pad_einsum("C", [4])

    script = schedule.mod["main"].script()
    assert "B_pad[v0] = T.if_then_else(v0 < 6, B[v0], T.bool(False))" in script
    assert from_source(script).script() == script
    check_schedule(schedule, masked)


def test_a_layout_pads_truth_values_with_truth_values():
    schedule = Schedule(masked)
    schedule.transform_layout(
        "B", ("write", 0), lambda i: (i // 4, i % 4), pad_value=True
    )

    script = schedule.mod["main"].script()
    assert "T.bool(True), A[v_axis0 * 4 + v_axis1] > T.float32(1.0))" in script
    assert from_source(script).script() == script
    check_schedule(schedule, masked)


@pytest.mark.parametrize("sizes", [[4, 3, 1], [1, 1, 4], [8, 8, 8]])
def test_padded_products_are_the_same(sizes):
    schedule = Schedule(matmul_relu)
    schedule.pad_einsum("C", sizes)

    check_schedule(schedule, matmul_relu)


def test_partial_results_leave_out_what_the_reduction_does():
    schedule = Schedule(strided_sum)
    i, k = schedule.get_loops("B")
    schedule.split(i, [None, 3])
    outer, _ = schedule.split(k, [None, 2])
    schedule.rfactor(outer, 0)

    check_same_results(strided_sum, schedule.mod["main"])


@pytest.mark.parametrize("tile", [1, 2, 4])
def test_a_consumer_takes_all_that_reads_what_was_made(tile):
    schedule = Schedule(doubled)
    outer, _ = schedule.split(schedule.get_loops("B")[0], [None, tile])
    schedule.reverse_compute_at("C", outer)

    check_same_results(doubled, schedule.mod["main"])


def _with_start_inside(schedule):
    """The init block contains a nested block, in a block over rows."""
    schedule.blockize(schedule.get_loops("C")[1])


def _merged_with_start(schedule):
    _with_start_inside(schedule)
    schedule.merge(schedule.get_loops("C_init")[0], schedule.get_loops("C")[0])


def _joined_with_start(schedule):
    _with_start_inside(schedule)
    schedule.blockize([schedule.get_block("C_init"), schedule.get_block("C")])


def _reindexed_start(schedule):
    schedule.blockize(schedule.get_loops("C")[0])
    schedule.reindex("C_init", ("write", 0))


def _in_parts(schedule):
    """Each iteration of the outer loop visits a part of two iter domains."""
    schedule.loop_partition(schedule.get_loops("B")[1], [4])


_REFUSED = {
    "reindex: a part of an axis": (
        scale_shift,
        lambda s: (_in_parts(s), s.reindex("B_j0", ("write", 0))),
        "axis `vi` of block `B_j0` depends on variables from outside",
    ),
    "pad_einsum: a part of an axis": (
        scale_shift,
        lambda s: (_in_parts(s), s.pad_einsum("B_j0", [1, 3])),
        "axis `vi` of block `B_j0` depends on variables from outside",
    ),
    "merge: start value": (matmul_relu, _merged_with_start, "consecutive"),
    "blockize: start value": (matmul_relu, _joined_with_start, "consecutive"),
    "reindex: start value": (
        matmul_relu,
        _reindexed_start,
        "block `C_init` is in the init block of block `C_o`",
    ),
    "reverse_compute_at: window": (
        windows,
        lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]),
        r"block `C` reads elements of `B` from more than one iteration of loop `i`",
    ),
    "reverse_compute_at: neighbours": (
        neighbours,
        lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]),
        r"block `C` reads elements of `B` from more than one iteration of loop `i`",
    ),
    "fuse_reduction_epilogue: other operation": (
        scaled,
        lambda s: s.fuse_reduction_epilogue("B", "C"),
        r"block `C`: expected one store of the result with a bias",
    ),
    "fuse_reduction_epilogue: no sum": (
        scale_shift,
        lambda s: s.fuse_reduction_epilogue("B", "C"),
        r"block `B` is not a reduction block",
    ),
    "fuse_reduction_epilogue: order": (
        biased,
        lambda s: (
            s.read_at(s.get_loops("C")[0], "C", 1, "local"),
            s.fuse_reduction_epilogue("B", "C"),
        ),
        r"block `X_local` is computed between block `B` and block `C`, and uses `X_local`",
    ),
    "pad_einsum: maximum": (
        row_maxima,
        lambda s: s.pad_einsum("B", [1, 4]),
        r"block `B`: expected a sum of products with an operand indexed by each",
    ),
    "pad_einsum: indices": (
        windows,
        lambda s: s.pad_einsum("C", [1, 2]),
        r"block `C`: expected one access pattern for each buffer",
    ),
    "pad_einsum: start value": (
        matmul_relu,
        lambda s: (
            s.decompose_reduction("C", s.get_loops("C")[0]),
            s.pad_einsum("C_update", [4, 1, 1]),
        ),
        r"block `C_update` reads `C`, which it writes, and has no init block",
    ),
    "pad_einsum: start value from a buffer": (
        biased,
        lambda s: (
            s.fuse_reduction_epilogue("B", "C"),
            s.pad_einsum("B", [3, 1]),
        ),
        r"the initial value of block `B` is read from a buffer",
    ),
    "merge: the same elements": (
        shared_rows,
        lambda s: s.merge(s.get_loops("B")[0], s.get_loops("C")[0]),
        r"share `B`, and one writes it",
    ),
    "pad_einsum: loops": (
        matmul_relu,
        lambda s: (s.split(s.get_loops("C")[0], [2, 3]), s.pad_einsum("C", [4, 1, 1])),
        r"axis `vi` is not bound to a loop of its own",
    ),
    "decompose_padding": (
        scale_shift,
        lambda s: s.decompose_padding("B", s.get_loops("B")[0]),
        r"block `B`: expected one store of an element where a condition holds",
    ),
    "reverse_compute_at: writers": (
        padded,
        lambda s: (
            s.decompose_padding("B", s.get_loops("B")[0]),
            s.reverse_compute_at("B_pad_const", s.get_loops("B")[0]),
        ),
        r"block `B` updates what block `B_pad_const` writes",
    ),
    "compute_at: start value": (
        matmul_relu,
        lambda s: (
            s.decompose_reduction("C", s.get_loops("C")[0]),
            s.compute_at("C_init", s.get_loops("C_update")[2]),
        ),
        r"block `C_update` updates what block `C_init` writes",
    ),
    "pad_einsum: shared loops": (
        scale_shift,
        lambda s: (
            s.merge(s.get_loops("B")[0], s.get_loops("C")[0]),
            s.pad_einsum("C", [1, 4]),
        ),
        r"block `C` and block `B` are in one loop",
    ),
    "loop_partition": (
        strided_sum,
        lambda s: s.loop_partition(s.get_loops("B")[1], [2]),
        r"loop `k` is part of a reduce axis of block `B`, which has an init block",
    ),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_what_would_change_results_is_refused(name):
    program, attempt, message = _REFUSED[name]
    schedule = Schedule(program)

    with pytest.raises(ScheduleError, match=message):
        attempt(schedule)

    check_same_results(program, schedule.mod["main"])


@pytest.mark.parametrize("position", [0, 1, 2])
def test_inner_factors_are_a_multiple_together(position):
    schedule = Schedule(scale_shift, seed=5)
    loop = schedule.get_loops("B")[0]
    for _ in range(9):
        given = schedule.sample_partitioned_tile(loop, 3, position, 4)
        factors = [schedule.get(f) for f in given]
        assert np.prod(factors) == 12
        assert position == 0 or np.prod(factors[position:]) % 4 == 0

    verify_trace_roundtrip(schedule, scale_shift)


def test_factors_of_a_size_that_nobody_knows_leave_the_first_open():
    @T.prim_func
    def fill(a: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,))
        for i in range(n):
            with T.block("A"):
                vi = T.axis.spatial(n, i)
                A[vi] = 1.0

    schedule = Schedule(fill)
    (loop,) = schedule.get_loops("A")
    first, *others = schedule.sample_perfect_tile(loop, 3)
    schedule.split(loop, [first, *others])

    assert first is None
    assert [schedule.get(f) for f in others] == [1, 1]
    verify_trace_roundtrip(schedule, fill)


def test_places_to_compute_at_are_loops_or_none():
    schedule = Schedule(scale_shift, seed=1)
    for _ in range(30):
        schedule.sample_compute_location("B")
    decided = collections.Counter(schedule.trace.decisions.values())

    assert set(decided) == {-2, -1, 0, 1}
    stays, inlined = (
        schedule.sample_compute_location("B", decision=n) for n in (-1, -2)
    )
    before = schedule.mod
    schedule.compute_at("B", stays)
    assert_structural_equal(schedule.mod, before)
    schedule.compute_at("B", inlined)
    with pytest.raises(ScheduleError, match="Cannot find a block"):
        schedule.get_block("B")


def test_only_what_a_consumer_reads_is_made():
    @T.prim_func
    def crop(A: T.Buffer((6, 8), "float32"), C: T.Buffer((20,), "float32")):
        B = T.alloc_buffer((6, 8))
        for i, j in T.grid(6, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2.0
        for i in range(20):
            with T.block("C"):
                vi = T.axis.spatial(20, i)
                C[vi] = B[vi // 4 + 1, vi % 4 + 3]

    schedule = Schedule(crop)
    schedule.reverse_compute_inline("C")
    array = np.arange(48.0).reshape(6, 8)

    result = evaluate(schedule.mod["main"], array, np.full(20, np.nan))[-1]

    np.testing.assert_array_equal(result, 2 * array[1:6, 3:7].reshape(-1))


@T.prim_func
def chosen(
    A: T.Buffer((9,), "float32"),
    N: T.Buffer((4,), "int32"),
    C: T.Buffer((4,), "float32"),
):
    B = T.alloc_buffer((9,))
    for i in range(9):
        with T.block("B"):
            vi = T.axis.spatial(9, i)
            B[vi] = A[vi] * 2.0
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[N[vi]] + 1.0


def test_elements_that_memory_chooses_may_be_any():
    schedule = Schedule(chosen)
    schedule.compute_at("B", schedule.get_loops("C")[0])
    places, array = np.array([5, 0, 8, 5]), np.arange(9.0)

    result = evaluate(schedule.mod["main"], array, places, np.full(4, np.nan))[-1]

    np.testing.assert_array_equal(result, 2 * array[places] + 1)
    schedule = Schedule(chosen)
    with pytest.raises(ScheduleError, match="more than one iteration of loop `i`"):
        schedule.reverse_compute_at("C", schedule.get_loops("B")[0])


def test_reads_are_counted_from_the_outside():
    schedule = Schedule(chosen)
    copies = [schedule.cache_read("C", number, "local") for number in (1, 0)]

    assert [schedule.get(c).name_hint for c in copies] == ["N_local", "B_local"]


def test_tiles_that_overlap_run_in_parallel():
    schedule = Schedule(windows)
    outer, _ = schedule.split(schedule.get_loops("C")[0], [None, 4])
    schedule.compute_at("B", outer)
    schedule.parallel(outer)

    check_same_results(windows, schedule.mod["main"])


def test_a_block_with_a_predicate_is_inlined():
    schedule = Schedule(doubled)
    schedule.split(schedule.get_loops("B")[0], [None, 4])
    schedule.compute_inline("B")

    check_same_results(doubled, schedule.mod["main"])


def test_an_unknown_size_bounds_its_own_loop():
    @T.prim_func
    def rows(a: T.handle, c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 6))
        C = T.match_buffer(c, (n, 6))
        B = T.alloc_buffer((n, 6))
        for i, j in T.grid(n, 6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2.0
        for i, j in T.grid(n, 6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + 1.0

    schedule = Schedule(rows)
    schedule.compute_at("B", schedule.get_loops("C")[0])

    assert "T.where" not in schedule.mod["main"].script()


@T.prim_func
def counted(A: T.Buffer((5,), "float32")):
    for i in range(5):
        with T.block("A"):
            vi = T.axis.spatial(5, i)
            A[vi] = A[vi] + 1.0


def test_nobody_would_read_the_copy_of_what_a_block_changes():
    with pytest.raises(
        ScheduleError, match="no other block reads it: expected a reader"
    ):
        Schedule(counted).cache_read("A", 0, "local")

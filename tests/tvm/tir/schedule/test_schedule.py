"""The result and the rejections of each primitive."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir.schedule import BlockRV, LoopRV, Schedule
from relax_mlir.tvm.tir.schedule.tensor_intrin import TensorIntrin
from relax_mlir.tvm.tir.schedule.testing import verify_trace_roundtrip
from tests.tvm.tir.schedule.programs import matmul_relu, scale_shift, symbolic


def _expect(schedule, expected, original):
    assert_structural_equal(
        schedule.mod["main"].with_attr("global_symbol", "main"),
        expected.with_attr("global_symbol", "main"),
    )
    schedule.mod.verify()
    verify_trace_roundtrip(schedule, original)


@T.prim_func
def _double_row(A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")):
    for j in range(10):
        with T.block("element"):
            vj = T.axis.spatial(10, j)
            B[vj] = A[vj] * 2.0


TensorIntrin.register("test.row", _double_row, _double_row, override=True)


def _unchanged(schedule, original):
    expected = IRModule({"main": original})
    assert_structural_equal(schedule.mod, expected)


def test_split_binds_axes_to_sums_and_leaves_out_what_is_too_much():
    @T.prim_func
    def expected(A: T.Buffer((12, 10), "float32"), C: T.Buffer((12, 10), "float32")):
        B = T.alloc_buffer((12, 10))
        for i_0, i_1, j_0, j_1 in T.grid(3, 4, 4, 3):
            with T.block("B"):
                vi = T.axis.spatial(12, i_0 * 4 + i_1)
                vj = T.axis.spatial(10, j_0 * 3 + j_1)
                T.where(j_0 * 3 + j_1 < 10)
                B[vi, vj] = A[vi, vj] * 2.0
        for i, j in T.grid(12, 10):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + 1.0

    schedule = Schedule(scale_shift)
    i, j = schedule.get_loops("B")
    outer, inner = schedule.split(i, [None, 4])
    schedule.split(j, [4, None])

    assert schedule.get(outer).loop_var.name == "i_0"
    assert schedule.get(inner).extent == 4
    _expect(schedule, expected, scale_shift)


def test_split_of_an_unknown_size():
    @T.prim_func
    def expected(a: T.handle, b: T.handle, n: T.int32):
        A = T.match_buffer(a, (3, n))
        B = T.match_buffer(b, (3, n))
        for i, j_0, j_1 in T.grid(3, (n + 7) // 8, 8):
            with T.block("B"):
                vi = T.axis.spatial(3, i)
                vj = T.axis.spatial(n, j_0 * 8 + j_1)
                T.where(j_0 * 8 + j_1 < n)
                B[vi, vj] = A[vi, vj] + 1.0

    schedule = Schedule(symbolic)
    schedule.split(schedule.get_loops("B")[1], [None, 8])

    _expect(schedule, expected, symbolic)


def test_fuse_divides_the_new_variable():
    @T.prim_func
    def expected(A: T.Buffer((12, 10), "float32"), C: T.Buffer((12, 10), "float32")):
        B = T.alloc_buffer((12, 10))
        for fused in range(120):
            with T.block("B"):
                vi = T.axis.spatial(12, fused // 10)
                vj = T.axis.spatial(10, fused % 10)
                B[vi, vj] = A[vi, vj] * 2.0
        for i, j in T.grid(12, 10):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + 1.0

    schedule = Schedule(scale_shift)
    fused = schedule.fuse(*schedule.get_loops("B"))

    assert schedule.get(fused).loop_var.name == "i_j_fused"
    _expect(schedule, expected, scale_shift)


def test_loops_are_reordered_and_run_in_other_ways():
    @T.prim_func
    def expected(A: T.Buffer((12, 10), "float32"), C: T.Buffer((12, 10), "float32")):
        B = T.alloc_buffer((12, 10))
        for j in T.parallel(10):
            for i in T.vectorized(12):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * 2.0
        for i in T.thread_binding(12, thread="threadIdx.x"):
            for j in T.unroll(10):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + 1.0

    schedule = Schedule(scale_shift)
    i, j = schedule.get_loops("B")
    schedule.reorder(j, i)
    schedule.parallel(j)
    schedule.vectorize(i)
    i, j = schedule.get_loops("C")
    schedule.bind(i, "threadIdx.x")
    schedule.unroll(j)

    _expect(schedule, expected, scale_shift)


def test_compute_at_makes_what_is_needed():
    @T.prim_func
    def expected(A: T.Buffer((12, 10), "float32"), C: T.Buffer((12, 10), "float32")):
        B = T.alloc_buffer((12, 10))
        for i_0 in range(3):
            for ax0, ax1 in T.grid(4, 10):
                with T.block("B"):
                    vi = T.axis.spatial(12, i_0 * 4 + ax0)
                    vj = T.axis.spatial(10, ax1)
                    B[vi, vj] = A[vi, vj] * 2.0
            for i_1, j in T.grid(4, 10):
                with T.block("C"):
                    vi = T.axis.spatial(12, i_0 * 4 + i_1)
                    vj = T.axis.spatial(10, j)
                    C[vi, vj] = B[vi, vj] + 1.0

    schedule = Schedule(scale_shift)
    outer, _ = schedule.split(schedule.get_loops("C")[0], [3, 4])
    schedule.compute_at("B", outer)

    _expect(schedule, expected, scale_shift)


def test_inlining_takes_the_buffer_away():
    @T.prim_func
    def expected(A: T.Buffer((12, 10), "float32"), C: T.Buffer((12, 10), "float32")):
        for i, j in T.grid(12, 10):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * 2.0 + 1.0

    for primitive, block in (("compute_inline", "B"), ("reverse_compute_inline", "C")):
        schedule = Schedule(scale_shift)
        getattr(schedule, primitive)(block)
        _expect(schedule, expected, scale_shift)


def test_caches_are_blocks_of_their_own():
    @T.prim_func
    def expected(A: T.Buffer((12, 10), "float32"), C: T.Buffer((12, 10), "float32")):
        B = T.alloc_buffer((12, 10))
        B_local = T.alloc_buffer((12, 10), scope="local")
        for i, j in T.grid(12, 10):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2.0
        for ax0, ax1 in T.grid(12, 10):
            with T.block("B_local"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                B_local[v0, v1] = B[v0, v1]
        for i, j in T.grid(12, 10):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B_local[vi, vj] + 1.0

    schedule = Schedule(scale_shift)
    made = schedule.cache_read("C", 0, "local")

    assert schedule.get(made).name_hint == "B_local"
    _expect(schedule, expected, scale_shift)


def test_a_reduction_is_taken_apart():
    @T.prim_func
    def expected(
        A: T.Buffer((6, 5), "float32"),
        B: T.Buffer((5, 4), "float32"),
        D: T.Buffer((6, 4), "float32"),
    ):
        C = T.alloc_buffer((6, 4))
        for i in range(6):
            for j_init in range(4):
                with T.block("C_init"):
                    vi, vj = T.axis.remap("SS", [i, j_init])
                    C[vi, vj] = 0.0
            for j, k in T.grid(4, 5):
                with T.block("C_update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(6, 4):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(C[vi, vj], 0.0)

    schedule = Schedule(matmul_relu)
    start = schedule.decompose_reduction("C", schedule.get_loops("C")[1])

    assert schedule.get(start).name_hint == "C_init"
    _expect(schedule, expected, matmul_relu)


def test_rfactor_keeps_partial_results():
    @T.prim_func
    def expected(
        A: T.Buffer((6, 5), "float32"),
        B: T.Buffer((5, 4), "float32"),
        D: T.Buffer((6, 4), "float32"),
    ):
        C = T.alloc_buffer((6, 4))
        C_rf = T.alloc_buffer((5, 6, 4))
        for i, j, k in T.grid(6, 4, 5):
            with T.block("C_rf"):
                vk, vi, vj = T.axis.remap("SSS", [k, i, j])
                C_rf[vk, vi, vj] = A[vi, vk] * B[vk, vj]
        for i, j, k in T.grid(6, 4, 5):
            with T.block("C"):
                vk, vi, vj = T.axis.remap("RSS", [k, i, j])
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + C_rf[vk, vi, vj]
        for i, j in T.grid(6, 4):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(C[vi, vj], 0.0)

    schedule = Schedule(matmul_relu)
    schedule.rfactor(schedule.get_loops("C")[2], 0)

    _expect(schedule, expected, matmul_relu)


def test_annotations_are_said_and_taken_back():
    schedule = Schedule(scale_shift)
    block, (loop, _) = schedule.get_block("B"), schedule.get_loops("B")
    schedule.annotate(block, "unroll", 4)
    schedule.annotate(loop, "names", ["a", 1])

    assert schedule.get(block).annotations["unroll"] == 4
    assert schedule.get(loop).annotations["names"] == ("a", 1)
    verify_trace_roundtrip(schedule, scale_shift)

    schedule.unannotate(block, "unroll")
    schedule.unannotate(loop, "names")
    _unchanged(schedule, scale_shift)


_REFUSED = {
    "split: factors": (
        lambda s: s.split(s.get_loops("B")[0], [0, None]),
        r"split: loop `i`: expected factors above 0, got 0",
    ),
    "split: product": (
        lambda s: s.split(s.get_loops("B")[0], [3, 3]),
        r"product of the factors, 9, is less than the extent, 12",
    ),
    "split: 64 bits": (
        lambda s: s.split(s.get_loops("B")[0], [2**32, 2**31]),
        r"product of the factors, 9223372036854775808, exceeds 64-bit indices",
    ),
    "fuse: order": (
        lambda s: s.fuse(*reversed(s.get_loops("B"))),
        r"loop `i` is not directly inside loop `j`",
    ),
    "fuse: threads": (
        lambda s: (
            s.bind(s.get_loops("B")[1], "threadIdx.x"),
            s.fuse(*s.get_loops("B")),
        ),
        r"loop `j` is bound to `threadIdx.x`",
    ),
    "reorder: twice": (
        lambda s: s.reorder(*[s.get_loops("B")[0]] * 2),
        r"a loop is given twice",
    ),
    "reorder: nests": (
        lambda s: s.reorder(s.get_loops("B")[0], s.get_loops("C")[0]),
        r"are not in one nest",
    ),
    "compute_at: output": (
        lambda s: s.compute_at("C", s.get_loops("B")[0]),
        r"block `C` is an output block",
    ),
    "compute_at: itself": (
        lambda s: s.compute_at("B", s.get_loops("B")[0]),
        r"loop `i` is an ancestor of block `B`",
    ),
    "reverse_compute_at": (
        lambda s: s.reverse_compute_at("C", s.get_loops("C")[0]),
        r"loop `i` is an ancestor of block `C`",
    ),
    "compute_inline": (
        lambda s: s.compute_inline("C"),
        r"block `C` is an output block",
    ),
    "reverse_compute_inline": (
        lambda s: s.reverse_compute_inline("B"),
        r"expected a single producer",
    ),
    "cache_read: number": (
        lambda s: s.cache_read("B", 1, "local"),
        r"block `B` reads 1 buffers: expected a number from 0 to 0, got 1",
    ),
    "cache_read: name": (
        lambda s: s.cache_read("B", "C", "local"),
        r"block `B` reads no buffer `C`: expected one of `A`",
    ),
    "cache_write: scope": (
        lambda s: s.cache_write("B", 0, "nowhere"),
        r"no storage scope `nowhere`",
    ),
    "decompose_reduction": (
        lambda s: s.decompose_reduction("B", s.get_loops("B")[0]),
        r"block `B` is not a reduction block: expected that it has an init block",
    ),
    "rfactor": (
        lambda s: s.rfactor(s.get_loops("B")[0], 0),
        r"block `B` is not a reduction block",
    ),
    "set_scope": (
        lambda s: s.set_scope("C", 0, "shared"),
        r"buffer `C` is a parameter",
    ),
    "storage_align": (
        lambda s: s.storage_align("B", 0, 2, 4, 0),
        r"buffer `B` has 2 dimensions: expected an axis from -2 to 1, got 2",
    ),
    "unannotate": (
        lambda s: s.unannotate(s.get_block("B"), "x"),
        r"block `B` has no annotation `x`",
    ),
    "reorder_block_iter_var": (
        lambda s: s.reorder_block_iter_var("B", [0, 0]),
        r"expected each of the numbers 0 to 1 once",
    ),
    "loop_partition": (
        lambda s: s.loop_partition(s.get_loops("B")[0], [5, 7]),
        r"loop `i` has extent 12",
    ),
    "merge": (
        lambda s: s.merge(s.get_loops("B")[0], s.get_loops("C")[1]),
        r"loop `j` and loop `i` are at different depths",
    ),
    "blockize": (
        lambda s: s.blockize([s.get_block("B"), s.get_block("root")]),
        r"blockize: expected a block inside the function, got the root",
    ),
    "tensorize: root": (
        lambda s: s.tensorize(s.get_block("root"), "test.row"),
        r"expected a block inside the function, got the root",
    ),
    "tensorize: another computation": (
        lambda s: s.tensorize(s.get_loops("C")[1], "test.row"),
        r"expected `arith.mulf`, got `arith.addf`",
    ),
    "transform_layout: dimensions": (
        lambda s: s.transform_layout("B", "B", lambda i: (i,)),
        r"has 2 dimensions: expected a map of 2 indices",
    ),
    "transform_layout: loses elements": (
        lambda s: s.transform_layout("B", "B", lambda i, j: (i, j // 2)),
        r"a sum of iter splits of the initial ones",
    ),
    "transform_block_layout: kinds": (
        lambda s: s.transform_block_layout("B", lambda i: (i,)),
        r"has 2 iter vars: expected a map of 2 indices",
    ),
    "reindex": (
        lambda s: s.reindex("root", ("read", 0)),
        r"expected a block inside the function, got the root",
    ),
    "reindex_cache_read": (
        lambda s: s.reindex_cache_read("B", 0, "shared", lambda i, j: (i, i)),
        r"the axis `vj` appears in the indices of the buffer, but not in the map",
    ),
    "cache_index": (
        lambda s: s.cache_index("B", "global"),
        r"got only iter vars and constants",
    ),
    "get_block": (
        lambda s: s.get_block("X"),
        r"Cannot find a block with the name: X",
    ),
}


@pytest.mark.parametrize("name", [n for n in _REFUSED if ": threads" not in n])
def test_what_is_not_legal_is_refused_and_changes_nothing(name):
    attempt, message = _REFUSED[name]
    schedule = Schedule(scale_shift)

    with pytest.raises(ScheduleError, match=message):
        attempt(schedule)

    _unchanged(schedule, scale_shift)


def test_threads_are_not_fused():
    attempt, message = _REFUSED["fuse: threads"]

    with pytest.raises(ScheduleError, match=message):
        attempt(Schedule(scale_shift))


@pytest.mark.parametrize("primitive", ["parallel", "vectorize"])
def test_steps_that_add_up_do_not_run_at_once(primitive):
    schedule = Schedule(matmul_relu)

    with pytest.raises(ScheduleError, match="reduce iter var that depends on the loop"):
        getattr(schedule, primitive)(schedule.get_loops("C")[2])

    _unchanged(schedule, matmul_relu)


def test_errors_say_as_much_as_was_asked_for():
    for level, text in (
        ("detail", "the name: X"),
        ("fast", "the specified name"),
        ("none", r"\(not rendered\)"),
    ):
        with pytest.raises(ScheduleError, match=text):
            Schedule(scale_shift, error_render_level=level).get_block("X")


def test_a_module_that_was_taken_does_not_change_later():
    schedule = Schedule(scale_shift)
    before = schedule.mod
    schedule.compute_inline("B")

    assert_structural_equal(before, IRModule({"main": scale_shift}))


def test_variables_of_loops_that_are_gone_are_refused():
    schedule = Schedule(scale_shift)
    loop, _ = schedule.get_loops("B")
    schedule.split(loop, [None, 4])

    with pytest.raises(ScheduleError, match="the loop no longer exists"):
        schedule.parallel(loop)
    with pytest.raises(IndexError, match="no such LoopRV"):
        schedule.get(LoopRV())


def test_a_copy_goes_its_own_way():
    schedule = Schedule(scale_shift)
    block = schedule.get_block("B")
    loop, _ = schedule.get_loops(block)
    other = schedule.copy()
    new, _ = schedule.split(loop, [None, 4])

    assert isinstance(block, BlockRV)
    assert other.get(loop).extent == 12
    with pytest.raises(IndexError):
        other.get(new)
    other.fuse(*other.get_loops("B"))
    assert schedule.get(new).extent == 3


def test_blocks_are_found_by_what_they_depend_on():
    schedule = Schedule(matmul_relu)
    names = {
        "producers": schedule.get_producers("D"),
        "consumers": schedule.get_consumers("C"),
        "children": schedule.get_child_blocks(schedule.get_block("root")),
        "outputs": schedule.get_output_blocks("root"),
    }

    found = {k: [schedule.get(b).name_hint for b in v] for k, v in names.items()}

    assert found == {
        "producers": ["C"],
        "consumers": ["D"],
        "children": ["C", "D"],
        "outputs": ["D"],
    }
    verify_trace_roundtrip(schedule, matmul_relu)

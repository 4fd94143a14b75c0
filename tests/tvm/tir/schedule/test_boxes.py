"""Access boxes of blocks, against the elements accessed."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

from itertools import product

import pytest

from relax_mlir.symbolic.symbols import evaluate
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir.schedule import Schedule, accesses, regions, tree
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols
from relax_mlir.tvm.tir.schedule.state import loop_bounds, loop_var


@T.prim_func
def windows(A: T.Buffer((9, 16), "float32"), C: T.Buffer((3, 4), "float32")):
    for i, j in T.grid(3, 4):
        with T.block("sum"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = 0.0
            for u in range(1, 3):
                for v in range(4):
                    C[vi, vj] = C[vi, vj] + A[2 * vi + u, 4 * vj + 3 - v]
            for w in range(2):
                with T.block("more"):
                    vw = T.axis.spatial(2, w)
                    C[vi, vj] = C[vi, vj] + A[vi + 2 * vw, 4 * vj]


@T.prim_func
def reduction(A: T.Buffer((6, 8), "float32"), C: T.Buffer((8,), "float32")):
    for i, k in T.grid(4, 6):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[2 * vi] = 0.0
            C[2 * vi + 1] = C[2 * vi + 1] + A[vk, 7 - vi]


def elements(block, buffer, point, *, is_write, op=None):
    """The elements that a block instance accesses."""
    indices, found = IndexSymbols(), set()
    for access in accesses.accesses_in(block):
        if access.buffer != buffer or access.is_write != is_write:
            continue
        around = list(tree.ancestors(access.op))
        inner = around[: around.index(block)]
        loops = [loop for loop in inner if tree.is_loop(loop)]
        values = {}
        for one in inner:
            if tree.is_block(one):
                values |= regions.binding_values(one, indices)
        names = [indices.symbol(loop_var(loop)) for loop in loops]
        ranges = [
            range(int(str(low)), int(str(low)) + int(str(count)))
            for low, count in (loop_bounds(indices, loop) for loop in loops)
        ]
        axes = {
            indices.symbol(argument): value
            for region in block.regions
            for body in region.blocks
            for argument, value in zip(body.arguments, point, strict=True)
        }
        for steps in product(*ranges):
            known = {**axes, **dict(zip(names, steps, strict=True))}
            known |= {n: evaluate(v, known) for n, v in values.items()}
            found.add(tuple(evaluate(d, known) for d in access.indices(indices)))
    return found


@pytest.mark.parametrize("program", [windows, reduction], ids=["windows", "reduction"])
@pytest.mark.parametrize("is_write", [True, False])
@pytest.mark.parametrize("name", ["A", "C"])
def test_boxes_are_the_smallest_around_all_elements(program, is_write, name):
    schedule = Schedule(program)
    (block,) = tree.find_blocks(schedule.state.function("main"), "sum")
    (buffer, *_) = (
        a.buffer
        for a in accesses.accesses_in(block)
        if accesses.buffer_name(a.buffer) == name
    )
    indices = IndexSymbols()
    box = regions.block_box(block, buffer, indices, is_write=is_write)
    names = [indices.symbol(a) for a in tree.body(block).arguments]
    for point in product(range(3), range(4)):
        touched = elements(block, buffer, point, is_write=is_write)
        if not touched:
            assert box is None
            continue
        known = dict(zip(names, point, strict=True))
        ends = [(evaluate(r.low, known), evaluate(r.high, known)) for r in box]
        assert ends == [(min(n), max(n)) for n in zip(*touched, strict=True)]


@T.prim_func
def scattered(
    A: T.Buffer((8, 5), "float32"),
    I: T.Buffer((8,), "int32"),  # noqa: E741
    B: T.Buffer((8, 5), "float32"),
):
    for i in range(4):
        with T.block("parts"):
            vi = T.axis.spatial(4, i)
            P = T.match_buffer(A[vi, 0:5], (5,), offset_factor=1)
            B[I[vi], 2] = P[3] + A[I[vi] + vi, vi]


def test_boxes_of_unknown_elements_are_whole_dimensions():
    schedule = Schedule(scattered)
    (block,) = tree.find_blocks(schedule.state.function("main"), "parts")
    indices = IndexSymbols()
    (axis,) = tree.body(block).arguments
    indices.bind("i", axis)
    found = {
        (accesses.buffer_name(a.buffer), a.is_opaque): [
            (str(r.low), str(r.high))
            for r in regions.accessed_box(a, indices, lambda op: False)
        ]
        for a in accesses.accesses_in(block)
    }
    assert found == {
        ("A", True): [("i", "i"), ("0", "4")],
        ("A", False): [("0", "7"), ("i", "i")],
        ("I", False): [("i", "i")],
        ("B", False): [("0", "7"), ("2", "2")],
    }


@T.prim_func
def tiles(A: T.Buffer((6, 8), "float32"), B: T.Buffer((6, 8), "float32")):
    for i, j in T.grid(6, 8):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, 7 - vj]


def test_boxes_go_over_the_loops_that_are_asked_for():
    schedule = Schedule(tiles)
    (block,) = tree.find_blocks(schedule.state.function("main"), "b")
    load, _ = accesses.accesses_in(block)
    outer, inner = tree.enclosing_loops(block)

    def box(inside, relaxed=()):
        indices = IndexSymbols()
        indices.bind("i", loop_var(outer))
        indices.bind("j", loop_var(inner))
        found = regions.accessed_box(
            load, indices, inside.__contains__, relaxes=relaxed.__contains__
        )
        return [(str(r.low), str(r.high)) for r in found]

    assert box([block]) == [("i", "i"), ("-j + 7", "-j + 7")]
    assert box([block, inner]) == [("i", "i"), ("0", "7")]
    assert box([block, inner, outer]) == [("0", "5"), ("0", "7")]
    assert box([block], [outer]) == [("0", "5"), ("-j + 7", "-j + 7")]


@pytest.mark.parametrize(
    ("scope", "threads"),
    [
        ("global", ""),
        ("local", ""),
        ("shared", "threadIdx.x threadIdx.y vthread.x"),
        ("shared.dyn", "threadIdx.x threadIdx.y vthread.x"),
        ("warp", "threadIdx.x"),
        ("wmma.matrix_a", ""),
    ],
)
def test_buffers_that_threads_share(scope, threads):
    schedule = Schedule(tiles)
    copy = schedule.cache_read("b", 0, scope)
    schedule.set_scope(copy, 0, scope)
    (block,) = tree.find_blocks(schedule.state.function("main"), "b")
    (buffer,) = accesses.buffers_read(block)
    assert accesses.storage_scope(buffer) == scope
    is_shared = regions.relaxed_thread_loops(buffer)
    for thread in ("threadIdx.x", "threadIdx.y", "blockIdx.x", "vthread.x"):
        bound = Schedule(tiles)
        bound.bind(bound.get_loops("b")[0], thread)
        (other,) = tree.find_blocks(bound.state.function("main"), "b")
        loop, plain = tree.enclosing_loops(other)
        assert is_shared(loop) is (thread in threads.split())
        assert not is_shared(plain)

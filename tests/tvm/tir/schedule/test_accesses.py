"""Buffer accesses of blocks, and dependences between blocks."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

import pytest

from relax_mlir.symbolic.symbols import parse
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir.schedule import Schedule, accesses, tree
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols


class Program:
    """A PrimFunc with its blocks and buffers by name."""

    def __init__(self, script):
        self.schedule = Schedule(script)
        self.function = self.schedule.state.function("main")
        listed = list(tree.subtree(self.function))
        self.block = {tree.block_name(op): op for op in listed if tree.is_block(op)}
        buffers = [a.buffer for a in accesses.accesses_in(self.function)]
        self.buffer = {accesses.buffer_name(b): b for b in buffers}


def names(buffers):
    return [accesses.buffer_name(buffer) for buffer in buffers]


def blocks(ops):
    return [tree.block_name(op) for op in ops]


@T.prim_func
def stages(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 6))
    C = T.match_buffer(c, (6,), "float32", align=128)
    B = T.alloc_buffer((n, 6), scope="shared")
    for i, j in T.grid(n, 6):
        with T.block("scale"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for j, i in T.grid(6, n):
        with T.block("sum"):
            vj, vi = T.axis.remap("SR", [j, i])
            with T.init():
                C[vj] = 0.0
            C[vj] = C[vj] + B[vi, vj]
    for j in range(6):
        with T.block("last"):
            vj = T.axis.spatial(6, j)
            with T.block("within"):
                D = T.alloc_buffer((1,), scope="local")
                D[0] = C[vj]
                C[vj] = D[0] + A[0, vj]


@pytest.fixture(scope="module")
def program():
    return Program(stages)


def test_buffers_that_are_read_and_written(program):
    scale, total, last, within = (
        program.block[n] for n in ("scale", "sum", "last", "within")
    )
    assert (
        names(accesses.inferred_reads(scale))
        == names(accesses.buffers_read(scale))
        == ["A"]
    )
    assert names(accesses.inferred_writes(scale)) == ["B"]
    # What a block accumulates in is not read.
    assert names(accesses.inferred_reads(total)) == ["B"]
    assert names(accesses.buffers_written(total)) == ["C"]
    for block in (last, within):
        assert names(accesses.inferred_reads(block)) == ["C", "A"]
        assert names(accesses.inferred_writes(block)) == ["C"]
        assert names(accesses.allocated_buffers(block)) == ["D"]
    assert names(accesses.allocated_buffers(program.function)) == ["B", "D"]
    assert names(accesses.inferred_reads(program.function)) == ["A", "C"]
    assert names(accesses.buffers_written(program.function)) == ["C"]


def test_who_needs_what_another_makes(program):
    function, block = program.function, program.block
    a, b, c = (program.buffer[n] for n in "ABC")

    assert blocks(accesses.child_blocks(function)) == ["scale", "sum", "last"]
    assert blocks(accesses.writers_of(function, c)) == ["sum", "last"]
    assert blocks(accesses.writers_of(function, b)) == ["scale"]
    assert blocks(accesses.readers_of(function, a)) == ["scale", "last"]
    assert blocks(accesses.readers_of(function, b)) == ["sum"]
    assert blocks(accesses.producers_of(block["sum"])) == ["scale"]
    assert blocks(accesses.producers_of(block["last"])) == ["sum"]
    assert blocks(accesses.producers_of(block["scale"])) == []
    assert blocks(accesses.consumers_of(block["scale"])) == ["sum"]
    assert blocks(accesses.consumers_of(block["sum"])) == ["last"]
    assert blocks(accesses.consumers_of(block["last"])) == []


def test_blocks_whose_results_are_seen(program):
    is_output = {name: accesses.is_output(b) for name, b in program.block.items()}
    assert is_output == {"scale": False, "sum": True, "last": True, "within": True}
    assert blocks(accesses.output_blocks(program.function)) == ["sum", "last", "within"]
    assert blocks(accesses.output_blocks(program.block["last"])) == ["within"]


def test_what_buffers_are(program):
    b, c, d = (program.buffer[n] for n in "BCD")
    a = program.buffer["A"]

    assert [accesses.is_argument(x) for x in (a, b, c, d)] == [True, False, True, False]
    assert [accesses.storage_scope(x) for x in (a, b, c, d)] == [
        *("global", "shared", "global", "local")
    ]
    (n, six) = accesses.buffer_shape(a)
    assert six == 6
    assert accesses.buffer_shape(b) == (n, 6)
    assert accesses.buffer_shape(c) == (6,)
    assert accesses.buffer_properties(a) == accesses.buffer_properties(b) == {}
    assert dict(accesses.buffer_properties(c)) == {"align": 128}


def test_single_accesses(program):
    scale = program.block["scale"]
    load, store = accesses.accesses_in(scale)
    indices = IndexSymbols()
    i, j = tree.body(scale).arguments
    indices.bind("i", i)
    indices.bind("j", j)

    assert (load.is_write, store.is_write) == (False, True)
    assert not load.is_opaque
    assert list(load.index_values) == list(store.index_values) == [i, j]
    assert load.indices(indices) == (parse("i"), parse("j"))
    assert accesses.accesses_in(tree.body(scale)) == [load, store]
    assert accesses.accesses_in(store.op) == [store]


@T.prim_func
def gathered(
    A: T.Buffer((8,), "float32"),
    I: T.Buffer((8,), "int32"),  # noqa: E741
    B: T.Buffer((8,), "float32"),
):
    for i in range(8):
        with T.block("gather"):
            vi = T.axis.spatial(8, i)
            B[I[vi]] = A[I[vi] + 1] + A[vi]


def test_reads_come_before_those_that_say_where():
    program = Program(gathered)
    found = accesses.accesses_in(program.block["gather"])

    assert names(accesses.inferred_reads(program.block["gather"])) == ["A", "I"]
    assert [names([a.buffer])[0] for a in found if not a.is_write] == [
        *("A", "I", "A", "I")
    ]
    assert found[-1].is_write


@T.prim_func
def opaque(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    D = T.alloc_buffer((8,))
    with T.block("calls"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        T.evaluate(
            T.call_extern("int32", "f", D.data, A.access_ptr("r"), B.access_ptr("w"))
        )
    with T.block("both"):
        T.reads(D[0:8])
        T.writes(D[0:8])
        T.evaluate(T.call_extern("int32", "f", D.access_ptr("rw")))
    with T.block("parts"):
        P = T.match_buffer(A[2:4], (2,), offset_factor=1)
        P[1] = 0.0
    with T.block("vectors"):
        B[T.ramp(0, 1, 4)] = A[T.ramp(4, 1, 4)]
    with T.block("plain"):
        D[0] = 0.0


def test_accesses_by_address_and_of_parts():
    program = Program(opaque)
    touched = {
        name: [
            (names([a.buffer])[0], a.is_write, a.is_opaque)
            for a in accesses.accesses_in(block)
        ]
        for name, block in program.block.items()
    }
    assert touched == {
        "calls": [
            ("D", False, True),
            ("D", True, True),
            ("A", False, True),
            ("B", True, True),
        ],
        "both": [("D", False, True), ("D", True, True)],
        "parts": [("A", True, True)],
        "vectors": [("A", False, True), ("B", True, True)],
        "plain": [("D", True, False)],
    }
    d, a = program.buffer["D"], program.buffer["A"]
    assert accesses.has_opaque_access(program.block["both"], d)
    assert not accesses.has_opaque_access(program.block["both"], a)
    assert not accesses.has_opaque_access(program.block["plain"], d)


def test_regions_that_blocks_say_count():
    program = Program(opaque)
    calls = program.block["calls"]

    assert names(accesses.buffers_read(calls)) == ["A"]
    assert names(accesses.buffers_written(calls)) == ["B"]
    assert names(accesses.inferred_reads(calls)) == ["D", "A"]

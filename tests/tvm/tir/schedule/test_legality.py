"""Legality conditions, on PrimFuncs that meet them and others that do not."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

from contextlib import suppress

import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.symbolic.symbols import parse
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir.schedule import Schedule, dependences, legality, tree
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols
from relax_mlir.tvm.tir.schedule.predicates import Condition
from relax_mlir.tvm.tir.schedule.state import loop_var


class Program:
    """A schedulable PrimFunc with its blocks and loops by name."""

    def __init__(self, script, *changes):
        self.schedule = Schedule(script)
        for change in changes:
            change(self.schedule)
        self.function = self.schedule.state.function("main")
        listed = list(tree.subtree(self.function))
        self.block = {tree.block_name(op): op for op in listed if tree.is_block(op)}
        self.loop = {tree.loop_name(op): op for op in listed if tree.is_loop(op)}


def refusal(check, *args, **kwargs):
    """The error of a check, or an empty text."""
    with suppress(ScheduleError):
        check(*args, **kwargs)
        return ""
    with pytest.raises(ScheduleError) as raised:
        check(*args, **kwargs)
    return str(raised.value)


@T.prim_func
def stages(A: T.Buffer((6, 8), "float32"), D: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6, 8))
    C = T.alloc_buffer((6,))
    for i, j in T.grid(6, 8):
        with T.block("scale"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, k in T.grid(6, 8):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + B[vi, vk]
    for i in range(6):
        with T.block("last"):
            vi = T.axis.spatial((0, 6), i)
            D[vi] = C[vi]


@T.prim_func
def strange(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("twice"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("again"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("own"):
            vi = T.axis.spatial(8, i)
            D[vi] = D[vi] + B[vi]
    for k in range(8):
        with T.block("by_reduce"):
            vk = T.axis.reduce(8, k)
            with T.init():
                A[vk] = 0.0
            A[vk] = A[vk] + 1.0
    for i, j in T.grid(4, 4):
        with T.block("overlap"):
            vi = T.axis.reduce(7, i + j)
            with T.init():
                A[0] = 0.0
            A[0] = A[0] + D[vi]
    for i in range(8):
        with T.block("shift"):
            vi = T.axis.spatial((2, 10), i + 2)
            A[vi - 2] = A[i] * 2.0


def test_complete_and_reduction_blocks():
    program = Program(stages)
    block = program.block
    kinds = {
        name: (legality.is_complete(op), legality.is_reduction(op))
        for name, op in block.items()
    }
    assert kinds == {
        "scale": (True, False),
        "sum": (False, True),
        "last": (True, False),
    }
    function = program.function
    assert legality.is_complete(function)
    assert not legality.is_reduction(function)
    for name, op in block.items():
        assert refusal(legality.check_complete_or_reduction, op, name) == ""


@pytest.mark.parametrize(
    ("name", "incomplete", "unreduced"),
    [
        ("twice", "no other block of its scope writes", "it has an init block"),
        ("own", "it does not read what it writes", "it has an init block"),
        ("by_reduce", "all its iter vars are spatial", "no other block of its scope"),
        ("overlap", "all its iter vars are spatial", "its bindings are quasi-affine"),
    ],
)
def test_why_blocks_are_neither(name, incomplete, unreduced):
    program = Program(strange)
    block = program.block[name]

    assert legality.complete_block_violation(block).startswith(incomplete)
    assert legality.reduction_block_violation(block).startswith(unreduced)
    said = refusal(legality.check_complete_or_reduction, block, "here")
    assert said.startswith(f"here: block `{name}` is neither a complete block nor")
    assert incomplete in said
    assert unreduced in said
    said = refusal(legality.check_complete, block, "here")
    assert said.startswith(f"here: block `{name}` is not a complete block")
    assert incomplete in said
    said = refusal(legality.check_reduction, block, "here")
    assert said.startswith(f"here: block `{name}` is not a reduction block")
    assert unreduced in said


@T.prim_func
def reductions(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, k in T.grid(8, 8):
        with T.block("by_reduce"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi, vk] = 0.0
            C[vi, vk] = C[vi, vk] + A[vi, vk]


@T.prim_func
def scanned(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("scan"):
            vi = T.axis.scan(8, i)
            with T.init():
                C[0] = 0.0
            C[0] = C[0] + A[vi]


def test_other_reductions():
    program, other = Program(reductions), Program(scanned)
    assert legality.reduction_block_violation(program.block["by_reduce"]) == (
        "no index of its writes depends on a reduce iter var"
    )
    assert (
        legality.reduction_block_violation(other.block["scan"])
        == "its iter vars are spatial or reduce ones"
    )


def test_blocks_of_one_statement_alone():
    program = Program(strange)
    loops = [op for op in tree.children(program.function) if tree.is_loop(op)]
    first = program.block["twice"]

    assert legality.complete_block_violation(first, loops[0]) is None
    assert refusal(legality.check_complete_or_reduction, first, "here", loops[0]) == ""
    assert legality.complete_block_violation(first, first) is not None


def test_refusals_of_places():
    program = Program(stages)
    block, function = program.block, program.function

    assert refusal(legality.check_not_root, block["sum"], "here") == ""
    assert "here: expected a block inside the function, got the root" in refusal(
        legality.check_not_root, function, "here"
    )
    assert refusal(legality.check_not_output, block["scale"], "here") == ""
    assert "block `last` is an output block" in refusal(
        legality.check_not_output, block["last"], "here"
    )
    assert refusal(legality.check_iter_mins, block["last"], "here") == ""
    assert refusal(legality.check_self_contained, block["sum"], "here") == ""
    strange_program = Program(strange)
    other = strange_program.block
    assert "axis `vi` of block `shift` starts at 2: expected 0" in refusal(
        legality.check_iter_mins, other["shift"], "here"
    )
    assert (
        refusal(legality.check_iter_mins, other["shift"], "x", may_be_above_0=True)
        == ""
    )
    assert "block `shift` uses the variable of loop `i` inside" in refusal(
        legality.check_self_contained, other["shift"], "here"
    )


@T.prim_func
def below_0(A: T.Buffer((8,), "float32")):
    for i in range(4):
        with T.block("b"):
            vi = T.axis.spatial((-1, 3), i - 1)
            A[vi + 1] = 0.0


def test_axes_that_start_below_0_are_refused():
    program = Program(below_0)
    block = program.block["b"]
    said = refusal(legality.check_iter_mins, block, "x", may_be_above_0=True)
    assert "starts at -1: expected 0 or more" in said


@T.prim_func
def in_loops(A: T.Buffer((12,), "float32"), B: T.Buffer((3, 4), "float32")):
    for o in range(2):  # noqa: B007
        for i in range(2, 14):
            with T.block("b"):
                vi = T.axis.spatial(3, (i - 2) // 4)
                vj = T.axis.spatial(4, (i - 2) % 4)
                B[vi, vj] = A[vi * 4 + vj]


@T.prim_func
def overlaps(A: T.Buffer((20,), "float32"), I: T.Buffer((4,), "int32")):  # noqa: E741
    for i, j in T.grid(4, 4):
        with T.block("tiles"):
            vi = T.axis.spatial(10, i * 2 + j)
            A[vi] = 0.0
    for i in range(4):
        with T.block("loaded"):
            vi = T.axis.spatial(4, i)
            T.where(I[i] < 2)
            A[vi] = 0.0


def test_affine_bindings():
    program = Program(in_loops)
    block = program.block["b"]

    assert legality.has_affine_bindings(program.function)
    assert legality.has_affine_bindings(block)
    assert legality.has_affine_bindings(block, below=program.loop["i"])
    indices = IndexSymbols()
    o, i = (indices.symbol(loop_var(program.loop[n])) for n in "oi")
    assert legality.loop_extents(indices, block) == {o: 2, i: 12}
    assert legality.nonzero_loop_mins(indices, block) == {i: 2}
    other = Program(overlaps)
    assert not legality.has_affine_bindings(other.block["tiles"])
    assert legality.has_affine_bindings(other.block["tiles"], may_overlap=True)
    inner = tree.enclosing_loops(other.block["tiles"])[1]
    assert legality.has_affine_bindings(other.block["tiles"], below=inner)
    assert not legality.has_affine_bindings(other.block["loaded"])


@T.prim_func
def pipelines(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    C = T.alloc_buffer((8,))
    for i in range(6):
        with T.block("make"):
            vi = T.axis.spatial(6, i)
            B[vi + 1] = A[vi]
    for i in range(8):
        with T.block("use"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi]
            C[vi] = 1.0


@T.prim_func
def backwards(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("use"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi]
    for i in range(8):
        with T.block("make"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]


def test_stage_pipelines():
    program, other, third = map(Program, (stages, backwards, pipelines))
    assert refusal(legality.check_stage_pipeline, program.function, "x") == ""
    said = refusal(legality.check_stage_pipeline, other.function, "here")
    assert said.startswith(
        "here: block `root` is not a stage pipeline: block `use` reads `B` before block `make`"
    )
    said = refusal(legality.check_stage_pipeline, third.function, "here")
    assert "read `B` from 0 to 7 in dimension 0 and write it from 1 to 6" in said


@pytest.mark.parametrize(
    ("made", "first", "read", "is_right"),
    [
        (8, 0, 8, True),
        (8, 0, 9, True),
        (7, 0, 8, False),
        (7, 1, 8, False),
        (7, 1, 9, False),
        (6, 1, 6, False),
    ],
)
def test_what_is_read_has_to_be_written(made, first, read, is_right):
    @T.prim_func
    def copies(A: T.Buffer((9,), "float32"), D: T.Buffer((9,), "float32")):
        B = T.alloc_buffer((8,))
        for i in range(made):
            with T.block("make"):
                vi = T.axis.spatial(made, i)
                B[vi + first] = A[vi]
        for i in range(read):
            with T.block("use"):
                vi = T.axis.spatial(read, i)
                D[vi] = B[vi]

    program = Program(copies)
    said = refusal(legality.check_stage_pipeline, program.function, "here")
    assert (said == "") is is_right


def apart(first, second, steps=8, count=1):
    """Whether the iterations of two consecutive loops access disjoint elements."""

    @T.prim_func
    def nests(A: T.Buffer((80,), "float32"), B: T.Buffer((80,), "float32")):
        for i in range(steps):
            for u in range(count):
                with T.block("first"):
                    vi, vu = T.axis.remap("SS", [i, u])
                    A[vi * first + vu] = 1.0
        for i in range(steps):
            for u in range(count):
                with T.block("second"):
                    vi, vu = T.axis.remap("SS", [i, u])
                    B[vi] = A[vi * second + vu]

    program = Program(nests)
    loops = [[op] for op in tree.children(program.function)]
    said = refusal(dependences.check_fusion, loops, "here")
    assert (
        said == "" or "share `A`, and one writes it: expected that an iteration" in said
    )
    return said == ""


def test_steps_that_do_not_depend_on_one_another():
    assert apart(1, 1)
    assert apart(4, 4, count=4)
    assert not apart(3, 3, count=4)
    assert not apart(1, 2)
    assert not apart(0, 0)
    assert apart(0, 0, steps=1)
    assert not apart(2, 1, count=2)


@T.prim_func
def shared_reads(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("first"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[0, 0]
    for i, j in T.grid(8, 8):
        with T.block("second"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = B[vi, vj] + A[0, 0]


@T.prim_func
def columns(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("first"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vj] = A[vi, vj]
    for i, j in T.grid(8, 8):
        with T.block("second"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vj] = B[vj] + 1.0


def test_steps_of_several_loops():
    program = Program(shared_reads)
    outer = tree.children(program.function)
    nests = [[op, *tree.children(op)] for op in outer]
    assert refusal(dependences.check_fusion, nests, "here") == ""
    program = Program(columns)
    nests = [[op, *tree.children(op)] for op in tree.children(program.function)]
    assert "share `B`" in refusal(dependences.check_fusion, nests, "here")


@T.prim_func
def own_buffers(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    C = T.alloc_buffer((1,))
    for i in range(8):
        with T.block("first"):
            vi = T.axis.spatial(8, i)
            C[0] = A[vi]
    for i in range(8):
        with T.block("second"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]


def test_what_one_of_the_loops_alone_touches_makes_no_difference():
    program = Program(own_buffers)
    nests = [[op] for op in tree.children(program.function)]
    assert refusal(dependences.check_fusion, nests, "here") == ""


@T.prim_func
def clipped(A: T.Buffer((8,), "float32")):
    for i in range(2, 5):
        with T.block("b"):
            vi = T.axis.spatial(2, T.min(i - 2, 1))
            A[vi] = 0.0


def test_clipped_loops_that_begin_elsewhere_are_not_affine():
    program = Program(clipped)
    assert not legality.has_affine_bindings(program.block["b"])


@pytest.mark.parametrize(("columns", "is_right"), [(3, True), (4, False)])
def test_open_dimensions_are_not_compared(columns, is_right):
    @T.prim_func
    def open_sizes(a: T.handle, d: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 4))
        D = T.match_buffer(d, (n, 4))
        B = T.alloc_buffer((n, 4))
        for i, j in T.grid(n, 3):
            with T.block("make"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for i, j in T.grid(n, columns):
            with T.block("use"):
                vi = T.axis.spatial(n, i)
                vj = T.axis.spatial(columns, j)
                D[vi, vj] = B[vi, vj]

    program = Program(open_sizes)
    said = refusal(legality.check_stage_pipeline, program.function, "here")
    assert (said == "") is is_right


def test_conditions_that_always_hold_are_dropped():
    program = Program(stages)
    block = program.block["sum"]
    indices = IndexSymbols()
    i, k = tree.body(block).arguments
    indices.bind("i", i)
    indices.bind("k", k)
    outer, _ = tree.enclosing_loops(block)
    indices.bind("o", loop_var(outer))

    tops = legality.upper_bounds_at(indices, block)
    assert {n: tops[n] for n in ("i", "k", "o")} == {"i": 5, "k": 7, "o": 5}
    assert len(tops) == 6  # those of the start value, and of the inner loop
    conditions = [
        Condition("lt", parse(text), bound)
        for text, bound in [("i", 6), ("i", 5), ("i + k", 13), ("o", 6), ("o", 5)]
    ]
    kept = legality.unproved_conditions(conditions, indices, block)
    assert kept == [conditions[1], conditions[4]]

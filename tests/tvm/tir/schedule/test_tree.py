"""Navigation of the loop and block tree."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

import pytest
from mlir import ir

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir.schedule import Schedule, tree


@T.prim_func
def nested(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 6))
    C = T.match_buffer(c, (n,))
    B = T.alloc_buffer((6,))
    for i in range(n):
        with T.block("outer"):
            vi = T.axis.spatial(n, i)
            for j in T.parallel(6, annotations={"pragma": 1}):
                with T.block("inner"):
                    vj = T.axis.spatial(6, j)
                    T.where(j < 5)
                    T.block_attr({"seen": 2})
                    B[vj] = A[vi, vj] * 2.0
            for k in range(6):
                with T.block("sum"):
                    vk = T.axis.reduce((1, 7), k + 1)
                    with T.init():
                        for u in range(1):
                            with T.block("start"):
                                vu = T.axis.spatial(1, u)
                                C[vi + vu] = 0.0
                    C[vi] = C[vi] + B[vk - 1]


class Program:
    """A PrimFunc with its statements by name."""

    def __init__(self):
        self.schedule = Schedule(nested)
        self.function = self.schedule.state.function("main")
        listed = list(tree.subtree(self.function))
        self.block = {tree.block_name(op): op for op in listed if tree.is_block(op)}
        self.loop = {tree.loop_name(op): op for op in listed if tree.is_loop(op)}


@pytest.fixture(scope="module")
def program():
    return Program()


def names(ops):
    return [tree.describe(op).split()[1].strip("`") for op in ops]


def test_kinds_of_statements(program):
    block, loop, function = program.block["inner"], program.loop["j"], program.function
    guard = tree.predicate_of(block)

    assert [tree.is_block(op) for op in (block, loop, function)] == [True, False, False]
    assert [tree.is_loop(op) for op in (block, loop, function)] == [False, True, False]
    assert [tree.is_function(op) for op in (block, loop, function)] == [
        *(False, False, True)
    ]
    assert all(map(tree.is_statement, (block, loop, function)))
    assert not tree.is_statement(guard)
    assert tree.is_predicate(guard)
    assert not tree.is_predicate(loop)
    assert tree.describe(loop) == "loop `j`"
    assert tree.describe(function) == "block `root`"
    assert tree.loop_kind(loop) == "parallel"
    assert tree.loop_kind(program.loop["i"]) == "serial"


def test_loops_that_carry_values_are_none():
    text = """func.func @f(%n: index) {
      %r = scf.for %i = %n to %n step %n iter_args(%s = %n) -> (index) {
        scf.yield %s : index
      }
      %b = arith.cmpi slt, %r, %n : index
      scf.if %b {}
      return }"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        found = [o for o in tree.subtree(module.operation) if o.name.startswith("scf.")]
        assert [tree.is_loop(o) for o in found] == [False] * len(found)
        assert [tree.is_predicate(o) for o in found] == [False] * len(found)
        assert len(found) == 4


def test_who_stands_in_whom(program):
    block, loop, function = program.block, program.loop, program.function

    assert tree.function_of(block["inner"]) == function
    assert tree.function_of(function) == function
    assert list(tree.ancestors(function)) == []
    assert tree.scope_of(block["inner"]) == block["outer"]
    assert tree.scope_of(loop["j"]) == block["outer"]
    assert tree.scope_of(block["outer"]) == function
    assert tree.enclosing_loops(block["inner"]) == [loop["j"]]
    assert tree.enclosing_loops(loop["i"]) == []
    assert names(tree.blocks_below(function)) == ["outer"]
    assert names(tree.blocks_below(block["outer"])) == ["inner", "sum"]
    assert names(tree.blocks_below(loop["k"])) == ["sum"]
    assert names(tree.loops_below(function)) == ["i"]
    assert names(tree.loops_below(block["outer"])) == ["j", "k"]
    assert names(tree.loops_below(loop["j"])) == []
    assert tree.parent_of(block["inner"]) == tree.predicate_of(block["inner"])


def test_loops_in_loops():
    @T.prim_func
    def deep(A: T.Buffer((2, 3), "float32")):
        for i in range(2):
            for j in range(3):
                with T.block("b"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    A[vi, vj] = 0.0

    schedule = Schedule(deep)
    function = schedule.state.function("main")
    (block,) = tree.find_blocks(function, "b")
    assert names(tree.loops_below(function)) == ["i", "j"]
    assert names(tree.enclosing_loops(block)) == ["i", "j"]


def test_predicates_belong_to_their_blocks(program):
    inner, total = program.block["inner"], program.block["sum"]

    assert tree.predicate_of(total) is None
    assert tree.realize_of(total) == total
    assert tree.realize_of(inner) == tree.predicate_of(inner) != inner
    assert tree.realize_of(program.function) == program.function


def test_statements_in_order(program):
    block, loop = program.block, program.loop
    inside = tree.children(block["outer"])

    assert names(inside) == ["j", "k"]
    assert [tree.statement_index(block["outer"], loop[n]) for n in "jk"] == [0, 1]
    assert tree.statement_index(block["outer"], block["sum"]) == 1
    assert tree.child_containing(block["outer"], block["inner"]) == loop["j"]
    assert tree.child_containing(block["outer"], loop["k"]) == loop["k"]
    assert tree.children(program.function) == [loop["i"]]
    # A predicate is a statement; allocations and arithmetic are none.
    assert tree.children(loop["j"]) == [tree.predicate_of(block["inner"])]
    (store,) = tree.children(block["inner"])
    assert store.name == "memref.store"
    with pytest.raises(ValueError, match="not an ancestor"):
        tree.child_containing(block["inner"], loop["k"])


def test_start_values_stand_beside_bodies(program):
    total, start = program.block["sum"], program.block["start"]

    assert tree.init_block_of(program.block["inner"]) is None
    assert tree.init_block_of(total) == total.regions[0].blocks[0]
    assert tree.region_containing(total, start) == tree.init_block_of(total)
    store = next(o for o in tree.children(total) if o.name == "memref.store")
    assert tree.region_containing(total, store) == tree.body(total)
    assert tree.statement_index(total, store) == 0
    with pytest.raises(ScheduleError, match="`start` is in the init block of block"):
        tree.statement_index(total, start)


def test_what_blocks_say(program):
    inner, total, outer = (program.block[n] for n in ("inner", "sum", "outer"))

    assert tree.annotations_of(inner) == {"seen": 2}
    assert tree.annotations_of(total) == {}
    assert tree.annotations_of(program.loop["j"]) == {"pragma": 1}
    assert tree.iter_var_names(total) == ["vk"]
    assert tree.iter_var_dtypes(total) == ["int32"]
    assert tree.iter_var_mins(total) == [1]
    assert tree.iter_var_mins(inner) == [0]
    assert tree.iter_extent_operands(total) == [6]
    assert tree.iter_kinds(total) == "R"
    (size,) = tree.iter_extent_operands(outer)
    assert isinstance(size, ir.Value)
    assert tree.bindings(outer) == [tree.body(program.loop["i"]).arguments[0]]
    assert len(tree.bindings(total)) == 1
    assert tree.string_attr(total, "absent") == ""
    assert tree.string_attr(total, "absent", "x") == "x"
    assert tree.string_attr(total, "name") == "sum"


def test_what_other_blocks_are_taken_for():
    text = """func.func @f() {
      "tir.block"() ({}, {
      ^bb0(%i: index, %j: index):
        gpu.yield
      }) {kinds = "SR", static_extents = array<i64: 1, 1>} : () -> ()
      "tir.block"() ({}, { gpu.yield }) {kinds = ""} : () -> ()
      return
    }"""
    context = ir.Context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        listed = list(tree.subtree(module.operation))
        block, other = (op for op in listed if tree.is_block(op))
        assert tree.iter_var_names(block) == ["v0", "v1"]
        assert tree.iter_var_dtypes(block) == ["int32", "int32"]
        assert tree.iter_var_mins(block) == [0, 0]
        assert tree.bindings(other) == []


def test_blocks_by_name(program):
    function = program.function

    assert tree.find_blocks(function, "sum") == [program.block["sum"]]
    assert tree.find_blocks(function, "root") == [function]
    assert tree.find_blocks(function, "none") == []

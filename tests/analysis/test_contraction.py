"""Contractions: the roles of their axes, and the programs that are one."""

import itertools
import math

import numpy as np
import pytest
from mlir import ir

from relax_mlir.analysis.contraction import (
    AxisRoles,
    MultiplyAccumulate,
    contraction_of,
    contraction_operations,
    contraction_sizes,
    converted_source,
    is_contraction,
    is_sum,
    load_of,
    match_contraction,
    match_contractions,
)
from relax_mlir.analysis.op_pattern import OpPatternKind, op_pattern_of
from relax_mlir.dialects.tir import BlockOp
from relax_mlir.ir.traversal import only_store, own_operations
from relax_mlir.symbolic.affine_forms import AffineForm
from tests.analysis.block_programs import (
    MATMUL,
    SUM,
    TIMES,
    copy,
    load,
    parsed,
    program,
    reduction,
)


@pytest.mark.parametrize(
    "kinds", ["".join(k) for k in itertools.product("SR", repeat=3)]
)
def test_each_axis_has_the_role_of_its_operands(kinds: str) -> None:
    axes = range(len(kinds))
    subsets = [set(c) for n in range(4) for c in itertools.combinations(axes, n)]
    result = {axis for axis in axes if kinds[axis] == "S"}
    for lhs, rhs in itertools.product(subsets, subsets):
        roles = AxisRoles.of(kinds, lhs, rhs)
        assert {*roles.batch} == lhs & rhs & result
        assert {*roles.m} == (lhs - rhs) & result
        assert {*roles.n} == (rhs - lhs) & result
        assert {*roles.k} == (lhs & rhs) - result
        groups = (roles.batch, roles.m, roles.n, roles.k, roles.others)
        assert sorted(itertools.chain(*groups)) == [*axes]
        assert all(list(group) == sorted(group) for group in groups)
        assert AxisRoles.of(kinds, rhs, lhs) == AxisRoles(
            roles.batch, roles.n, roles.m, roles.k, roles.others
        )


@pytest.mark.parametrize("subscripts", ["bik,bkj->bij", "ki,jk->ij", "k,ikl->il"])
def test_roles_are_those_of_batched_matmuls(subscripts: str) -> None:
    operands, result = subscripts.split("->")
    letters = sorted({*operands} - {","})
    lhs, rhs = ({letters.index(x) for x in o} for o in operands.split(","))
    kinds = "".join("S" if x in result else "R" for x in letters)
    roles = AxisRoles.of(kinds, lhs, rhs)
    sizes = dict(zip(letters, (2, 3, 4, 5), strict=False))
    arrays = [
        np.arange(math.prod(sizes[x] for x in o)).reshape([sizes[x] for x in o])
        for o in operands.split(",")
    ]
    names = [[letters[a] for a in group] for group in (roles.batch, roles.m, roles.n)]
    k = [letters[a] for a in roles.k]
    b, m, n = names
    first, second = (
        np.einsum(f"{o}->{''.join(order)}", array).reshape(
            [math.prod(sizes[x] for x in group) for group in groups]
        )
        for o, array, order, groups in (
            (operands.split(",")[0], arrays[0], [*b, *m, *k], (b, m, k)),
            (operands.split(",")[1], arrays[1], [*b, *k, *n], (b, k, n)),
        )
    )
    expected = np.einsum(f"{operands}->{''.join([*b, *m, *n])}", *arrays)
    assert not roles.others
    np.testing.assert_array_equal((first @ second).ravel(), expected.ravel())


def test_contraction_sizes_by_the_roles_of_axes() -> None:
    extents = {"i": 4, "j": 5, "k": 3, "l": 2}
    for first, second in [("ijl", "ilk"), ("ilj", "kli"), ("jli", "lki")]:
        reads = load("x", *first) + load("y", *second)
        function = program(reduction(TIMES, reads, extents=tuple(extents.values())))

        assert contraction_sizes(function) == (4, 5, 3, 2, "f32")
        assert contraction_operations(function) == 2 * math.prod(extents.values())


def test_axes_of_windows_and_of_one_operand() -> None:
    window = "%w = arith.addi %j, %l : index\n"
    reads = window + load("x", "i", "w", "c0") + load("y", "l", "k", "c0")
    function = program(reduction(TIMES, reads, extents=(4, 3, 6, 2)))

    assert contraction_sizes(function) == (1, 12, 6, 2, "f32")
    divided = "%w = arith.remui %j, %c1 : index\n"
    reads = divided + load("x", "i", "w", "l") + load("y", "l", "k", "c0")
    assert contraction_sizes(
        program(reduction(TIMES, reads, extents=(4, 3, 6, 2)))
    ) == (
        *(1, 4, 18, 2),
        "f32",
    )


def test_empty_contractions_are_contractions() -> None:
    reads = load("x", *"ijl") + load("y", *"ilk")
    function = program(reduction(TIMES, reads, extents=(4, 5, 6, 0)))

    assert contraction_sizes(function) == (4, 5, 6, 0, "f32")


def test_other_reductions_are_no_contractions() -> None:
    for statement in (SUM, copy("x", "o")):
        function = program(statement)
        assert contraction_sizes(function) is None
        assert contraction_of(function) is None
        assert contraction_operations(function) == 0


@pytest.mark.parametrize("more", ["", MATMUL])
def test_contractions_of_dynamic_sizes_are_left_out(more: str) -> None:
    function = parsed(f"""
      func.func @f(%x: memref<4x5x6xf32>, %y: memref<4x5x6xf32>, %o: memref<4x5x6xf32>,
          %n: index {{tir.symbol = "n"}})
          attributes {{tir.prim_func, tir.num_outputs = 1 : i64}} {{
        {
        MATMUL.replace('"tir.block"()', '"tir.block"(%n)')
        .replace("array<i32: 0, 0>", "array<i32: 1, 0>")
        .replace("array<i64: 4, 5, 6, 6>", "array<i64: 4, 5, 6, -9223372036854775808>")
        .replace(": () -> ()", ": (index) -> ()")
    }
        {more}
        return
      }}""")

    assert op_pattern_of(function) == (
        OpPatternKind.OPAQUE if more else OpPatternKind.OUT_FUSABLE
    )
    assert contraction_sizes(function) is None
    assert contraction_operations(function) == 0


def test_contractions_with_branches_or_more_reads_are_left_out() -> None:
    branch = "%v = scf.if %c -> f32 { scf.yield %p : f32 } else { scf.yield %p : f32 }"
    condition = "%c = arith.cmpi slt, %i, %c1 : index\n"
    reads = load("x", *"ijl") + load("y", *"ilk")
    empty = "scf.if %c { }\n"
    guarded = reduction(TIMES, condition + reads + empty)
    third = reduction(TIMES, reads + load("x", *"ijk", to="more"))
    chosen = reduction("%p = arith.mulf %xv, %yv : f32\n" + branch, condition + reads)

    for statement in (guarded, third, chosen):
        assert contraction_of(program(statement)) is None
    assert contraction_operations(program(guarded)) == 2 * 4 * 5 * 6 * 6
    assert contraction_operations(program(MATMUL, MATMUL)) == 4 * 4 * 5 * 6 * 6
    assert contraction_of(program(MATMUL, MATMUL)) is None
    found = contraction_of(program(MATMUL))
    assert found is not None
    assert [read.operands[0] for read in found[1]] == list(found[1][0].operands)[
        :1
    ] + list(found[1][1].operands)[:1]


@pytest.mark.parametrize(
    ("value", "is_contraction"),
    [
        (TIMES, True),
        ("%xw = arith.negf %xv : f32\n%v = arith.mulf %xw, %yv : f32", True),
        ("%two = arith.constant 2.0 : f32\n%v = arith.mulf %xv, %two : f32", False),
        ("%v = arith.mulf %xv, %xv : f32", False),
        ("%xw = arith.addf %xv, %yv : f32\n%v = arith.mulf %xw, %yv : f32", False),
        ("%v = arith.divf %xv, %yv : f32", False),
    ],
)
def test_contractions_multiply_two_buffers(value: str, is_contraction: bool) -> None:
    function = program(reduction(value, load("x", *"ijl") + load("y", *"ilk")))

    assert (contraction_operations(function) > 0) is is_contraction
    assert (op_pattern_of(function) == OpPatternKind.OUT_FUSABLE) is is_contraction


def test_accumulators_may_be_on_either_side_and_integers() -> None:
    swapped = MATMUL.replace("addf %accv, %v", "addf %v, %accv")
    integers = (
        MATMUL.replace("mulf", "muli").replace("addf", "addi").replace("0.0", "0")
    )

    assert op_pattern_of(program(swapped)) == OpPatternKind.OUT_FUSABLE
    assert contraction_sizes(program(integers, element="i32")) == (4, 5, 6, 6, "i32")
    greatest = MATMUL.replace("arith.addf", "arith.maximumf")
    assert op_pattern_of(program(greatest)) == OpPatternKind.REDUCTION


# Steps and blocks.


def block_of(statement: str, element: str = "f32") -> BlockOp:
    function = program(statement, element=element)
    (found,) = (
        o for o in own_operations(function.entry_block) if isinstance(o, BlockOp)
    )
    return found


def stored_value(statement: str) -> ir.Value:
    store = only_store(block_of(statement).body.blocks[0])
    assert store is not None
    return store.operands[0]


def test_a_step_has_an_accumulator_and_two_operands() -> None:
    for text, place in ((MATMUL, 0), (MATMUL.replace("%accv, %v", "%v, %accv"), 1)):
        value = stored_value(text)
        step = MultiplyAccumulate.of(value)
        assert step is not None
        assert step.addition == value.owner
        assert step.accumulator == value.owner.operands[place]
        assert is_sum(value)
    for text in (SUM, MATMUL.replace("addf", "subf"), MATMUL.replace("mulf", "divf")):
        assert MultiplyAccumulate.of(stored_value(text)) is None
    assert not is_sum(stored_value(MATMUL.replace("addf", "subf")))


def test_sources_of_converted_values() -> None:
    more = "%h = arith.truncf %xv : f32 to f16\n%w = arith.extf %h : f16 to f32\n"
    text = reduction(
        more + "%v = arith.mulf %w, %yv : f32", load("x", *"ijl") + load("y", *"ilk")
    )
    step = MultiplyAccumulate.of(stored_value(text))
    assert step is not None
    source, conversions = converted_source(step.operands[0])
    found = load_of(source)
    assert found is not None
    assert conversions == ["arith.extf", "arith.truncf"]
    assert load_of(step.operands[0]) is None
    assert converted_source(step.operands[1]) == (step.operands[1], [])
    argument = found.operands[0]
    assert converted_source(argument) == (argument, [])
    assert load_of(argument) is None
    assert not is_sum(argument)
    assert is_contraction(block_of(text))
    assert match_contraction(program(text)) is None  # it is not widened once


def test_a_block_of_affine_operands() -> None:
    window = "%w = arith.addi %j, %l : index\n"
    reads = window + load("x", "i", "w", "c0") + load("y", "l", "k", "c1")
    function = program(reduction(TIMES, reads, extents=(4, 3, 6, 2)))
    found = match_contraction(function)
    assert found is not None
    x, y, o = function.arguments
    first, second = found.operands
    assert (first.buffer, second.buffer, found.output) == (x, y, o)
    assert first.index_maps == [
        AffineForm({0: 1}),
        AffineForm({1: 1, 3: 1}),
        AffineForm({}),
    ]
    assert second.index_maps == [
        AffineForm({3: 1}),
        AffineForm({2: 1}),
        AffineForm({}, 1),
    ]
    assert [first.extend, second.extend] == [None, None]
    assert first.axes == {0, 1, 3}
    assert first.shape == [4, 5, 6]
    assert [first.stride_bytes(axis) for axis in range(4)] == [120, 24, 0, 24]
    assert (found.kinds, found.extents, found.column) == ("SSSR", [4, 3, 6, 2], 2)
    assert found.roles(first, second) == AxisRoles((), (0, 1), (2,), (3,), ())
    assert found.roles(second, first) == AxisRoles((), (2,), (0, 1), (3,), ())


@pytest.mark.parametrize("name", ["extf", "extsi", "extui", "sitofp"])
def test_operands_may_be_widened(name: str) -> None:
    narrow, wide = ("f16", "f32") if name == "extf" else ("i8", "i32")
    wide = "f32" if name == "sitofp" else wide
    kind = "f" if wide == "f32" else "i"
    arguments = f"%x: memref<4x5x6x{narrow}>, %y: memref<4x5x6x{wide}>, %o: memref<4x5x6x{wide}>"
    statement = (
        MATMUL.replace("f32", wide)
        .replace("mulf %xv", f"mul{kind} %xw")
        .replace("addf", f"add{kind}")
        .replace("0.0", "0.0" if kind == "f" else "0")
    )
    loaded = f"%xv = memref.load %x[%i, %j, %l] : memref<4x5x6x{wide}>"
    assert loaded in statement
    statement = statement.replace(
        loaded,
        loaded.replace(wide, narrow) + f"\n%xw = arith.{name} %xv : {narrow} to {wide}",
    )
    function = parsed(f"""
      func.func @f({arguments}) attributes {{tir.prim_func, tir.num_outputs = 1 : i64}} {{
        {statement}
        return
      }}""")
    found = match_contraction(function)
    if name == "sitofp":
        assert found is None
        return
    assert found is not None
    assert [operand.extend for operand in found.operands] == [f"arith.{name}", None]
    assert str(found.operands[0].element) == narrow


def test_programs_of_one_reduction_are_matched() -> None:
    assert match_contraction(program(MATMUL)) is not None
    assert match_contraction(program(MATMUL, copy("o", "x"))) is not None
    assert match_contraction(program(MATMUL, MATMUL)) is None
    assert match_contraction(program(copy("x", "o"))) is None
    assert len(match_contractions(program(MATMUL, SUM, copy("o", "x"), MATMUL))) == 2
    without_init = MATMUL[: MATMUL.index("({")] + "({}, {" + MATMUL.split("}, {", 1)[1]
    assert match_contraction(program(without_init)) is None
    divided = "%w = arith.remui %j, %c1 : index\n"
    for reads in (
        divided + load("x", "i", "w", "l") + load("y", *"ilk"),
        divided + load("x", *"ijl") + load("y", "w", "l", "k"),
    ):
        assert match_contraction(program(reduction(TIMES, reads))) is None

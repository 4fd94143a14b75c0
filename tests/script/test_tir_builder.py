"""Tensor programs, and parts of them, that Python code writes statement by statement."""

from typing import Any

import pytest

from relax_mlir.objects import prim, stmt
from relax_mlir.objects.buffer import Buffer
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.structure import assert_structural_equal
from relax_mlir.script import ir as I  # noqa: N812  as scripts call it
from relax_mlir.script import tir as T  # noqa: N812
from relax_mlir.script.ir_builder import IRBuilder


def test_a_program_is_what_its_statements_say() -> None:
    with IRBuilder() as builder, T.prim_func():
        out = T.arg("out", T.Buffer((6,), "int32"))
        count = T.arg("count", T.int32())
        T.func_attr({"global_symbol": "fill"})
        with T.serial(6) as i:
            IRBuilder.name("i", i)
            with T.If(i < count):
                with T.Then():
                    T.buffer_store(out, i, [i])
                with T.Else():
                    T.buffer_store(out, 0, [i])

    @T.prim_func
    def fill(out: T.Buffer((6,), "int32"), count: T.int32):
        for i in range(6):
            if i < count:
                out[i] = i
            else:
                out[i] = 0

    assert_structural_equal(builder.get(), fill)


@pytest.mark.parametrize("option", ["private", "is_private"])
def test_a_private_program_has_a_name_in_its_module_alone(option: str) -> None:
    with IRBuilder() as builder, I.ir_module(), T.prim_func(**{option: True}):
        T.func_name("helper")
        T.evaluate(0)

    assert dict(builder.get()["helper"].attrs) == {}


def test_statements_alone_are_read_back_with_the_variables_that_they_were_given() -> (
    None
):
    n, a = prim.Var("n", "int32"), Buffer((4,), "float32", "a")
    with IRBuilder() as builder, T.LetStmt(n * 2) as twice:
        builder.name("twice", twice)
        T.buffer_store(a, a[twice] + 1, [n])

    got: Any = builder.get()

    assert isinstance(got, stmt.LetStmt)
    assert got.value.a is n
    assert got.body.buffer is a  # pyright: ignore[reportAttributeAccessIssue]
    assert got.script() == (
        'n = T.int32()\na = T.Buffer((4,), "float32")\n'
        "with T.LetStmt(n * 2) as twice:\n    a[n] = a[twice] + T.float32(1.0)"
    )


def test_a_block_names_its_axes_when_it_is_told() -> None:
    k = prim.Var("k", "int32")
    with IRBuilder() as builder, T.block("b"):
        IRBuilder.name("vk", T.axis.reduce(5, k))
        T.evaluate(0)

    axis = prim.IterVar((0, 5), prim.Var("other", "int32"), prim.IterVar.CommReduce)
    block = stmt.Block([axis], [], [], "b", stmt.Evaluate(0))
    expected = stmt.BlockRealize([k], True, block)

    assert_structural_equal(builder.get(), expected)
    assert "vk = T.axis.reduce(5, k)" in builder.get().script()


def test_a_branch_stands_in_a_choice_only() -> None:
    with pytest.raises(ValueError, match=r"`T.Then` stands in `with T.If"), IRBuilder():
        T.Then()


def test_free_variables_of_a_program_stay_free() -> None:
    n = prim.Var("n", "int32")

    program = PrimFunc([], stmt.Evaluate(n + 1))

    assert "n = T.int32()" in program.script()


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (prim.Ramp(prim.Var("i", "int32"), 2, 4), "i = T.int32()\nT.Ramp(i, 2, 4)"),
        (prim.Add(prim.const(3), prim.const(4)), "T.Add(3, 4)"),
        (Buffer((2,), "int8", "b"), 'b = T.Buffer((2,), "int8")\nb'),
        (Buffer((8,), "int8", "b")[2:5], 'b = T.Buffer((8,), "int8")\nb[2:5]'),
        (prim.Range(1, 4), "I.Range(1, 4)"),
        (prim.const(0.1, "float32"), "T.float32(0.1)"),
        (
            T.comm_reducer(lambda x, y: x * y, [T.int8(1)]),
            "T.comm_reducer(lambda x, y: x * y, [T.int8(1)])",
        ),
    ],
)
def test_parts_of_programs_have_scripts(term: Any, text: str) -> None:
    assert term.script() == text

"""PrimFuncs and fragments of them built with ``IRBuilder``."""

from typing import Any

import pytest

from relax_mlir.objects import prim
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.buffer import Buffer
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.tvm.script import ir as I  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import tir as T  # noqa: N812
from relax_mlir.tvm.script.ir_builder import IRBuilder


def test_built_prim_func_equals_script() -> None:
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
def test_private_prim_func_has_no_global_symbol(option: str) -> None:
    with IRBuilder() as builder, I.ir_module(), T.prim_func(**{option: True}):
        T.func_name("helper")
        T.evaluate(0)

    assert dict(builder.get()["helper"].attrs) == {}


def test_stand_alone_statements_keep_their_variables() -> None:
    n, a = prim.Var("n", "int32"), Buffer((4,), "float32", "a")
    with IRBuilder() as builder, T.LetStmt(n * 2) as twice:
        builder.name("twice", twice)
        T.buffer_store(a, a[twice] + 1, [n])

    got: Any = builder.get()

    assert isinstance(got, statements.LetStmt)
    assert got.value.a is n
    assert got.body.buffer is a  # pyright: ignore[reportAttributeAccessIssue]
    assert got.script() == (
        'n = T.int32()\na = T.Buffer((4,), "float32")\n'
        "with T.LetStmt(n * 2) as twice:\n    a[n] = a[twice] + T.float32(1.0)"
    )


def test_block_axes_can_be_named() -> None:
    k = prim.Var("k", "int32")
    with IRBuilder() as builder, T.block("b"):
        IRBuilder.name("vk", T.axis.reduce(5, k))
        T.evaluate(0)

    axis = prim.IterVar((0, 5), prim.Var("other", "int32"), prim.IterVar.CommReduce)
    block = statements.Block([axis], [], [], "b", statements.Evaluate(0))
    expected = statements.BlockRealize([k], True, block)

    assert_structural_equal(builder.get(), expected)
    assert "vk = T.axis.reduce(5, k)" in builder.get().script()


def test_branch_outside_of_an_if_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"`T\.Then` is used outside of"), IRBuilder():
        T.Then()


def test_free_variables_of_a_prim_func() -> None:
    n = prim.Var("n", "int32")

    program = PrimFunc([], statements.Evaluate(n + 1))

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
def test_scripts_of_fragments(term: Any, text: str) -> None:
    assert term.script() == text

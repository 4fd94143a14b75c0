"""Compilation of front ends' modules after normalization."""

import numpy as np
import pytest

from relax_mlir.compiler import driver
from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Call, If, SeqExpr, Tuple, TupleGetItem, Var
from relax_mlir.objects.expr.struct_info import TensorStructInfo, TupleStructInfo
from relax_mlir.tvm.relax.analysis import well_formed
from relax_mlir.tvm.relax.transform import Normalize
from relax_mlir.tvm.script import ir as I  # noqa: N812  as scripts write it
from relax_mlir.tvm.script import relax as R  # noqa: N812
from relax_mlir.tvm.script import tir as T  # noqa: N812
from tests.tvm.relax.transform.graphs import op, program, tensor

# ruff: noqa: N805, RET504  scripts are not plain Python
# pyright: reportInvalidTypeForm=false, reportUndefinedVariable=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false


def _check(module: IRModule, arrays: list[np.ndarray], *expected: np.ndarray) -> None:
    model = driver.compile(module, cache=False)

    results = model(*arrays)

    assert len(results) == len(expected)
    for actual, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-5)


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_a_call_and_a_nested_tuple_result() -> None:
    x, y = Var("x", tensor(2, 3)), Var("y", tensor(2, 3))
    builder = BlockBuilder()
    with builder.function("pair", [x], private=True):
        with builder.dataflow():
            result = builder.emit_output(op("exp", x))
        builder.emit_func_output(Tuple([result, x]))
    with builder.function("main", [y]):
        with builder.dataflow():
            pair = builder.emit(Call(builder.get().get_global_var("pair"), [y]))
            total = builder.emit_output(
                op("add", TupleGetItem(pair, 0), TupleGetItem(pair, 1))
            )
            pair = builder.emit_output(pair)
        builder.emit_func_output(Tuple([total, pair]))
    a = _random(2, 3)

    _check(builder.get(), [a], np.exp(a) + a, np.exp(a), a)


def test_inputs_have_the_names_of_the_script() -> None:
    x = Var("image", tensor(2))
    model = driver.compile(program([x], op("exp", x)), cache=False)

    assert str(model.signature).startswith("(image: float32[2])")


def test_a_tuple_is_taken_element_by_element() -> None:
    t = Var("t", TupleStructInfo([tensor(2), tensor(2)]))
    module = program([t], op("add", TupleGetItem(t, 0), TupleGetItem(t, 1)))
    a = _random(2)

    _check(module, [a, a], 2 * a)


def test_a_cast_defines_run_time_sizes() -> None:
    n = prim.Var("n", "int64")
    x = Var("x", TensorStructInfo(None, "float32", ndim=2))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        cast = builder.match_cast(x, tensor(n, 3))
        builder.emit_func_output(builder.emit(op("exp", cast)))
    a = _random(5, 3)

    _check(builder.get(), [a], np.exp(a))


def test_a_cast_is_checked_at_run_time() -> None:
    n, m = prim.Var("n", "int64"), prim.Var("m", "int64")
    x, y = Var("x", tensor(n)), Var("y", tensor(m))
    builder = BlockBuilder()
    with builder.function("main", [x, y]):
        cast = builder.match_cast(op("exp", y), tensor(n))
        builder.emit_func_output(builder.emit(op("add", x, cast)))
    model = driver.compile(builder.get(), cache=False)

    with pytest.raises(ValueError, match=r"expected|size"):
        model(_random(2), _random(3))


def test_a_cast_to_other_sizes_is_refused() -> None:
    x = Var("x", tensor(2))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        cast = builder.match_cast(op("exp", x), tensor(3))
        builder.emit_func_output(cast)

    with pytest.raises(PassError, match="expected size `3`, got `2`"):
        driver.lower(builder.get(), to="relax")


def test_one_branch_of_an_if_is_the_result() -> None:
    c, x = Var("c", tensor(dtype="bool")), Var("x", tensor(2))
    builder = BlockBuilder()
    with builder.function("main", [c, x]):
        chosen = builder.emit(
            If(c, SeqExpr([], op("exp", x)), SeqExpr([], op("tanh", x)))
        )
        builder.emit_func_output(chosen)
    a = _random(2)

    model = driver.compile(builder.get(), cache=False)

    np.testing.assert_allclose(model(np.array(True), a)[0], np.exp(a), rtol=1e-5)
    np.testing.assert_allclose(model(np.array(False), a)[0], np.tanh(a), rtol=1e-5)


def test_recursion_is_refused() -> None:
    module = program([x := Var("x", tensor(2))], op("exp", x))
    builder = BlockBuilder(module)
    with builder.function("main2", [y := Var("y", tensor(2))]):
        called = Call(module.get_global_var("main"), [y])
        builder.emit_func_output(builder.emit(called))
    recursive = builder.get()
    recursive["main"] = recursive["main2"]

    with pytest.raises(PassError, match="calls itself"):
        driver.lower(recursive, to="relax")


def test_a_program_called_on_a_tuple_is_called_on_its_elements() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def add(
            x: T.Buffer((2,), "float32"),
            y: T.Buffer((2,), "float32"),
            z: T.Buffer((2,), "float32"),
        ):
            for i in range(2):
                with T.block("add"):
                    v = T.axis.spatial(2, i)
                    z[v] = x[v] + y[v]

        @R.function
        def main(pair: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32"))):
            cls = Module
            z = R.call_tir(cls.add, pair, R.Tensor((2,), "float32"))
            return z

    bindings = Normalize()(Module)["main"].body.blocks[0].bindings

    assert not well_formed(Module)
    assert [type(b.value) for b in bindings] == [TupleGetItem, TupleGetItem, Call]
    assert list(bindings[2].value.args[1]) == [b.var for b in bindings[:2]]
    a = _random(2)
    _check(Module, [a, a], 2 * a)

"""``call_te``: calls of PrimFuncs generated from tensor expressions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import relax_mlir
from relax_mlir.objects import prim
from relax_mlir.objects.expr import GlobalVar, ShapeExpr
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.tvm import relax, te, topi


def tensor(*shape: object, dtype: str = "float32") -> relax.TensorStructInfo:
    return relax.TensorStructInfo(shape, dtype)


def var(name: str, *shape: object, dtype: str = "float32") -> relax.Var:
    return relax.Var(name, tensor(*shape, dtype=dtype))


N = prim.Var("n", "int64")


def test_expressions_anywhere_in_the_arguments_become_tensors() -> None:
    x, y, z = var("x", 4), var("y", 4), var("z", 4)
    seen = []

    def add_up(pair: Any, *, more: Any, scale: Any, shape: Any) -> te.Tensor:
        seen.extend([*pair, more["z"]])
        assert (scale, [int(s) for s in shape]) == (3, [4])
        return te.compute(
            (4,), lambda i: pair[0][i] + pair[1][i] * scale + more["z"][i]
        )

    builder = relax.BlockBuilder()
    with builder.function("main", [x, y, z]):
        shape = relax.ShapeExpr([4])
        call = builder.call_te(add_up, (x, y), more={"z": z}, scale=3, shape=shape)
        builder.emit_func_output(builder.emit(call))

    assert all(isinstance(t, te.Tensor) for t in seen)
    assert [t.name for t in seen] == ["x", "y", "z"]
    assert call.op == relax.Op.get("relax.call_tir")
    callee, arguments, *rest = call.args
    assert callee == GlobalVar("add_up")
    assert isinstance(arguments, relax.Tuple)
    assert arguments.fields == (x, y, z)
    assert (rest, call.struct_info) == ([], tensor(4))


def test_the_program_is_private_and_has_names_of_its_own() -> None:
    x = var("x", 4)
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        a = builder.emit_te(topi.exp, x)
        b = builder.emit_te(topi.exp, a, primfunc_name_hint="exp")
        c = builder.emit_te(topi.tanh, b, primfunc_name_hint="exp")
        d = builder.emit_te(topi.tanh, c, primfunc_attrs={"op_pattern": 8})
        builder.emit_func_output(d)
    module = builder.get()

    assert {v.name_hint for v in module.get_global_vars()} == {
        "main",
        "exp",
        "exp1",
        "tanh",
    }
    assert dict(module["exp"].attrs) == {"tir.noalias": True}
    assert module["tanh"].attrs["op_pattern"] == 8


def test_several_results_are_a_tuple() -> None:
    x = var("x", 4, 6)
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        parts = builder.emit_te(topi.split, x, 2, 1)
        builder.emit_func_output(parts)

    assert parts.struct_info == relax.TupleStructInfo([tensor(4, 3), tensor(4, 3)])


def test_results_are_in_the_variables_of_the_caller() -> None:
    x = var("x", N, 4)
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        call = builder.call_te(topi.reshape, x, relax.ShapeExpr([N * 4]))
        builder.emit_func_output(builder.emit(call))
    program = builder.get()["reshape"]

    assert call.struct_info == tensor(N * 4)
    assert len(call.args) == 2  # x tells how much n is
    inner = program.buffer_map[program.params[0]].shape[0]
    assert inner is not N


def test_sizes_that_no_tensor_tells_are_passed() -> None:
    x = var("x", N + 1)
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        call = builder.call_te(topi.exp, x)
        builder.emit_func_output(builder.emit(call))

    assert call.args[2] == ShapeExpr([N])


def test_scalars_are_sizes_or_parameters() -> None:
    x = var("x", 4, 4)
    row = relax.Var("row", relax.PrimStructInfo(value=N))
    factor = relax.Var("factor", relax.PrimStructInfo("float32"))

    def scaled_row(t: te.Tensor, i: PrimExpr, by: PrimExpr) -> te.Tensor:
        return te.compute((4,), lambda j: t[i, j] * by, name="out")

    builder = relax.BlockBuilder()
    with builder.function("main", [x, row, factor]):
        call = builder.call_te(scaled_row, x, row, factor)
        builder.emit_func_output(builder.emit(call))
    program = builder.get()["scaled_row"]

    assert isinstance(call.args[1], relax.Tuple)
    assert call.args[1].fields == (x, factor)
    assert call.args[2] == ShapeExpr([N])
    assert [p.dtype for p in program.params] == ["handle", "float32", "handle", "int64"]


def test_constants_and_scalars_may_be_arguments() -> None:
    x = var("x", 4)
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        one = relax.const(np.ones(4, np.float32))
        a = builder.emit_te(topi.add, x, one)
        b = builder.emit_te(
            topi.full, relax.ShapeExpr([4]), "float32", relax.PrimValue(2)
        )
        builder.emit_func_output(builder.emit_te(topi.multiply, a, b))

    module = builder.get()
    assert [p.name for p in module["add"].buffer_map.values()] == ["x", "B", "T_add"]
    assert "T.float32(2.0)" in module["full"].script()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda b, x: b.call_te(lambda t: 3, x),
            "to return a tensor or several, got 3",
        ),
        (
            lambda b, x: b.call_te(lambda t, o: t, x, object()),
            "not supported type in emit_te",
        ),
        (lambda b, x: b.call_te(lambda t, o: t, x, {1: x}), "expected names as keys"),
        (
            lambda b, x: b.call_te(
                topi.exp,
                relax.Var("y", relax.TensorStructInfo(dtype="float32", ndim=2)),
            ),
            "only supports Tensor that has ShapeExpr shape",
        ),
    ],
)
def test_what_makes_no_call_is_refused(make: Callable[..., Any], message: str) -> None:
    x = var("x", 4)
    builder = relax.BlockBuilder()

    with builder.function("main", [x]):
        with pytest.raises(TypeError, match=message):
            make(builder, x)
        builder.emit_func_output(x)


@pytest.mark.slow
def test_a_network_of_tensor_expressions_compiles_and_runs() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((2, 6), (5, 6), (5,))]
    params = [var(f"p{i}", *a.shape) for i, a in enumerate(arrays)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            hidden = builder.emit_te(topi.nn.dense, *params)
            active = builder.emit_te(topi.nn.relu, hidden)
            out = builder.emit_output(builder.call_te(topi.nn.softmax, active))
        builder.emit_func_output(out)

    (result,) = relax_mlir.compile(builder.get())(*arrays)

    hidden = np.maximum(arrays[0] @ arrays[1].T + arrays[2], 0)
    expected = np.exp(hidden) / np.exp(hidden).sum(1, keepdims=True)
    np.testing.assert_allclose(result, expected, rtol=1e-5)  # sums of six float32


@pytest.mark.slow
def test_a_program_with_symbolic_sizes_runs_at_any_size() -> None:
    x = var("x", N, 4)
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(builder.call_te(topi.cumsum, x, 1))
        builder.emit_func_output(out)
    executable = relax_mlir.compile(builder.get())

    for size in (1, 5):
        array = np.arange(size * 4, dtype=np.float32).reshape(size, 4)
        (result,) = executable(array)
        np.testing.assert_array_equal(result, array.cumsum(1))


def test_a_product_may_be_left_to_a_library() -> None:
    x, y = var("x", 3, 5), var("y", 4, 5)
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        product = builder.emit_te(
            relax_mlir.tvm.contrib.cblas.matmul, x, y, transb=True
        )
        builder.emit_func_output(product)

    assert product.struct_info == tensor(3, 4)
    script = builder.get()["matmul"].script()
    assert 'T.call_packed("tvm.contrib.cblas.matmul"' in script


def test_batches_of_products_may_be_left_to_a_library() -> None:
    x, y = te.placeholder((2, 5, 3)), te.placeholder((2, 5, 4))

    made = relax_mlir.tvm.contrib.cblas.batch_matmul(x, y, transa=True, iterative=True)

    assert [int(size) for size in made.shape] == [2, 3, 4]
    script = te.create_prim_func([x, y, made]).script()
    assert '"tvm.contrib.cblas.batch_matmul_iterative"' in script

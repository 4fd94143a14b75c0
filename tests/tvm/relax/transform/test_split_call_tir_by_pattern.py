"""Tensor programs split into library calls and a remainder."""

from typing import Any

import numpy as np
import pytest

import relax_mlir
from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import ExternFunc, Var
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.runtime.registry import register_func
from relax_mlir.tvm import relax, te, tir
from relax_mlir.tvm.relax import transform
from tests.tvm.relax.transform.graphs import tensor


def _product(*sizes: Any) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    n, m, k = sizes
    a, b = te.placeholder((n, k), name="a"), te.placeholder((k, m), name="b")
    r = te.reduce_axis((0, k), "r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")
    return a, b, c


def _pattern() -> PrimFunc:
    """A matmul of any sizes."""
    return te.create_prim_func(_product(*(tir.Var(name, "int64") for name in "nmk")))


def _module(program: PrimFunc, *shapes: tuple[int, ...]) -> IRModule:
    """A call of a program; the last shape is that of the result."""
    builder = relax.BlockBuilder()
    callee = builder.add_func(program.without_attr("global_symbol"), "program")
    params = [Var(f"x{n}", tensor(*shape)) for n, shape in enumerate(shapes[:-1])]
    with builder.function("main", params):
        with builder.dataflow():
            call = relax.call_tir(callee, params, tensor(*shapes[-1]))
            out = builder.emit_output(call)
        builder.emit_func_output(out)
    return builder.get()


def _biased() -> IRModule:
    """exp(a @ b) + bias"""
    a, b, c = _product(2, 3, 4)
    bias = te.placeholder((3,), name="bias")
    d = te.compute((2, 3), lambda i, j: te.exp(c[i, j]), name="d")
    e = te.compute((2, 3), lambda i, j: d[i, j] + bias[j], name="e")
    program = te.create_prim_func([a, b, bias, e])
    return _module(program, (2, 4), (4, 3), (3,), (2, 3))


def _split(module: IRModule, count: int = 1) -> tuple[IRModule, list[Any]]:
    seen: list[Any] = []

    def codegen(matches: list[Any]) -> list[Any]:
        seen.extend(matches)
        return ["void {global_symbol}();", count, matches[0].matched_buffers[:2]]

    return transform.SplitCallTIRByPattern([_pattern()], codegen)(module), seen


def test_a_library_computes_the_matmul_and_a_program_the_rest() -> None:
    def product(x: Any, y: Any, out: Any) -> None:
        np.asarray(out)[...] = np.asarray(x) @ np.asarray(y)

    register_func("program", product, override=True)
    rng = np.random.default_rng(0)
    x, y, b = (rng.random(s, np.float32) for s in ((2, 4), (4, 3), (3,)))

    module, matches = _split(_biased())

    assert [buffer.name for buffer in matches[0].matched_buffers] == ["a", "b", "c"]
    assert isinstance(module["program"], ExternFunc)
    assert module["program"].attrs["c_source"] == "void program();"
    assert "c_1" not in module["unfused_epilogue"].script()
    (result,) = relax_mlir.compile(module)(x, y, b)
    np.testing.assert_allclose(result, np.exp(x @ y) + b, rtol=1e-5)  # f32, K=4


def test_a_fully_matched_program_becomes_the_call() -> None:
    program = te.create_prim_func(_product(2, 3, 4))

    module, _ = _split(_module(program, (2, 4), (4, 3), (2, 3)))

    assert len(module.functions) == 2
    assert isinstance(module["program"], ExternFunc)
    assert 'R.call_dps_packed("program", (x0, x1)' in module["main"].script()


def test_other_programs_stay() -> None:
    a = te.placeholder((2, 3), name="a")
    twice = te.create_prim_func([a, te.compute((2, 3), lambda i, j: a[i, j] * 2)])
    untouched = _module(twice, (2, 3), (2, 3))

    assert _split(untouched)[1] == []
    assert "call_tir" in _split(_biased(), count=0)[0]["main"].script()


def test_scales_of_a_pattern_are_optional() -> None:
    n, s = tir.Var("n", "int64"), tir.Var("s", "float32")
    a = te.placeholder((n,), name="a")
    scaled = te.create_prim_func([a, te.compute((n,), lambda i: s * a[i]), s])
    seen: list[Any] = []
    x = te.placeholder((5,), name="x")
    plain = te.compute((5,), lambda i: x[i])
    third = te.compute((5,), lambda i: x[i] * te.const(3.0, "float32"))

    def codegen(matches: list[Any]) -> list[Any]:
        seen.append(float(matches[0].symbol_values[0].value))
        return ["", 0, []]

    for result in (plain, third):
        module = _module(te.create_prim_func([x, result]), (5,), (5,))
        transform.SplitCallTIRByPattern([scaled], codegen)(module)

    assert seen == [1.0, 3.0]


def test_a_library_takes_parameters() -> None:
    codegen = lambda matches: ["", 1, matches[0].matched_buffers]  # noqa: E731

    with pytest.raises(PassError, match="takes buffer `c`: expected a parameter"):
        transform.SplitCallTIRByPattern([_pattern()], codegen)(_biased())

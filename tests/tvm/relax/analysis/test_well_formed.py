"""Rules of a whole module: names, nesting, and calls of tensor programs."""

from typing import Any

import pytest

from relax_mlir import IRModule
from relax_mlir.errors import IRError
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax.analysis import well_formed
from relax_mlir.tvm.script import ir as I  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import relax as R  # noqa: N812
from relax_mlir.tvm.script import tir as T  # noqa: N812

# ruff: noqa: N805, RET504  scripts are not plain Python
# pyright: reportInvalidTypeForm=false, reportUndefinedVariable=false
# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false, reportIndexIssue=false, reportCallIssue=false

INFO = relax.TensorStructInfo((3,), "float32")


@I.ir_module
class Programs:
    @T.prim_func
    def twice(x: T.Buffer((6,), "float32"), y: T.Buffer((6,), "float32")):
        for i in range(6):
            with T.block("twice"):
                v = T.axis.spatial(6, i)
                y[v] = x[v] * T.float32(2)

    @T.prim_func
    def flatten(a: T.handle, b: T.handle):
        m = T.int64()
        n = T.int64()
        x = T.match_buffer(a, (m, n), "float32")
        y = T.match_buffer(b, (m * n,), "float32")
        for i in range(m * n):
            with T.block("flatten"):
                v = T.axis.spatial(m * n, i)
                y[v] = x[v // n, v % n]

    @T.prim_func
    def fold(x: T.Buffer((6,), "float32"), b: T.handle):
        m = T.int64()
        n = T.int64()
        y = T.match_buffer(b, (m, n), "float32")
        for i, j in T.grid(m, n):
            with T.block("fold"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[vi * n + vj]


def _call(name: str, argument: Any, result: Any, **how: Any) -> IRModule:
    """A module that calls a program of ``Programs`` on a tensor."""
    builder = relax.BlockBuilder(Programs)
    x = relax.Var("x", relax.TensorStructInfo(*argument))
    call = relax.op.call_tir_inplace if how else relax.op.call_tir
    out = relax.TensorStructInfo(*result)
    with builder.function("main", [x]):
        made = builder.emit(
            call(Programs.get_global_var(name), [x], out_sinfo=out, **how)
        )
        builder.emit_func_output(made)
    return builder.get()


@pytest.mark.parametrize(
    ("name", "argument", "result", "complaint"),
    [
        ("twice", ((6,), "float32"), ((6,), "float32"), ""),
        ("twice", ((2, 3), "float32"), ((6,), "float32"), "argument does not fit"),
        ("twice", ((7,), "float32"), ((6,), "float32"), "argument does not fit"),
        ("twice", ((6,), "float16"), ((6,), "float32"), "argument does not fit"),
        ("twice", ((6,), "float32"), ((7,), "float32"), "result does not fit"),
        ("twice", ((6,), "float32"), ((6,), "int32"), "result does not fit"),
        ("flatten", ((2, 3), "float32"), ((6,), "float32"), ""),
        ("flatten", ((2, 3), "float32"), ((5,), "float32"), "result does not fit"),
        ("fold", ((6,), "float32"), ((2, 3), "float32"), ""),
        ("fold", ((6,), "float32"), ((2, 3, 1), "float32"), "result does not fit"),
    ],
)
def test_a_call_passes_what_the_program_takes(
    name: str, argument: Any, result: Any, complaint: str
) -> None:
    module = _call(name, argument, result)

    assert well_formed(module) is (not complaint)
    if complaint:
        with pytest.raises(IRError, match=f"call of `{name}`: .*{complaint}"):
            well_formed(module, check_ty=True)


def test_a_result_in_place_of_an_argument_is_like_it() -> None:
    builder = relax.BlockBuilder()

    @T.prim_func
    def double(x: T.Buffer((6,), "float32")):
        for i in range(6):
            with T.block("double"):
                v = T.axis.spatial(6, i)
                x[v] = x[v] * T.float32(2)

    called = builder.add_func(double, "double")
    x = relax.Var("x", relax.TensorStructInfo((6,), "float32"))
    for name, size in (("right", 6), ("wrong", 5)):
        out = relax.TensorStructInfo((size,), "float32")
        x = relax.Var("x", relax.TensorStructInfo((6,), "float32"))
        with builder.function(name, [x]):
            made = relax.op.call_tir_inplace(called, [x], [0], out_sinfo=out)
            builder.emit_func_output(builder.emit(made))

    with pytest.raises(IRError, match="function `wrong`: call of `double`"):
        well_formed(builder.get(), check_ty=True)


def test_a_program_takes_as_many_arguments_as_it_has() -> None:
    @I.ir_module  # which does not ask
    class Module:
        @T.prim_func
        def copy(x: T.Buffer((2,), "float32"), y: T.Buffer((2,), "float32")):
            for i in range(2):
                with T.block("copy"):
                    v = T.axis.spatial(2, i)
                    y[v] = x[v]

        @R.function
        def main(x: R.Tensor((2,), "float32")):
            cls = Module
            y = R.call_tir(cls.copy, (x, x), R.Tensor((2,), "float32"))
            return y

    with pytest.raises(IRError, match="takes 2 arguments: got 2 arguments, 1"):
        well_formed(Module, check_ty=True)


def test_what_is_nested_is_bound_by_the_first_pass() -> None:
    x = relax.Var("x", INFO)
    term = relax.Function([x], relax.op.add(x, relax.op.exp(x)))
    module = IRModule({"main": term})

    assert not well_formed(module)
    assert well_formed(relax.transform.Normalize()(module))
    with pytest.raises(IRError, match=r"expected a variable .*R.exp\(x\)"):
        well_formed(module, check_ty=True)


def test_a_function_is_called_as_others_call_it() -> None:
    x = relax.Var("x", INFO)
    term = relax.Function([x], x, attrs={"global_symbol": "known"})
    module = IRModule({"main": term})

    with pytest.raises(IRError, match="`global_symbol` is `known`"):
        well_formed(module, check_ty=True)
    renamed = relax.transform.NormalizeGlobalVar()(module)
    assert [var.name_hint for var in renamed.get_global_vars()] == ["known"]
    assert well_formed(renamed)

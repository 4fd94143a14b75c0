"""Parsing of Relax functions and modules."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pytest

from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.objects.expr import GlobalVar
from relax_mlir.tvm import relax
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import ir as I  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import relax as R  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.script.builder import IRBuilder
from relax_mlir.tvm.script.relax import Tensor

# ruff: noqa: F821, N805, RET504, SIM108  scripts are not plain Python
# pyright: reportInvalidTypeForm=false, reportUnusedVariable=false
# pyright: reportUndefinedVariable=false, reportUnusedExpression=false
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false


def bindings(function: relax.Function) -> list[Any]:
    return [b for block in function.body.blocks for b in block.bindings]


def test_script_equals_block_builder_result() -> None:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        with R.dataflow():
            y = R.add(x, x)
            z = R.reshape(y, R.shape([n * 4]))
            R.output(z)
        return z

    n = prim.Var("n", "int64")
    x = relax.Var("x", relax.TensorStructInfo([n, 4], "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(relax.op.add(x, x))
            z = bb.emit_output(relax.op.reshape(y, relax.ShapeExpr([n * 4])))
        bb.emit_func_output(z)
    assert_structural_equal(main, bb.get()["main"])
    assert [b.var.name_hint for b in bindings(main)] == ["y", "z"]


def test_every_syntax_of_calls_within_a_module() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            cls = Module
            a = cls.double(x)
            b = Module.double(a)
            c = double(b)
            return c

        @R.function(private=True)
        def double(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return x + x

    calls = [b.value for b in bindings(Module["main"])]
    assert [c.op for c in calls] == [relax.GlobalVar("double")] * 3
    assert "global_symbol" not in Module["double"].attrs
    assert Module["main"].attrs["global_symbol"] == "main"
    assert Module["main"].ret_struct_info == relax.TensorStructInfo((2,), "float32")


def test_deprecated_call_syntax() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: Tensor((1, 8), "float32")):
            with R.dataflow():
                a = R.call_tir("env.linear", (x,), (1, 4), dtype="float32")
                b = R.call_dps_packed("env.relu", a, R.Tensor((1, 4), "float32"))
                c = R.call_dps_packed(
                    "env.relu", (b,), out_ty=R.Tensor((1, 4), "float32")
                )
                R.output(c)
            return c

    values = [b.value for b in bindings(Module["main"])]
    assert {v.op.name for v in values} == {"relax.call_dps_packed"}
    assert [v.args[0].global_symbol for v in values] == [
        "env.linear",
        "env.relu",
        "env.relu",
    ]
    assert {str(v.sinfo_args[0]) for v in values} == {
        'R.Tensor((1, 4), dtype="float32")'
    }


def test_module_with_prim_funcs() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def double(x: T.Buffer((2, 3), "float32"), y: T.Buffer((2, 3), "float32")):
            for i, j in T.grid(2, 3):
                with T.block("double"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = x[vi, vj] + x[vi, vj]

        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            y = R.call_tir(double, (x,), (2, 3), dtype="float32")
            return y

    (binding,) = bindings(Module["main"])
    assert binding.value.args[0] == relax.GlobalVar("double")
    assert_structural_equal(from_source(Module.script()), Module)


def test_script_captures_python_variables() -> None:
    size, count = 3, 2

    def scaled(value: relax.Expr, by: float) -> relax.Expr:
        return value * relax.const(by, "float32")

    @R.function
    def main(x: R.Tensor((size, 2), "float32")):
        parts = I.meta_var([scaled(x, float(i)) for i in range(count)])
        y = R.concat(parts, axis=0)
        return y

    assert main.params[0].struct_info == relax.TensorStructInfo((3, 2), "float32")
    assert main.ret_struct_info == relax.TensorStructInfo((6, 2), "float32")


def test_sizes_as_text_variables_or_expressions() -> None:
    @R.function
    def main(
        x: R.Tensor(("n * 2",), "float32"),
        y: R.Tensor(("n", "T.max(n, 20)"), "float32"),
    ) -> R.Tensor(("n + 1",), "float32"):
        n = T.int64()
        z = R.call_dps_packed("f", (x, y), R.Tensor((n + 1,), "float32"))
        return z

    x, y = main.params
    n = y.struct_info.shape[0]
    assert isinstance(n, prim.Var)
    assert x.struct_info.shape == [n * 2]
    assert main.ret_struct_info.shape == [n + 1]


def test_binding_annotations_set_struct_info() -> None:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        y: R.Tensor(ndim=2) = R.add(x, x)
        z: R.Object = x
        w = R.match_cast(y, R.Tensor((2, 3), "float32"))
        return (y, z, w)

    y, z, w = (b.var.struct_info for b in bindings(main))
    assert y == relax.TensorStructInfo(dtype="", ndim=2)
    assert z == relax.TensorStructInfo((2, 3), "float32")  # known to be more than said
    assert w == relax.TensorStructInfo((2, 3), "float32")


def test_if_value_is_the_last_binding_of_its_branches() -> None:
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((1,), "float32")):
        if c:
            a = R.add(x, x)
            y = R.multiply(a, a)
        else:
            y = R.match_cast(x, R.Tensor((1,), "float32"))
        return y

    (binding,) = bindings(main)
    choice = binding.value
    assert binding.var.name_hint == "y"
    assert isinstance(choice, relax.If)
    thens: Any = choice.true_branch.blocks[0].bindings
    names = [b.value.op.name for b in thens]
    assert names == ["relax.add", "relax.multiply"]
    (cast,) = choice.false_branch.blocks[0].bindings
    assert isinstance(cast, relax.MatchCast)


def test_nested_functions_are_values() -> None:
    @R.function
    def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")):
        @R.function
        def loop(v: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            if c:
                r = R.add(v, x)
            else:
                r = loop(v)
            return r

        y = loop(x)
        return y

    loop, call = bindings(main)
    assert isinstance(loop.value, relax.Function)
    assert call.value.op is loop.var
    before = main.script()
    assert main.op.name.value == "main"  # it is written to MLIR here, and read back
    assert main.script() == before
    assert_structural_equal(from_source(before), main)


def test_shadowing_variables_keep_their_names() -> None:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        y = R.add(x, x)
        y = R.multiply(y, y)
        return y

    first, second = bindings(main)
    assert first.var is not second.var
    assert first.var.name_hint == second.var.name_hint == "y"
    assert second.value.args[0] is first.var


def test_macros_expand_at_their_calls() -> None:
    by = relax.const(2.0, "float32")

    @R.macro
    def scaled(value: relax.Expr) -> relax.Expr:
        inner = R.multiply(value, by)
        return inner

    @R.function
    def main(x: R.Tensor((2,), "float32")):
        y = scaled(x)
        return y

    assert [b.var.name_hint for b in bindings(main)] == ["inner", "y"]


def test_tuples_unpack() -> None:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        a, b = R.split(x, 2)
        pair = (a, b)
        c = pair[1]
        return (c,)

    assert main.ret_struct_info == relax.TupleStructInfo(
        [relax.TensorStructInfo((2,), "float32")]
    )
    assert isinstance(main.body.body, relax.Tuple)


def test_void_calls_are_statements() -> None:
    @R.function(pure=False)
    def main(x: R.Tensor((), "int32")):
        R.print(x, format="x: {}")
        return x

    assert not main.is_pure
    (binding,) = bindings(main)
    assert binding.value.op.name == "relax.print"


def test_module_attributes_and_virtual_devices() -> None:
    @I.ir_module
    class Module:
        I.module_attrs({"a": 10})
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0)]})
        my_ext = R.ExternFunc("my_ext")

        @R.function
        def main(x: R.Tensor((2,), "float32", "cuda")):
            return x

    assert Module.attrs["a"] == 10
    assert Module.global_infos["vdevice"][1] == relax.VDevice("cuda", 0)
    assert Module["my_ext"] == relax.ExternFunc("my_ext")
    assert_structural_equal(from_source(Module.script()), Module)


def test_python_functions_are_not_parsed() -> None:
    @I.ir_module
    class Module:
        @I.pyfunc
        def helper(x):
            return x

        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return x

    assert list(Module.pyfuncs) == ["helper"]
    assert Module.pyfuncs["helper"](3) == 3
    assert [v.name_hint for v in Module.get_global_vars()] == ["main"]


def test_constants_are_printed_as_references() -> None:
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        y = R.add(x, R.const(np.arange(3, dtype="float32")))
        return y

    text = main.script()
    assert 'metadata["relax.expr.Constant"][0]' in text
    assert text.endswith("Use show_meta=True in script() method to show it.")
    assert_structural_equal(from_source(main.script(show_meta=True)), main)


def test_ir_builder_equals_script() -> None:
    with IRBuilder() as builder, R.function():
        R.func_name("main")
        x = R.arg("x", R.Tensor((2,), "float32"))
        with R.dataflow() as block:
            y = IRBuilder.name("y", R.emit(R.add(x, x)))
            R.output(y)
        R.func_ret_value(block.output_vars[0])

    @R.function
    def main(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            y = R.add(x, x)
            R.output(y)
        return y

    assert_structural_equal(builder.get(), main)


def test_declared_result_refines_the_inferred_one() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((3,), "float32")):
            y = Module.nothing(x)
            return y

        @R.function
        def nothing(x: R.Tensor((3,), "float32")) -> None:
            return x

        @R.function
        def casts(x: R.Tensor("float32")) -> R.Tensor(ndim=1):
            k = T.int64()
            y = R.match_cast(x, R.Tensor((k,), "float32"))
            return y

    assert Module["main"].ret_struct_info == relax.TupleStructInfo([])
    assert Module["casts"].ret_struct_info == relax.TensorStructInfo(
        dtype="float32", ndim=1
    )


def test_newer_script_syntax() -> None:
    module = from_source(
        """
n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 4), dtype="float32")) -> R.Tensor((n, 4), dtype="float32"):
        lv = R.call_dps_packed("f", (x,), out_ty=R.Tensor((n, 4), dtype="float32"))
        return lv
"""
    )

    assert isinstance(module, IRModule)
    assert str(module["main"].ret_struct_info) == 'R.Tensor((n, 4), dtype="float32")'


@pytest.mark.parametrize("name", ["func", "other"])
def test_extra_variables_of_a_script_text(name: str) -> None:
    text = "@R.function\ndef f(x: R.Tensor((k,))):\n    return x\n"

    function = from_source(text, {"k": 7, name: None})

    assert function.params[0].struct_info == relax.TensorStructInfo((7,), "")


def test_type_variables_are_distinct_sizes_per_function() -> None:
    text = """
n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def first(x: R.Tensor((n, n * 2), "float32")) -> R.Tensor((n, n * 2), "float32"):
        k = TypeVar("k")
        @R.function
        def inner(y: R.Tensor((n, k), "float32")) -> R.Tensor((n, k), "float32"):
            return y
        return x
    @R.function
    def second(x: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
        return x
"""
    module: Any = from_source(text)
    n = module["first"].params[0].struct_info.shape[0]
    inner = module["first"].body.blocks[0].bindings[0].value

    assert inner.params[0].struct_info.shape[0] is n
    assert module["second"].params[0].struct_info.shape[0] is not n
    assert_structural_equal(from_source(module.script()), module)


def test_captured_type_variables_are_sizes() -> None:
    n = TypeVar("n")

    @R.function
    def f(x: R.Tensor((n, 3), "float32")) -> R.Tensor(("n", 3), "float32"):
        return x

    assert str(f.ret_struct_info.shape[0]) == "n"


def test_module_functions_are_called_without_python(monkeypatch: Any) -> None:
    def fail(*args: Any) -> None:
        raise AssertionError("called by Python")

    monkeypatch.setattr(GlobalVar, "__call__", fail)
    text = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = Module.sub(x)
        return y
    @R.function
    def sub(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return x
"""
    main = from_source(text)["main"]

    assert main.body.blocks[0].bindings[0].value.op.name_hint == "sub"


def test_ir_builder_adds_prim_funcs_to_its_module() -> None:
    with IRBuilder() as built, I.ir_module(), T.prim_func():
        T.func_name("nothing")
        T.evaluate(0)

    text = """
@I.ir_module
class Module:
    @T.prim_func
    def nothing():
        T.evaluate(0)
"""
    assert_structural_equal(built.get(), from_source(text))

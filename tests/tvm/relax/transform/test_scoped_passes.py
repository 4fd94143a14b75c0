"""Passes that move bindings between functions and dataflow blocks."""

from typing import Any

import numpy as np
import pytest

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.objects.expr import PrimValue, ShapeExpr, Var
from relax_mlir.objects.expr.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    TupleStructInfo,
)
from relax_mlir.pipeline.pipeline import Pipeline
from relax_mlir.rewrite.pass_context import PassContext
from relax_mlir.tvm.relax import transform
from relax_mlir.tvm.relax.dpl import is_op, wildcard
from relax_mlir.tvm.script import ir as I  # noqa: N812  as scripts write it
from relax_mlir.tvm.script import relax as R  # noqa: N812
from tests.tvm.relax.transform.graphs import op, program, tensor

# ruff: noqa: N805, RET504  scripts are not plain Python
# pyright: reportInvalidTypeForm=false, reportUndefinedVariable=false
# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false, reportIndexIssue=false, reportCallIssue=false


def test_types_are_refined_after_aliases_are_removed() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 3), "float32")):
            y = x
            z: R.Tensor(dtype="float32", ndim=2) = R.exp(y)
            return z

    after = transform.CanonicalizeBindings()(Before)["main"]

    (binding,) = after.body.blocks[0].bindings
    assert str(binding.var.struct_info) == 'R.Tensor((n, 3), dtype="float32")'


def test_a_call_that_returns_a_closure_returns_an_object() -> None:
    @I.ir_module
    class Nested:
        @R.function
        def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
            @R.function
            def adder(
                c: R.Tensor((2,), "float32"),
            ) -> R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32")):
                @R.function
                def add(d: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                    s = R.add(d, c)
                    return s

                return add

            closure = adder(x)
            z = closure(y)
            return z

    lifted = transform.LambdaLift()(Nested)

    call, invoked = (b.value for b in lifted["main"].body.blocks[0].bindings)
    assert call.op.name_hint == "main_adder"
    assert str(call.struct_info) == "R.Object"
    assert invoked.op.name == "relax.invoke_pure_closure"
    assert [p.name_hint for p in lifted["main_add"].params] == ["d", "c"]


def _blocks(module: IRModule) -> list[tuple[str, list[str]]]:
    """Kind and variables of each block of ``main``."""
    return [
        (type(block).__name__, [b.var.name_hint for b in block.bindings])
        for block in module["main"].body.blocks
    ]


def test_inlined_bindings_keep_their_blocks() -> None:
    @I.ir_module
    class Plain:
        @R.function
        def main(a: R.Tensor((3,), "float32")):
            cls = Plain
            with R.dataflow():
                b = R.exp(a)
                c = cls.square(b)
                d = R.sin(c)
                R.output(d)
            return d

        @R.function(private=True)
        def square(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            y = R.multiply(x, x)
            return y

    @I.ir_module
    class Flow:
        @R.function
        def main(a: R.Tensor((3,), "float32")):
            b = Flow.square(a)
            return b

        @R.function(private=True)
        def square(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            with R.dataflow():
                y = R.multiply(x, x)
                R.output(y)
            return y

    inline = transform.InlinePrivateFunctions()

    assert _blocks(inline(Plain)) == [
        ("DataflowBlock", ["b"]),
        ("BindingBlock", ["y"]),
        ("DataflowBlock", ["d"]),
    ]
    assert _blocks(inline(Flow)) == [("DataflowBlock", ["y"])]
    by_name = Flow["main"].inline_functions({"square": Flow["square"]})
    assert_structural_equal(by_name, inline(Flow)["main"])


def test_functions_bind_parameters_and_sizes_themselves() -> None:
    @R.function
    def scaled(x: R.Tensor(("n",), "float32"), w: R.Tensor(("n",), "float32")):
        y = R.multiply(x, w)
        return y

    fixed = scaled.bind_symbolic_vars({"n": 4})
    bound = scaled.bind_params({"w": np.ones(4, np.float32)})

    assert [p.struct_info for p in fixed.params] == [tensor(4), tensor(4)]
    assert [p.name_hint for p in bound.params] == ["x"]
    assert bound.ret_struct_info == tensor(4)


def test_a_check_gets_the_candidates() -> None:
    x, w, v = Var("x", tensor(2, 5)), Var("w", tensor(5, 3)), Var("v", tensor(5, 4))
    b = Var("b", tensor(3))
    products = [op("matmul", x, m, out_dtype=None) for m in (w, v)]
    module = program([x, w, v, b], op("add", products[0], b), products[1])
    told: list[Any] = []  # Any: the pass's arguments

    transform.CombineParallelMatmul(lambda *all_: bool(told.extend(all_)))(module)

    operand, weights, biases, values = told
    assert operand.name_hint == "x"
    assert [weight.name_hint for weight in weights] == ["w", "v"]
    assert list(biases) == []  # one of the matmuls has none
    assert [value.op.name for value in values.values()].count("relax.matmul") == 2


def test_functions_that_share_weights_must_take_the_same() -> None:
    @I.ir_module
    class Differing:
        @R.function
        def one(w: R.Tensor((2,), "float32")):
            R.func_attr({"num_input": 0})
            with R.dataflow():
                y = R.exp(w)
                R.output(y)
            return y

        @R.function
        def two(w: R.Tensor((3,), "float32")):
            R.func_attr({"num_input": 0})
            with R.dataflow():
                y = R.exp(w)
                R.output(y)
            return y

    with pytest.raises(PassError, match="`two`: expected weights of the same number"):
        transform.LiftTransformParams(shared_transform=True)(Differing)
    with pytest.raises(PassError, match="`three`: expected a Relax function"):
        transform.LiftTransformParams(shared_transform=["three"])(Differing)


def test_the_context_decides_whether_weights_are_released() -> None:
    x, w = Var("x", tensor(2)), Var("w", tensor(2))
    module = program([x, w], op("add", x, op("exp", w)), num_input=1)

    with PassContext(config={"relax.lift_transform_params.consume_params": True}):
        lifted = transform.LiftTransformParams()(module)

    assert "tuple_reset_item" in lifted["main_transform_params"].script()


def test_a_value_passed_twice_is_fused() -> None:
    x = Var("x", tensor(2, 3))
    half = op("exp", x)
    module = transform.LegalizeOps()(program([x], op("add", half, half)))

    fused = transform.FuseOps()(transform.AnnotateTIROpPattern()(module))

    (binding,) = fused["main"].body.blocks[0].bindings
    assert binding.value.op.name_hint == "fused_tir_exp_add"
    assert len(fused["fused_tir_exp_add"].body.blocks[0].bindings) == 2


def test_symbolic_programs_are_fused() -> None:
    n = prim.Var("n", "int64")
    x = Var("x", tensor(n, 3))
    module = program([x], op("permute_dims", op("exp", x), axes=(1, 0)))
    module = transform.AnnotateTIROpPattern()(transform.LegalizeOps()(module))

    fused = transform.FuseTIR()(transform.FuseOps()(module))

    (binding,) = fused["main"].body.blocks[0].bindings
    assert binding.value.args[0].name_hint == "fused_tir_exp_transpose"
    assert "(3, n)" in str(binding.value.struct_info)
    merged = fused["fused_tir_exp_transpose"].script()
    assert "x = T.match_buffer(var_x, (n, 3))" in merged
    assert "compute_intermediate = T.alloc_buffer((n, 3))" in merged


def test_passes_that_rewrite_terms_have_their_options_in_text() -> None:
    convert = transform.ConvertLayout({"relax.nn.conv2d": ("NHWC", "OHWI")})
    text = "relax-convert-layout{desired-layouts=relax.nn.conv2d:NHWC:OHWI}"

    (parsed,) = Pipeline.parse(text).elements

    assert str(parsed) == text
    assert getattr(parsed, "value", None) == convert


def test_a_pattern_in_a_pipeline_is_called_by_its_name() -> None:
    pattern = ("mine.exp", is_op("relax.exp")(wildcard()))
    fuse = transform.FuseOpsByPattern([pattern], bind_constants=False)

    assert "patterns=mine.exp bind-constants=false" in str(Pipeline.of([fuse]))


def test_shapes_and_scalars_are_bound_too() -> None:
    @R.function
    def sized(s: R.Shape(["n"]), k: R.Prim("int64"), x: R.Tensor("float32", ndim=1)):
        y = R.add(x, x)
        return s, k, y

    bound = sized.bind_params(
        {"s": ShapeExpr([3]), "k": PrimValue(7), "x": np.ones(3, np.float32)}
    )

    assert bound.params == []
    assert bound.ret_struct_info == TupleStructInfo(
        [ShapeStructInfo([3]), PrimStructInfo(value=prim.IntImm("int64", 7)), tensor(3)]
    )
    with pytest.raises(PassError, match=r"parameter `s`: expected .*, got .*"):
        sized.bind_params({"s": ShapeExpr([3, 4])})


def test_sizes_of_one_name_are_told_apart_as_variables() -> None:
    first, second = prim.Var("n", "int64"), prim.Var("n", "int64")
    x, y = Var("x", tensor(first)), Var("y", tensor(second))
    function = program([x, y], op("exp", x), op("exp", y))["main"]

    fixed = function.bind_symbolic_vars({second: 4})

    assert [p.struct_info == tensor(4) for p in fixed.params] == [False, True]
    with pytest.raises(PassError, match=r"`n`: .*got a name of several"):
        function.bind_symbolic_vars({"n": 4})
    with pytest.raises(PassError, match=r"`m`: .*got an unknown symbol"):
        function.bind_symbolic_vars({prim.Var("m", "int64"): 4})


def test_variables_survive_passes_that_keep_them() -> None:
    n = prim.Var("n", "int64")
    x = Var("x", tensor(n))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            inner = builder.emit(op("exp", x))
            outer = builder.emit_output(op("exp", inner))
        builder.emit_func_output(outer)

    after = transform.ToNonDataflow()(builder.get())["main"]

    first, second = (b.var for block in after.body.blocks for b in block.bindings)
    assert after.params == [x]
    assert second is outer
    assert type(first) is Var  # it was local to the dataflow block
    assert first.struct_info.shape.values[0] is n

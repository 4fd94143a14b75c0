"""Representations at the prompt, and errors about unknown names."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Call, Constant, Tuple, TupleGetItem, Var, const
from relax_mlir.objects.expr.struct_info import DynTensorType, TensorStructInfo
from relax_mlir.rewrite.pass_context import PassContext
from relax_mlir.tvm.relax import transform
from relax_mlir.tvm.relax.target import Target
from tests.tvm.relax.transform.graphs import op

X = Var("x", TensorStructInfo((2, 3), "float32"))


def module(*names: str) -> IRModule:
    """Functions that add x to itself."""
    bb = BlockBuilder()
    for name in names:
        x = Var("x", TensorStructInfo((2, 3), "float32"))
        with bb.function(name, [x]):
            with bb.dataflow():
                total = bb.emit_output(op("add", x, x))
            bb.emit_func_output(total)
    return bb.get()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (op("add", X, X), "R.add(x, x)"),
        (Tuple([X, const(1)]), '(x, R.const(1, "int32"))'),
        (Constant(np.arange(3)), 'R.const([0, 1, 2], "int64")'),
        (
            Constant(np.zeros((9, 9))),
            'R.const([[0., ..., 0.], ..., [0., ..., 0.]], "float64")',
        ),
        (Call(module("main")["main"], [X]), "main(x)"),
        (X.vid, 'Id("x")'),
        (DynTensorType(2, "float32"), 'DynTensorType(2, "float32")'),
        (transform.LegalizeOps(), "Legalize(keep_views=False, inline_scalars=True, "),
        (PassContext(opt_level=3), "PassContext(opt_level=3, required_pass=[], "),
    ],
    ids=str,
)
def test_a_part_is_one_line(value: Any, shown: str) -> None:
    assert repr(value).startswith(shown)
    assert "\n" not in repr(value)


def test_a_binding_and_a_block_say_what_their_variables_are() -> None:
    block = module("main")["main"].body.blocks[0]
    x = 'x: R.Tensor((2, 3), dtype="float32")\n'
    binding = 'gv: R.Tensor((2, 3), dtype="float32") = R.add(x, x)'
    assert repr(block.bindings[0]) == x + binding
    assert repr(block) == (f"{x}with R.dataflow():\n    {binding}\n    R.output(gv)")


def test_a_module_is_its_script_as_long_as_it_has_one() -> None:
    graph = module("main")
    assert repr(graph) == graph.script()
    lowered = IRModule.parse("llvm.func @f() { llvm.return }")
    assert repr(lowered) == str(lowered.mlir)
    assert "llvm.func @f" in repr(lowered)


def test_functions_are_printed_in_the_order_of_their_names() -> None:
    legal = transform.LegalizeOps()(module("second", "first"))
    text = legal.script()
    names = ["def add(", "def first(", "def second("]
    assert sorted(names, key=text.index) == names
    assert [v.name_hint for v, _ in legal.functions_items()] == [
        "add",
        "first",
        "second",
    ]


def test_a_function_is_itself_each_time_it_is_asked_for() -> None:
    graph = module("main", "other")
    assert graph["main"] == graph["main"]
    assert len({graph["main"], graph["main"], graph["other"]}) == 2
    assert graph["main"] != graph.clone()["main"]


def delete(graph: IRModule) -> None:
    del graph["man"]


@pytest.mark.parametrize(
    "use", [lambda m: m["man"], lambda m: m.get_global_var("man"), delete]
)
def test_an_unknown_function_lists_those_that_are_there(
    use: Callable[[IRModule], object],
) -> None:
    with pytest.raises(
        ValueError, match=r"no function `man`: it has `main`, `other`\. Did .* `main`"
    ):
        use(module("main", "other"))


def test_an_index_past_a_tuple_is_refused() -> None:
    with pytest.raises(IndexError, match=r"`\(x, x\)`: .* which is 2, got 2"):
        TupleGetItem(Tuple([X, X]), 2)


def test_a_pass_takes_modules() -> None:
    with pytest.raises(TypeError, match=r"`FuseOps`: expected an IRModule, got Func"):
        transform.FuseOps()(module("main")["main"])


def test_a_target_is_a_kind_that_is_known() -> None:
    assert str(Target("llvm -mcpu=skylake")) == "llvm -mcpu=skylake"
    with pytest.raises(ValueError, match=r"unknown target `lvm`: .* Did you .* `llvm`"):
        Target("lvm")


def test_a_page_shows_lines_whole_and_modules_without_script() -> None:
    many = Tuple([X] * 99)
    page = re.sub("<[^>]+>", "", many._repr_html_())
    assert page.split() == repr(many).split()
    lowered = IRModule.parse("llvm.func @f() { llvm.return }")
    assert "@f" in re.sub("<[^>]+>", "", lowered._repr_html_())

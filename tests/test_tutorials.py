"""What introductory texts print: functions, names and calls, step by step."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relax_mlir as tvm
from relax_mlir import relax, relay
from relax_mlir.script import relax as R  # noqa: N812  as scripts do
from relax_mlir.tvm.ir import assert_structural_equal

ROOT = Path(__file__).parents[1]


@tvm.script.ir_module
class Old:
    @R.function
    def main(x: Tensor((3, 4), "float32"), y: Tensor((3, 4), "float32")):  # noqa: F821, N805
        with relax.dataflow():
            lv0 = relax.multiply(x, y)
            gv0 = relax.add(lv0, y)
            relax.output(gv0)
        return gv0


@tvm.script.ir_module
class New:
    @R.function
    def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):  # noqa: N805
        with R.dataflow():
            a = R.multiply(x, y)
            b = R.add(a, y)
            R.output(b)
        return b


def test_old_spellings_are_read() -> None:
    assert_structural_equal(Old, New)


def test_a_function_is_a_tree() -> None:
    function = Old["main"]
    assert isinstance(function, relax.Function)
    x, y = function.params
    assert isinstance(function.body, relax.SeqExpr)
    (block,) = function.body.blocks
    assert isinstance(block, relax.DataflowBlock)
    product, total = block.bindings
    assert isinstance(product.var, relax.DataflowVar)
    assert product.value.op == tvm.ir.Op.get("relax.multiply")
    assert list(product.value.args) == [x, y]
    assert list(total.value.args) == [product.var, y]
    assert function.body.body is total.var


@pytest.fixture(scope="module")
def steps() -> dict[str, str]:
    """The text of a classifier after each step of the example."""
    example: dict[str, Any] = runpy.run_path(str(ROOT / "examples/rewrite_graphs.py"))
    shapes = {"w0": (128, 784), "b0": (128,), "w1": (10, 128), "b1": (10,)}
    model = example["classifier"]({k: np.ones(s, "float32") for k, s in shapes.items()})
    fused = example["FuseDenseAdd"]()(model)
    lowered = example["LowerToTensorIRPass"]()(fused)
    final = relax.transform.FuseTIR()(lowered)
    modules = {"model": model, "fused": fused, "lowered": lowered, "final": final}
    return {name: module.script() for name, module in modules.items()}


def test_a_classifier_is_built_fused_and_lowered(steps: dict[str, str]) -> None:
    in_order(
        steps["model"],
        "= R.nn.dense(x, metadata[",
        "= R.add(lv, metadata[",
        "= R.nn.relu(lv1)",
        "= R.nn.dense(lv2, metadata[",
        "= R.add(lv3, metadata[",
        'gv: R.Tensor((1, 10), dtype="float32") = lv4',
    )
    in_order(
        steps["fused"],
        'def fused_dense_add0(x: R.Tensor((1, 784), dtype="float32"), w:',
        'R.func_attr({"Primitive": 1})',
        'def fused_dense_add1(x: R.Tensor((1, 128), dtype="float32"), w:',
        "def main(",
        "cls.fused_dense_add0(x, metadata[",
        "= R.nn.relu(",
        "cls.fused_dense_add1(",
    )
    programs = re.findall(r"@T\.prim_func.*\n +def (\w+)\(", steps["lowered"])
    assert sorted(programs) == ["add", "add1", "dense", "dense1", "relu"]
    in_order(
        steps["lowered"],
        "R.call_tir(cls.dense, (x, w)",
        "R.call_tir(cls.add, (lv, b)",
        "R.call_tir(cls.dense1, (x, w)",
        "R.call_tir(cls.add1, (lv, b)",
    )
    programs = re.findall(r"@T\.prim_func.*\n +def (\w+)\(", steps["final"])
    assert sorted(programs) == ["fused_dense_add0", "fused_dense_add1", "relu"]
    in_order(
        steps["final"],
        "R.call_tir(cls.fused_dense_add0, (x, metadata[",
        "R.call_tir(cls.relu, (",
        "R.call_tir(cls.fused_dense_add1, (",
    )


def in_order(text: str, *parts: str) -> None:
    """Check that parts stand in a text one after the other."""
    place = 0
    for part in parts:
        found = text.find(part, place)
        assert found >= 0, f"`{part}` is not there, or not in order:\n{text}"
        place = found + len(part)


def test_relay_fuses_two_operators_into_one_function() -> None:
    x = relay.var("x", shape=(10, 20))
    y = relay.exp(relay.add(x, relay.const(1, "float32")))
    function = relay.ir_pass.infer_type(relay.Function([x], y))
    assert relay.ir_pass.fuse_ops(function, opt_level=0).astext() == (
        "fn (%x: Tensor[(10, 20), float32]) -> Tensor[(10, 20), float32] {\n"
        "  %0 = fn (%p0: Tensor[(10, 20), float32], %p1: float32) -> "
        "Tensor[(10, 20), float32] {\n"
        "    %1 = add(%p0, %p1)\n"
        "    %1\n"
        "  }\n"
        "  %2 = %0(%x, 1f)\n"
        "  %3 = fn (%p0: Tensor[(10, 20), float32]) -> Tensor[(10, 20), float32] {\n"
        "    %4 = exp(%p0)\n"
        "    %4\n"
        "  }\n"
        "  %5 = %3(%2)\n"
        "  %5\n"
        "}"
    )
    fused = relay.ir_pass.fuse_ops(function, opt_level=2)
    assert fused.astext() == (
        "fn (%x: Tensor[(10, 20), float32]) -> Tensor[(10, 20), float32] {\n"
        "  %0 = fn (%p0: Tensor[(10, 20), float32]) -> Tensor[(10, 20), float32] {\n"
        "    %1 = add(%p0, 1f)\n"
        "    %2 = exp(%1)\n"
        "    %2\n"
        "  }\n"
        "  %3 = %0(%x)\n"
        "  %3\n"
        "}"
    )
    assert not relay.ir_pass.alpha_equal(function, fused)
    assert relay.ir_pass.alpha_equal(fused, relay.ir_pass.fuse_ops(fused))


def test_the_table_names_tests_that_exist() -> None:
    table = (ROOT / "docs/tutorials.md").read_text()
    assert [f"S{n:02}" for n in range(1, 64)] == re.findall(
        r"^\| (S\d\d) ", table, re.M
    )
    for path, name in re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", table):
        text = (ROOT / path).read_text()
        assert not name or f"def {name}(" in text, f"{path}::{name}"

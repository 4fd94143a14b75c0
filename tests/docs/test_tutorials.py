"""What introductory texts print: functions, names and calls, step by step."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from models import fashion_mlp
from relax_mlir import tvm
from relax_mlir.tvm import relax, relay
from relax_mlir.tvm.ir import assert_structural_equal
from relax_mlir.tvm.script import relax as R
from relax_mlir.tvm.script import tir as T

ROOT = Path(__file__).parents[2]


@tvm.script.ir_module
class Old:
    @R.function
    def main(x: Tensor((3, 4), "float32"), y: Tensor((3, 4), "float32")):
        with relax.dataflow():
            lv0 = relax.multiply(x, y)
            gv0 = relax.add(lv0, y)
            relax.output(gv0)
        return gv0


@tvm.script.ir_module
class New:
    @R.function
    def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
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
        "  %0 = fn(%p0: Tensor[(10, 20), float32], %p1: float32) -> "
        "Tensor[(10, 20), float32] {\n"
        "    %1 = add(%p0, %p1)\n"
        "    %1\n"
        "  }\n"
        "  %2 = %0(%x, 1f)\n"
        "  %3 = fn(%p01: Tensor[(10, 20), float32]) -> Tensor[(10, 20), float32] {\n"
        "    %4 = exp(%p01)\n"
        "    %4\n"
        "  }\n"
        "  %5 = %3(%2)\n"
        "  %5\n"
        "}"
    )
    fused = relay.ir_pass.fuse_ops(function, opt_level=2)
    assert fused.astext() == (
        "fn (%x: Tensor[(10, 20), float32]) -> Tensor[(10, 20), float32] {\n"
        "  %0 = fn(%p0: Tensor[(10, 20), float32]) -> Tensor[(10, 20), float32] {\n"
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


@tvm.script.ir_module
class Layer:
    @T.prim_func
    def linear(
        X: T.Buffer[(1, 3), "float32"],
        W: T.Buffer[(2, 3), "float32"],
        B: T.Buffer[(2,), "float32"],
        Z: T.Buffer[(1, 2), "float32"],
    ):
        T.func_attr({"global_symbol": "linear", "tir.noalias": True})
        Y = T.alloc_buffer((1, 2), "float32")
        for i, j, k in T.grid(1, 2, 3):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, 2):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @R.function
    def main(
        x: Tensor((1, 3), "float32"),
        w: Tensor((2, 3), "float32"),
        b: Tensor((2,), "float32"),
    ):
        with R.dataflow():
            hidden = R.call_tir(linear, (x, w, b), (1, 2), dtype="float32")
            out = R.call_tir("tutorials.relu", (hidden,), (1, 2), dtype="float32")
            R.output(out)
        return out


def linear_in_numpy(x: np.ndarray, w: np.ndarray, b: np.ndarray, z: np.ndarray) -> None:
    y = np.empty((1, 2), "float32")
    for j in range(2):
        for k in range(3):
            if k == 0:
                y[0, j] = 0
            y[0, j] += x[0, k] * w[j, k]
        z[0, j] = y[0, j] + b[j]


def relu_in_numpy(x: np.ndarray, y: np.ndarray) -> None:
    np.maximum(np.from_dlpack(x), 0, out=np.from_dlpack(y))


def call_tir_in_numpy(
    program: Callable[..., None], inputs: Sequence[np.ndarray], shape: tuple[int, ...]
) -> np.ndarray:
    result = np.empty(shape, "float32")
    program(*inputs, result)
    return result


def test_a_module_of_programs_and_library_functions_is_what_numpy_says() -> None:
    tvm.register_func("tutorials.relu", relu_in_numpy, override=True)
    rng = np.random.default_rng(0)
    x, w, b = (rng.normal(size=s).astype("float32") for s in ((1, 3), (2, 3), (2,)))
    hidden = call_tir_in_numpy(linear_in_numpy, (x, w, b), (1, 2))
    expected = call_tir_in_numpy(relu_in_numpy, (hidden,), (1, 2))

    vm = relax.VirtualMachine(relax.vm.build(Layer, target="llvm"), tvm.cpu())
    actual = vm["main"](*map(tvm.nd.array, (x, w, b))).numpy()

    # f32 sums of three products
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


def trained_weights() -> dict[str, np.ndarray]:
    """The weights of the shipped classifier, a row per output."""
    arrays = {t.name: numpy_helper.to_array(t) for t in graph().initializer}
    gemms = [node for node in graph().node if node.op_type == "Gemm"]
    (w0, b0), (w1, b1) = ((arrays[n] for n in node.input[1:]) for node in gemms)
    return {"w0": rows(w0, 128), "b0": b0, "w1": rows(w1, 10), "b1": b1}


def graph() -> onnx.GraphProto:
    return fashion_mlp.build().graph


def rows(weight: np.ndarray, count: int) -> np.ndarray:
    return weight if len(weight) == count else np.ascontiguousarray(weight.T)


@pytest.mark.slow
def test_a_trained_classifier_predicts_after_all_steps() -> None:
    example = runpy.run_path(str(ROOT / "examples/rewrite_graphs.py"))
    model = example["classifier"](trained_weights())
    lowered = example["LowerToTensorIRPass"]()(example["FuseDenseAdd"]()(model))
    final = relax.transform.FuseTIR()(lowered)
    images, labels = fashion_mlp.load_images()

    vm = relax.VirtualMachine(relax.vm.build(final, target="llvm"), tvm.cpu())
    logits = [vm["main"](tvm.nd.array(images[i : i + 1])).numpy() for i in range(9)]

    predicted = [fashion_mlp.CLASS_NAMES[int(np.argmax(row))] for row in logits]
    assert predicted == [fashion_mlp.CLASS_NAMES[label] for label in labels[:9]]


def test_the_table_names_tests_that_exist() -> None:
    table = (ROOT / "docs/tutorials.md").read_text()
    assert [f"S{n:02}" for n in range(1, 64)] == re.findall(
        r"^\| (S\d\d) ", table, re.M
    )
    for path, name in re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", table):
        text = (ROOT / path).read_text()
        assert not name or f"def {name}(" in text, f"{path}::{name}"

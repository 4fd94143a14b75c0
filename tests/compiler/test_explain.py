"""Explanations of schedule rule selection."""

import onnx
import pytest
from mlir import ir

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.errors import RelaxError, UnsupportedError
from relax_mlir.tvm.tir import PrimFunc

_NETWORK = """
    <ir_version: 10, opset_import: ["" : 21]>
    g (float[8, 64] x, float[64, 64] w) => (float[8, 64] z) {
        [first] a = MatMul (x, w)
        [second] b = MatMul (a, w)
        [scores] z = Softmax (b)
    }
"""


@pytest.fixture(scope="module")
def network() -> IRModule:
    return relax_mlir.import_onnx(onnx.parser.parse_model(_NETWORK).SerializeToString())


def test_kernels_in_order_with_their_nodes(network: IRModule) -> None:
    product, scores = relax_mlir.explain(network).kernels

    assert (product.name, product.runs, product.nodes) == (
        "matmul",
        2,
        ("first", "second"),
    )
    assert (scores.name, scores.runs, scores.nodes) == ("softmax", 1, ("scores",))


def test_rules_are_those_that_write_the_loops(network: IRModule) -> None:
    lowered = relax_mlir.lower(network, to="loops")
    rules = {
        f.name.value: ir.StringAttr(f.attributes["tir.rule"]).value
        for f in lowered.func_ops()
        if "tir.rule" in f.attributes
    }

    told = relax_mlir.explain(network)

    assert {k.name: k.choice.rule for k in told.kernels} == rules


def test_rejected_rules_have_reasons(network: IRModule) -> None:
    product, scores = relax_mlir.explain(network).kernels

    reasons = {r.rule: r.reason for r in scores.choice.refused}
    assert reasons["Gemm"] == "its first statement is not a sum reduction"
    assert reasons["Transpose"] == "it has more than one statement"
    assert "Gemm" not in {r.rule for r in product.choice.refused}


def test_configurations_are_those_of_the_target(network: IRModule) -> None:
    product, _ = relax_mlir.explain(network, target="cpu:x86-64-v3").kernels

    choice = product.choice
    assert choice.configuration == choice.configurations[0]
    # With 16 registers of 256 bits.
    assert "Gemm{rows=4, vectors=3, block_kb=512}" in choice.configurations
    assert "Gemm{rows=5, vectors=3, block_kb=512}" not in choice.configurations


def test_the_layout_of_the_text(network: IRModule) -> None:
    product, scores = str(relax_mlir.explain(network)).split("\n\n")

    head, nodes, written, *refused = product.splitlines()
    assert head == "matmul, 2 times"
    assert nodes == "  nodes: first, second"
    assert written.startswith("  written by Gemm{rows=")
    assert written.endswith(" configurations")
    assert all(line.startswith("  not ") for line in refused)
    assert (
        "  not Gemm: its first statement is not a sum reduction" in scores.splitlines()
    )


def test_prim_funcs_alone_are_explained(network: IRModule) -> None:
    planned = relax_mlir.lower(network, to="tir")
    programs = [f for f in planned.functions.values() if isinstance(f, PrimFunc)]

    for program in programs:
        (kernel,) = relax_mlir.explain(program).kernels
        assert kernel.name == program.name
        assert kernel.choice.rule in ("Gemm", "RowWise")


def test_many_nodes_are_counted() -> None:
    nodes = "".join(f"[n{i}] v{i + 1} = MatMul (v{i}, v{i})\n" for i in range(6))
    text = '<ir_version: 10, opset_import: ["" : 21]>'
    text += f"g (float[5, 5] v0) => (float[5, 5] v6) {{ {nodes} }}"
    model = onnx.parser.parse_model(text)

    (kernel,) = relax_mlir.explain(model.SerializeToString()).kernels

    assert kernel.nodes == ("n0", "n1", "n2", "n3", "n4", "n5")
    assert str(kernel).splitlines()[1] == "  nodes: n0, n1, n2, n3 +2"


def test_a_model_in_stages_is_refused() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[4] x) => (int64[1, m] i) { i = NonZero (x) }
    """)

    with pytest.raises(
        UnsupportedError, match="expected one that is compiled ahead of time"
    ):
        relax_mlir.explain(model.SerializeToString())


def test_a_module_that_has_its_loops_is_refused(network: IRModule) -> None:
    lowered = relax_mlir.lower(network, to="loops")

    with pytest.raises(RelaxError, match="its kernels are scheduled already"):
        relax_mlir.explain(lowered)

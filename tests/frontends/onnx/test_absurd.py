"""Models with absurd sizes are rejected, or handled with bounded resources."""

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper

import relax_mlir
from relax_mlir.compiler.host import loop_executor
from relax_mlir.errors import ModelError, OutOfMemoryError, RelaxError, RunError
from relax_mlir.frontends.onnx.graph import MAX_NESTING
from tests.frontends.onnx.differential import parse

_MILLION, _MANY = 10**6, 10**12
_ONE = np.ones(1, np.float32)


def _if_nest(depth: int) -> onnx.ModelProto:
    """Ifs in Ifs."""
    model = parse("g (float[3] x, bool c) => (float[3] y0) { }", opset=21)
    graph = model.graph
    for n in range(depth):
        node = graph.node.add(op_type="If", input=["c"], output=[f"y{n}"])
        other = node.attribute.add(name="else_branch", type=AttributeProto.GRAPH).g
        other.node.add(op_type="Neg", input=["x"], output=[f"e{n}"])
        other.output.add(name=f"e{n}")
        graph = node.attribute.add(name="then_branch", type=AttributeProto.GRAPH).g
        graph.output.add(name=f"y{n + 1}")
    graph.node.add(op_type="Relu", input=["x"], output=[f"y{depth}"])
    return model


def _loop_nest(depth: int) -> onnx.ModelProto:
    """Loops in Loops."""
    model = parse("g (float[3] x, int64 k) => (float[3] y0) { }", opset=21)
    graph, state = model.graph, "x"
    for n in range(depth):
        node = graph.node.add(op_type="Loop", input=["k", "", state], output=[f"y{n}"])
        graph = node.attribute.add(name="body", type=AttributeProto.GRAPH).g
        for name in (f"i{n}", f"c{n}", f"s{n}"):
            graph.input.add(name=name)
        graph.node.add(op_type="Identity", input=[f"c{n}"], output=[f"d{n}"])
        graph.output.add(name=f"d{n}")
        graph.output.add(name=f"y{n + 1}")
        state = f"s{n}"
    graph.node.add(op_type="Neg", input=[state], output=[f"y{depth}"])
    return model


def _calls(depth: int, width: int) -> onnx.ModelProto:
    """A chain of functions, each with several calls of the next one."""
    model = parse("g (float[n] x) => (float[n] y) { y = local.f0 (x) }", opset=21)
    for n in range(depth):
        made = model.functions.add(name=f"f{n}", domain="local", input=["v0"])
        made.output.append(f"v{width}")
        for domain, version in (("", 21), ("local", 1)):
            made.opset_import.add(domain=domain, version=version)
        is_last = n == depth - 1
        operator, domain = ("Neg", "") if is_last else (f"f{n + 1}", "local")
        for w in range(width):
            node = helper.make_node(operator, [f"v{w}"], [f"v{w + 1}"], domain=domain)
            made.node.append(node)
    return model


@pytest.mark.parametrize("make", [_if_nest, _loop_nest])
@pytest.mark.parametrize("depth", [MAX_NESTING + 1, 1000])
def test_deeply_nested_graphs_are_rejected(make: Any, depth: int) -> None:
    with pytest.raises(ModelError, match=f"deeper than {MAX_NESTING} levels"):
        relax_mlir.import_onnx(make(depth))


@pytest.mark.slow  # a stage a level
def test_moderately_nested_graphs_run() -> None:
    x = np.array([1, -2, 3], np.float32)

    (y,) = relax_mlir.compile(_if_nest(MAX_NESTING))(x, np.array(True))
    np.testing.assert_array_equal(y, [1, 0, 3])
    (y,) = relax_mlir.compile(_loop_nest(MAX_NESTING))(x, np.array(1))
    np.testing.assert_array_equal(y, -x)


@pytest.mark.parametrize(
    ("depth", "width"), [(1000, 1), pytest.param(60, 2, marks=pytest.mark.slow)]
)
def test_unbounded_function_calls_are_rejected(depth: int, width: int) -> None:
    """Two calls in each of 60 functions are 2^60 nodes."""
    with pytest.raises(ModelError, match="nested deeper than 64 levels"):
        relax_mlir.import_onnx(_calls(depth, width))


# The graph, and inputs of it; each asks for 10^12 elements.
_LARGE: dict[str, tuple[str, Sequence[np.ndarray]]] = {
    "ConstantOfShape": (
        "g (int64[2] s) => (float[a, b] y) { y = ConstantOfShape (s) }",
        [np.array([_MILLION, _MILLION])],
    ),
    "Expand": (
        "g (float[1] x, int64[2] s) => (float[a, b] y) { y = Expand (x, s) }",
        [_ONE, np.array([_MILLION, _MILLION])],
    ),
    "Tile": (
        "g (float[1] x, int64[1] r) => (float[a] y) { y = Tile (x, r) }",
        [_ONE, np.array([_MANY])],
    ),
    "Range": (
        """g (int64 n) => (int64[a] y) { zero = Constant <value_int = 0> ()
        one = Constant <value_int = 1> () y = Range (zero, n, one) }""",
        [np.array(_MANY)],
    ),
    "Pad": (
        "g (float[1] x, int64[2] p) => (float[a] y) { y = Pad (x, p) }",
        [_ONE, np.array([_MANY, 0])],
    ),
    "Resize": (
        "g (float[1, 1, 2] x, int64[3] s) => (float[a, b, c] y) { y = Resize (x, , , s) }",
        [np.ones((1, 1, 2), np.float32), np.array([1, 1, _MANY])],
    ),
    "known Resize": (
        """g (float[1, 1, 2] x) => (float[a, b, c] y) { y = Resize (x, , , s)
        s = Constant <value_ints = [1, 1, 1000000000000]> () }""",
        [np.ones((1, 1, 2), np.float32)],
    ),
    "known Range": (
        """g () => (int64[a] y) { zero = Constant <value_int = 0> ()
        n = Constant <value_int = 1000000000000> ()
        one = Constant <value_int = 1> () y = Range (zero, n, one) }""",
        [],
    ),
}


@pytest.mark.slow  # compiles
@pytest.mark.parametrize("name", _LARGE)
def test_oversized_results_are_rejected(name: str) -> None:
    text, inputs = _LARGE[name]
    compiled = relax_mlir.compile(parse(text, opset=21))

    with pytest.raises(
        OutOfMemoryError, match=r"output `y`: out of memory for \d+ byt"
    ):
        compiled(*inputs)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("fields", "data do not fit the shape: expected 1000000000000 elements, got 1"),
        ("file", "exceed `w.bin`: expected bytes 0 to 4000000000000"),
    ],
)
def test_missing_weights_are_not_allocated(
    where: str, message: str, tmp_path: Path
) -> None:
    text = "g (float[1] x) => (float[n] y) <float[1] w = {1}> { y = Add (x, w) }"
    model = parse(text, opset=21)
    weight = model.graph.initializer[0]
    weight.dims[:] = [_MILLION, _MILLION]
    if where == "file":
        weight.ClearField("float_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="w.bin")
        (tmp_path / "w.bin").write_bytes(bytes(64))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())

    with pytest.raises(ModelError, match=message):
        relax_mlir.import_onnx(tmp_path / "m.onnx")


@pytest.mark.slow  # compiles
def test_huge_declared_input_allocates_nothing() -> None:
    text = "g (float[1000000, 1000000] x) => (float[a, b] y) { y = Relu (x) }"
    compiled = relax_mlir.compile(parse(text, opset=21))

    with pytest.raises(ValueError, match="dimension 0: expected 1000000, got 2"):
        compiled(np.ones((2, 2), np.float32))


@pytest.mark.slow  # compiles
def test_large_dft_matrix_is_not_constant() -> None:
    text = """g (float[1, 8209, 1] x) => (float[a, b, c] y) { y = DFT (x) }"""
    x = np.random.default_rng(0).random((1, 8209, 1), np.float32)
    module = relax_mlir.import_onnx(parse(text))

    assert sum(array.nbytes for array in module.constants.values()) < _MILLION
    (y,) = relax_mlir.compile(module)(x)
    expected = np.fft.fft(x[0, :, 0])
    assert np.abs(y[0, :, 0] + 1j * y[0, :, 1] - expected).max() < 0.05  # of about 4100


_ENDLESS = """g (int64 n, float[3] x) => (float[3] y) {
    yes = Constant <value = bool {1}> ()
    y = Loop (n, yes, x) <body = b
        (int64 i, bool c, float[3] s) => (bool d, float[3] t) {
        d = Identity (c) t = Neg (s) }> }"""


def test_unbounded_loop_is_rejected() -> None:
    compiled = relax_mlir.compile(parse(_ENDLESS, opset=21))
    x = np.ones(3, np.float32)

    with pytest.raises(RunError, match=r"node `y` \(Loop\): infinite loop"):
        compiled(np.array(2**62), x)
    (y,) = compiled(np.array(-(2**62)), x)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(
    ("text", "inputs", "message"),
    [
        (
            _ENDLESS.replace("int64 n", "int64[a] n"),
            [np.array([1, 2]), np.ones(3, np.float32)],
            r"node `y` \(Loop\): input 0 `n`: expected one number, got int64\[2\]",
        ),
        (
            _ENDLESS.replace(
                "(int64 i, bool c, float[3] s)", "(int64 i, bool c)"
            ).replace("Neg (s)", "Neg (x)"),
            [np.array(1), np.ones(3, np.float32)],
            "body graph: expected 3 inputs and 2 outputs or more, got 2 and 2",
        ),
        (
            """g (float[4] x, int64[k] n) => (float[m] y) {
            s = SplitToSequence (x, n) z = Constant <value_int = 0> ()
            y = SequenceAt (s, z) }""",
            [np.ones(4, np.float32), np.array([2, 3])],
            r"\(SplitToSequence\): split: expected non-negative sizes with sum 4, got \[2, 3\]",
        ),
        (
            """g (float[4] x, int64 n) => (float[m] y) {
            s = SplitToSequence (x, n) z = Constant <value_int = 0> ()
            y = SequenceAt (s, z) }""",
            [np.ones(4, np.float32), np.array(0)],
            "split: expected 1 or more, got 0",
        ),
        (
            """g (float[2, a] x) => (float[b] y) { y = Scan <num_scan_inputs = 1,
            scan_output_axes = [0, 0], body = b (float[a] e) => (float[a] f) {
            f = Neg (e) }> (x) }""",
            [np.ones((2, 3), np.float32)],
            r"\(Scan\): scan_output_axes: expected 1 numbers, got 2",
        ),
        (
            """g (float[4] x) => (float[m] y) { s = SequenceConstruct (x, x)
            y = ConcatFromSequence <axis = 4611686018427387904, new_axis = 1> (s) }""",
            [np.ones(4, np.float32)],
            r"\(ConcatFromSequence\): axis: expected -2 to 1, got 46116860184273879",
        ),
        (
            "g (float[4] x, int64 n) => (float[m] y) { y = SequenceAt (x, n) }",
            [np.ones(4, np.float32), np.array(0)],
            r"input 0 `x`: expected a sequence, got float32\[4\]",
        ),
    ],
)
def test_host_operators_name_the_wrong_operand(
    text: str, inputs: Sequence[np.ndarray], message: str
) -> None:
    compiled = relax_mlir.compile(parse(text, opset=21))

    with pytest.raises(RunError, match=message):
        compiled(*inputs)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (np.inf, "scales: expected positive numbers, got inf"),
        (np.nan, "scales: expected positive numbers, got nan"),
        (-1.0, "scales: expected positive numbers, got -1"),
    ],
)
def test_resize_scales_are_positive(scale: float, message: str) -> None:
    text = """g (float[1, 1, 4] x, float[3] s) => (float[a, b, c] y) {
        y = Resize (x, , s) }"""
    compiled = relax_mlir.compile(parse(text, opset=21))

    with pytest.raises(ModelError, match=message):
        compiled(np.ones((1, 1, 4), np.float32), np.array([1, 1, scale], np.float32))


def test_axes_are_integers() -> None:
    text = """g (float[3] x, float[1] axes) => (float[3] y) {
        s = ReduceSum (x, axes) y = Add (s, x) }"""

    with pytest.raises(RelaxError, match="input 1: expected integers, got float32"):
        relax_mlir.import_onnx(
            parse(text.replace("[3]", "[3, 3]"), opset=21),
            values={"axes": np.array([np.inf], np.float32)},
        )


def test_ngram_columns_are_bounded() -> None:
    text = """g (int64[3] x) => (float[n] y) { y = TfIdfVectorizer <mode = "TF",
        min_gram_length = 1, max_gram_length = 1, max_skip_count = 0,
        ngram_counts = [0], ngram_indexes = [1000000000000], pool_int64s = [1]> (x) }"""

    with pytest.raises(ModelError, match="ngram_indexes: expected less than 16777216"):
        relax_mlir.import_onnx(parse(text))


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            "Slice (x, a, a, a, b)",
            "expected begins, ends and steps for 1 axes, got 1, 1",
        ),
        (
            "Slice (x, a, b, a)",
            "begin, end and strides must be for 1|expected begins, en",
        ),
    ],
)
def test_slice_has_bounds_for_each_axis(node: str, message: str) -> None:
    text = """g (float[3] x) => (float[n] y) { a = Constant <value_ints = [0]> ()
        b = Constant <value_ints = [1, 2]> () y = %s }"""

    with pytest.raises(ModelError, match=message):
        relax_mlir.import_onnx(parse(text % node))


def test_data_dependent_results_can_be_read_only() -> None:
    text = "g (float[n] x) => (int64[1, k] y) { y = NonZero (x) }"
    x = np.broadcast_to(np.float32(1), 3)

    (y,) = relax_mlir.compile(parse(text))(x)

    np.testing.assert_array_equal(y, [[0, 1, 2]])


def test_branches_have_as_many_outputs_as_their_node() -> None:
    text = """g (float[3] x) => (float[3] y) {
        c = Constant <value = bool {1}> ()
        y, z = If (c) <then_branch = t () => (float[3] p) { p = Neg (x) },
            else_branch = e () => (float[3] q) { q = Abs (x) }> }"""

    with pytest.raises(ModelError, match="`then_branch`: expected 2 outputs, got 1"):
        relax_mlir.import_onnx(parse(text))


def test_function_defines_its_used_outputs() -> None:
    model = _calls(1, 1)
    model.functions[0].output[0] = "nobody"

    with pytest.raises(ModelError, match="no node of the function defines its output"):
        relax_mlir.import_onnx(model)


_CHAIN = """
import sys, numpy as np, onnx, relax_mlir
from onnx import helper
count = int(sys.argv[1])
names = [f"v{n}" for n in range(count + 1)]
nodes = [helper.make_node("Add", [a, f"w{b}"], [b]) for a, b in zip(names, names[1:])]
weights = [helper.make_tensor(f"w{n}", 1, [], [1.0]) for n in names[1:]]
value = helper.make_tensor_value_info("v0", 1, ["n"])
end = onnx.ValueInfoProto(name=names[-1])
graph = helper.make_graph(nodes, "g", [value], [end], weights)
module = relax_mlir.import_onnx(helper.make_model(graph, opset_imports=[
    helper.make_opsetid("", 21)]))
print(len(list(module.func_op("main").entry_block.operations)))
"""


@pytest.mark.every_case
@pytest.mark.slow  # half a minute
def test_model_of_100_000_nodes_and_weights_is_imported_in_bounds() -> None:
    """Run in a child process with limited memory."""
    limit = 6 << 30  # addresses; libraries take some

    made = subprocess.run(
        [sys.executable, "-c", _CHAIN, "100000"],
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )

    assert int(made.stdout) >= 100_000


def test_memory_errors_are_relax_errors() -> None:
    assert issubclass(OutOfMemoryError, RelaxError)
    assert issubclass(OutOfMemoryError, MemoryError)


def test_loops_cannot_exhaust_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_executor, "memory_bytes", lambda: 1 << 20)
    text = """g (int64 n, float[1000] x) => (float[a, b] y) {
        yes = Constant <value = bool {1}> ()
        y = Loop (n, yes) <body = b (int64 i, bool c) => (bool d, float[1000] t) {
            d = Identity (c) t = Neg (x) }> }"""
    compiled = relax_mlir.compile(parse(text, opset=21))
    x = np.ones(1000, np.float32)

    with pytest.raises(
        OutOfMemoryError, match=r"\(Loop\): out of memory: the scan outputs"
    ):
        compiled(np.array(2**32), x)
    (y,) = compiled(np.array(3), x)
    assert y.shape == (3, 1000)


@pytest.mark.slow  # compiles
def test_many_tensors_are_concatenated() -> None:
    text = """g (float[n, 2] x) => (float[k] y) { s = SplitToSequence <axis = 0> (x)
        y = ConcatFromSequence <axis = 1> (s) }"""
    x = np.arange(400, dtype=np.float32).reshape(200, 2)
    model = parse("g (float[a] x0, float[b] x1) => (float[c] y) { }", opset=21)
    names = [f"x{n % 2}" for n in range(200)]
    model.graph.node.append(helper.make_node("Concat", names, ["y"], axis=0))

    (split,) = relax_mlir.compile(parse(text, opset=21))(x)
    (joined,) = relax_mlir.compile(model)(x[0], x[1])

    np.testing.assert_array_equal(split, x.reshape(1, 400))
    np.testing.assert_array_equal(joined, np.tile(np.arange(4), 100))

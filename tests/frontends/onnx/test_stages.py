"""Partition of models into subgraphs that depend on run-time values, and their code."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import helper

from relax_mlir import IRModule, compile, import_onnx
from relax_mlir.compiler import dispatch
from relax_mlir.compiler.driver import target_of
from relax_mlir.compiler.host import subgraph
from relax_mlir.compiler.options import CompileOptions
from relax_mlir.errors import ModelError, RunError
from relax_mlir.frontends.onnx import check_onnx
from relax_mlir.integrations.onnx_backend import RelaxBackendRep, run_node
from relax_mlir.schedules.target_features import VectorUnit
from tests.frontends.onnx.differential import expected, parse, random

pytestmark = pytest.mark.slow  # each compiles several models

_SUM = "g (float[n, m] x, int64[1] a) => (float[k, l] y) { y = ReduceSum (x, a) }"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int | str, ...]]:
    """The static and symbolic sizes that stages are compiled for."""
    entries: list[tuple[int | str, ...]] = []
    compile_kind = subgraph._Specialization._compiled

    def counted(kind: subgraph._Specialization, numbers: Sequence[int | str]) -> Any:
        entries.append(tuple(numbers))
        return compile_kind(kind, numbers)

    monkeypatch.setattr(subgraph._Specialization, "_compiled", counted)
    return entries


def test_axes_are_an_input() -> None:
    text = """g (float[n, 3] x, int64[k] axes) => (float[a, b] z) {
        y = ReduceSum (x, axes) r = Relu (x) z = Add (y, r) }"""
    model = RelaxBackendRep(parse(text, opset=18))
    x = random(2, 3)

    for axes in ([0], [1], [0, 1], [-1]):
        (z,) = model.run([x, np.array(axes)])
        expected = x.sum(tuple(axes), keepdims=True) + np.maximum(x, 0)
        np.testing.assert_allclose(z, expected, rtol=1e-5)


def test_sizes_needed_statically_stay_static(
    compiled: list[tuple[int | str, ...]],
) -> None:
    """Others become symbols, as the length of `y`."""
    text = """g (float[n, 3] x, float[m] y) => (float[a] z) {
        t = Add (x, x) s = Squeeze (t) u = ReduceSum (s) z = Mul (u, y) }"""
    model = compile(parse(text))

    for rows, length in ((1, 4), (1, 5), (2, 5), (1, 7), (2, 6), (1, 1)):
        x, y = random(rows, 3), random(length)
        (z,) = model(x, y)
        assert z.shape == ((length,) if rows == 1 else (1, length))
        np.testing.assert_allclose(z.ravel(), 2 * x.sum() * y, rtol=1e-5)  # its order
    assert all(isinstance(entries[0], int) for entries in compiled)


def test_varying_bounds_become_symbolic(compiled: list[object]) -> None:
    text = """g (float[n, 3] x, int64[1] a, int64[1] b) => (float[m, 3] y) {
        s = Slice (x, a, b) y = Neg (s) }"""
    model = RelaxBackendRep(parse(text, opset=18))

    for rows, start, stop in ((8, 3, 5), (9, 2, 7), (12, 1, 11), (5, 4, 4), (7, 2, 3)):
        x = random(rows, 3)
        (y,) = model.run([x, np.array([start]), np.array([stop])])
        np.testing.assert_array_equal(y, -x[start:stop])

    assert compiled == [(8, 3, 3, 5), ("n0", 3, "n1", "n2")]


def test_equal_sizes_stay_one_symbol(compiled: list[object]) -> None:
    text = """g (float[n] x, float[n] y, int64[1] end) => (float[m] z) {
        zero = Constant <value_ints = [0]> () s = Slice (x, zero, end)
        t = Slice (y, zero, end) z = Add (s, t) }"""
    model = RelaxBackendRep(parse(text, opset=18))

    for size, end in ((4, 3), (6, 5), (9, 2)):
        x, y = random(size), random(size)
        (z,) = model.run([x, y, np.array([end])])
        np.testing.assert_allclose(z, x[:end] + y[:end], rtol=1e-6)

    assert compiled == [(4, 4, 3), ("n0", "n0", "n1")]


def test_branches_return_different_ranks() -> None:
    text = """g (float[2, 3] x) => (float[k] y) {
        s = ReduceSum <keepdims = 0> (x) zero = Constant <value_float = 0.0> ()
        c = Greater (s, zero)
        b = If (c) <then_branch = t () => (float[2, 3] p) { p = Relu (x) },
                    else_branch = e () => (float[1] q) {
                        q = ReduceMax <keepdims = 0, axes = [0, 1]> (x) }>
        y = Neg (b) }"""
    model = RelaxBackendRep(parse(text, opset=12))
    x = np.abs(random(2, 3))

    np.testing.assert_array_equal(model.run([x])[0], -x)
    np.testing.assert_array_equal(model.run([-x])[0], -(-x).max())


_LOOP = """g (int64 count, float[n] x) => (float[m] last, float[c, d] all) {
    on = Constant <value = bool {1}> ()
    last, all = Loop (count, on, x) <body = b (int64 i, bool c, float[p] s) =>
        (bool d, float[q] t, float[r] mean) {
        d = Identity (c) t = Concat <axis = 0> (s, x)
        mean = ReduceMean <axes = [0]> (s) }> }"""


def test_loop_states_grow() -> None:
    model = RelaxBackendRep(parse(_LOOP, opset=13))
    x = random(3)

    last, means = model.run([np.array(4), x])

    np.testing.assert_array_equal(last, np.tile(x, 5))
    np.testing.assert_allclose(means, np.full((4, 1), x.mean()), rtol=1e-5)


def test_loop_without_iterations_returns_the_initial_state() -> None:
    last, means = RelaxBackendRep(parse(_LOOP, opset=13)).run([np.array(0), random(3)])

    assert (last.shape, means.shape) == ((3,), (0, 0))


def test_data_dependent_results_are_used_later() -> None:
    text = """g (float[n] x) => (float[m] y) {
        zero = Constant <value_float = 0.0> () above = Greater (x, zero)
        places = NonZero (above) flat = Squeeze (places)
        found = Gather (x, flat) y = Sqrt (found) }"""
    model = RelaxBackendRep(parse(text, opset=12))

    for size in (5, 9, 17):
        x = random(size)
        np.testing.assert_allclose(model.run([x])[0], np.sqrt(x[x > 0]), rtol=1e-6)


def test_sequences_as_inputs_and_outputs() -> None:
    model = parse("g (float[2] x, float[3] y) => (float[k] z) { z = Neg (x) }", 13)
    del model.graph.node[:], model.graph.output[:]
    model.graph.node.extend(
        [
            helper.make_node("SequenceConstruct", ["x", "y"], ["s"]),
            helper.make_node("SequenceInsert", ["s", "x"], ["t"]),
            helper.make_node("ConcatFromSequence", ["t"], ["z"], axis=0),
        ]
    )
    for name in ("t", "z"):
        model.graph.output.add(name=name)
    x, y = random(2), random(3)

    parts, joined = RelaxBackendRep(model).run([x, y])

    assert [part.tolist() for part in parts] == [x.tolist(), y.tolist(), x.tolist()]
    np.testing.assert_array_equal(joined, np.concatenate([x, y, x]))


@pytest.mark.parametrize("count", [1, 2])
def test_scalars_cannot_be_concatenated(count: int) -> None:
    text = f"""g (float x) => (float[n] y) {{
        s = SequenceConstruct ({", ".join("x" * count)})
        y = ConcatFromSequence <axis = 0> (s) }}"""

    with pytest.raises(RunError, match="expected 0 to -1, got 0"):
        compile(import_onnx(parse(text, 18)))(np.float32(1))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            "s = SequenceConstruct (x) y = ConcatFromSequence <axis = 0, new_axis = 7> (s)",
            "0 or 1, got 7",
        ),
        (
            "o = Optional () y = OptionalHasElement (o)",
            "an input, or the attribute `type`",
        ),
        (
            "o = Optional <type: type_proto = float[2]> () y = OptionalGetElement (o)",
            "expected a value, got none",
        ),
    ],
)
def test_sequence_and_optional_types_are_checked(nodes: str, message: str) -> None:
    model = parse(f"g (float[2] x) => (float[n] y) {{ {nodes} }}", 18)

    with pytest.raises((ModelError, RunError), match=message):
        compile(import_onnx(model))(np.ones(2, np.float32))


def test_input_values_can_be_symbolic_sizes() -> None:
    text = """g (float[n, 3] x, int64[1] a, int64[1] b) => (float[m, 3] y) {
        y = Slice (x, a, b) }"""

    module = import_onnx(parse(text, 18), values={"a": ["i"], "b": ["i + 2"]})
    x = random(8, 3)
    (y,) = compile(module)(x, np.empty((0, 3), np.uint8))

    np.testing.assert_array_equal(y, x[3:5])


def test_invalid_size_value_is_rejected() -> None:
    model = parse("g (float[2] x, int64[1] a) => (float[2] y) { y = Slice (x, a, a) }")

    with pytest.raises(ModelError, match=r"values: `a`: .*`i i`"):
        import_onnx(model, values={"a": ["i i"]})


def test_uncovered_operators_in_stages_are_reported() -> None:
    text = """g (float[2, 3] x, int64[k] axes) => (float[a] y) {
        s = ReduceSum (x, axes) y = local.Unheard (s) }"""

    report = check_onnx(parse(text, opset=18))

    assert list(report.uncovered) == ["local::Unheard"]


def test_single_node_stage() -> None:
    x = random(2, 3)
    node = helper.make_node("ReduceSum", ["x", "a"], ["y"], keepdims=0)

    (y,) = run_node(node, [x, np.array([1])])

    np.testing.assert_allclose(y, x.sum(1), rtol=1e-6)


def test_sequence_index_out_of_range_is_an_error() -> None:
    model = parse("g (float[2] x) => (float[k] z) { z = Neg (x) }", 13)
    del model.graph.node[:]
    place = helper.make_tensor("three", 7, [], [3])
    model.graph.node.extend(
        [
            helper.make_node("Constant", [], ["at"], value=place),
            helper.make_node("SequenceConstruct", ["x"], ["s"]),
            helper.make_node("SequenceAt", ["s", "at"], ["z"], name="third"),
        ]
    )

    with pytest.raises(
        Exception, match=r"`third` \(SequenceAt\): position 3: expected -1"
    ):
        RelaxBackendRep(model).run([random(2)])


def test_operators_that_need_static_sizes_get_them(
    compiled: list[tuple[int | str, ...]],
) -> None:
    text = """g (float[2, 3] x, int64[2] shape) => (float[a, b] y) {
        y = Expand (x, shape) }"""
    model = RelaxBackendRep(parse(text, opset=13))
    x = random(2, 3)

    for shape in ([2, 3], [1, 3], [2, 1], [1, 3]):
        np.testing.assert_array_equal(model.run([x, np.array(shape)])[0], x)
    known = [n for n in compiled if all(isinstance(e, int) for e in n)]
    assert known == [(2, 3, 2, 3), (2, 3, 1, 3), (2, 3, 2, 1)]


def test_empty_call_does_not_prevent_symbolic_sizes(
    compiled: list[tuple[int | str, ...]],
) -> None:
    """A detector's first image often has no detections."""
    model = RelaxBackendRep(
        parse(
            """g (float[n] x) => (float[k] y) {
                p = NonZero (x)
                c = Cast <to = 1> (p)
                e = Exp (c)
                y = ReduceSum <keepdims = 0, axes = [0]> (e) }""",
            opset=12,
        )
    )

    for count in (0, 3, 0, 5, 7, 0, 4, 9):
        x = np.ones(count, np.float32)
        (y,) = model.run([x])
        np.testing.assert_allclose(y, np.exp(np.arange(count)), rtol=1e-5)

    assert [entries[1] for entries in compiled] == [0, 3, "n0"]


def test_threads_compile_a_stage_only_once(
    compiled: list[tuple[int | str, ...]],
) -> None:
    model = RelaxBackendRep(parse(_SUM, opset=18))
    x, axis = np.ones((5, 1), np.float32), np.array([0])

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: model.run([x, axis])[0], range(16)))

    np.testing.assert_array_equal(results, np.full((16, 1, 1), 5))
    assert len(compiled) == 1


def test_stage_uses_the_target_of_its_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = replace(target_of("cpu"), unit=VectorUnit(128))
    targets: list[object] = []

    def compiled_for(module: IRModule, options: CompileOptions) -> Any:
        targets.append(options.target)
        return dispatch.compile_module(module, options)

    monkeypatch.setattr(subgraph, "compile_module", compiled_for)
    model = compile(parse(_SUM, opset=18), target, cache=False)
    model(np.ones((5, 1), np.float32), np.array([0]))

    assert targets == [target]


_PICTURES = random(1, 2, 5, 6)


@pytest.mark.parametrize(
    ("text", "feeds"),
    [
        (
            """g (float[1, 2, h, w] x) => (float[a, b, c, d] y) {
            y = AveragePool <kernel_shape = [3, 3], strides = [2, 2],
                auto_pad = "SAME_UPPER"> (x) }""",
            {"x": _PICTURES},
        ),
        (
            """g (float[1, 2, h, w] x) => (float[a, b, c, d] y, int64[a, b, c, d] z) {
            y, z = MaxPool <kernel_shape = [3, 3], strides = [2, 2],
                auto_pad = "SAME_LOWER"> (x) }""",
            {"x": _PICTURES},
        ),
        (
            """g (float[1, 2, h, w] x, float[2, 2, 3, 3] k) => (float[a, b, c, d] y) {
            y = ConvTranspose <strides = [2, 2], output_shape = [10, 12]> (x, k) }""",
            {"x": _PICTURES, "k": random(2, 2, 3, 3)},
        ),
        (
            """g (float[1, 2, h, w] x) => (float[a, b, c, d] y) {
            s = Constant <value_ints = [7, 8]> ()
            y = Resize <keep_aspect_ratio_policy = "not_larger", axes = [2, 3]>
                (x, , , s) }""",
            {"x": _PICTURES},
        ),
        (
            """g (float[1, 2, h, w] x) => (float[a, b, c, d] y) {
            s = Constant <value_ints = [3, 2]> ()
            y = Resize <mode = "linear", antialias = 1, axes = [2, 3]> (x, , , s) }""",
            {"x": _PICTURES},
        ),
        (
            "g (float[3, 4] x, int64[2, k] i) => (float[a] y) { y = GatherND (x, i) }",
            {"x": random(3, 4), "i": np.array([[2, 1], [0, 3]])},
        ),
        (
            """g (float[3, 4] x, int64[2, k] i, float[2, 4] u) => (float[3, 4] y) {
            y = ScatterND (x, i, u) }""",
            {"x": random(3, 4), "i": np.array([[2], [0]]), "u": random(2, 4)},
        ),
        (
            "g (float[1, 8, k] x) => (float[1, 8, 2] y) { y = DFT (x) }",
            {"x": random(1, 8, 2)},
        ),
        (
            """g (int16 n) => (int16[a] y) {
            s = Constant <value = int16 {2}> () d = Constant <value = int16 {3}> ()
            y = Range (s, n, d) }""",
            {"n": np.array(12, np.int16)},
        ),
    ],
)
def test_nodes_that_need_values_are_deferred(
    text: str, feeds: dict[str, np.ndarray]
) -> None:
    model = parse(text, opset=19)

    actual = compile(model)(*feeds.values())

    for mine, theirs in zip(actual, expected(model, feeds), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)  # other orders

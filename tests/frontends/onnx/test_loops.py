"""Loop and Scan agree with onnxruntime, interpreted or in native code."""

from collections.abc import Mapping

import numpy as np
import onnx
import pytest

from relax_mlir import compile
from relax_mlir.compiler.host.loop_executor import LoopExecutor
from relax_mlir.errors import RelaxError, RunError
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.frontends.onnx.stages import CONSTANT
from relax_mlir.runtime.registry import get_global_func
from tests.frontends.onnx.differential import expected, parse

_ADD = """
    g (int64 n, bool c, float[3] a, float[3] w) => (float[3] z, float[k, 3] ys) {
        z, ys = Loop (n, c, a) <body = b
            (int64 i, bool c_in, float[3] s) => (bool c_out, float[3] t, float[3] y) {
            top = Constant <value = float {20.0}> ()
            t = Add (s, w)
            largest = ReduceMax <keepdims = 0> (t)
            c_out = Less (largest, top)
            f = Cast <to = 1> (i)
            y = Mul (t, f)
        }>
    }
"""
_GROW = """
    g (int64 n, float[k] a) => (float[m] z) {
        c = Constant <value = bool {1}> ()
        z = Loop (n, c, a) <body = b
            (int64 i, bool c_in, float[p] s) => (bool c_out, float[q] t) {
            c_out = Identity (c_in)
            t = Concat <axis = 0> (s, s)
        }>
    }
"""
_CUT = """
    g (int64 n, float[k] a) => (float[m, 1] z) {
        c = Constant <value = bool {1}> ()
        z = Loop (n, c) <body = b (int64 i, bool c_in) => (bool c_out, float[1] t) {
            c_out = Identity (c_in)
            one = Constant <value = int64[1] {1}> ()
            begin = Reshape (i, one)
            end = Add (begin, one)
            t = Slice (a, begin, end)
        }>
    }
"""
_SCAN = """
    g (float[2] a, float[2, t] x, float[t, 3] w) => (float[2] z, float[2, t] y, float[t, 3] v) {
        z, y, v = Scan <
            num_scan_inputs = 2,
            scan_input_axes = [1, 0], scan_input_directions = [0, 1],
            scan_output_axes = [-1, 0], scan_output_directions = [1, 0],
            body = b (float[2] s, float[2] e, float[3] f)
                => (float[2] r, float[2] o, float[3] p) {
                r = Add (s, e)
                o = Mul (r, e)
                p = Neg (f)
            }> (a, x, w)
    }
"""


_SCAN_BATCH = """
    g (int64[b] n, float[b, 3] a, float[b, t, 3] x) => (float[b, 3] z, float[b, t, 3] y) {
        z, y = Scan <
            num_scan_inputs = 1, directions = [1],
            body = b (float[3] s, float[3] e) => (float[3] r, float[3] o) {
                r = Add (s, e)
                o = Neg (r)
            }> (n, a, x)
    }
"""


def _assert_same(text: str, feeds: Mapping[str, np.ndarray], opset: int = 17) -> None:
    model = parse(text, opset)
    theirs = expected(model, feeds)

    results = compile(import_onnx(model))(*feeds.values())

    ours = results if isinstance(results, (tuple, list)) else [results]
    for mine, other in zip(ours, theirs, strict=True):
        mine = np.asarray(mine)
        assert mine.dtype == other.dtype
        np.testing.assert_allclose(mine, other, rtol=1e-6)


def _numbers(count: int) -> np.ndarray:
    return np.arange(1, count + 1, dtype=np.float32)


@pytest.mark.slow  # each compiles a graph and its body
@pytest.mark.parametrize(
    ("count", "holds"), [(4, True), (100, True), (0, True), (4, False)]
)
def test_a_loop_ends_by_its_count_or_its_condition(count: int, holds: bool) -> None:
    feeds = {"n": np.array(count), "c": np.array(holds)}
    w = np.full(3, 0.5, np.float32)

    _assert_same(_ADD, {**feeds, "a": _numbers(3), "w": w})


@pytest.mark.slow
def test_loop_state_can_grow() -> None:
    _assert_same(_GROW, {"n": np.array(4), "a": _numbers(3)})


@pytest.mark.slow
def test_body_can_use_the_iteration_number() -> None:
    _assert_same(_CUT, {"n": np.array(3), "a": _numbers(5)})


@pytest.mark.slow
def test_scan_axes_and_directions() -> None:
    x, w = _numbers(10).reshape(2, 5), _numbers(15).reshape(5, 3)

    _assert_same(_SCAN, {"a": _numbers(2), "x": x, "w": w})


@pytest.mark.slow
def test_scan_8_handles_sequences_separately() -> None:
    feeds = {"n": np.array([4, 2]), "a": _numbers(6).reshape(2, 3)}

    _assert_same(_SCAN_BATCH, {**feeds, "x": _numbers(24).reshape(2, 4, 3)}, opset=8)


@pytest.mark.slow
def test_plain_bodies_run_in_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: LoopExecutor, step: int) -> tuple[int, bool]:
        raise AssertionError(f"step {step} in Python")

    monkeypatch.setattr(LoopExecutor, "_run_once", refuse)
    text = """
        g (int64 n, float[1] a) => (float[1] z, float[k, 1] ys) {
            c = Constant <value = bool {1}> ()
            z, ys = Loop (n, c, a) <body = b (int64 i, bool c_in, float[1] s)
                => (bool c_out, float[1] t, float[1] y) {
                one = Constant <value = float {1.0}> ()
                c_out = Identity (c_in)
                t = Add (s, one)
                y = Identity (t)
            }>
        }
    """
    model = compile(import_onnx(parse(text)))

    z, ys = model(np.array(5000), np.zeros(1, np.float32))

    np.testing.assert_array_equal(z, [5000])
    np.testing.assert_array_equal(np.asarray(ys)[:, 0], _numbers(5000))


@pytest.mark.slow
def test_loop_outputs_have_one_shape() -> None:
    text = _GROW.replace("(float[m] z)", "(float[m] z, float[k, p] ys)")
    text = text.replace("z = Loop", "z, ys = Loop").replace(
        "float[q] t) {", "float[q] t, float[q] y) { y = Identity (t)"
    )
    model = compile(import_onnx(parse(text)))

    with pytest.raises((RelaxError, ValueError), match="shape in all"):
        model(np.array(3), _numbers(2))


def test_constants_stay_constant_in_a_stage() -> None:
    """The weights of a matmul in it are concatenated at import time."""
    text = """
        g (float[2, 4] x, int64[1] axes) => (float[n] y) {
            a = Constant <value = float[2, 3] {1, 2, 3, 4, 5, 6}> ()
            w = Concat <axis = 0> (a, a)
            s = ReduceSum <keepdims = 0> (x, axes)
            y = MatMul (s, w)
        }
    """
    constants = import_onnx(parse(text)).constants.values()
    models = [
        onnx.ModelProto.FromString(c.tobytes())
        for c in constants
        if c.dtype == np.uint8
    ]

    (stage,) = models
    assert (CONSTANT, "w") in [(m.key, m.value) for m in stage.metadata_props]


def test_native_loop_stops_at_a_mismatched_result() -> None:
    """The second result has another shape than the argument that it would become."""
    body = compile(
        import_onnx(
            parse("g (float[n] a) => (float[m] z) { z = Concat <axis = 0> (a, a) }")
        )
    )
    repeat = get_global_func("relax_mlir.repeat")

    count, goes_on, (last,), kept = repeat(
        body["main"], [_numbers(2)], [0], 0, 9, -1, [0]
    )

    assert (count, goes_on) == (1, True)
    np.testing.assert_array_equal(np.from_dlpack(last), [1, 2, 1, 2])
    assert np.from_dlpack(kept).shape == (1, 4)


@pytest.mark.slow
def test_loop_without_iterations_gives_empty_results() -> None:
    """What its graph does not say of their types is inferred."""
    model = parse(
        """g (int64 m, float[2] x) => (float[2] z, float[a, 2] ys) {
            z, ys = Loop (m, , x) <body = b (int64 i, bool c, float[2] s)
                => (bool d, float[2] t, float[2] e) {
                d = Identity (c)
                t = Add (s, s)
                e = Neg (s)
            }> }""",
        opset=17,
    )
    (node,) = model.graph.node
    body = node.attribute[0].g
    for value in body.output:
        value.ClearField("type")

    compiled = compile(model)

    for steps in (0, 2):
        z, ys = compiled(np.array(steps), np.ones(2, np.float32))
        np.testing.assert_array_equal(z, [2**steps] * 2)
        assert (ys.shape, ys.dtype) == ((steps, 2), np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["Loop", "Scan"])
def test_loop_states_have_declared_types(operator: str) -> None:
    loop = """Loop (m, , x) <body = b (int64 i, bool c, float[2] s)
        => (bool d, float[2] t) {
        d = Identity (c)
        t = Add (s, s)
    }>"""
    scan = """Scan <num_scan_inputs = 1, body = b (float[2] s, int64 i)
        => (float[2] t) { t = Add (s, s) }> (x, m)"""
    sizes = "" if operator == "Loop" else "[3]"
    text = f"g (int64{sizes} m, float16[2] x) => (z) {{ z = "
    model = parse(text + (loop if operator == "Loop" else scan) + " }", opset=17)
    steps = np.array(2) if operator == "Loop" else np.arange(3)

    with pytest.raises(RunError, match="input `s`: expected FLOAT, got FLOAT16"):
        compile(model)(steps, np.ones(2, np.float16))


@pytest.mark.slow  # compiles
@pytest.mark.parametrize("axis", [2, -3, 2**31])
@pytest.mark.parametrize("side", ["input", "output"])
def test_scan_axis_must_exist(side: str, axis: int) -> None:
    text = f"""g (float[4] a, float[2, 4] x) => (float[4] z, float[2, 4] y) {{
        z, y = Scan <num_scan_inputs = 1, scan_{side}_axes = [{axis}],
            body = b (float[4] s, float[4] e) => (float[4] r, float[4] o) {{
                r = Add (s, e)
                o = Neg (e)
            }}>
            (a, x) }}"""

    with pytest.raises(RunError, match=f"axis: expected -2 to 1, got {axis}"):
        compile(import_onnx(parse(text, 17)))(_numbers(4), np.ones((2, 4), np.float32))

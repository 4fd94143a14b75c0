"""Sessions beside those of onnxruntime: what they tell, return and refuse."""

import json
import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from relax_mlir import onnxruntime as ours
from relax_mlir.onnxruntime import errors
from relax_mlir.onnxruntime.session import PROVIDER

theirs = pytest.importorskip("onnxruntime")

_MODEL = """<ir_version: 8, producer_name: "me", opset_import: ["" : 17],
        model_version: 3, metadata_props: ["a": "b"]>
    named (float[n, 4] x, int64[2] k) => (float[n, 4] y, int64[2] z, float s)
    { y = Relu (x) z = Identity (k) s = ReduceSum <keepdims = 0> (x) }"""
X = np.array([[-1, 2, 3, 4]], np.float32)
K = np.array([1, 2])
FEED = {"x": X, "k": K}
BOTH = pytest.mark.parametrize("ort", [ours, theirs], ids=["ours", "theirs"])


def model(text: str = _MODEL) -> bytes:
    return onnx.parser.parse_model(text).SerializeToString()


def session(ort: Any, text: str = _MODEL, options: Any = None) -> Any:
    return ort.InferenceSession(model(text), options, [PROVIDER])


def test_descriptions_are_the_same() -> None:
    mine, other = session(ours), session(theirs)

    for role in ("get_inputs", "get_outputs", "get_overridable_initializers"):
        told = [
            [(v.name, v.type, v.shape) for v in getattr(s, role)()]
            for s in (mine, other)
        ]
        assert told[0] == told[1]
    for name in vars(mine.get_modelmeta()):
        values = [getattr(s.get_modelmeta(), name) for s in (mine, other)]
        if name != "graph_description":
            assert values[0] == values[1]
    assert mine.get_providers() == other.get_providers()


@pytest.mark.parametrize(
    "kind",
    [
        *(
            "float",
            "double",
            "float16",
            "bfloat16",
            "int8",
            "uint16",
            "int32",
            "uint64",
        ),
        *("bool", "string", "int4"),
    ],
)
def test_types_of_tensors_have_the_same_names(kind: str) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
        g ({kind}[a, 2] x) => ({kind}[a, 2] y) {{ y = Identity (x) }}"""

    assert session(ours, text).get_inputs()[0].type == f"tensor({kind})"
    if kind not in ("bfloat16", "int4"):  # which onnxruntime's CPU cannot copy
        assert session(theirs, text).get_inputs()[0].type == f"tensor({kind})"


def test_sequences_and_optionals_have_the_same_names() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (seq(float[n]) x) => (float[m] y) { y = ConcatFromSequence <axis = 0> (x) }"""

    mine, other = (session(ort, text) for ort in (ours, theirs))

    assert mine.get_inputs()[0].type == other.get_inputs()[0].type
    parts = [np.ones(2, np.float32), np.zeros(3, np.float32)]
    for ours_, theirs_ in zip(
        mine.run(None, {"x": parts}), other.run(None, {"x": parts}), strict=True
    ):
        np.testing.assert_array_equal(ours_, theirs_)


@pytest.mark.parametrize("names", [None, [], ["z"], ["s", "y"], ["y", "z", "s"]])
def test_results_are_the_same(names: list[str] | None) -> None:
    mine, other = (session(ort).run(names, FEED) for ort in (ours, theirs))

    assert len(mine) == len(other)
    for ours_, theirs_ in zip(mine, other, strict=True):
        assert (ours_.dtype, ours_.shape) == (theirs_.dtype, theirs_.shape)
        np.testing.assert_allclose(ours_, theirs_, rtol=1e-6)


@pytest.mark.parametrize(
    ("names", "feed"),
    [
        (None, {"x": X}),
        (None, {**FEED, "q": K}),
        (["q"], FEED),
        (None, {**FEED, "x": X.astype(np.float64)}),
        (None, {**FEED, "x": X[0]}),
        (None, {**FEED, "x": X[:, :3]}),
    ],
    ids=["missing", "unknown", "no output", "type", "rank", "size"],
)
def test_wrong_feeds_raise_the_same_exceptions(
    names: list[str] | None, feed: dict[str, np.ndarray]
) -> None:
    errors: list[BaseException] = []
    for ort in (ours, theirs):
        with pytest.raises(Exception, match=r".") as caught:
            session(ort).run(names, feed)
        errors.append(caught.value)

    mine, other = errors
    assert type(mine).__name__ == type(other).__name__
    assert str(mine).split(" : ")[:3] == str(other).split(" : ")[:3] or isinstance(
        mine, ValueError
    )


@pytest.mark.parametrize(
    "given", ["missing.onnx", b"junkjunk", b""], ids=["missing", "junk", "empty"]
)
def test_wrong_models_raise_the_same_exceptions(given: str | bytes) -> None:
    names: list[str] = []
    for ort in (ours, theirs):
        with pytest.raises(Exception, match="ONNXRuntimeError") as caught:
            ort.InferenceSession(given)
        names.append(type(caught.value).__name__)

    assert names[0] == names[1]


def test_exceptions_are_where_programs_import_them_from() -> None:
    state = import_module("onnxruntime.capi.onnxruntime_pybind11_state")

    from relax_mlir.onnxruntime.capi import _pybind_state as other
    from relax_mlir.onnxruntime.capi import onnxruntime_pybind11_state as mine

    for name in mine.__all__:
        assert hasattr(state, name)
        assert getattr(mine, name) is getattr(other, name)


@BOTH
def test_bindings(ort: Any) -> None:
    made = session(ort)
    binding = made.io_binding()
    y = np.zeros_like(X)
    binding.bind_input("x", "cpu", 0, np.float32, X.shape, X.ctypes.data)
    binding.bind_ortvalue_input("k", ort.OrtValue.ortvalue_from_numpy(K))
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    binding.bind_output("z")

    made.run_with_iobinding(binding)

    np.testing.assert_array_equal(y, np.maximum(X, 0))
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[1], K)
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), y)
    binding.clear_binding_outputs()
    assert list(binding.get_outputs()) == [] or ort is ours


@BOTH
def test_values(ort: Any) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(X)
    other = ort.OrtValue.ortvalue_from_shape_and_type([1, 4], np.float32)

    other.update_inplace(X)

    for v in (value, other):
        assert (v.data_type(), list(v.shape())) == ("tensor(float)", [1, 4])
        assert v.element_type() == onnx.TensorProto.FLOAT
        assert v.is_tensor()
        assert v.has_value()
        assert v.device_name() == "cpu"
        np.testing.assert_array_equal(v.numpy(), X)
    found = session(ort).run_with_ort_values(
        ["y"], {"x": value, "k": ort.OrtValue.ortvalue_from_numpy(K)}
    )
    np.testing.assert_array_equal(found[0].numpy(), np.maximum(X, 0))


@BOTH
def test_options_that_act(ort: Any, tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.add_session_config_entry("session.x", "1")
    options.add_free_dimension_override_by_name("n", 2)
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")

    made = session(ort, options=options)

    assert made.get_inputs()[0].shape == [2, 4]
    made.run(None, {"x": np.repeat(X, 2, axis=0), "k": K})
    with pytest.raises(Exception, match="INVALID_ARGUMENT"):
        made.run(None, FEED)
    assert options.get_session_config_entry("session.x") == "1"
    with pytest.raises(RuntimeError, match=r"session\.y"):
        options.get_session_config_entry("session.y")
    trace = Path(made.end_profiling())
    assert trace.parent == tmp_path
    events = json.loads(trace.read_text())
    assert any(e["cat"] == "Node" and e["dur"] >= 0 for e in events)


@BOTH
def test_every_option_of_ours_is_one_of_theirs(ort: Any) -> None:
    for kind in ("SessionOptions", "RunOptions"):
        mine = getattr(ours, kind)()
        names = [n for n in dir(mine) if not n.startswith("_") and n != "sizes"]
        for name in names:
            assert hasattr(getattr(ort, kind)(), name), name


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("add_initializer", ("w", X)),
        ("add_external_initializers", (["w"], [X])),
        ("register_custom_ops_library", ("ops.so",)),
    ],
)
def test_options_that_cannot_act_are_refused(
    method: str, arguments: tuple[Any, ...]
) -> None:
    with pytest.raises(errors.NotImplemented, match=f"{method}: .*expected"):
        getattr(ours.SessionOptions(), method)(*arguments)


def test_a_model_that_is_not_supported_is_refused() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1] x) => (float[1] y) { y = Foo (x) }"""

    with pytest.raises(errors.NotImplemented, match=r"NOT_IMPLEMENTED : [\s\S]*`Foo`"):
        session(ours, text)


def test_a_callback_gets_results_or_an_error() -> None:
    calls: list[tuple[Any, Any, str]] = []
    made = session(ours)

    made.run_async(None, FEED, lambda *got: calls.append(got), "mine")
    made.run_async(None, {"x": X}, lambda *got: calls.append(got), "mine")

    (results, data, error), (nothing, _, problem) = calls
    assert (data, error, nothing) == ("mine", "", None)
    np.testing.assert_array_equal(results[1], K)
    assert "missing" in problem


@pytest.mark.slow  # a process
def test_a_program_of_onnxruntime_runs_unchanged(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(model())
    program = tmp_path / "app.py"
    program.write_text(
        textwrap.dedent("""
        import sys
        import numpy as np
        import onnxruntime as ort
        from onnxruntime import InferenceSession, SessionOptions
        from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

        s = InferenceSession(sys.argv[1], SessionOptions(), ["CPUExecutionProvider"])
        x = np.array([[-1, 2, 3, 4]], np.float32)
        print(s.run(["y"], {"x": x, "k": np.array([1, 2])})[0].tolist())
        try:
            s.run(["q"], {"x": x, "k": x})
        except InvalidArgument as error:
            print("refused")
        print(ort.__name__, any(n.startswith("onnxruntime_pybind") for n in sys.modules))
        """)
    )

    made = subprocess.run(
        [sys.executable, "-m", "relax_mlir.onnxruntime", str(program), "m.onnx"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert made.stdout.splitlines() == [
        "[[0.0, 2.0, 3.0, 4.0]]",
        "refused",
        "relax_mlir.onnxruntime False",
    ], made.stderr

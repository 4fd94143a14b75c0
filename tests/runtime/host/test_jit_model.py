"""Models with JIT-compiled subgraphs: calls, files and commands."""

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from relax_mlir import compile, load, tvm
from relax_mlir.compiler import dispatch
from relax_mlir.compiler.host.lru_cache import LRUCache
from relax_mlir.errors import ModelError, RunError
from relax_mlir.tools.cli import main
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax.vm import JITModel
from tests.frontends.onnx.differential import parse

_TEXT = """g (float[n, 4] x, int64[k] axes) => (float[n, m] y, float[n, 4] z) {
    z = Relu (x)
    y = ReduceSum (x, axes) }"""
X = np.arange(-3, 5, dtype=np.float32).reshape(2, 4)
ROWS = np.array([1])


@pytest.fixture(scope="module")
def model() -> JITModel:
    made = compile(parse(_TEXT, opset=18))
    assert isinstance(made, JITModel)
    return made


def test_staged_model_has_a_signature(model: JITModel) -> None:
    expected = "(x: float32[n, 4], axes: int64[k]) -> (y: ?, z: float32[n, 4])"
    assert repr(model) == f"<JITModel {expected}>"
    assert model.input_names == ("x", "axes")
    assert model.output_names == ("y", "z")


def test_inputs_are_passed_by_name(model: JITModel) -> None:
    y, z = model(axes=ROWS, x=X)

    np.testing.assert_array_equal(y, X.sum(1, keepdims=True))
    np.testing.assert_array_equal(z, np.maximum(X, 0))


def test_results_are_written_to_given_arrays(model: JITModel) -> None:
    y, z = np.empty((2, 1), np.float32), np.empty((2, 4), np.float32)

    assert model(X, ROWS, out=[y, z])[0] is y

    np.testing.assert_array_equal(y, X.sum(1, keepdims=True))
    np.testing.assert_array_equal(z, np.maximum(X, 0))


@pytest.mark.parametrize(
    ("y", "problem"),
    [
        (np.empty((2, 1)), r"output 0 `y`: expected dtype float32, got float64"),
        (np.empty((1, 4), np.float32), r"expected shape \(2, 1\), got \(1, 4\)"),
        (np.broadcast_to(np.float32(0), (2, 1)), "got a read-only one"),
        (None, "expected an array, got NoneType"),
    ],
)
def test_mismatched_output_arrays(model: JITModel, y: object, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        model(X, ROWS, out=[y, np.empty((2, 4), np.float32)])


@pytest.mark.parametrize(
    ("x", "axes", "problem"),
    [
        (X.astype(np.float64), ROWS, "parameter `x`: expected dtype float32"),
        (X[:, 1:], ROWS, "parameter `x`, size 1: expected 4, got 3"),
        (X[0], ROWS, "parameter `x`: expected ndim 2, got 1"),
        (X, np.array([7]), r"axis is out of range: expected -2 to 1, got 7"),
    ],
)
def test_mismatched_inputs(
    model: JITModel, x: np.ndarray, axes: np.ndarray, problem: str
) -> None:
    with pytest.raises((RunError, ModelError), match=problem):
        model(x, axes)


@pytest.mark.parametrize("given", [(X,), (X, ROWS, ROWS)])
def test_wrong_number_of_inputs(model: JITModel, given: tuple[np.ndarray, ...]) -> None:
    with pytest.raises(TypeError, match=rf"expected 2 inputs, got {len(given)}"):
        model(*given)


def test_results_belong_to_the_caller() -> None:
    text = """g (float[n] x, bool c) => (float[n] y, float[2] w, int64 k) {
        w = Constant <value_floats = [1.0, 2.0]> ()
        y = Identity (x)
        s = SequenceConstruct (x, y)
        k = SequenceLength (s) }"""
    model = compile(parse(text, opset=18))
    x = np.ones(3, np.float32)

    for _ in range(2):
        y, w, k = model(x, np.array(True))
        np.testing.assert_array_equal(x, np.ones(3))
        np.testing.assert_array_equal(w, [1, 2])
        assert k == 2
        y += 1
        w += 1


def test_saved_staged_model_is_equivalent(model: JITModel, tmp_path: Path) -> None:
    model.save(tmp_path / "m.rxm")

    loaded = load(tmp_path / "m.rxm", threads=2)

    assert repr(loaded) == repr(model)
    assert (model.threads, loaded.threads) == (1, 2)
    np.testing.assert_array_equal(loaded(X, ROWS)[0], model(X, ROWS)[0])


@pytest.mark.parametrize("kind", ["made", "loaded"])
def test_machines_share_constants_and_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    made: list[object] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # of the loaded model

    def noted(*args: Any) -> object:  # Any: those of compile_module
        made.append(args)
        return dispatch.compile_module(*args)

    monkeypatch.setattr("relax_mlir.compiler.host.subgraph.compile_module", noted)
    model = compile(parse(_TEXT, opset=18), cache=False)
    if kind == "loaded":
        model.save(tmp_path / "m.rxm")
        model = load(tmp_path / "m.rxm")
    machines = [relax.VirtualMachine(model, tvm.cpu()) for _ in range(3)]

    for machine in machines:
        y = machine["main"](X, ROWS)[0]
        np.testing.assert_array_equal(y.numpy(), X.sum(1, keepdims=True))

    assert len(made) == 1
    tensors = [m.module.host.tensors for m in machines]
    for name, tensor in tensors[0].items():
        assert all(t[name].shares_memory(tensor) for t in tensors)


def test_deleted_model_leaves_no_code() -> None:
    """Host functions may call each other in circles."""
    model = compile(parse(_TEXT, opset=18), cache=False)
    assert isinstance(model, JITModel)
    code = weakref.ref(model.executable)

    del model
    while gc.collect():
        pass

    assert code() is None


def test_models_can_be_deleted_during_cache_lookup() -> None:
    """Garbage is collected wherever it is: then one model goes while another one does."""
    recent: LRUCache[int, str] = LRUCache(8)
    for number in range(4):
        recent.set(number, "")

    def is_gone(key: int) -> bool:
        recent.drop(lambda other: other in (2, 3))
        return key in (0, 3)

    recent.drop(is_gone)

    assert [n for n in range(4) if recent.get(n) is not None] == [1]


@pytest.mark.parametrize("is_on_host", [True, False])
def test_outputs_can_alias_inputs(is_on_host: bool) -> None:
    text = """g (float[n, 4] x, int64[k] axes) => (float[b, c] z, float[n, 4] same) {
        t = ReduceSum <keepdims = 1> (x, axes)
        z = Add (x, t)
        same = Identity (x) }"""
    x, same = X.copy(), np.empty_like(X)
    given = x if is_on_host else tvm.nd.from_dlpack(x)

    compile(parse(text, opset=18))(x, ROWS, out=[given, same])

    np.testing.assert_array_equal(same, X)
    np.testing.assert_array_equal(x, X + X.sum(1, keepdims=True))


@pytest.mark.slow
def test_commands_accept_staged_models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(parse(_TEXT, opset=18), tmp_path / "m.onnx")
    file = str(tmp_path / "m.rxm")
    dump = tmp_path / "dump"

    made = main(["compile", str(tmp_path / "m.onnx"), "-o", file, "--dump", str(dump)])
    ran = main(["run", file, "--random-inputs", "--size", "n=3"])
    measured = main(["bench", file, "--size", "n=3", "--rounds", "1"])

    assert (made, ran, measured) == (0, 0, 0)
    out = capsys.readouterr().out
    assert "(x: float32[n, 4], axes: int64[k]) -> (y: ?, z: float32[n, 4])" in out
    assert "z: float32[3, 4], 0 to " in out
    assert any(dump.glob("*/*-llvm.mlir"))


def test_commands_describe_non_tensor_inputs_and_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """g (float[n] x) => (seq(float[n]) s, string[1] t) {
        s = SequenceConstruct (x, x)
        t = Constant <value_strings = ["word"]> () }"""
    onnx.save(parse(text, opset=18), tmp_path / "m.onnx")

    main(["run", str(tmp_path / "m.onnx"), "--random-inputs"])
    failed = main(
        ["run", str(tmp_path / "m.onnx"), "--random-inputs", "--output", str(tmp_path)]
    )

    out, error = capsys.readouterr()
    assert "s: sequence of 2\nt: text[1], 'word'\n" in out
    assert failed == 1
    assert "expected an array to write, got it: sequence of 2" in error

"""Models parts of which are compiled, or decided, when they run, on GPUs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relax_mlir as tvm
from relax_mlir import compile, load, relax
from relax_mlir.errors import CompileError
from relax_mlir.relax.vm import StagedModel
from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.devices import device
from tests.frontends.differential import parse
from tests.gpu.stub import TARGET, Emulation, Stub

# What is kept is known when it is there; so is the axis of the sum.
_TEXT = """g (float[n, 4] x, int64[k] axes) => (float[a, 4] y, float[b, c] z) {
    t = ReduceSum <keepdims = 0> (x, axes)
    zero = Constant <value = float {0.0}> ()
    is = Greater (t, zero)
    kept = Compress <axis = 0> (x, is)
    y = Softmax <axis = 1> (kept)
    z = ReduceMax <keepdims = 1> (y, axes) }"""


def made(text: str, **options: Any) -> StagedModel:  # Any: those of compile
    model = compile(parse(text, opset=18), target=TARGET, cache=False, **options)
    assert isinstance(model, StagedModel)
    return model


@pytest.fixture
def model(emulation: Emulation, monkeypatch: pytest.MonkeyPatch) -> StagedModel:
    emulation.learn_all(monkeypatch)
    return made(_TEXT)


def drawn(rows: int) -> np.ndarray:
    return np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)


def expected(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    kept = x[x.sum(1) > 0]
    powers = np.exp(kept - kept.max(1, keepdims=True))
    y = powers / powers.sum(1, keepdims=True)
    return y, y.max(1, keepdims=True)


AXES = np.array([1])


def check(found: np.ndarray, right: np.ndarray) -> None:
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


def test_arrays_of_the_host_go_in_and_come_out(model: StagedModel, stub: Stub) -> None:
    for rows in (7, 9, 12, 7):  # the third is for all that follow
        x = drawn(rows)

        results = model(x, AXES)

        for result, right in zip(results, expected(x), strict=True):
            assert isinstance(result, np.ndarray)
            check(result, right)
    kernels = len(set(stub.launched))
    assert kernels >= 3
    model(drawn(20), AXES)
    assert len(set(stub.launched)) == kernels


def test_arrays_of_the_gpu_stay_there(model: StagedModel) -> None:
    x = drawn(7)
    given = DeviceArray.of(x, device(0))

    y, z = model(given, AXES)

    assert isinstance(y, DeviceArray)
    assert isinstance(z, DeviceArray)
    for result, right in zip((y, z), expected(x), strict=True):
        check(result.numpy(), right)


def test_results_go_to_arrays_of_the_caller(model: StagedModel) -> None:
    x = drawn(7)
    right = expected(x)
    y = DeviceArray.of(np.zeros_like(right[0]), device(0))
    z = np.zeros_like(right[1])

    results = model(x, AXES, out=[y, z])

    assert results == (y, z)
    check(y.numpy(), right[0])
    check(z, right[1])
    wrong = DeviceArray.of(np.zeros((3, 4), np.float32), device(0))
    with pytest.raises(ValueError, match="output 0 `y`: expected shape"):
        model(x, AXES, out=[wrong, z])


_SAME = """g (float[n] x, bool c) => (float[n] y, float[n] t, int64 k) {
    y = Identity (x)
    t = Identity (x)
    s = SequenceConstruct (x, y)
    k = SequenceLength (s) }"""


def test_results_on_the_gpu_belong_to_the_caller(emulation: Emulation) -> None:
    given = DeviceArray.of(drawn(1)[0], device(0))

    y, t, k = made(_SAME)(given, np.array(True))

    assert len({given.address, y.address, t.address}) == 3
    assert isinstance(k, DeviceArray)  # as all results are
    assert k.numpy() == 2


_BRANCHES = """g (float[3, n] x, bool c) => (float[3, m] y) {
    y = If (c) <
        then_branch = t () => (float[3, m] a) { a = Exp (x) },
        else_branch = e () => (float[3, m] b) { b = Concat <axis = 1> (x, x) }> }"""
_LOOP = """g (float[n] x, int64 count) => (float[n] y, float[k, n] all) {
    yes = Constant <value = bool {1}> ()
    y, all = Loop (count, yes, x) <
        body = b (int64 i, bool c, float[n] s) => (bool d, float[n] t, float[n] u) {
            d = Identity (c)
            t = Add (s, x)
            u = Exp (t) }> }"""


def test_branches(emulation: Emulation, monkeypatch: pytest.MonkeyPatch) -> None:
    emulation.learn_all(monkeypatch)
    model = compile(parse(_BRANCHES, opset=18), target=TARGET, cache=False)
    x = drawn(3)

    for is_first, right in ((True, np.exp(x)), (False, np.concatenate([x, x], 1))):
        (y,) = model(x, np.array(is_first))
        check(y, right)


def test_loops(
    emulation: Emulation, monkeypatch: pytest.MonkeyPatch, stub: Stub
) -> None:
    emulation.learn_all(monkeypatch)
    model = made(_LOOP)
    x = drawn(1)[0]

    y, gathered = model(x, np.array(3))

    check(y, 4 * x)
    check(gathered, np.exp(np.outer([2, 3, 4], x)))
    assert stub.launched


def test_a_file_of_it_is_the_same_model(
    model: StagedModel, emulation: Emulation, tmp_path: Path
) -> None:
    model.save(tmp_path / "m.rxm")

    loaded = load(tmp_path / "m.rxm")

    assert repr(loaded) == repr(model)
    assert loaded.executable.options.target == TARGET
    x = drawn(7)
    for result, right in zip(loaded(x, AXES), expected(x), strict=True):
        check(result, right)


def test_stages_are_compiled_as_the_model_is(
    monkeypatch: pytest.MonkeyPatch, emulation: Emulation
) -> None:
    asked: list[dict[str, object]] = []
    plain = compile

    def noted(module: object, **options: Any) -> object:  # Any: those of compile
        asked.append(options)
        return plain(module, **options)

    emulation.learn_all(monkeypatch)
    monkeypatch.setattr("relax_mlir.stages.stage.compile", noted)
    model = made(_TEXT, precision="f16", library="auto")
    machine = relax.VirtualMachine(model, tvm.device("cuda", 0))

    model(drawn(7), AXES)
    machine["main"](drawn(7), AXES)

    assert asked
    wanted = {"target": TARGET, "precision": "f16", "library": "auto"}
    assert all(wanted.items() <= options.items() for options in asked)


def test_another_gpu_is_used_as_a_whole(
    stub: Stub, emulation: Emulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulation.learn_all(monkeypatch)
    stub.device(count=2)
    machine = relax.VirtualMachine(made(_TEXT), tvm.device("cuda", 1))
    x = drawn(7)

    y, z = machine["main"](x, AXES)

    assert (y.device, z.device) == (tvm.cuda(1), tvm.cuda(1))
    for result, right in zip((y, z), expected(x), strict=True):
        check(result.numpy(), right)


def test_the_other_device_is_refused() -> None:
    with pytest.raises(CompileError, match="what runs there is compiled for `cuda`"):
        relax.VirtualMachine(made(_TEXT), tvm.cpu())

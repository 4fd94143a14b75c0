"""Models with JIT-compiled subgraphs and data-dependent nodes, on GPUs."""

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relax_mlir import compile, load, tvm
from relax_mlir.compiler import dispatch
from relax_mlir.compiler.options import CompileOptions
from relax_mlir.errors import CompileError
from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.devices import device
from relax_mlir.runtime.cuda.memory import release_completed
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax.vm import JITModel
from tests.frontends.onnx.differential import parse
from tests.gpu.example import Dlpack, Interface, shifted
from tests.gpu.stub import TARGET, Emulation, Stub

# Data-dependent sizes (NonZero), and a reduction axis known at run time.
_TEXT = """g (float[n, 4] x, int64[k] axes) => (float[a, 4] y, float[b, c] z) {
    t = ReduceSum <keepdims = 0> (x, axes)
    zero = Constant <value = float {0.0}> ()
    is = Greater (t, zero)
    kept = Compress <axis = 0> (x, is)
    y = Softmax <axis = 1> (kept)
    z = ReduceMax <keepdims = 1> (y, axes) }"""


def made(text: str, **options: Any) -> JITModel:  # Any: those of compile
    model = compile(parse(text, opset=18), target=TARGET, cache=False, **options)
    assert isinstance(model, JITModel)
    return model


@pytest.fixture
def model(emulation: Emulation) -> JITModel:
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
    assert right.size  # or nothing is compared
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


def test_arrays_of_the_host_go_in_and_come_out(model: JITModel, stub: Stub) -> None:
    for rows in (9, 10, 12, 9):  # the third is for all that follow
        x = drawn(rows)

        results = model(x, AXES)

        for result, right in zip(results, expected(x), strict=True):
            assert isinstance(result, np.ndarray)
            check(result, right)
    kernels = len(set(stub.launched))
    assert kernels >= 3
    model(drawn(20), AXES)
    assert len(set(stub.launched)) == kernels


def test_arrays_of_the_gpu_stay_there(model: JITModel) -> None:
    x = drawn(9)
    given = DeviceArray.of(x, device(0))

    y, z = model(given, AXES)

    assert isinstance(y, DeviceArray)
    assert isinstance(z, DeviceArray)
    for result, right in zip((y, z), expected(x), strict=True):
        check(result.numpy(), right)


def test_arrays_with_the_array_interface(model: JITModel) -> None:
    x = drawn(9)
    right = expected(x)
    y, z = (DeviceArray.of(np.zeros_like(array), device(0)) for array in right)

    model(
        Interface.of(DeviceArray.of(x, device(0))),
        AXES,
        out=[Interface.of(y), Interface.of(z)],
    )

    check(y.numpy(), right[0])
    check(z.numpy(), right[1])


def test_results_go_to_arrays_of_the_caller(model: JITModel) -> None:
    x = drawn(9)
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


def test_outputs_are_written_to_all_or_none(model: JITModel) -> None:
    x = drawn(9)
    y, z = expected(x)
    host, there = np.zeros_like(y), DeviceArray.of(np.zeros_like(y), device(0))

    for out in (host, there, tvm.nd.array(host), tvm.nd.array(host, tvm.cuda(0))):
        with pytest.raises(ValueError, match="output 1 `z`: expected shape"):
            model(x, AXES, out=[out, np.zeros((9, 9), np.float32)])
        assert not np.asarray(out).any()
        result = np.zeros_like(z)
        model(x, AXES, out=[out, result])
        check(np.asarray(out), y)
        check(result, z)


def test_outputs_share_no_memory_with_each_other(model: JITModel) -> None:
    x = drawn(9)
    y, z = expected(x)
    memory = np.zeros_like(y)

    with pytest.raises(ValueError, match="output 1 `z`: shares memory with output 0"):
        model(x, AXES, out=[memory, memory.reshape(-1)[: len(z)].reshape(-1, 1)])

    assert not memory.any()
    unfit = Dlpack(shifted(memory))
    with pytest.raises(ValueError, match=r"16 bytes, got one of .* at address 0x"):
        model(x, AXES, out=[unfit, np.zeros_like(z)])


_SWAP = """g (float[n] x, float[n] y) => (float[n] a, float[n] b, int64 k) {
    a = Identity (y)
    b = Identity (x)
    s = SequenceConstruct (x, y)
    k = SequenceLength (s) }"""


@pytest.mark.parametrize("is_on_gpu", [False, True], ids=["host", "gpu"])
def test_outputs_may_take_the_place_of_inputs(
    emulation: Emulation, stub: Stub, is_on_gpu: bool
) -> None:
    first, second = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    x, y = first.copy(), second.copy()
    if is_on_gpu:
        x, y = (DeviceArray.of(array, device(0)) for array in (x, y))

    made(_SWAP)(x, y, out=[x, y, np.zeros((), np.int64)])

    np.testing.assert_array_equal(np.asarray(x), second)
    np.testing.assert_array_equal(np.asarray(y), first)


_SUM = """g (float[n, 4] x, int64[k] axes) => (float[b, c] z) {
    t = Exp (x)
    z = ReduceSum <keepdims = 1> (t, axes) }"""


def test_what_is_on_the_gpu_stays_there(emulation: Emulation, stub: Stub) -> None:
    model = made(_SUM)
    x = drawn(9)
    given = DeviceArray.of(x, device(0))
    out = DeviceArray.of(np.zeros((9, 1), np.float32), device(0))
    names = ("cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2")
    counts = [stub.count(name) for name in names]

    (z,) = model(given, AXES)  # compiles, too
    model(given, AXES, out=[out])

    assert [stub.count(name) for name in names] == counts
    for result in (z, out):
        check(result.numpy(), np.exp(x).sum(1, keepdims=True))


def test_a_model_that_is_dropped_gives_back_its_memory(
    emulation: Emulation, stub: Stub, tmp_path: Path
) -> None:
    used_bytes = stub.used_bytes

    for name in ("made", "loaded"):
        model = made(_TEXT)
        if name == "loaded":
            model.save(tmp_path / "m.rxm")
            model = load(tmp_path / "m.rxm")
        for rows in (9, 10, 12):
            model(drawn(rows), AXES)
        assert stub.used_bytes > used_bytes
        del model
        while gc.collect():  # what a stage is compiled to may have stages
            pass
        release_completed(device(0), is_waiting=True)
        assert stub.used_bytes == used_bytes, name


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


def test_branches(emulation: Emulation) -> None:
    model = compile(parse(_BRANCHES, opset=18), target=TARGET, cache=False)
    x = drawn(3)

    for is_first, right in ((True, np.exp(x)), (False, np.concatenate([x, x], 1))):
        (y,) = model(x, np.array(is_first))
        check(y, right)


def test_loops(emulation: Emulation, stub: Stub) -> None:
    model = made(_LOOP)
    x = drawn(1)[0]

    y, gathered = model(x, np.array(3))

    check(y, 4 * x)
    check(gathered, np.exp(np.outer([2, 3, 4], x)))
    assert stub.launched


def test_a_file_of_it_is_the_same_model(
    model: JITModel, emulation: Emulation, tmp_path: Path
) -> None:
    model.save(tmp_path / "m.rxm")

    loaded = load(tmp_path / "m.rxm")

    assert repr(loaded) == repr(model)
    assert json.loads(loaded.executable.options.text)["target"] == TARGET
    x = drawn(9)
    for result, right in zip(loaded(x, AXES), expected(x), strict=True):
        check(result, right)


def test_stages_are_compiled_as_the_model_is(
    monkeypatch: pytest.MonkeyPatch, emulation: Emulation, tmp_path: Path
) -> None:
    asked: list[dict[str, object]] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def noted(module: object, options: CompileOptions) -> object:
        asked.append(options.inherited())
        return dispatch.compile_module(module, options)

    monkeypatch.setattr("relax_mlir.compiler.host.subgraph.compile_module", noted)
    model = made(_TEXT, precision="f16", library="auto")
    machine = relax.VirtualMachine(model, tvm.device("cuda", 0))
    model.save(tmp_path / "m.rxm")
    calls = (model, machine["main"], load(tmp_path / "m.rxm"))

    for rows, call in zip((9, 10, 12), calls, strict=True):
        before = len(asked)
        call(drawn(rows), AXES)
        assert len(asked) > before

    wanted = {"target": TARGET, "precision": "f16", "library": "auto"}
    assert all(wanted.items() <= options.items() for options in asked)


def test_another_gpu_is_used_as_a_whole(stub: Stub, emulation: Emulation) -> None:
    stub.device(count=2)
    machine = relax.VirtualMachine(made(_TEXT), tvm.device("cuda", 1))
    x = drawn(9)

    y, z = machine["main"](x, AXES)

    assert (y.device, z.device) == (tvm.cuda(1), tvm.cuda(1))
    for result, right in zip((y, z), expected(x), strict=True):
        check(result.numpy(), right)


def test_models_move_to_another_gpu(model: JITModel, stub: Stub) -> None:
    stub.device(count=2)
    x = drawn(9)

    (y, z) = model.on(1)(DeviceArray.of(x, device(1)), AXES)

    for result, right in zip((y, z), expected(x), strict=True):
        assert result.device is device(1)
        check(result.numpy(), right)
    on_cpu = compile(parse(_TEXT, opset=18), cache=False)
    assert isinstance(on_cpu, JITModel)
    with pytest.raises(CompileError, match="expected `cpu`, for which"):
        on_cpu.on(1)


def test_streams_and_graphs_are_for_whole_models(model: JITModel) -> None:
    with pytest.raises(
        TypeError, match="`stream` needs a model that is compiled ahead of time"
    ):
        model(drawn(9), AXES, stream=1)


def test_the_other_device_is_refused() -> None:
    with pytest.raises(
        CompileError, match=r"expected `cuda`, for which .* `cuda\(0\)`"
    ):
        relax.VirtualMachine(made(_TEXT), tvm.cpu())

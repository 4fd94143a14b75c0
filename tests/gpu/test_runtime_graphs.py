"""CUDA graph capture of calls with repeated addresses."""

import gc
from typing import Any

import numpy as np
import pytest

from relax_mlir.errors import DeviceError, OutOfMemoryError
from relax_mlir.runtime.cuda.devices import device
from relax_mlir.runtime.cuda.executable import CudaExecutable
from tests.gpu.example import expected, inputs, on_gpu, shifted
from tests.gpu.stub import Emulation, Stub


def test_a_second_call_becomes_a_graph(model: CudaExecutable, stub: Stub) -> None:
    x, w = inputs(6)
    arrays, (target,) = on_gpu(x, w), on_gpu(np.zeros((6, 8), np.float32))

    def call(*, graph: bool = True) -> list[int]:
        names = ("cuLaunchKernelEx", "cuStreamBeginCapture_v2", "cuGraphLaunch")
        before = [stub.count(name) for name in names]
        model(*arrays, out=[target], graph=graph)
        np.testing.assert_allclose(target.numpy(), expected(x, w), rtol=1e-5)
        return [stub.count(n) - b for n, b in zip(names, before, strict=True)]

    assert call() == [3, 0, 0]
    assert call() == [3, 1, 1]
    assert call() == [0, 0, 1]
    assert call(graph=False) == [3, 0, 0]


def test_graphs_are_of_arrays_at_their_addresses(
    model: CudaExecutable, stub: Stub
) -> None:
    cases = [(inputs(6), on_gpu(*inputs(6))), (inputs(7), on_gpu(*inputs(7)))]
    (out,) = on_gpu(np.zeros((6, 8), np.float32))
    (other,) = on_gpu(np.zeros((7, 8), np.float32))

    for _ in range(3):  # by turns
        for (given, arrays), target in zip(cases, (out, other), strict=True):
            model(*arrays, out=[target])
            np.testing.assert_allclose(target.numpy(), expected(*given), rtol=1e-5)

    assert stub.count("cuGraphInstantiateWithFlags") == 2


def test_numpy_arrays_use_a_graph_too(model: CudaExecutable, stub: Stub) -> None:
    for seed in (5, 5, 5):
        x, w = inputs(seed)
        (y,) = model(x + 1, w)
        np.testing.assert_allclose(y, expected(x + 1, w), rtol=1e-5, atol=1e-6)

    assert stub.count("cuGraphLaunch") == 2


def test_a_capture_that_fails_ends(model: CudaExecutable, stub: Stub) -> None:
    x, w = inputs(5)
    model(x, w)
    stub.fail("cuLaunchKernelEx", 1, nth=2)

    with pytest.raises(DeviceError, match=r"kernel `softmax`.*INVALID_VALUE"):
        model(x, w)

    (y,) = model(x, w)
    np.testing.assert_allclose(y, expected(x, w), rtol=1e-5, atol=1e-6)


def test_graphs_that_are_used_are_kept(
    model: CudaExecutable, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relax_mlir.runtime.cuda.launches._KEPT_GRAPHS", 8)
    x, w = inputs(6)
    weights, often, *others = on_gpu(w, *[x] * 12)
    targets = on_gpu(x)

    for given in others:
        for _ in range(2):
            model(given, weights, out=targets)
            model(often, weights, out=targets)

    # Each becomes one, and is given back when eight others have been used since.
    assert stub.count("cuGraphInstantiateWithFlags") == len(others) + 1
    assert stub.count("cuGraphExecDestroy") == len(others) + 1 - 8


def test_a_captured_call_is_one_launch(model: CudaExecutable, stub: Stub) -> None:
    (x, w), (other, _) = inputs(6), inputs(7)
    given, weights, out = on_gpu(x, w, np.zeros((6, 8), np.float32))
    step = model.captured(given, weights, out=[out])
    np.testing.assert_allclose(out.numpy(), expected(x, w), rtol=1e-5)  # it has run
    names = ("cuLaunchKernelEx", "cuGraphLaunch", "cuMemAlloc_v2", "cuEventCreate")
    before = [stub.count(name) for name in names]

    for array in (other[:6], x):
        given.write(array)
        (y,) = step()
        assert y is out
        np.testing.assert_allclose(y.numpy(), expected(array, w), rtol=1e-5)

    after = [stub.count(n) - b for n, b in zip(names, before, strict=True)]
    assert after[:3] == [0, 2, 0]
    assert step.outputs == (out,)


def test_a_captured_call_by_names_makes_its_outputs(model: CudaExecutable) -> None:
    x, w = inputs(6)
    given, weights = on_gpu(x, w)
    named: dict[str, Any] = {model.input_names[1]: weights}
    step = model.captured(given, **named)

    (y,) = step()

    np.testing.assert_allclose(y.numpy(), expected(x, w), rtol=1e-5)


def test_captured_and_other_calls_share_memory(model: CudaExecutable) -> None:
    """The arena moves and is freed; the captured call is updated."""
    (x, w), (other, _) = inputs(6), inputs(7)
    arrays = on_gpu(x, w)
    step = model.captured(*arrays)
    for number in range(12):
        n = (300, 6, 40, 4000)[number % 4] + number
        many = inputs(n)
        (y,) = model(*on_gpu(*many))
        arrays[0].write(other[:6] if number % 2 else x)
        (z,) = step()
        if number == 7:
            with device(0).current():
                assert model._ready().give_back_idle()
        np.testing.assert_allclose(y.numpy(), expected(*many), rtol=1e-4, atol=1e-5)
        now = other[:6] if number % 2 else x
        np.testing.assert_allclose(z.numpy(), expected(now, w), rtol=1e-5, atol=1e-6)


def test_a_captured_call_waits_for_other_models(
    compiled_example: CudaExecutable, emulation: Emulation, stub: Stub
) -> None:
    first, second = (CudaExecutable(compiled_example.contents) for _ in range(2))
    (x, w), gpu = inputs(6), device(0)
    given, weights, between, out = on_gpu(x, w, x * 0, x * 0)
    one, two = (gpu.make("cuStreamCreate", "test") for _ in range(2))
    writes = first.captured(given, weights, out=[between], stream=one)
    reads = second.captured(between, weights, out=[out], stream=two)
    stub.free_at_once()

    for array in (x, 2 * x, x - 1):
        given.write(array)
        writes()
        reads()
        stub.run(two)  # waits for the other
        y = expected(expected(array, w).astype(np.float32), w)
        np.testing.assert_allclose(out.numpy(), y, rtol=1e-5, atol=1e-6)
    assert stub.strays == 0


def test_a_captured_call_gives_all_back(
    compiled_example: CudaExecutable, emulation: Emulation, stub: Stub
) -> None:
    model = CudaExecutable(compiled_example.contents)
    step = model.captured(*on_gpu(*inputs(6)))
    del model
    step()  # holds the model
    assert stub.used_bytes > 0

    del step
    gc.collect()

    assert stub.used_bytes == 0
    made = [stub.count(f"cuGraph{n}") for n in ("InstantiateWithFlags", "ExecDestroy")]
    assert made == [1, 1]


def test_what_cannot_be_captured_is_refused(model: CudaExecutable, stub: Stub) -> None:
    (x, w), (given, weights, square) = inputs(8), on_gpu(*inputs(8), inputs(8)[0])
    with pytest.raises(
        ValueError,
        match=r"expected C-contiguous arrays on the GPU, .*, got one on the host",
    ):
        model.captured(x, weights)
    with pytest.raises(ValueError, match="aligned to 16 bytes, got one of shape"):
        model.captured(shifted(x), weights)
    with pytest.raises(ValueError, match="an input shares memory with an output"):
        model.captured(square, weights, out=[square])
    with pytest.raises(TypeError, match="expected 2 arguments"):
        model.captured(given)
    step = model.captured(given, weights)
    stub.fail("cuGraphLaunch", 719)
    with pytest.raises(
        DeviceError, match="`main`: its graph cannot be launched: cuGraphLaunch"
    ):
        step()
    (y,) = step()
    np.testing.assert_allclose(y.numpy(), expected(x, w), rtol=1e-5)


def test_captured_and_host_calls_of_the_same_sizes(
    model: CudaExecutable, stub: Stub
) -> None:
    """Staging buffers of host arrays are reallocated after they were freed."""
    x, w = inputs(6)
    model(x, w)
    step = model.captured(*on_gpu(x, w))
    stub.free_at_once()
    for turn in range(3):
        for n in range(20, 30):
            model(*inputs(n))
        if turn == 1:
            model(x, w)  # prepares these sizes anew
        step()
        for _ in range(2):
            (y,) = model(x, w)
            np.testing.assert_allclose(y, expected(x, w), rtol=1e-5, atol=1e-6)
    assert stub.strays == 0


@pytest.mark.parametrize(
    "function",
    ["cuMemAlloc_v2", "cuGraphInstantiateWithFlags", "cuStreamBeginCapture_v2"],
)
@pytest.mark.parametrize("error", [1, 2])
def test_a_captured_call_that_fails_is_captured_anew(
    error: int, function: str, model: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(6)
    arrays = on_gpu(x, w)
    step = model.captured(*arrays)
    stub.free_at_once()
    with device(0).current():
        model._ready().give_back_idle()
    for nth in (1, 2, 3):
        stub.fail(function, error, nth=nth)

    failures = 0
    for _ in range(6):
        try:
            (y,) = step()
        except (DeviceError, OutOfMemoryError):
            failures += 1
            continue
        np.testing.assert_allclose(y.numpy(), expected(x, w), rtol=1e-5, atol=1e-6)
    assert 1 <= failures <= 3
    assert stub.strays == 0


def test_nothing_is_run_when_a_capture_is_refused(
    model: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(8)
    given, weights = on_gpu(x, w)

    for arrays, out in (((x, weights), None), ((given, weights), [given])):
        with pytest.raises(ValueError, match="`main`: "):
            model.captured(*arrays, out=out)

    assert stub.count("cuLaunchKernelEx") == 0
    np.testing.assert_array_equal(given.numpy(), x)

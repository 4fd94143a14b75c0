"""Calls with arrays at the same addresses become one launch of a graph."""

import numpy as np
import pytest

from relax_mlir.errors import DeviceError
from relax_mlir.runtime.cuda.executable import CudaExecutable
from tests.gpu.example import expected, inputs, on_gpu
from tests.gpu.stub import Stub


def test_a_second_call_becomes_a_graph(model: CudaExecutable, stub: Stub) -> None:
    x, w = inputs(6)
    arrays, (target,) = on_gpu(x, w), on_gpu(np.zeros((6, 8), np.float32))

    def call(*, graph: bool = True) -> list[int]:
        names = ("cuLaunchKernel", "cuStreamBeginCapture_v2", "cuGraphLaunch")
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
    stub.fail("cuLaunchKernel", 1, nth=2)

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

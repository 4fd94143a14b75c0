"""What calls of a model on a GPU share, and what they give back."""

import gc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from relax_mlir.errors import OutOfMemoryError
from relax_mlir.module import IRModule
from relax_mlir.runtime.cuda.devices import device
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.plan import Plan
from tests.gpu.example import TEXT, expected, inputs, on_gpu
from tests.gpu.stub import Emulation, Stub


def test_sizes_are_planned_once(
    model: CudaExecutable, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[object] = []
    at = Plan.at

    def counted(self: Plan, sizes: dict[str, int]) -> object:
        planned.append(sizes)
        return at(self, sizes)

    monkeypatch.setattr(Plan, "at", counted)
    for n in (4, 4, 9, 4, 9):
        model(*inputs(n))

    assert planned == [{"n": 4}, {"n": 9}]
    assert stub.count("cuModuleLoadDataEx") == 2
    assert stub.count("cuModuleGetFunction") == 2


def test_sizes_of_long_ago_give_back_their_memory(
    model: CudaExecutable, stub: Stub
) -> None:
    for n in range(1, 9):
        model(*inputs(n))
    used = stub.used_bytes

    for n in range(1, 9):
        model(*inputs(8 + n))
    more = stub.used_bytes

    assert more < 4 * used  # eight sets of sizes, all larger, and no more


def test_a_model_that_is_dropped_gives_back_all(
    compiled_example: CudaExecutable, emulation: Emulation, stub: Stub
) -> None:
    emulation.learn(compiled_example, IRModule.parse(TEXT))
    made = CudaExecutable(compiled_example.contents)
    for _ in range(3):
        made(*inputs(5))
    assert stub.used_bytes > 0

    del made
    gc.collect()

    assert stub.used_bytes == 0
    assert stub.count("cuModuleUnload") == 2
    assert stub.count("cuGraphExecDestroy") == 1


def test_threads_may_call_at_once(model: CudaExecutable) -> None:
    def call(n: int) -> bool:
        x, w = inputs(n)
        return np.allclose(model(x, w)[0], expected(x, w), rtol=1e-5, atol=1e-6)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, [3, 4, 3, 4, 5, 3, 4, 5]))


def test_out_of_memory_says_how_much_and_keeps_nothing(
    model: CudaExecutable, stub: Stub
) -> None:
    model(*inputs(3))
    used = stub.used_bytes
    stub.limit(used + 100)

    with pytest.raises(
        OutOfMemoryError, match=r"out of memory for 6400 bytes of intermediate results"
    ):
        model(*inputs(100))
    assert stub.used_bytes == used
    assert isinstance(OutOfMemoryError(""), MemoryError)


def test_an_output_that_does_not_fit_is_named(
    model: CudaExecutable, stub: Stub
) -> None:
    arrays = on_gpu(*inputs(3))
    kept = model(*arrays)
    used = stub.used_bytes
    stub.limit(used + 95)

    with pytest.raises(
        OutOfMemoryError, match="output `y0`: out of memory for 96 bytes"
    ):
        model(*arrays)
    held = sum(array.view.size_bytes for array in (*arrays, *kept))
    assert stub.used_bytes == held  # all that calls of these sizes share is given back


def test_memory_of_outputs_is_used_again_on_its_stream(
    model: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(3)
    arrays = on_gpu(x, w)
    other = device(0).make("cuStreamCreate", "test")
    first = model(*arrays)[0].address

    again = model(*arrays)[0].address
    (elsewhere,) = model(*arrays, stream=other)
    (y,) = model(*arrays)

    assert (again, y.address) == (first, first)
    assert elsewhere.address != first
    assert stub.count("cuGraphLaunch") >= 1  # of arrays at the same addresses
    np.testing.assert_allclose(y.numpy(), expected(x, w), rtol=1e-5, atol=1e-6)


def test_memory_that_others_have_seen_is_given_back(
    model: CudaExecutable, stub: Stub
) -> None:
    arrays = on_gpu(*inputs(3))
    (y,) = model(*arrays)
    freed = stub.count("cuMemFree_v2")

    y.__dlpack__()
    del y

    assert stub.count("cuMemFree_v2") == freed + 1


def test_idle_memory_of_outputs_goes_before_memory_is_out(
    model: CudaExecutable, stub: Stub
) -> None:
    arrays = on_gpu(*inputs(300))
    model(*arrays)  # its output, 9600 bytes, is idle now
    small = on_gpu(*inputs(3))
    stub.limit(stub.used_bytes + 300)

    (y,) = model(*small)

    assert y.shape == (3, 8)


def test_a_call_that_is_out_of_memory_leaves_none_taken(
    model: CudaExecutable, stub: Stub
) -> None:
    arrays = on_gpu(*inputs(3))
    given = on_gpu(*inputs(200))
    model(*arrays)
    for nth in (2, 3):  # the first is for intermediate results; it is tried again
        stub.fail("cuMemAlloc_v2", 2, nth=nth)
    used = stub.used_bytes

    with pytest.raises(OutOfMemoryError, match="`y0`: out of memory for 6400 bytes"):
        model(*given)

    idle = 96  # the output of the first call, which goes first
    assert stub.used_bytes == used - idle


@pytest.mark.parametrize(
    "function", ["cuMemAlloc_v2", "cuModuleLoadDataEx", "cuEventCreate"]
)
def test_a_model_that_cannot_be_loaded_gives_back_all(
    function: str, compiled_example: CudaExecutable, stub: Stub
) -> None:
    weights = {f"w{n}": np.zeros(100, np.float32) for n in range(2)}
    signature = {**compiled_example.contents.signature, "constants": list(weights)}
    contents = replace(
        compiled_example.contents, signature=signature, constants=weights
    )
    stub.fail(function, 2)
    used = stub.used_bytes

    with pytest.raises(OutOfMemoryError, match="OUT_OF_MEMORY"):
        CudaExecutable(contents)(*inputs(3))

    assert stub.used_bytes == used
    for make, destroy in (
        ("cuModuleLoadDataEx", "cuModuleUnload"),
        ("cuStreamCreate", "cuStreamDestroy_v2"),
        ("cuEventCreate", "cuEventDestroy_v2"),
    ):
        refused = int(make == function)
        assert stub.count(make) - refused == stub.count(destroy)

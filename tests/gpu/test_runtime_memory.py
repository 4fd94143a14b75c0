"""GPU memory of a model: sharing between calls, and reclamation."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from relax_mlir.errors import DeviceError, OutOfMemoryError
from relax_mlir.runtime.cuda import call_queue
from relax_mlir.runtime.cuda.call_queue import CallLock
from relax_mlir.runtime.cuda.devices import Event, device
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.memory import (
    Memory,
    MemoryPool,
    ScratchBuffer,
    release_completed,
    rounded_size,
)
from relax_mlir.runtime.cuda.plan import Plan
from tests.gpu.example import expected, inputs, on_gpu
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
    used: list[int] = []

    for _ in range(3):
        for n in range(1, 13):
            model(*inputs(n), graph=False)  # arrays may be where they were
            used.append(stub.used_bytes)

    # Of the last eight, whichever those before were.
    assert used[11] == used[23] == used[35]
    assert used[12] < used[11]


def test_sizes_that_grow_slowly_take_no_memory_each_time(
    model: CudaExecutable, stub: Stub
) -> None:
    arrays = [on_gpu(*inputs(n)) for n in range(1000, 1060)]
    for given in arrays[:10]:
        model(*given)
    taken = stub.count("cuMemAlloc_v2")

    results = [model(*given)[0] for given in arrays[10:]]

    # One for each result that is held, and twice more for all intermediate results.
    assert stub.count("cuMemAlloc_v2") <= taken + len(results) + 4
    for given, result in zip(arrays[10:], results, strict=True):
        x, w = (array.numpy() for array in given)
        np.testing.assert_allclose(result.numpy(), expected(x, w), rtol=1e-4, atol=1e-5)


def test_scratch_memory_is_about_as_large_as_it_has_to_be(stub: Stub) -> None:
    gpu = device(0)
    scratch = ScratchBuffer(gpu, "tests")
    sizes: list[int] = []
    for size_bytes in (1000, 900, 1001, 100_000, 60_000, 50_000, 40_000, 0):
        with gpu.current():
            scratch.fit(size_bytes, None)
        sizes.append(stub.used_bytes)

    # Exact at first, then with slack; shrinks when half of it suffices.
    assert sizes == [1000, 1000, 1024, 106_496, 106_496, 106_496, 40_960, 0]


def test_scratch_memory_is_given_back_when_calls_are_done(stub: Stub) -> None:
    gpu = device(0)
    scratch = ScratchBuffer(gpu, "tests")
    stub.free_at_once()
    stream, ones = gpu.make("cuStreamCreate", "test"), np.ones(1, np.float32)
    with gpu.current():
        scratch.fit(4, None)
        copy = scratch.address, ones.ctypes.data, ones.nbytes, stream
        gpu.driver.call("cuMemcpyHtoDAsync_v2", *copy, what="test")
        scratch.fit(4000, Event(gpu, stream))
        before = stub.used_bytes
        stub.run(stream)
        release_completed(gpu)

    assert (before, stub.used_bytes) == (4 + 4096, 4096)
    assert stub.strays == 0


@pytest.mark.parametrize(
    ("size_bytes", "most", "found"),
    [
        (0, None, 0),
        (1, None, 512),
        (8192, None, 8192),
        (8193, None, 9216),
        ((1 << 30) + 1, None, (1 << 30) + (1 << 27)),
        ((1 << 30) + 1, 2 << 20, (1 << 30) + (2 << 20)),
    ],
)
def test_sizes_are_rounded_by_an_eighth(
    size_bytes: int, most: int | None, found: int
) -> None:
    assert rounded_size(size_bytes, most) == found


def test_a_model_that_is_dropped_gives_back_all(
    compiled_example: CudaExecutable, emulation: Emulation, stub: Stub
) -> None:
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


def test_each_thread_ends_its_own_call(monkeypatch: pytest.MonkeyPatch) -> None:
    lock, entered, left = CallLock(), threading.Event(), threading.Event()
    ended: list[int] = []
    monkeypatch.setattr(call_queue, "begin_call", threading.get_ident)
    monkeypatch.setattr(call_queue, "end_call", ended.append)

    class HandedOver:
        """A lock that another thread takes before its release returns."""

        def __init__(self) -> None:
            self._lock = threading.RLock()
            self.acquire = self._lock.acquire

        def release(self) -> None:
            self._lock.release()
            if threading.current_thread() is threading.main_thread():
                assert entered.wait(10)

    def call() -> None:
        with lock:
            entered.set()
            left.wait(10)

    monkeypatch.setattr(lock, "lock", HandedOver())
    other = threading.Thread(target=call)
    with lock:
        other.start()
    left.set()
    other.join()

    assert ended == [threading.get_ident(), other.ident]


def test_out_of_memory_says_how_much_and_keeps_nothing(
    model: CudaExecutable, stub: Stub
) -> None:
    model(*inputs(3))
    kept = on_gpu(np.zeros(10, np.float32))
    stub.limit(stub.used_bytes + 100)

    with pytest.raises(
        OutOfMemoryError,
        match=r"out of memory for 6400 bytes of intermediate results: .*; GPU 0 has 804 "
        r"of 844 bytes left, this process holds 40 bytes of arrays$",
    ):
        model(*inputs(100))
    assert stub.used_bytes == kept[0].view.size_bytes
    assert isinstance(OutOfMemoryError(""), MemoryError)


def test_idle_memory_of_other_models_goes_before_memory_is_out(
    compiled_example: CudaExecutable, emulation: Emulation, stub: Stub
) -> None:
    first, second = (CudaExecutable(compiled_example.contents) for _ in range(2))
    arrays = on_gpu(*inputs(300))
    stub.free_at_once()
    first(*arrays)  # is not done yet; 9600 bytes for results, and the output is idle
    small = on_gpu(*inputs(200))
    stub.limit(stub.used_bytes + 6400)

    (y,) = second(*small)  # needs 6400 for results, and 6400

    np.testing.assert_allclose(y.numpy(), expected(*inputs(200)), rtol=1e-4, atol=1e-5)
    (z,) = first(*inputs(4))
    np.testing.assert_allclose(z, expected(*inputs(4)), rtol=1e-5, atol=1e-6)
    assert stub.strays == 0


def test_idle_memory_is_bounded(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relax_mlir.runtime.cuda.memory._KEPT", 16)
    gpu = device(0)
    pool = MemoryPool(limit_bytes=1000)

    for _ in range(20):
        pool.give(Memory(gpu, 10), ())
    many = stub.used_bytes
    pool.give(Memory(gpu, 985), ())
    idle = stub.used_bytes
    pool.give(Memory(gpu, 1001), ())
    last = stub.used_bytes
    pool.close()
    pool.give(Memory(gpu, 10), ())

    assert (many, idle) == (16 * 10, 985 + 10)
    assert (last, stub.used_bytes) == (0, 0)


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
    held = sum(array.memory.size_bytes for array in (*arrays, *kept))
    assert stub.used_bytes == held  # all that calls of these sizes share is given back


def test_memory_of_outputs_is_used_again(model: CudaExecutable, stub: Stub) -> None:
    x, w = inputs(3)
    arrays = on_gpu(x, w)
    other = device(0).make("cuStreamCreate", "test")
    first = model(*arrays)[0].address

    again = model(*arrays)[0].address
    (elsewhere,) = model(*arrays, stream=other)
    (y,) = model(*arrays)

    assert (again, elsewhere.address) == (first, first)
    assert y.address != first
    assert stub.count("cuGraphLaunch") >= 1  # of arrays at the same addresses
    for result in (y, elsewhere):
        np.testing.assert_allclose(result.numpy(), expected(x, w), rtol=1e-5, atol=1e-6)


def test_memory_that_others_have_seen_is_given_back(
    model: CudaExecutable, stub: Stub
) -> None:
    arrays = on_gpu(*inputs(3))
    (y,) = model(*arrays)
    stub.run_all()
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
    for nth in (2, 3, 4):  # the first is for intermediate results; it is tried again
        stub.fail("cuMemAlloc_v2", 2, nth=nth)
    used = stub.used_bytes

    with pytest.raises(OutOfMemoryError, match="`y0`: out of memory for 6400 bytes"):
        model(*given)

    idle = 512 + 2 * 96 + 64  # the output of the first call, and intermediate results
    assert stub.used_bytes == used - idle


@pytest.mark.parametrize(
    "function", ["cuMemAlloc_v2", "cuModuleLoadDataEx", "cuStreamCreate"]
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
    ):
        refused = int(make == function)
        assert stub.count(make) - refused == stub.count(destroy)


def test_memory_is_given_back_while_its_pool_is_in_use(stub: Stub) -> None:
    gpu = device(0)
    pool = MemoryPool(limit_bytes=1000)

    with pool._lock:  # as it is when garbage is collected inside of it
        pool.give(Memory(gpu, 10), ())

    assert stub.used_bytes == 0
    assert pool.take(10) is None


@pytest.mark.parametrize(
    "function", ["cuGraphExecDestroy", "cuModuleUnload", "cuEventSynchronize"]
)
def test_what_cannot_be_given_back_keeps_nothing_else(
    function: str, model: CudaExecutable, stub: Stub
) -> None:
    arrays = on_gpu(*inputs(3))
    results = on_gpu(arrays[0].numpy(), arrays[0].numpy())
    for number in (0, 1, 0, 1):
        model(*arrays, out=[results[number]])
    stub.run_all()
    del arrays, results
    model(*inputs(3))
    session = model._ready()
    stub.fail(function, 719)

    with device(0).current():
        with pytest.raises(DeviceError, match=function):
            session.close()
        freed = [stub.count(name) for name in ("cuModuleUnload", "cuMemFree_v2")]
        session.close()  # has nothing left to do

    assert stub.used_bytes == 0
    assert stub.count("cuGraphExecDestroy") == 2
    assert freed == [stub.count(n) for n in ("cuModuleUnload", "cuMemFree_v2")]
    assert stub.count("cuModuleUnload") == 2
    assert stub.count("cuStreamDestroy_v2") == stub.count("cuStreamCreate")

"""Stream ordering, on a stub that executes work as late as possible, in any order."""

import ctypes
import gc
import threading
from collections.abc import Callable

import numpy as np
import pytest

from relax_mlir.errors import DeviceError
from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.devices import device
from relax_mlir.runtime.cuda.executable import CudaExecutable
from tests.gpu.example import (
    Dlpack,
    Interface,
    expected,
    inputs,
    on_gpu,
    put,
    read,
)
from tests.gpu.stub import Emulation, Stub


def new_stream() -> int:
    return device(0).make("cuStreamCreate", "test")


def check(y: np.ndarray, x: np.ndarray, w: np.ndarray) -> None:
    np.testing.assert_allclose(y, expected(x, w), rtol=1e-5, atol=1e-6)


@pytest.fixture
def other(compiled_example: CudaExecutable, emulation: Emulation) -> CudaExecutable:
    """A second instance of `model`, with its own memory."""
    return CudaExecutable(compiled_example.contents)


# writers of inputs


def test_an_interfaces_stream_is_waited_for(model: CudaExecutable, stub: Stub) -> None:
    x, w = inputs(4)
    given, weights = on_gpu(np.zeros_like(x), w)
    writing, calling = new_stream(), new_stream()
    put(x, given, writing)

    (y,) = model(Interface(given, stream=writing), weights, stream=calling)
    stub.run(calling)

    check(y.numpy(), x, w)


def test_an_interface_without_a_stream_is_not_waited_for(
    model: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(4)
    given, weights = on_gpu(np.zeros_like(x), w)
    put(x, given, new_stream())

    (y,) = model(Interface(given), weights)

    check(y.numpy(), np.zeros_like(x), w)


@pytest.mark.parametrize("share", [lambda a: a, Dlpack, Interface.of])
def test_results_are_read_behind_the_call_that_writes_them(
    share: Callable[[DeviceArray], object],
    model: CudaExecutable,
    other: CudaExecutable,
    stub: Stub,
) -> None:
    x, w = inputs(4)
    weights, *arrays = on_gpu(w, x, w)
    (y,) = model(*arrays, stream=new_stream())
    stream = new_stream()

    (z,) = other(share(y), weights, stream=stream)
    stub.run(stream)

    check(z.numpy(), expected(x, w).astype(np.float32), w)


def test_a_result_is_an_input_on_another_stream(
    model: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(4)
    given, weights = on_gpu(x, w)
    stream = new_stream()

    (y,) = model(given, weights)
    (z,) = model(y, weights, stream=stream)
    stub.run(stream)

    found = read(z.address, x, stream)
    stub.run(stream)
    check(found, expected(x, w).astype(np.float32), w)


@pytest.mark.parametrize("asked", [None, 1, "its own"])
def test_who_takes_a_capsule_reads_behind_the_call(
    asked: int | str | None, model: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(4)
    (y,) = model(*on_gpu(x, w), stream=new_stream())
    stream = new_stream() if asked == "its own" else 1

    y.__dlpack__(stream=stream if asked else None)
    found = read(y.address, x, stream)
    stub.run(stream)

    check(found, x, w)


def test_who_says_so_does_not_wait(model: CudaExecutable, stub: Stub) -> None:
    x, w = inputs(4)
    (y,) = model(*on_gpu(x, w), stream=new_stream())
    stream = new_stream()

    y.__dlpack__(stream=-1)
    stub.run(stream)
    stub.run(1)

    assert stub.launched == []


def test_who_takes_an_interface_reads_behind_the_call(
    model: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(4)
    (y,) = model(*on_gpu(x, w), stream=new_stream())

    told = y.__cuda_array_interface__["stream"]
    found = read(y.address, x, told)
    stub.run(told)

    check(found, x, w)


def test_out_is_read_behind_the_call_that_writes_it(model: CudaExecutable) -> None:
    x, w = inputs(4)
    (target,) = on_gpu(np.zeros_like(x))

    model(*on_gpu(x, w), out=[target], stream=new_stream())

    check(target.numpy(), x, w)


def test_out_is_written_behind_calls_that_read_it(
    model: CudaExecutable, other: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(4)
    given, weights = on_gpu(x, w)
    reading, writing = new_stream(), new_stream()
    (y,) = model(given, weights, stream=reading)

    other(on_gpu(x + 1)[0], weights, out=[given], stream=writing)
    stub.run(writing)

    check(y.numpy(), x, w)
    check(given.numpy(), x + 1, w)


# streams


def test_a_stream_may_be_gone_before_its_results(
    model: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(4)
    arrays = on_gpu(x, w)
    gpu, stream = device(0), new_stream()

    (y,) = model(*arrays, stream=stream)
    with gpu.current():
        gpu.driver.call("cuStreamDestroy_v2", stream, what="test")

    assert y.__cuda_array_interface__["stream"] == 1
    (z,) = model(y, arrays[1])
    check(y.numpy(), x, w)
    check(z.numpy(), expected(x, w).astype(np.float32), w)


def test_a_stream_of_a_thread_is_its_own(model: CudaExecutable, stub: Stub) -> None:
    x, w = inputs(4)
    arrays = on_gpu(x, w)
    results: list[DeviceArray] = []
    call = threading.Thread(target=lambda: results.extend(model(*arrays, stream=2)))

    call.start()
    call.join()
    stub.run(2)  # of this thread
    stub.run(1)

    assert stub.launched == []
    check(results[0].numpy(), x, w)


def test_a_thread_of_its_own_stream_gives_interfaces_with_it(
    model: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(4)
    given, weights = on_gpu(np.zeros_like(x), w)
    put(x, given, 2)
    calling = new_stream()

    (y,) = model(Interface(given, stream=2), weights, stream=calling)
    stub.run(calling)

    check(y.numpy(), x, w)


def test_the_stream_that_all_share_has_two_numbers(
    model: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(4)
    arrays = [Dlpack(a) for a in on_gpu(x, w)]

    (y,) = model(*arrays, stream=1)
    found = read(y.address, x, 0)
    stub.run(0)

    assert arrays[0].streams == [1]
    check(found, x, w)


@pytest.mark.parametrize(
    ("stream", "kind"), [(-1, ValueError), ("fast", TypeError), (0.5, TypeError)]
)
def test_what_is_no_stream_is_refused(
    stream: object, kind: type[Exception], model: CudaExecutable
) -> None:
    with pytest.raises(kind, match=r"`stream`: expected .*the driver's handle"):
        model(*on_gpu(*inputs(4)), stream=stream)


def test_a_stream_that_is_captured_is_refused(
    model: CudaExecutable, stub: Stub
) -> None:
    gpu, stream = device(0), new_stream()
    arrays = on_gpu(*inputs(4))
    step = model.captured(*arrays, stream=stream)
    stub.run_all()
    stub.launched.clear()
    with gpu.current():
        gpu.driver.call("cuStreamBeginCapture_v2", stream, 2, what="test")

    for call in (lambda: model(*arrays, stream=stream), step):
        with pytest.raises(DeviceError, match=r"being captured into a graph\. Hint"):
            call()

    with gpu.current():  # it can still be ended, and is empty
        graph = gpu.driver.handle(
            "cuGraphInstantiateWithFlags", _ended(stream), 0, what=""
        )
        gpu.driver.call("cuGraphLaunch", graph, 0, what="test")
    stub.run(0)
    assert stub.launched == []
    check(model(*arrays)[0].numpy(), *inputs(4))


def _ended(stream: int) -> int:
    graph = ctypes.c_void_p()
    what = "test"
    device(0).driver.call("cuStreamEndCapture", stream, ctypes.byref(graph), what=what)
    return graph.value or 0


# what must live until the device is done with it


def test_inputs_of_the_host_may_change_after_the_call(
    model: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(4)
    changed = x.copy()
    (weights,) = on_gpu(w)
    model(x, weights)  # so that all is prepared
    waits = waits_of_the_host(stub)

    (y,) = model(changed, weights)
    assert waits_of_the_host(stub) == waits
    changed[...] = 7

    check(y.numpy(), x, w)


def test_copies_of_inputs_live_until_they_are_read(
    model: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(4)
    (weights,) = on_gpu(w)

    (y,) = model(x, weights)
    gc.collect()
    garbage = [np.full_like(x, 7) for _ in range(50)]  # where copies have been

    assert len(garbage) == 50
    check(y.numpy(), x, w)


def waits_of_the_host(stub: Stub) -> int:
    names = ("cuStreamSynchronize", "cuEventSynchronize")
    return sum(map(stub.count, names))


def test_borrowed_inputs_live_until_calls_are_done(
    model: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(4)
    (weights,) = on_gpu(w)
    model(*on_gpu(x, w))  # so that all is prepared
    stub.run_all()
    waits = waits_of_the_host(stub)

    (given,) = on_gpu(x)
    waits += 1
    address = given.address
    (y,) = model(Dlpack(given), weights)
    del given
    assert held(address)

    stub.run_all()
    assert held(address)
    model(weights, weights)  # the next call finds that it is done
    assert not held(address)
    assert waits_of_the_host(stub) == waits
    check(y.numpy(), x, w)


def held(address: int) -> bool:
    """Whether the memory at an address is allocated."""
    return address in device(0).allocations


def test_not_more_than_some_calls_hold_what_they_borrow(
    model: CudaExecutable, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relax_mlir.runtime.cuda.session._MAX_PENDING_CALLS", 3)
    x, w = inputs(4)
    given, weights = on_gpu(x, w)

    for _ in range(10):
        model(Dlpack(given), weights)

    assert len(stub.launched) >= 3 * (10 - 1 - 3)
    assert len(stub.launched) < 3 * 10


def test_memory_of_sizes_of_long_ago_is_not_taken_from_calls(
    model: CudaExecutable, stub: Stub
) -> None:
    arrays = [on_gpu(*inputs(n)) for n in range(1, 13)]
    stub.free_at_once()

    results = [model(*given)[0] for given in arrays]

    for n, y in enumerate(results, start=1):
        check(y.numpy(), *inputs(n))
    assert stub.strays == 0


def test_a_model_is_dropped_behind_its_calls(
    compiled_example: CudaExecutable, emulation: Emulation, stub: Stub
) -> None:
    model = CudaExecutable(compiled_example.contents)
    arrays = on_gpu(*inputs(4))
    stub.free_at_once()

    (y,) = model(*arrays)
    addresses = [array.address for array in arrays]
    del arrays
    assert all(map(held, addresses))
    del model
    gc.collect()

    assert not any(map(held, addresses))
    assert stub.count("cuModuleUnload") == 2
    check(y.numpy(), *inputs(4))
    assert stub.strays == 0


@pytest.mark.parametrize("what", ["inputs", "result"])
def test_arrays_are_dropped_behind_calls(
    what: str, model: CudaExecutable, stub: Stub
) -> None:
    arrays = on_gpu(*inputs(4))
    stub.free_at_once()

    (y,) = model(*arrays)
    waits = waits_of_the_host(stub)
    if what == "inputs":
        addresses = [array.address for array in arrays]
        del arrays
    else:
        addresses = [y.address]
        y.__dlpack__()  # so that its memory goes back to the driver
        del y

    assert all(map(held, addresses))
    assert waits_of_the_host(stub) == waits
    stub.run_all()
    assert on_gpu(np.zeros(1, np.float32))  # an allocation collects leftovers
    assert not any(map(held, addresses))
    assert stub.strays == 0


def test_calls_give_back_arrays_that_calls_have_used(
    model: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(4)
    kept, given, weights = on_gpu(x, x, w)
    model(kept, weights)  # so that all is prepared
    stub.free_at_once()
    model(given, weights)
    address = given.address
    del given
    stub.run_all()
    assert held(address)

    model(kept, weights)

    assert not held(address)


def test_a_call_that_fails_half_way_gives_back_behind_its_kernels(
    model: CudaExecutable, stub: Stub
) -> None:
    arrays = on_gpu(*inputs(4))
    stub.free_at_once()
    stub.fail("cuEventRecord", 719)

    with pytest.raises(DeviceError, match="a stream cannot be waited for"):
        model(*arrays)
    stub.run_all()

    assert len(stub.launched) == 3  # the last one writes the output
    assert stub.strays == 0


def test_idle_memory_of_outputs_is_written_behind_who_reads_it(
    model: CudaExecutable, other: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(4)
    given, weights = on_gpu(x, w)
    reading, writing = new_stream(), new_stream()
    (y,) = model(given, weights, stream=writing)
    stub.run(writing)
    address = y.address
    (z,) = other(y, weights, stream=reading)
    del y

    (again,) = model(on_gpu(x + 1)[0], weights, stream=writing)
    assert again.address == address
    stub.run(writing)

    check(z.numpy(), expected(x, w).astype(np.float32), w)


def test_events_measure_no_times_unless_they_are_asked_to(stub: Stub) -> None:
    gpu = device(0)
    events = [gpu.make("cuEventCreate", "test") for _ in range(2)]
    with gpu.current():
        for event in events:
            gpu.driver.call("cuEventRecord", event, 0, what="test")
        stub.run(0)

        with pytest.raises(DeviceError, match="INVALID_HANDLE"):
            gpu.driver.handle("cuEventElapsedTime", *events, what="test")

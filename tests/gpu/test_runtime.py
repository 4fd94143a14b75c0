"""Calls of models on a GPU, against the stub driver."""

from collections.abc import Callable

import numpy as np
import pytest

from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.devices import device
from relax_mlir.runtime.cuda.executable import CudaExecutable
from tests.gpu.example import (
    Dlpack,
    Interface,
    ProtocolStream,
    Stream,
    expected,
    inputs,
    on_gpu,
)
from tests.gpu.stub import Stub


def test_arrays_of_numpy_go_in_and_come_out(model: CudaExecutable) -> None:
    for n in (1, 5, 40, 5):
        x, w = inputs(n)

        (y,) = model(x, w)

        np.testing.assert_allclose(y, expected(x, w), rtol=1e-5, atol=1e-6)


def test_an_empty_batch_launches_nothing(model: CudaExecutable, stub: Stub) -> None:
    x, w = inputs(0)

    (y,) = model(x, w)

    assert y.shape == (0, 8)
    assert stub.count("cuLaunchKernelEx") == 0


def test_arrays_on_the_gpu_stay_there(model: CudaExecutable, stub: Stub) -> None:
    x, w = inputs(6)
    arrays = on_gpu(x, w)
    copies = stub.count("cuMemcpyHtoDAsync_v2")

    (y,) = model(*arrays, stream=0)

    assert isinstance(y, DeviceArray)
    assert (y.shape, y.dtype) == ((6, 8), "float32")
    assert stub.count("cuMemcpyHtoDAsync_v2") == copies
    assert stub.count("cuMemcpyDtoHAsync_v2") == 0
    np.testing.assert_allclose(y.numpy(), expected(x, w), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(np.asarray(y), y.numpy())


@pytest.mark.parametrize("kind", [Interface, Dlpack])
def test_arrays_of_other_libraries_are_not_copied(
    kind: type[Interface] | type[Dlpack], model: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(4)
    made = on_gpu(x, w)
    arrays = [kind(array) for array in made]
    copies = stub.count("cuMemcpyHtoDAsync_v2")  # weights of a model are none here

    (y,) = model(*arrays)

    assert isinstance(y, DeviceArray)
    assert stub.count("cuMemcpyHtoDAsync_v2") == copies
    assert stub.count("cuMemcpy2DAsync_v2") == 0
    np.testing.assert_allclose(y.numpy(), expected(x, w), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [int, Stream, ProtocolStream])
def test_the_callers_stream_is_used(
    kind: Callable[[int], object], model: CudaExecutable, stub: Stub
) -> None:
    arrays = [Dlpack(a) for a in on_gpu(*inputs(4))]
    handle = device(0).make("cuStreamCreate", "test")
    waits = stub.count("cuStreamSynchronize")

    (y,) = model(*arrays, stream=kind(handle))

    assert arrays[0].streams == [handle]
    assert stub.count("cuStreamSynchronize") == waits + 1  # for the weights alone
    assert stub.launched == []
    stub.run(handle)
    assert len(stub.launched) == 3
    np.testing.assert_allclose(y.numpy(), expected(*inputs(4)), rtol=1e-5, atol=1e-6)


def test_what_is_no_stream_is_refused(model: CudaExecutable) -> None:
    with pytest.raises(
        TypeError, match=r"`stream`: expected the driver's handle, .*str"
    ):
        model(*on_gpu(*inputs(4)), stream="fast")


def test_inputs_that_kernels_cannot_read_are_copied(
    model: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(4)
    wide = np.zeros((4, 9), np.float32)
    wide[:, 1:] = x
    (base,) = on_gpu(wide)
    (weights,) = on_gpu(np.ascontiguousarray(w.T))
    address = base.address + 4  # also not aligned
    strided = Interface(base, data=(address, False), shape=(4, 8), strides=(36, 4))
    turned = Interface(weights, strides=(4, 32))

    (y,) = model(strided, turned)

    assert stub.count("cuMemcpy2DAsync_v2") == 1 + 8
    np.testing.assert_allclose(y.numpy(), expected(x, w), rtol=1e-5, atol=1e-6)


def test_out_on_the_gpu_is_written_in_place(model: CudaExecutable) -> None:
    x, w = inputs(4)
    (target,) = on_gpu(np.full((4, 8), np.nan, np.float32))

    (y,) = model(*on_gpu(x, w), out=[target])

    assert y is target
    np.testing.assert_allclose(target.numpy(), expected(x, w), rtol=1e-5, atol=1e-6)


def test_out_may_be_strided_and_of_numpy(model: CudaExecutable) -> None:
    x, w = inputs(4)
    whole = np.full((4, 16), np.nan, np.float32)

    model(x, w, out=[whole[:, ::2]])

    np.testing.assert_allclose(whole[:, ::2], expected(x, w), rtol=1e-5, atol=1e-6)
    assert np.isnan(whole[:, 1::2]).all()


def test_out_that_shares_memory_with_an_input_is_right(model: CudaExecutable) -> None:
    x, w = inputs(8)
    given, weights = on_gpu(x, w)

    model(given, weights, out=[given])

    np.testing.assert_allclose(given.numpy(), expected(x, w), rtol=1e-5, atol=1e-6)


def test_out_must_be_an_array_that_fits(model: CudaExecutable) -> None:
    x, w = inputs(4)
    y = np.zeros((4, 8), np.float32)
    y.flags.writeable = False

    with pytest.raises(TypeError, match="expected 1 arrays in `out`, got 0"):
        model(x, w, out=[])
    with pytest.raises(TypeError, match="output 0 `y0`: expected an array, got list"):
        model(x, w, out=[[1.0]])
    with pytest.raises(ValueError, match=r"output 0 `y0`: .*got a read-only one"):
        model(x, w, out=[y])
    with pytest.raises(
        ValueError, match=r"`y0`: dimension 0 \(`n`\): expected 4 .*got 5"
    ):
        model(x, w, out=[np.zeros((5, 8), np.float32)])


def test_inputs_by_name(model: CudaExecutable) -> None:
    x, w = inputs(3)

    (y,) = model(x1=w, x0=x)

    np.testing.assert_allclose(y, expected(x, w), rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError, match="expected inputs `x1` by name"):
        model(x, v=w)


def test_the_function_main_is_the_model(model: CudaExecutable) -> None:
    x, w = inputs(3)

    np.testing.assert_array_equal(model["main"](x, w)[0], model(x, w)[0])
    with pytest.raises(KeyError, match="one function, `main`, got `f`"):
        model["f"]


def test_kernels_are_profiled(model: CudaExecutable) -> None:
    profile = model.profile(*inputs(5), calls=3)

    assert [k.name for k in profile.kernels] == ["matmul", "softmax", "softmax"]
    assert profile.durations_ns.shape == (3, 3)
    assert (profile.durations_ns > 0).all()
    assert (profile.totals_ns >= profile.durations_ns.sum(axis=1)).all()


def test_elements_that_no_kernel_reads_are_refused(
    model: CudaExecutable, stub: Stub
) -> None:
    swapped = np.zeros(3, np.dtype(np.float32).newbyteorder())
    with pytest.raises(TypeError, match="native byte order"):
        DeviceArray.of(swapped, device())
    with pytest.raises(ValueError, match="unknown element type"):
        DeviceArray.of(np.array(["a"], object), device())
    assert stub.used_bytes == 0

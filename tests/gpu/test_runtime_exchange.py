"""Zero-copy exchange of GPU arrays with other libraries."""

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm_ffi

from relax_mlir.runtime.cuda import dlpack
from relax_mlir.runtime.cuda.arrays import ArrayView, DeviceArray, device_view, overlap
from relax_mlir.runtime.cuda.devices import device
from tests.gpu.example import Dlpack, Interface, on_gpu
from tests.gpu.stub import Stub


class Old:
    """An array with old DLPack: ``__dlpack__`` ignores its options."""

    def __init__(self, array: DeviceArray) -> None:
        self._array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def __dlpack__(self, **options: object) -> Any:  # Any: a capsule
        return self._array.__dlpack__()


class Given:
    """An object that returns an existing capsule."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, stream: int | None = None) -> object:
        return self._capsule


def test_an_array_of_ours_crosses_dlpack_and_back(stub: Stub) -> None:
    (array,) = on_gpu(np.arange(6, dtype=np.int32).reshape(2, 3))

    view = device_view(Dlpack(array), device(0), 0)

    assert view is not None
    assert (view.address, view.dtype) == (array.address, "int32")
    assert (view.shape, view.strides) == ((2, 3), (3, 1))
    del array
    assert stub.used_bytes > 0  # the view keeps it
    del view
    assert stub.used_bytes == 0


def test_tvm_ffi_takes_an_array_and_gives_it_back(stub: Stub) -> None:
    (array,) = on_gpu(np.zeros((2, 3), np.float16))

    tensor = tvm_ffi.from_dlpack(array)
    address = array.address
    del array
    view = device_view(tensor, device(0), 0)

    assert (tuple(tensor.shape), str(tensor.dtype)) == ((2, 3), "float16")
    assert str(tensor.device) == "cuda:0"
    assert view is not None
    assert (view.address, view.dtype, view.shape) == (address, "float16", (2, 3))
    del tensor
    assert stub.used_bytes == 12
    del view
    assert stub.used_bytes == 0


def test_a_capsule_that_is_used_gives_back_its_memory(stub: Stub) -> None:
    (array,) = on_gpu(np.zeros(4, np.float32))

    capsule = array.__dlpack__(stream=1)
    tensor = tvm_ffi.from_dlpack(Given(capsule))
    del array, capsule
    held = stub.used_bytes
    del tensor

    assert (held, stub.used_bytes) == (16, 0)


def test_an_array_on_the_gpu_is_none_on_the_host(stub: Stub) -> None:
    (array,) = on_gpu(np.zeros(4, np.float32))

    with pytest.raises(BufferError, match=r"not in host memory\. Hint: `array\.numpy"):
        array.__dlpack__(max_version=(1, 0), dl_device=None, copy=None)
    with pytest.raises((BufferError, RuntimeError)):  # numpy 1 asks as others do
        np.from_dlpack(array)

    del array
    assert stub.used_bytes == 0


def test_a_capsule_that_is_dropped_for_an_error_gives_back_its_memory(
    stub: Stub,
) -> None:
    (array,) = on_gpu(np.zeros(4, np.float32))
    holders = sys.getrefcount(array)

    for _ in range(3):
        # numpy has taken the capsule, and drops it while its error is on the way.
        with pytest.raises((BufferError, RuntimeError), match="device"):
            np.from_dlpack(Old(array))

    assert sys.getrefcount(array) == holders
    del array
    assert stub.used_bytes == 0


def test_a_capsule_is_used_once(stub: Stub) -> None:
    (array,) = on_gpu(np.zeros(4, np.float32))
    capsule = array.__dlpack__()
    first = device_view(Given(capsule), device(0), 0)

    with pytest.raises(BufferError, match="expected a capsule of DLPack"):
        device_view(Given(capsule), device(0), 0)

    del array, capsule
    assert (stub.used_bytes, first is None) == (16, False)
    del first
    assert stub.used_bytes == 0


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 1, 3)])
def test_arrays_of_all_shapes_cross_dlpack(shape: tuple[int, ...], stub: Stub) -> None:
    (array,) = on_gpu(np.zeros(shape, np.float16))

    view = device_view(Dlpack(array), device(0), 0)

    assert view is not None
    assert (view.address, view.shape, view.dtype) == (array.address, shape, "float16")
    assert view.is_plain


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2])
def test_elements_of_less_than_a_byte_are_not_exported(dtype: type, stub: Stub) -> None:
    (array,) = on_gpu(np.zeros(4, dtype))

    with pytest.raises(BufferError, match=r"element type `u?int[24]` is not in DLPack"):
        array.__dlpack__()


@pytest.mark.parametrize(
    ("dtype", "expected"), [(ml_dtypes.bfloat16, "bfloat16"), (np.bool_, "bool")]
)
def test_elements_keep_their_types(dtype: type, expected: str, stub: Stub) -> None:
    (array,) = on_gpu(np.zeros(4, dtype))

    view = device_view(Dlpack(array), device(0), 0)

    assert view is not None
    assert view.dtype == expected


@pytest.mark.parametrize(("field", "value"), [("bits", 4), ("lanes", 4)])
def test_elements_that_are_no_whole_bytes_are_refused(
    field: str, value: int, stub: Stub
) -> None:
    (array,) = on_gpu(np.zeros(4, np.int8))
    capsule = array.__dlpack__()
    setattr(dlpack._managed(capsule).contents.tensor, field, value)

    with pytest.raises(TypeError, match="expected scalar elements of whole bytes"):
        device_view(Given(capsule), device(0), 0)

    del array, capsule
    assert stub.used_bytes == 0


def test_a_capsule_that_nobody_takes_gives_back_its_memory(stub: Stub) -> None:
    (array,) = on_gpu(np.zeros(4, np.float32))

    capsule = array.__dlpack__()
    del array
    held = stub.used_bytes
    del capsule

    assert (held, stub.used_bytes) == (16, 0)


@pytest.mark.parametrize(
    "asked", [{"copy": True, "stream": 1}, {"dl_device": (1, 0), "stream": 1}]
)
def test_an_export_that_needs_a_copy_is_refused(
    asked: dict[str, Any],
    stub: Stub,  # Any: options of many types
) -> None:
    (array,) = on_gpu(np.zeros(4, np.float32))

    with pytest.raises(BufferError, match="exported in place"):
        array.__dlpack__(**asked)


@pytest.mark.parametrize("stream", [0, -1, -7])
def test_streams_that_no_library_numbers_are_refused(stream: int, stub: Stub) -> None:
    (array,) = on_gpu(np.zeros(4, np.float32))

    if stream != -1:  # in DLPack: no synchronization
        with pytest.raises(ValueError, match=f"expected 1, .* got {stream}"):
            array.__dlpack__(stream=stream)
    with pytest.raises(ValueError, match=f"expected 1, .* got {stream}"):
        device_view(Interface(array, stream=stream), device(0), 0)


def test_whether_arrays_meet_is_told_in_bounded_time() -> None:
    # Whether some of the strides add up to a number is a hard question.
    rng = np.random.default_rng(0)
    strides = tuple(int(n) for n in rng.integers(1 << 40, 1 << 44, 30))
    a, b = (
        ArrayView(at, "int8", (2,) * len(strides), strides, 0, None)
        for at in (1 << 10, 9)
    )

    assert overlap(a, b)  # conservatively


def test_arrays_that_lie_between_each_other_do_not_meet() -> None:
    even, odd = (ArrayView(at, "int8", (8,), (2,), 0, None) for at in (32, 33))

    assert not overlap(even, odd)
    assert overlap(even, ArrayView(33, "int8", (8,), (1,), 0, None))

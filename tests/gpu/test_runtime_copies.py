"""Strided copies: correctness, and the number of driver calls."""

import numpy as np
import pytest

from relax_mlir.runtime.cuda.arrays import ArrayView, host_view
from relax_mlir.runtime.cuda.devices import device
from relax_mlir.runtime.cuda.memory import Memory
from relax_mlir.runtime.cuda.strided_copy import copy_in, copy_out
from tests.gpu.stub import Stub

_COPIES = ("cuMemcpy2DAsync_v2", "cuMemcpyDtoDAsync_v2")


def on_gpu(array: np.ndarray) -> ArrayView:
    """A numpy array as a device array: the memory of the stub is host memory."""
    strides = tuple(n // array.itemsize for n in array.strides)
    address = array.ctypes.data
    return ArrayView(address, array.dtype.name, array.shape, strides, 0, array)


def base(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


_CASES = {
    "rows": (base(5, 9)[:, 1:], 1),
    "transposed": (base(6, 40).T, 6),
    "transposed, the other way": (base(40, 6).T, 6),
    "of many dimensions": (base(3, 4, 5, 6)[:, ::2, :, 1:4], 3 * 2),
    "permuted": (base(3, 4, 50).transpose(2, 0, 1), 3 * 4),
    "backwards": (base(4, 6)[::-1, ::-1], 4 * 6),
    "broadcast": (np.broadcast_to(base(6), (3, 6)), 3),
    "dense, but not aligned": (base(70)[1:], 1),
    "one": (base(1, 1)[::-1], 1),
    "none": (base(0, 3), 0),
}


@pytest.mark.parametrize("name", _CASES)
def test_arrays_are_copied_in_few_calls(name: str, stub: Stub) -> None:
    array, most = _CASES[name]
    gpu = device(0)
    memory = Memory(gpu, max(1, array.nbytes))

    with gpu.current():
        copy_in(gpu, on_gpu(array), memory.address, 0, is_waited_for=True)
        calls = sum(map(stub.count, _COPIES))
        found = np.empty(array.shape, array.dtype)
        copy_out(gpu, memory.address, host_view(found), 0)

    np.testing.assert_array_equal(found, array)
    assert calls <= most


@pytest.mark.parametrize("name", ["rows", "transposed", "permuted", "backwards"])
def test_outputs_are_copied_to_where_they_lie(name: str, stub: Stub) -> None:
    array, most = _CASES[name]
    gpu = device(0)
    whole = np.full_like(np.asarray(array.base), -1)
    strides = array.strides
    offset = array.ctypes.data - array.base.ctypes.data
    target = np.ndarray(array.shape, array.dtype, whole.data, offset, strides)
    memory = Memory(gpu, array.nbytes)

    with gpu.current():
        kept = copy_in(gpu, host_view(array), memory.address, 0, is_waited_for=False)
        copy_out(gpu, memory.address, on_gpu(target), 0)
    stub.run(0)

    assert kept is not array
    np.testing.assert_array_equal(target, array)
    assert (whole == -1).sum() == whole.size - array.size
    assert sum(map(stub.count, _COPIES)) <= most


def test_many_short_rows_take_the_way_over_the_host(stub: Stub) -> None:
    source = base(300, 200)
    gpu = device(0)
    memory = Memory(gpu, source.nbytes)
    late = np.zeros_like(source)

    with gpu.current():  # what writes it is waited for
        copy = (late.ctypes.data, source.ctypes.data, source.nbytes, 0)
        gpu.driver.call("cuMemcpyDtoDAsync_v2", *copy, what="test")
        view = on_gpu(late.T)
        kept = copy_in(gpu, view, memory.address, 0, is_waited_for=False)
        found = np.empty(view.shape, source.dtype)
        copy_out(gpu, memory.address, host_view(found), 0)

    np.testing.assert_array_equal(found, source.T)
    assert kept is not None
    assert stub.count("cuMemcpy2DAsync_v2") == 0
    assert stub.count("cuMemcpyHtoDAsync_v2") == 1


def test_a_part_of_much_does_not_take_it_all_over_the_host(stub: Stub) -> None:
    array = base(70, 100, 80)[:, :70, ::40]
    gpu = device(0)
    memory = Memory(gpu, array.nbytes)

    with gpu.current():
        copy_in(gpu, on_gpu(array), memory.address, 0, is_waited_for=True)
    stub.run(0)

    assert stub.count("cuMemcpyDtoHAsync_v2") == 0
    assert stub.count("cuMemcpy2DAsync_v2") == 70


def test_rows_may_be_far_apart(stub: Stub) -> None:
    far = 3 << 30  # bytes, more than a copy of rows takes
    space = np.empty(far + 64, np.uint8)  # of which two pages are touched
    rows = np.ndarray((2, 8), np.float32, space.data, 0, (far, 4))
    rows[...] = base(2, 8)
    gpu = device(0)
    memory = Memory(gpu, rows.nbytes)

    with gpu.current():
        copy_in(gpu, on_gpu(rows), memory.address, 0, is_waited_for=True)
        found = np.empty((2, 8), np.float32)
        copy_out(gpu, memory.address, host_view(found), 0)
        copy_out(gpu, memory.address, on_gpu(rows[::-1]), 0)
    stub.run(0)

    np.testing.assert_array_equal(found, base(2, 8))
    np.testing.assert_array_equal(rows, base(2, 8)[::-1])

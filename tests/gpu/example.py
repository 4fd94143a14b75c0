"""An example model with several kernels, and its expected outputs."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.devices import device

_N = '#relax.shape<["n", "8"]>'
TEXT = f"""
func.func @main(%x: tensor<?x8xf32, {_N}>, %w: tensor<8x8xf32>) -> tensor<?x8xf32, {_N}> {{
  %y = "relax.matmul"(%x, %w) {{out_dtype = f32}}
    : (tensor<?x8xf32, {_N}>, tensor<8x8xf32>) -> tensor<?x8xf32, {_N}>
  %z = "relax.nn_softmax"(%y) {{axis = -1 : i64}}
    : (tensor<?x8xf32, {_N}>) -> tensor<?x8xf32, {_N}>
  %u = "relax.nn_softmax"(%z) {{axis = -1 : i64}}
    : (tensor<?x8xf32, {_N}>) -> tensor<?x8xf32, {_N}>
  return %u : tensor<?x8xf32, {_N}>
}}
"""


def expected(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    y = x.astype(np.float64) @ w
    for _ in range(2):
        y = np.exp(y)
        y /= y.sum(-1, keepdims=True)
    return y


def inputs(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    x, w = rng.standard_normal((n, 8)), rng.standard_normal((8, 8))
    return x.astype(np.float32), w.astype(np.float32)


def on_gpu(*arrays: np.ndarray) -> list[DeviceArray]:
    return [DeviceArray.of(array, device(0)) for array in arrays]


def shifted(array: np.ndarray) -> DeviceArray:
    """A copy that is not aligned to 16 bytes."""
    flat = np.concatenate([np.zeros(1, array.dtype), array.ravel()])
    base = DeviceArray.of(flat, device(0))
    made = DeviceArray(base.memory, array.shape, array.dtype.name)
    made.address = base.address + array.itemsize
    return made


class Interface:
    """``__cuda_array_interface__``, as of cupy and numba."""

    def __init__(self, array: DeviceArray, **changed: object) -> None:
        self._array = array
        self.__cuda_array_interface__ = {
            **array.__cuda_array_interface__,
            "stream": None,
            **changed,
        }

    @staticmethod
    def of(array: DeviceArray) -> "Interface":
        """The interface with the stream of one of our arrays."""
        return Interface(array, stream=array.__cuda_array_interface__["stream"])


class Dlpack:
    """DLPack, as of torch and jax; records the requested streams."""

    def __init__(self, array: DeviceArray) -> None:
        self._array = array
        self.streams: list[int | None] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def __dlpack__(self, stream: int | None = None) -> object:
        self.streams.append(stream)
        return self._array.__dlpack__(stream=stream)


class Stream:
    """A stream as of `torch.cuda.current_stream()`."""

    def __init__(self, handle: int) -> None:
        self.cuda_stream = handle


class ProtocolStream:
    """A stream with the protocol of cuda-bindings and cuda-core."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


def put(array: np.ndarray, target: DeviceArray, stream: int) -> None:
    """Enqueues a write to an array on a stream, as another library would."""
    what, gpu = "test", device(0)
    copy = (target.address, array.ctypes.data, array.nbytes, stream)
    with gpu.current():
        gpu.driver.call("cuMemcpyHtoDAsync_v2", *copy, what=what)


def read(address: int, like: np.ndarray, stream: int) -> np.ndarray:
    """Enqueues a read on a stream, as another library would; returns its result."""
    what, gpu = "test", device(0)
    found = np.full_like(like, -1)
    copy = (found.ctypes.data, address, found.nbytes, stream)
    with gpu.current():
        gpu.driver.call("cuMemcpyDtoHAsync_v2", *copy, what=what)
    return found


def run_where_little_is(poor: Path, code: str, *arguments: str) -> None:
    """Runs a script with only Python and numpy (fixture ``poor``)."""
    environment = {**os.environ, "PYTHONPATH": str(poor)}
    command = [sys.executable, "-c", code, *arguments]
    subprocess.run(command, check=True, env=environment)

"""Bindings of NVIDIA's cuDNN 9 backend API by ctypes, with checked calls.

The backend API describes tensors, operations, engines and execution plans by descriptors
with attributes, which are finalised before use.

Source: cuDNN 9 API reference, "cudnn_graph library"; the numbers are those of
``cudnn_graph.h`` of 9.28.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from ctypes import (
    POINTER,
    byref,
    c_bool,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int64,
    c_size_t,
    c_void_p,
)
from threading import Lock
from typing import Any, NamedTuple

from relax_mlir.errors import DeviceError
from relax_mlir.runtime.cuda import cublaslt
from relax_mlir.runtime.cuda.devices import Device
from relax_mlir.runtime.cuda.shared_libraries import (
    SharedLibrary,
    find_library,
    format_version,
)

__all__ = ["LIBRARIES", "Attribute", "Cudnn", "Descriptors", "library"]

# By major CUDA version that the driver has to support, the newest first.
LIBRARIES = {13: "libcudnn.so.9", 12: "libcudnn.so.9"}
_PACKAGES = {13: "nvidia-cudnn-cu13", 12: "nvidia-cudnn-cu12"}  # pip packages
_MAJOR = 9


class Attribute(NamedTuple):
    """An attribute of a descriptor.

    Attributes:
        number: a ``cudnnBackendAttributeName_t``.
        kind: type of its values, a ``cudnnBackendAttributeType_t``; type: in C.
    """

    number: int
    kind: int
    type: Any  # of ctypes


_HANDLE, _DATA_TYPE, _BOOLEAN = (0, c_void_p), (1, c_int), (2, c_bool)
_INT64, _POINTER = (3, c_int64), (6, c_void_p)
_FLOAT, _DOUBLE = (4, c_float), (5, c_double)
_CONVOLUTION_MODE, _HEURISTICS_MODE, _NOTE = (7, c_int), (8, c_int), (11, c_int)
_POINTWISE_MODE, _DESCRIPTOR = (14, c_int), (15, c_void_p)

# cudnnBackendDescriptorType_t, and the attributes of each.
POINTWISE = 0
POINTWISE_MODE = Attribute(0, *_POINTWISE_MODE)
POINTWISE_COMPUTE_TYPE = Attribute(1, *_DATA_TYPE)
CONVOLUTION = 1
CONVOLUTION_COMPUTE_TYPE = Attribute(100, *_DATA_TYPE)
CONVOLUTION_MODE = Attribute(101, *_CONVOLUTION_MODE)
DILATIONS = Attribute(102, *_INT64)
STRIDES = Attribute(103, *_INT64)
POST_PADS = Attribute(104, *_INT64)
PRE_PADS = Attribute(105, *_INT64)
RANK = Attribute(106, *_INT64)
ENGINE = 2
ENGINE_NOTES = Attribute(1303, *_NOTE)
ENGINE_CONFIG = 3
CONFIG_ENGINE = Attribute(300, *_DESCRIPTOR)
HEURISTICS = 4
HEURISTICS_MODE = Attribute(200, *_HEURISTICS_MODE)
HEURISTICS_GRAPH = Attribute(201, *_DESCRIPTOR)
HEURISTICS_RESULTS = Attribute(202, *_DESCRIPTOR)
PLAN = 5
PLAN_HANDLE = Attribute(400, *_HANDLE)
PLAN_CONFIG = Attribute(401, *_DESCRIPTOR)
PLAN_WORKSPACE_BYTES = Attribute(402, *_INT64)
CONVOLVE = 10
# Alpha and beta, by whether the compute type is f64. The library accepts the other type, but
# reinterprets its bits: the double 1 is the float 0.
CONVOLVE_ALPHA = {False: Attribute(700, *_FLOAT), True: Attribute(700, *_DOUBLE)}
CONVOLVE_BETA = {False: Attribute(701, *_FLOAT), True: Attribute(701, *_DOUBLE)}
CONVOLVE_DESCRIPTOR = Attribute(702, *_DESCRIPTOR)
CONVOLVE_WEIGHTS = Attribute(703, *_DESCRIPTOR)
CONVOLVE_IMAGE = Attribute(704, *_DESCRIPTOR)
CONVOLVE_RESULT = Attribute(705, *_DESCRIPTOR)
ELEMENTWISE = 13
ELEMENTWISE_DESCRIPTOR = Attribute(750, *_DESCRIPTOR)
ELEMENTWISE_X = Attribute(751, *_DESCRIPTOR)
ELEMENTWISE_B = Attribute(752, *_DESCRIPTOR)
ELEMENTWISE_Y = Attribute(753, *_DESCRIPTOR)
GRAPH = 15
GRAPH_HANDLE = Attribute(800, *_HANDLE)
GRAPH_OPERATIONS = Attribute(801, *_DESCRIPTOR)
VARIANT_PACK = 16
VARIANT_PACK_IDS = Attribute(1000, *_INT64)
VARIANT_PACK_POINTERS = Attribute(1001, *_POINTER)
VARIANT_PACK_WORKSPACE = Attribute(1003, *_POINTER)
TENSOR = 17
TENSOR_ALIGNMENT_BYTES = Attribute(900, *_INT64)
TENSOR_TYPE = Attribute(901, *_DATA_TYPE)
TENSOR_SIZES = Attribute(902, *_INT64)
TENSOR_STRIDES = Attribute(903, *_INT64)
TENSOR_ID = Attribute(906, *_INT64)
TENSOR_IS_VIRTUAL = Attribute(907, *_BOOLEAN)

# cudnnDataType_t.
TYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 9}
# cudnnConvolutionMode_t.
CROSS_CORRELATION = 1
# cudnnPointwiseMode_t.
ADD, RELU = 0, 100
# cudnnBackendHeurMode_t: mode A, by a model of the device; and the fallback.
HEURISTICS_MODES = (3, 2)
# cudnnBackendNumericalNote_t.
NOTE_COUNT = 10
TENSOR_CORE_NOTE = 0
# Reduced precision of inputs or accumulation, transforms (FFT, Winograd in three tile
# sizes), and nondeterministic accumulation.
INEXACT_NOTES = frozenset({1, 2, 3, 4, 5, 6, 7, 8})

_ATTRIBUTE = (c_void_p, c_int, c_int, c_int64)
_ARGUMENTS: dict[str, tuple[Any, ...]] = {  # Any: types of ctypes
    "cudnnCreate": (POINTER(c_void_p),),
    "cudnnSetStream": (c_void_p, c_void_p),
    "cudnnBackendCreateDescriptor": (c_int, POINTER(c_void_p)),
    "cudnnBackendDestroyDescriptor": (c_void_p,),
    "cudnnBackendSetAttribute": (*_ATTRIBUTE, c_void_p),
    "cudnnBackendGetAttribute": (*_ATTRIBUTE, POINTER(c_int64), c_void_p),
    "cudnnBackendFinalize": (c_void_p,),
    "cudnnBackendExecute": (c_void_p, c_void_p, c_void_p),
}
_TEXT_BYTES = 1024


class Cudnn(SharedLibrary):
    """The library.

    Attributes:
        version: of the library; cuda: major CUDA version that it is built for.
        lock: to hold while a handle's stream is set and used.

    Args:
        loaded: the library; path: that it was loaded from.

    Raises:
        DeviceError: the version of the library is not supported, or it lacks a function.
    """

    name, needs = "cuDNN", f"version {_MAJOR}"
    arguments, starts = _ARGUMENTS, "cudnnCreate"

    def __init__(self, loaded: ctypes.CDLL, path: str) -> None:
        super().__init__(loaded, path)
        number = self.function("cudnnGetVersion", (), c_size_t)()
        self.version = format_version(number)
        if number // 10000 != _MAJOR:
            raise DeviceError(f"{path}: expected cuDNN {_MAJOR}, got {self.version}")
        self.cuda = self.function("cudnnGetCudartVersion", (), c_size_t)() // 1000
        self.lock = Lock()
        self._text = self.function("cudnnGetErrorString", (c_int,), c_char_p)
        more = (c_char_p, c_size_t)
        self._last = self.function("cudnnGetLastErrorString", more, None)

    def describe(self, status: int) -> str:
        text = (self._text(status) or b"?").decode(errors="replace")
        message = ctypes.create_string_buffer(_TEXT_BYTES)
        self._last(message, _TEXT_BYTES)
        details = " ".join(message.value.decode(errors="replace").split())
        return f"{text} ({status})" + (f": {details}" if details else "")


class Descriptors:
    """A group of descriptors that are destroyed together.

    Args:
        what: description for errors.
    """

    def __init__(self, library: Cudnn, what: str) -> None:
        self._library, self._what = library, what
        self._resources = ExitStack()

    def _call(self, name: str, *arguments: Any) -> None:  # Any: C values
        self._library.call(name, *arguments, what=self._what)

    def empty(self, kind: int) -> int:
        """Create a descriptor for the library to fill in.

        Raises:
            DeviceError: it cannot be created.
        """
        descriptor = c_void_p()
        self._call("cudnnBackendCreateDescriptor", kind, byref(descriptor))
        destroy = self._call, "cudnnBackendDestroyDescriptor", descriptor
        self._resources.callback(*destroy)
        return descriptor.value or 0

    def make(self, kind: int, attributes: Mapping[Attribute, Sequence[Any]]) -> int:
        """Create and finalise a descriptor with attributes; Any: C values.

        Raises:
            DeviceError: the library rejects it.
        """
        descriptor = self.empty(kind)
        for (number, value_kind, type_), values in attributes.items():
            array = (type_ * len(values))(*values)
            arguments = descriptor, number, value_kind, len(values), array
            self._call("cudnnBackendSetAttribute", *arguments)
        self._call("cudnnBackendFinalize", descriptor)
        return descriptor

    def values(self, descriptor: int, attribute: Attribute, limit: int) -> list[Any]:
        """Values of an attribute of a finalised descriptor; Any: C values.

        Raises:
            DeviceError: the descriptor lacks the attribute.
        """
        array = (attribute.type * limit)()
        return list(array[: self._read(descriptor, attribute, limit, array)])

    def parts(self, descriptor: int, attribute: Attribute, kind: int) -> list[int]:
        """Descriptors that are values of an attribute, in the library's order.

        Raises:
            DeviceError: the descriptor lacks the attribute.
        """
        limit = self._read(descriptor, attribute, 0, None)
        array = (c_void_p * limit)(*(self.empty(kind) for _ in range(limit)))
        count = self._read(descriptor, attribute, limit, array)
        return [part or 0 for part in array[:count]]

    def _read(
        self, descriptor: int, attribute: Attribute, limit: int, array: Any
    ) -> int:
        """Read an attribute; returns the number of values; Any: an array of ctypes."""
        count, (number, kind, _) = c_int64(), attribute
        name = "cudnnBackendGetAttribute"
        self._call(name, descriptor, number, kind, limit, byref(count), array)
        return count.value

    def close(self) -> None:
        """Destroy the descriptors."""
        self._resources.close()


def library(device: Device) -> Cudnn:
    """Find the library: already loaded, of a pip package, or the system's.

    Skips a library that is built for a newer CUDA than the driver's, and one without the
    cuBLASLt of the same CUDA version, since it aborts the process when it needs that.

    Raises:
        DeviceError: no library can be loaded.
    """
    driver_major, _ = device.driver.version

    def load(path: str, flags: int) -> Cudnn:
        loaded = _load(path, flags)
        if loaded.cuda > driver_major:
            raise DeviceError(
                f"{path}: it is built for CUDA {loaded.cuda}, the driver is of CUDA "
                f"{driver_major}"
            )
        cublaslt.library(device, loaded.cuda)
        return loaded

    return find_library(Cudnn.name, LIBRARIES, _PACKAGES, driver_major, load)


@functools.cache
def _load(path: str, flags: int) -> Cudnn:
    return Cudnn(ctypes.CDLL(path, ctypes.DEFAULT_MODE | flags), path)

"""NVIDIA's cuDNN 9, called through ctypes: where it is found, and every call checked.

These are the functions of its graphs: descriptors with attributes, of tensors, operations,
engines and plans, which are final before they are used.

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
from relax_mlir.runtime.cuda.shared_libraries import SharedLibrary, dotted, find

__all__ = ["LIBRARIES", "Attribute", "Cudnn", "Descriptors", "library"]

# By the version of CUDA that each needs of the driver, the newest first.
LIBRARIES = {13: "libcudnn.so.9", 12: "libcudnn.so.9"}
_PACKAGES = {13: "nvidia-cudnn-cu13", 12: "nvidia-cudnn-cu12"}  # of pip
_MAJOR = 9


class Attribute(NamedTuple):
    """An attribute of a descriptor.

    Attributes:
        number: a ``cudnnBackendAttributeName_t``.
        kind: of its values, a ``cudnnBackendAttributeType_t``; type: of them in C.
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
POINTWISE_SUMS = Attribute(1, *_DATA_TYPE)
CONVOLUTION = 1
CONVOLUTION_SUMS = Attribute(100, *_DATA_TYPE)
CONVOLUTION_MODE = Attribute(101, *_CONVOLUTION_MODE)
DILATIONS = Attribute(102, *_INT64)
STEPS = Attribute(103, *_INT64)
PADS_BEHIND = Attribute(104, *_INT64)
PADS_BEFORE = Attribute(105, *_INT64)
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
# Alpha and beta, by whether sums are f64. Those of another type than the sums are taken, and
# read as numbers of that type: a 1 of 8 bytes is 0 for sums of 4.
CONVOLVE_ALPHA = {False: Attribute(700, *_FLOAT), True: Attribute(700, *_DOUBLE)}
CONVOLVE_BETA = {False: Attribute(701, *_FLOAT), True: Attribute(701, *_DOUBLE)}
CONVOLVE_HOW = Attribute(702, *_DESCRIPTOR)
CONVOLVE_WEIGHTS = Attribute(703, *_DESCRIPTOR)
CONVOLVE_PICTURE = Attribute(704, *_DESCRIPTOR)
CONVOLVE_RESULT = Attribute(705, *_DESCRIPTOR)
MAP = 13
MAP_HOW = Attribute(750, *_DESCRIPTOR)
MAP_OPERAND = Attribute(751, *_DESCRIPTOR)
MAP_ADDED = Attribute(752, *_DESCRIPTOR)
MAP_RESULT = Attribute(753, *_DESCRIPTOR)
GRAPH = 15
GRAPH_HANDLE = Attribute(800, *_HANDLE)
GRAPH_OPERATIONS = Attribute(801, *_DESCRIPTOR)
ADDRESSES = 16
ADDRESSES_NUMBERS = Attribute(1000, *_INT64)
ADDRESSES_POINTERS = Attribute(1001, *_POINTER)
ADDRESSES_WORKSPACE = Attribute(1003, *_POINTER)
TENSOR = 17
TENSOR_ALIGNMENT_BYTES = Attribute(900, *_INT64)
TENSOR_TYPE = Attribute(901, *_DATA_TYPE)
TENSOR_SIZES = Attribute(902, *_INT64)
TENSOR_STRIDES = Attribute(903, *_INT64)
TENSOR_NUMBER = Attribute(906, *_INT64)
TENSOR_IS_VIRTUAL = Attribute(907, *_BOOLEAN)

# cudnnDataType_t.
TYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 9}
# cudnnConvolutionMode_t.
CROSS_CORRELATION = 1
# cudnnPointwiseMode_t.
ADD, RELU = 0, 100
# cudnnBackendHeurMode_t: by a model of the device; and what computes most, if slowly.
MODES = (3, 2)
# cudnnBackendNumericalNote_t.
NOTES = 10  # how many there are
ON_TENSOR_CORES = 0
# Factors or sums of fewer bits, transforms (Fourier, Winograd, by three sizes), and sums that
# are added up in another order each time.
INEXACT = frozenset({1, 2, 3, 4, 5, 6, 7, 8})

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
        version: its own; cuda: the version of CUDA that it is built for, the first part.
        lock: is held by who sets a handle's stream, until the call is done that it is for.

    Args:
        loaded: the library; path: what it was loaded as.

    Raises:
        DeviceError: it is of another version, or lacks a function.
    """

    name, needs = "cuDNN", f"that of version {_MAJOR}"
    arguments, starts = _ARGUMENTS, "cudnnCreate"

    def __init__(self, loaded: ctypes.CDLL, path: str) -> None:
        super().__init__(loaded, path)
        number = self.function("cudnnGetVersion", (), c_size_t)()
        self.version = dotted(number)
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
        said = " ".join(message.value.decode(errors="replace").split())
        return f"{text} ({status})" + (f": {said}" if said else "")


class Descriptors:
    """Descriptors, given back together.

    Args:
        what: they tell, for errors.
    """

    def __init__(self, library: Cudnn, what: str) -> None:
        self._library, self._what = library, what
        self._made = ExitStack()

    def _call(self, name: str, *arguments: Any) -> None:  # Any: C values
        self._library.call(name, *arguments, what=self._what)

    def empty(self, kind: int) -> int:
        """One that the library fills.

        Raises:
            DeviceError: there is no memory for it.
        """
        made = c_void_p()
        self._call("cudnnBackendCreateDescriptor", kind, byref(made))
        self._made.callback(self._call, "cudnnBackendDestroyDescriptor", made)
        return made.value or 0

    def make(self, kind: int, attributes: Mapping[Attribute, Sequence[Any]]) -> int:
        """A final one with values of its attributes; Any: values of C.

        Raises:
            DeviceError: the library refuses it.
        """
        made = self.empty(kind)
        for (number, of, type_), values in attributes.items():
            given = (type_ * len(values))(*values)
            self._call("cudnnBackendSetAttribute", made, number, of, len(values), given)
        self._call("cudnnBackendFinalize", made)
        return made

    def values(self, made: int, attribute: Attribute, most: int) -> list[Any]:
        """Those of an attribute of a final descriptor; Any: values of C.

        Raises:
            DeviceError: it has none.
        """
        found = (attribute.type * most)()
        return list(found[: self._read(made, attribute, most, found)])

    def parts(self, made: int, attribute: Attribute, kind: int) -> list[int]:
        """The same, of descriptors of some kind, in the order of the library.

        Raises:
            DeviceError: it has none.
        """
        most = self._read(made, attribute, 0, None)
        given = (c_void_p * most)(*(self.empty(kind) for _ in range(most)))
        return [n or 0 for n in given[: self._read(made, attribute, most, given)]]

    def _read(self, made: int, attribute: Attribute, most: int, into: Any) -> int:
        """How many values were read; Any: an array of ctypes."""
        count, (number, kind, _) = c_int64(), attribute
        name = "cudnnBackendGetAttribute"
        self._call(name, made, number, kind, most, byref(count), into)
        return count.value

    def close(self) -> None:
        """Give all of them back."""
        self._made.close()


def library(device: Device) -> Cudnn:
    """The library: that which the process has, a package of pip, or the system's.

    One that is built for a newer CUDA than the driver's is passed over, and one without
    the cuBLASLt of the same CUDA: it ends the process where it wants that.

    Raises:
        DeviceError: there is none.
    """
    most, _ = device.driver.version

    def opened(path: str, flags: int) -> Cudnn:
        found = _opened(path, flags)
        if found.cuda > most:
            raise DeviceError(
                f"{path}: it is built for CUDA {found.cuda}, the driver is of CUDA {most}"
            )
        cublaslt.library(device, found.cuda)
        return found

    return find(Cudnn.name, LIBRARIES, _PACKAGES, most, opened)


@functools.cache
def _opened(path: str, flags: int) -> Cudnn:
    return Cudnn(ctypes.CDLL(path, ctypes.DEFAULT_MODE | flags), path)

"""Bindings of NVIDIA's driver, ``libcuda.so.1``, by ctypes, with checked calls.

Source: CUDA driver API, which defines the names, numbers and structures below.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_float,
    c_int,
    c_size_t,
    c_uint,
    c_uint64,
    c_void_p,
)
from typing import Any

from relax_mlir.errors import DeviceError, OutOfMemoryError

__all__ = [
    "LIBRARY",
    "Copy2D",
    "Driver",
    "LaunchAttribute",
    "LaunchConfig",
    "driver",
]

LIBRARY = "libcuda.so.1"

# Attributes of devices, and of functions.
COMPUTE_CAPABILITY = (75, 76)
MAX_PITCH_BYTES = 11
SHARED_BYTES_OPT_IN = 97
STATIC_SHARED_BYTES, MAX_DYNAMIC_SHARED_BYTES = 1, 8  # of functions

PROGRAMMATIC_STREAM_SERIALIZATION = 6  # launch attribute, for dependent launch

_DEPENDENT_LAUNCH = (12, 3)  # CUDA version that supports it in graphs
_OUT_OF_MEMORY = 2
_NOT_READY = 600
_LOG_BYTES = 8192
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6  # options of loading a module

_HANDLE = POINTER(c_void_p)
_ADDRESS = c_uint64

_ARGUMENTS: dict[str, tuple[Any, ...]] = {  # Any: types of ctypes
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDeviceTotalMem_v2": (POINTER(c_size_t), c_int),
    "cuDevicePrimaryCtxRetain": (_HANDLE, c_int),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (_HANDLE,),
    "cuCtxSynchronize": (),
    "cuModuleLoadDataEx": (_HANDLE, c_char_p, c_uint, POINTER(c_int), _HANDLE),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (_HANDLE, c_void_p, c_char_p),
    "cuFuncGetAttribute": (POINTER(c_int), c_int, c_void_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuMemAlloc_v2": (POINTER(_ADDRESS), c_size_t),
    "cuMemFree_v2": (_ADDRESS,),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuPointerGetAttribute": (POINTER(c_int), c_int, _ADDRESS),
    "cuMemcpyHtoDAsync_v2": (_ADDRESS, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, _ADDRESS, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (_ADDRESS, _ADDRESS, c_size_t, c_void_p),
    "cuMemcpy2DAsync_v2": (c_void_p, c_void_p),
    "cuMemsetD8Async": (_ADDRESS, ctypes.c_ubyte, c_size_t, c_void_p),
    "cuLaunchKernelEx": (c_void_p, c_void_p, c_void_p, c_void_p),
    "cuStreamCreate": (_HANDLE, c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamIsCapturing": (c_void_p, POINTER(c_int)),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, _HANDLE),
    "cuGraphInstantiateWithFlags": (_HANDLE, c_void_p, c_uint64),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphExecDestroy": (c_void_p,),
    "cuEventCreate": (_HANDLE, c_uint),
    "cuEventDestroy_v2": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventQuery": (c_void_p,),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuTensorMapEncodeTiled": (
        *(c_void_p, c_int, c_uint, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p),
        *[c_int] * 4,
    ),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
}


class Copy2D(ctypes.Structure):
    """``CUDA_MEMCPY2D``: a 2-D copy from device to device."""

    _fields_ = (
        ("src_x_bytes", c_size_t),
        ("src_y", c_size_t),
        ("src_memory", c_int),
        ("src_host", c_void_p),
        ("src_device", _ADDRESS),
        ("src_array", c_void_p),
        ("src_pitch_bytes", c_size_t),
        ("dst_x_bytes", c_size_t),
        ("dst_y", c_size_t),
        ("dst_memory", c_int),
        ("dst_host", c_void_p),
        ("dst_device", _ADDRESS),
        ("dst_array", c_void_p),
        ("dst_pitch_bytes", c_size_t),
        ("width_bytes", c_size_t),
        ("height", c_size_t),
    )


class LaunchAttribute(ctypes.Structure):
    """``CUlaunchAttribute`` with an integer value."""

    _fields_ = (
        ("id", c_int),
        ("pad", c_int),
        ("value", c_uint64 * 8),
    )


class LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig``: grid, block, stream and attributes of a launch."""

    _fields_ = (
        ("grid_x", c_uint),
        ("grid_y", c_uint),
        ("grid_z", c_uint),
        ("block_x", c_uint),
        ("block_y", c_uint),
        ("block_z", c_uint),
        ("shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", POINTER(LaunchAttribute)),
        ("attribute_count", c_uint),
    )


class Driver:
    """The driver, initialised.

    Args:
        path: of the library.

    Raises:
        DeviceError: the driver is missing or too old, or its initialisation fails.
    """

    def __init__(self, path: str) -> None:
        try:
            self.library = ctypes.CDLL(path)
        except OSError as error:
            raise DeviceError(
                f"NVIDIA's driver (`{path}`) cannot be loaded: {error}. Hint: models for "
                "`cuda` run on machines with an NVIDIA GPU and its driver; `relax-mlir "
                "doctor` lists the devices"
            ) from error
        self._functions: dict[str, Any] = {}  # Any: of ctypes
        for name, types in _ARGUMENTS.items():
            try:
                function = getattr(self.library, name)
            except AttributeError:
                raise DeviceError(
                    f"NVIDIA's driver (`{path}`) has no `{name}`: expected the driver of CUDA "
                    "12.0 or later"
                ) from None
            function.argtypes, function.restype = types, c_int
            self._functions[name] = function
        self.call("cuInit", 0, what="NVIDIA's driver cannot be initialised")

    def call(self, name: str, *arguments: Any, what: str) -> None:  # Any: C values
        """Call a function.

        Args:
            what: beginning of error messages.

        Raises:
            OutOfMemoryError: the device is out of memory.
            DeviceError: the call fails otherwise.
        """
        status = self._functions[name](*arguments)
        if status:
            raise self.error(status, f"{what}: {name}")

    def error(self, status: int, what: str) -> Exception:
        """The exception of a status, with the driver's name and description."""
        texts: list[str] = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            text = c_char_p()
            getattr(self.library, name)(status, byref(text))
            texts.append((text.value or b"?").decode(errors="replace"))
        kind = OutOfMemoryError if status == _OUT_OF_MEMORY else DeviceError
        return kind(f"{what}: {texts[0]} ({status}): {texts[1]}")

    def handle(self, name: str, *arguments: Any, what: str) -> int:  # Any: C values
        """Call a function; returns its first, output parameter.

        Raises:
            OutOfMemoryError, DeviceError: as :meth:`call`.
        """
        result = _ARGUMENTS[name][0]._type_()
        self.call(name, byref(result), *arguments, what=what)
        return result.value or 0

    def is_event_complete(self, event: int, what: str) -> bool:
        """Whether the work before an event is done.

        Raises:
            DeviceError: some of it failed.
        """
        status = self.library.cuEventQuery(event)
        if status not in (0, _NOT_READY):
            raise self.error(status, f"{what}: cuEventQuery")
        return status == 0

    def load_module(self, ptx: bytes, what: str) -> int:
        """Compile PTX for the current device.

        Raises:
            DeviceError: compilation fails; the message has the compiler's log.
        """
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        try:
            return self.handle("cuModuleLoadDataEx", ptx, 2, options, values, what=what)
        except DeviceError as error:
            text = log.value.decode(errors="replace").strip()
            raise DeviceError(f"{error}\n{text}" if text else str(error)) from None

    @functools.cached_property
    def plain_launch(self) -> Any:  # Any: of ctypes
        """``cuLaunchKernelEx`` without declared argument types, for prepared C values."""
        return self.library["cuLaunchKernelEx"]

    @property
    def has_dependent_launch(self) -> bool:
        """Whether programmatic dependent launch is supported, also in graphs."""
        return self.version >= _DEPENDENT_LAUNCH

    @property
    def version(self) -> tuple[int, int]:
        """CUDA version of the driver."""
        number = self.handle("cuDriverGetVersion", what="the driver has no version")
        return number // 1000, number % 1000 // 10

    def device_count(self) -> int:
        """Number of GPUs."""
        return self.handle("cuDeviceGetCount", what="GPUs cannot be counted")


@functools.cache
def _load(path: str) -> Driver:
    return Driver(path)


def driver() -> Driver:
    """The driver of this machine, loaded at the first call.

    Raises:
        DeviceError: there is no usable driver.
    """
    return _load(LIBRARY)

"""NVIDIA's cuBLASLt, called through ctypes: where it is found, and every call checked.

Source: cuBLAS, "Using the cuBLASLt API"; the numbers are those of ``cublasLt.h``,
``cublas_api.h`` and ``library_types.h``.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Iterator, Sequence
from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_int,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
)
from importlib import metadata
from typing import Any

from relax_mlir.errors import DeviceError
from relax_mlir.runtime.cuda.devices import Device

__all__ = ["LIBRARIES", "Algorithm", "CublasLt", "handle", "library"]

# By the version of CUDA that each needs of the driver, the newest first.
LIBRARIES = {13: "libcublasLt.so.13", 12: "libcublasLt.so.12"}
_PACKAGES = {13: "nvidia-cublas", 12: "nvidia-cublas-cu12"}  # of pip

# cudaDataType_t, and cublasComputeType_t.
TYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 14}
COMPUTE_F32, COMPUTE_F64, COMPUTE_TF32 = 68, 70, 77
# cublasLtMatmulDescAttributes_t.
TURN_A, TURN_B, EPILOGUE, BIAS_POINTER = 3, 4, 7, 8
# cublasLtMatrixLayoutAttribute_t.
BATCH_COUNT, BATCH_STEP = 5, 6
# cublasLtMatmulPreferenceAttributes_t.
WORKSPACE_BYTES, REDUCTION_SCHEMES = 1, 3
ALIGNMENTS = (5, 6, 7, 8)  # bytes, of A, B, C and D
# cublasLtReductionScheme_t: sums of parts of a sum are not rounded to the result's type.
REDUCED_IN_COMPUTE_TYPE = 2
# cublasLtEpilogue_t.
EPILOGUE_DEFAULT, EPILOGUE_RELU, EPILOGUE_BIAS = 1, 2, 4

_HANDLE = POINTER(c_void_p)
_ATTRIBUTE = (c_void_p, c_int, c_void_p, c_size_t)
_ARGUMENTS: dict[str, tuple[Any, ...]] = {  # Any: types of ctypes
    "cublasLtCreate": (_HANDLE,),
    "cublasLtMatmulDescCreate": (_HANDLE, c_int, c_int),
    "cublasLtMatmulDescDestroy": (c_void_p,),
    "cublasLtMatmulDescSetAttribute": _ATTRIBUTE,
    "cublasLtMatrixLayoutCreate": (_HANDLE, c_int, c_uint64, c_uint64, c_int64),
    "cublasLtMatrixLayoutDestroy": (c_void_p,),
    "cublasLtMatrixLayoutSetAttribute": _ATTRIBUTE,
    "cublasLtMatmulPreferenceCreate": (_HANDLE,),
    "cublasLtMatmulPreferenceDestroy": (c_void_p,),
    "cublasLtMatmulPreferenceSetAttribute": _ATTRIBUTE,
    "cublasLtMatmulAlgoGetHeuristic": (
        *[c_void_p] * 7,
        *(c_int, c_void_p, POINTER(c_int)),
    ),
    "cublasLtMatmul": (*[c_void_p] * 14, c_size_t, c_void_p),
}


class Algorithm(ctypes.Structure):
    """``cublasLtMatmulHeuristicResult_t``: how a product is computed."""

    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace_bytes", c_size_t),
        ("state", c_int),
        ("waves", ctypes.c_float),
        ("reserved", c_int * 4),
    )


class CublasLt:
    """The library.

    Args:
        loaded: the library; path: what it was loaded as.

    Raises:
        DeviceError: it lacks a function.
    """

    def __init__(self, loaded: ctypes.CDLL, path: str) -> None:
        self.path = path
        self._functions: dict[str, Any] = {}  # Any: of ctypes
        for name, types in _ARGUMENTS.items():
            self._functions[name] = self._function(loaded, name, types, c_int)
        get_version = self._function(loaded, "cublasLtGetVersion", (), c_size_t)
        self.version = _dotted(get_version())
        self._name = self._function(loaded, "cublasLtGetStatusName", (c_int,), c_char_p)

    def _function(
        self, loaded: ctypes.CDLL, name: str, arguments: Sequence[Any], result: Any
    ) -> Any:  # Any: of ctypes
        try:
            function = getattr(loaded, name)
        except AttributeError:
            raise DeviceError(
                f"cuBLASLt (`{self.path}`) has no `{name}`: expected that of CUDA 12.0 "
                "or later"
            ) from None
        function.argtypes, function.restype = arguments, result
        return function

    def call(self, name: str, *arguments: Any, what: str) -> None:  # Any: C values
        """Call a function.

        Args:
            what: is wrong if it fails: how the message begins.

        Raises:
            DeviceError: it fails.
        """
        status = self._functions[name](*arguments)
        if status:
            text = (self._name(status) or b"?").decode(errors="replace")
            raise DeviceError(f"{what}: {name}: {text} ({status})")

    def make(self, name: str, *arguments: Any, what: str) -> int:  # Any: C values
        """What a function puts where its first argument points.

        Raises:
            DeviceError: it fails.
        """
        made = c_void_p()
        self.call(name, byref(made), *arguments, what=what)
        return made.value or 0

    def set(self, kind: str, made: int, attribute: int, value: Any, what: str) -> None:
        """Set an attribute of a descriptor to a value of ctypes.

        Args:
            kind: of the descriptor, such as ``MatmulDesc``.
        """
        size_bytes = ctypes.sizeof(value)
        name = f"cublasLt{kind}SetAttribute"
        self.call(name, made, attribute, byref(value), size_bytes, what=what)


def _dotted(version: int) -> str:
    """``13.1.0`` of 130100."""
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def library(device: Device) -> CublasLt:
    """The library: that which the process has, a package of pip, or the system's.

    One that is newer than the driver is passed over.

    Raises:
        DeviceError: there is none.
    """
    most, _ = device.driver.version
    majors = [major for major in LIBRARIES if major <= most]
    problem = f"the driver is of CUDA {most}"
    for place in _places(majors):
        found = _attempt(*place)
        if isinstance(found, CublasLt):
            return found
        problem = found
    packages = " or ".join(f"`pip install {p}`" for p in _PACKAGES.values())
    raise DeviceError(
        "cuBLASLt, which models call that were compiled so, cannot be loaded: "
        f'{problem}. Hint: {packages}, or compile the model with `library="never"`'
    )


def _places(majors: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Where the library may be, and flags of the loader, in the order to look."""
    names = [LIBRARIES[major] for major in majors]
    yield from ((name, os.RTLD_NOLOAD) for name in names)
    for major in majors:
        try:
            files = metadata.files(_PACKAGES[major]) or ()
        except metadata.PackageNotFoundError:
            continue
        name = os.path.basename(LIBRARIES[major])
        yield from ((str(f.locate()), 0) for f in files if f.name == name)
    yield from ((name, 0) for name in names)


def _attempt(path: str, flags: int) -> CublasLt | str:
    """The library, or why it cannot be loaded."""
    try:
        return _opened(path, flags)
    except OSError as error:
        return str(error)


@functools.cache
def _opened(path: str, flags: int) -> CublasLt:
    return CublasLt(ctypes.CDLL(path, ctypes.DEFAULT_MODE | flags), path)


@functools.cache
def handle(library: CublasLt, device: Device) -> int:
    """The library's handle for a device, which is current; the process keeps it.

    Raises:
        DeviceError: the library does not start.
    """
    what = f"cuBLASLt (`{library.path}`) does not start on GPU {device.ordinal}"
    return library.make("cublasLtCreate", what=what)

"""Bindings of NVIDIA's cuBLASLt by ctypes, with checked calls.

Source: cuBLAS, "Using the cuBLASLt API"; the numbers are those of ``cublasLt.h``,
``cublas_api.h`` and ``library_types.h``.
"""

from __future__ import annotations

import ctypes
import functools
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
from typing import Any

from relax_mlir.runtime.cuda.devices import Device
from relax_mlir.runtime.cuda.shared_libraries import (
    SharedLibrary,
    find_library,
    format_version,
)

__all__ = ["LIBRARIES", "Algorithm", "CublasLt", "library"]

# By major CUDA version that the driver has to support, the newest first.
LIBRARIES = {13: "libcublasLt.so.13", 12: "libcublasLt.so.12"}
_PACKAGES = {13: "nvidia-cublas", 12: "nvidia-cublas-cu12"}  # pip packages

# cudaDataType_t, and cublasComputeType_t.
TYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 14}
COMPUTE_F32, COMPUTE_F64, COMPUTE_TF32 = 68, 70, 77
# cublasLtMatmulDescAttributes_t.
TRANSPOSE_A, TRANSPOSE_B, EPILOGUE, BIAS_POINTER = 3, 4, 7, 8
# cublasLtMatrixLayoutAttribute_t.
BATCH_COUNT, BATCH_STEP = 5, 6
# cublasLtMatmulPreferenceAttributes_t.
WORKSPACE_BYTES, REDUCTION_SCHEMES = 1, 3
ALIGNMENTS = (5, 6, 7, 8)  # bytes, of A, B, C and D
# cublasLtReductionScheme_t: split-K partial sums stay in the compute type.
REDUCED_IN_COMPUTE_TYPE = 2
# cublasLtEpilogue_t.
EPILOGUE_RELU, EPILOGUE_BIAS = 2, 4

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
    """``cublasLtMatmulHeuristicResult_t``: an algorithm and its workspace."""

    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace_bytes", c_size_t),
        ("state", c_int),
        ("waves", ctypes.c_float),
        ("reserved", c_int * 4),
    )


class CublasLt(SharedLibrary):
    """The library.

    Args:
        loaded: the library; path: that it was loaded from.

    Raises:
        DeviceError: the library lacks a function.
    """

    name, needs = "cuBLASLt", "the version of CUDA 12.0 or later"
    arguments, starts = _ARGUMENTS, "cublasLtCreate"

    def __init__(self, loaded: ctypes.CDLL, path: str) -> None:
        super().__init__(loaded, path)
        get_version = self.function("cublasLtGetVersion", (), c_size_t)
        self.version = format_version(get_version())
        self._text = self.function("cublasLtGetStatusName", (c_int,), c_char_p)

    def describe(self, status: int) -> str:
        text = (self._text(status) or b"?").decode(errors="replace")
        return f"{text} ({status})"

    def set(
        self, kind: str, descriptor: int, attribute: int, value: Any, what: str
    ) -> None:
        """Set an attribute of a descriptor to a ctypes value.

        Args:
            kind: of the descriptor, such as ``MatmulDesc``.
        """
        size_bytes = ctypes.sizeof(value)
        name = f"cublasLt{kind}SetAttribute"
        self.call(name, descriptor, attribute, byref(value), size_bytes, what=what)


def library(device: Device, major: int | None = None) -> CublasLt:
    """Find the library: already loaded, of a pip package, or the system's.

    Versions newer than the driver are skipped.

    Args:
        major: required major CUDA version; any by default.

    Raises:
        DeviceError: no library can be loaded.
    """
    driver_major, _ = device.driver.version
    names = {n: name for n, name in LIBRARIES.items() if major in (None, n)}
    return find_library(CublasLt.name, names, _PACKAGES, driver_major, _load)


@functools.cache
def _load(path: str, flags: int) -> CublasLt:
    return CublasLt(ctypes.CDLL(path, ctypes.DEFAULT_MODE | flags), path)

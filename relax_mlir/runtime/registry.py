"""Global function registry, through which compiled code calls functions by name.

Shares tvm-ffi's registry with all other users of tvm-ffi.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from relax_mlir.errors import ArgumentValueError, RunError, near_misses, short_repr
from relax_mlir.runtime.cpu import array_of, load_library, tensor_of
from relax_mlir.runtime.ndarray import NDArray, as_numpy, is_on_gpu, shared
from relax_mlir.support.ffi import tvm_ffi
from relax_mlir.support.hooks import load_function

__all__ = [
    "from_ffi",
    "function_names",
    "get_global_func",
    "python_caller",
    "register_func",
    "to_ffi",
    "unknown_function",
    "with_near_misses",
]

# Each ctypes library has its own function class; this is their base.
_CFunction = type(ctypes.CDLL(None).abs).__base__ or object


_NATIVE = "relax_mlir."  # name prefix of functions of the native runtime

# Functions registered from Python, for direct calls without tvm-ffi.
_PYTHON: dict[str, tuple[tvm_ffi.Function, Callable[..., Any]]] = {}


def function_names() -> list[str]:
    """Names of all registered functions."""
    return sorted(map(str, tvm_ffi.registry.list_global_func_names()))


def unknown_function(name: str) -> str:
    """Error text for an unregistered name."""
    return (
        f"`{name}`: no such function: expected one that was registered by "
        f"`register_func` or by a loaded library.{near_misses(name, function_names())}"
    )


_UNKNOWN = re.compile(r"`([^`]*)`: no such function")


def with_near_misses(error: ValueError) -> ValueError:
    """The error of a call; that of an unregistered function lists similar names."""
    match = _UNKNOWN.search(str(error))
    return error if match is None else ValueError(unknown_function(match[1]))


def register_func(
    func_name: Any, f: Any = None, override: bool = False
) -> Callable[..., Any]:
    """Register a function for calls from compiled code; also a decorator.

    Args:
        func_name: the name; or the function itself, registered by its ``__name__``.
        f: a Python callable of :class:`NDArray` (destinations last); a tvm-ffi function; or
            a C function of a ``ctypes`` library with parameters ``DLTensor*``, which
            returns 0 on success.
        override: whether to replace an existing function.

    Raises:
        ValueError: the name is registered already, and ``override`` is not set.
    """
    if callable(func_name):
        name = getattr(func_name, "__name__", None)
        if not isinstance(name, str):
            raise TypeError(
                f"register_func: expected a function with a name, got {func_name}"
            )
        return register_func(name, func_name, override)

    if not isinstance(func_name, str):
        kind = type(func_name).__name__
        raise TypeError(f"register_func: `func_name`: expected a string, got {kind}")

    def register(function: Any) -> Any:
        if not callable(function):
            raise TypeError(f"register_func: `f`: expected a function, got {function}")
        if not override and func_name in function_names():
            raise ValueError(
                f"function `{func_name}` is registered already: use `override=True` to "
                "replace it"
            )
        tvm_ffi.register_global_func(func_name, _wrapped(function), override=True)
        registered = tvm_ffi.get_global_func(func_name)
        is_native = str(func_name).startswith(_NATIVE)
        _PYTHON[func_name] = (
            registered,
            python_caller(function, is_device_kept=not is_native),
        )
        return function

    return register if f is None else register(f)


def _wrapped(function: Any) -> Callable[..., Any]:
    if isinstance(function, tvm_ffi.Function):
        return function
    if isinstance(function, _CFunction):
        return _c_function(function)

    def call(*args: Any) -> Any:
        return to_ffi(function(*map(from_ffi, args)))

    return call


def from_ffi(value: Any) -> Any:
    """Convert a value of tvm-ffi for Python: tensors become :class:`NDArray`."""
    if isinstance(value, tvm_ffi.Tensor):
        return shared(value if is_on_gpu(value) else array_of(value))
    return value


def to_ffi(value: Any, *, is_device_kept: bool = False) -> Any:
    """Convert a Python value for tvm-ffi: arrays become tensors that share memory.

    Args:
        is_device_kept: whether arrays on a GPU become tensors there, which a function can
            write to; else they are copied to the host, read-only.
    """
    if is_device_kept and isinstance(value, NDArray) and is_on_gpu(value):
        return tvm_ffi.from_dlpack(value)
    if isinstance(value, (NDArray, np.ndarray)):
        array = as_numpy(value)
        # numpy cannot export ml_dtypes and read-only memory.
        is_special = array.dtype.isbuiltin != 1 or not array.flags.writeable
        return tensor_of(array) if is_special else tvm_ffi.from_dlpack(value)
    if isinstance(value, (tuple, list)):
        return type(value)(to_ffi(v, is_device_kept=is_device_kept) for v in value)
    if isinstance(value, dict):
        return {
            key: to_ffi(part, is_device_kept=is_device_kept)
            for key, part in value.items()
        }
    if callable(value):
        return _wrapped(value)
    return value


def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """The registered function of a name, for calls from Python.

    Functions registered from Python are called directly, with arbitrary objects. Other
    functions take and return :class:`NDArray` for tensors, on their devices; functions of
    the native runtime get host copies of arrays on a GPU.

    Args:
        name: of the function.
        allow_missing: whether to return None for an unregistered name.

    Raises:
        ValueError: the name is not registered.
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ArgumentValueError(
            f"get_global_func: `name`: expected text in UTF-8, got {short_repr(name)}"
        ) from None
    load_function(name)
    function = tvm_ffi.get_global_func(name, allow_missing=True)
    if function is None and name.startswith(_NATIVE):
        load_library()
        function = tvm_ffi.get_global_func(name, allow_missing=True)
    if function is None:
        if allow_missing:
            return None
        raise ValueError(unknown_function(name))
    python = _PYTHON.get(name)
    if python is not None and python[0].same_as(function):
        return python[1]
    return python_caller(function, is_device_kept=not name.startswith(_NATIVE))


def python_caller(function: Any, *, is_device_kept: bool = True) -> Callable[..., Any]:
    """Adapter for calls of tvm-ffi and C functions from Python.

    Args:
        is_device_kept: whether tvm-ffi functions get arrays on a GPU unchanged.
    """
    if isinstance(function, _CFunction):
        function = _c_function(function)
    if not isinstance(function, tvm_ffi.Function):
        return function

    def call(*args: Any) -> Any:
        converted = [to_ffi(arg, is_device_kept=is_device_kept) for arg in args]
        try:
            return from_ffi(function(*converted))
        except RuntimeError as error:
            if "std::bad_alloc" in str(error):  # tvm-ffi has no class for it
                raise MemoryError("out of memory") from error
            raise

    return call


class _DLTensor(ctypes.Structure):
    """DLPack's ``DLTensor``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}  # DLDataTypeCode by numpy kind


def _dl_tensor(array: np.ndarray) -> _DLTensor:
    """The DLPack struct of an array, valid while the array lives."""
    sizes = ctypes.c_int64 * array.ndim
    strides = [step // array.itemsize for step in array.strides]
    return _DLTensor(
        array.ctypes.data,
        1,
        0,
        array.ndim,
        _CODES.get(array.dtype.kind, 4),  # 4: bfloat16
        array.itemsize * 8,
        1,
        sizes(*array.shape),
        sizes(*strides),
        0,
    )


def _c_function(function: Any) -> Callable[..., None]:
    function.restype = ctypes.c_int

    def call(*args: Any) -> None:
        tensors = [_dl_tensor(np.from_dlpack(a)) for a in args]
        code = function(*map(ctypes.byref, tensors))
        if code != 0:
            raise RunError(f"C function returned {code}: expected 0")

    return call

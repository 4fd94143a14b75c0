"""Functions that compiled code calls by name.

They live in tvm-ffi's registry: what is registered here is seen by everything that uses
it, and the other way round.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import tvm_ffi

from relax_mlir.errors import ArgumentValueError, RunError, near_misses, shown
from relax_mlir.runtime.cpu import array_of, load_library, tensor_of
from relax_mlir.runtime.ndarray import NDArray, as_numpy, is_on_gpu, shared

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

# Each library has a class of functions of its own; this is their base.
_CFunction = type(ctypes.CDLL(None).abs).__base__ or object


# Modules that register functions of ours; loaded when the first of them is called.
_MODULES = {
    "relax.ext.cublas": "relax_mlir.relax.backend.cuda.cublas",
    "relax.ext.cudnn": "relax_mlir.relax.backend.cuda.cudnn",
    "relax_mlir.run_node": "relax_mlir.stages",
    "relax_mlir.run_stage": "relax_mlir.stages",
}

_NATIVE = "relax_mlir."  # how the names of functions of the native runtime begin

# What was registered here, to be called without crossing tvm-ffi.
_PYTHON: dict[str, tuple[tvm_ffi.Function, Callable[..., Any]]] = {}


def function_names() -> list[str]:
    """All registered functions."""
    return sorted(map(str, tvm_ffi.registry.list_global_func_names()))


def unknown_function(name: str) -> str:
    """What is wrong with a name under which nothing is registered."""
    return (
        f"`{name}`: no such function: expected one that was registered by "
        f"`register_func` or by a loaded library.{near_misses(name, function_names())}"
    )


_UNKNOWN = re.compile(r"`([^`]*)`: no such function")


def with_near_misses(error: ValueError) -> ValueError:
    """The error of a call; of a function that nobody registered, with names like it."""
    found = _UNKNOWN.search(str(error))
    return error if found is None else ValueError(unknown_function(found[1]))


def register_func(
    func_name: Any, f: Any = None, override: bool = False
) -> Callable[..., Any]:
    """Register a function that compiled code can call; also a decorator.

    Args:
        func_name: its name; or the function itself, whose ``__name__`` it then is.
        f: a Python callable, which gets :class:`NDArray` for tensors (destinations
            last); a tvm-ffi function; or a C function of a ``ctypes`` library, which
            gets a pointer to a ``DLTensor`` for each and returns 0 if all went well.
        override: whether it may take the place of another.

    Raises:
        ValueError: the name is taken, and ``override`` is not set.
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
        made = tvm_ffi.get_global_func(func_name)
        is_native = str(func_name).startswith(_NATIVE)
        _PYTHON[func_name] = (
            made,
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
    """A value that crosses tvm-ffi as Python functions get it."""
    if isinstance(value, tvm_ffi.Tensor):
        return shared(value if is_on_gpu(value) else array_of(value))
    return value


def to_ffi(value: Any, *, is_device_kept: bool = False) -> Any:
    """A Python value as tvm-ffi takes it: arrays as tensors, on the same memory.

    Args:
        is_device_kept: whether arrays on a GPU become tensors there, which a function can
            write to; else they are copied to the host, to be read.
    """
    if is_device_kept and isinstance(value, NDArray) and is_on_gpu(value):
        return tvm_ffi.from_dlpack(value)
    if isinstance(value, (NDArray, np.ndarray)):
        array = as_numpy(value)
        # What numpy does not export: types of ml_dtypes, and memory to read only.
        is_ours = array.dtype.isbuiltin != 1 or not array.flags.writeable
        return tensor_of(array) if is_ours else tvm_ffi.from_dlpack(value)
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
    """The function registered under a name, for calls from Python.

    What was registered from Python is called as it is: any object goes in and comes out.
    Other functions take and give :class:`NDArray` for tensors, where these are; those of
    the native runtime get copies of what is on a GPU.

    Args:
        name: its name.
        allow_missing: whether to return None if there is none.

    Raises:
        ValueError: there is none.
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ArgumentValueError(
            f"get_global_func: `name`: expected text in UTF-8, got {shown(name)}"
        ) from None
    if name in _MODULES:
        import_module(_MODULES[name])
    found = tvm_ffi.get_global_func(name, allow_missing=True)
    if found is None and name.startswith(_NATIVE):
        load_library()
        found = tvm_ffi.get_global_func(name, allow_missing=True)
    if found is None:
        if allow_missing:
            return None
        raise ValueError(unknown_function(name))
    ours = _PYTHON.get(name)
    if ours is not None and ours[0].same_as(found):
        return ours[1]
    return python_caller(found, is_device_kept=not name.startswith(_NATIVE))


def python_caller(function: Any, *, is_device_kept: bool = True) -> Callable[..., Any]:
    """A function for calls from Python: of tvm-ffi, of C, or of Python as it is.

    Args:
        is_device_kept: whether one of tvm-ffi gets arrays on a GPU there.
    """
    if isinstance(function, _CFunction):
        function = _c_function(function)
    if not isinstance(function, tvm_ffi.Function):
        return function

    def call(*args: Any) -> Any:
        given = [to_ffi(arg, is_device_kept=is_device_kept) for arg in args]
        try:
            return from_ffi(function(*given))
        except RuntimeError as error:
            if "std::bad_alloc" in str(error):  # tvm-ffi knows no other name for it
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


_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}  # DLPack's kinds of elements


def _described(array: np.ndarray) -> _DLTensor:
    """The C struct that describes an array; it lives as long as the array."""
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
        tensors = [_described(np.from_dlpack(a)) for a in args]
        code = function(*map(ctypes.byref, tensors))
        if code != 0:
            raise RunError(f"C function returned {code}: expected 0")

    return call

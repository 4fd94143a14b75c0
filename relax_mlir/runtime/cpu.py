"""The native runtime: loading it, and wrapping compiled programs into functions.

The library (``native/``, C++17) checks and prepares arguments, allocates outputs and
arenas, runs kernels on a pool of threads, and holds the functions that compiled code
calls by name, such as ``relax_mlir.topk``.
"""

from __future__ import annotations

import ctypes
import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import tvm_ffi

from relax_mlir.errors import IndexOutOfRangeError
from relax_mlir.runtime.process_exit import close_native_calls_at_exit
from relax_mlir.runtime.signature import (
    AT_LEAST,
    DERIVED,
    EQUAL,
    STATIC,
    SYMBOL,
    Size,
)

__all__ = [
    "AT_LEAST",
    "DERIVED",
    "EQUAL",
    "STATIC",
    "SYMBOL",
    "Parameter",
    "Size",
    "array_of",
    "check_threads",
    "cpu_count",
    "get_max_threads",
    "library_path",
    "load_library",
    "make_executable",
    "request_tiles",
    "set_max_threads",
    "tensor_of",
]

_THREADS_LIMIT = 1024

Parameter = tuple[str, str, Sequence[int]]
"""Name, element type (``float32``, ``bfloat16``, ``bool``, ...) and the dimensions: a
kind and a value for each, one after the other."""


def library_path() -> str:
    """Where the native runtime is, for engines that load it themselves."""
    return str(Path(__file__).with_name("librelax_mlir_rt.so"))


@functools.cache
def load_library() -> ctypes.CDLL:
    """The native runtime, loaded so that compiled code sees its symbols.

    Raises:
        ImportError: It has not been built, or does not fit this tvm-ffi.
    """
    path = Path(__file__).with_name("librelax_mlir_rt.so")
    if not path.exists():
        raise ImportError(
            f"`{path.name}`: the native runtime is not built. Run `pip install -e .` in "
            "the source tree, or install a wheel of relax_mlir.",
            name=__name__,
        )
    tvm_ffi.register_error(IndexOutOfRangeError)  # which it throws by this name
    try:
        library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise ImportError(
            f"`{path.name}`: {error}. Build it again with `pip install -e .`.",
            name=__name__,
        ) from error
    close_native_calls_at_exit(
        library.relax_rt2_close_calls, library.relax_rt2_other_calls
    )
    return library


def cpu_count() -> int:
    """The processors that this process may use: its affinity and its cgroup's quota."""
    return load_library().relax_rt2_cpu_count()


def request_tiles() -> bool:
    """Ask the system for leave to use the registers of AMX; whether it is given.

    It is given to the process for good, so that asking again changes nothing.
    """
    return bool(load_library().relax_rt2_request_tiles())


def check_threads(count: int, what: str = "threads") -> int:
    """A number of threads.

    Raises:
        TypeError: it is no integer.
        ValueError: it is too small, or too large.
    """
    number = operator.index(count)
    if not 1 <= number <= _THREADS_LIMIT:
        raise ValueError(f"{what}: expected 1 to {_THREADS_LIMIT}, got {number}")
    return number


def get_max_threads() -> int:
    """How many threads this package keeps busy at once in this process, all calls together.

    Unless it was set, the processors that the process may use: its affinity and its cgroup's
    quota, as they were when it was first asked for.
    """
    return load_library().relax_rt2_max_threads()


def set_max_threads(count: int | None) -> None:
    """Set how many threads this package keeps busy at once, all calls together.

    Whoever calls a model works on it, however many callers there are; other threads join
    only as far as ``count`` allows. The ``threads`` of a model limit one call, this limits
    the process; kernels that are running finish as they began.

    Args:
        count: may be more than there are processors; None for as many as there are now.

    Raises:
        ValueError: it is not a number of threads.
    """
    chosen = 0 if count is None else check_threads(count, "max_threads")
    load_library().relax_rt2_set_max_threads(chosen)


def make_executable(
    main: int,
    shapes: int,
    name: str,
    inputs: Sequence[Parameter],
    outputs: Sequence[Parameter],
    sizes: Sequence[str],
    binders: Sequence[int],
    checks: Sequence[int],
    arena: Size,
    constants: Sequence[int],
    threads: int,
    keep_alive: object,
    profile: int = 0,
) -> tvm_ffi.Function:
    """Wrap a compiled program into a function of tensors.

    The function takes the inputs and returns an array of new outputs, or takes the
    inputs and the outputs, and returns the outputs. It releases the GIL, and threads may
    call it at once. It raises ``TypeError`` (a count, a type, a device) and
    ``ValueError`` (a rank, a size) that name the argument and the dimension.

    Inputs of any strides and alignment are taken, by a copy where the program cannot
    read them; so are outputs, and outputs that share memory with inputs.

    Args:
        main: Address of ``int32_t main(void** buffers, const int64_t* sizes, void*
            arena, void* context)``; the buffers are the inputs, the outputs and the
            constants. A nonzero result means that it raised an error in tvm-ffi.
        shapes: Address of ``void shapes(int64_t* sizes)``, which fills the sizes after
            the symbols; 0 if there is none.
        name: Of the program, for errors.
        inputs: Parameters.
        outputs: Parameters.
        sizes: Names of the symbols, then of the derived sizes.
        binders: For each symbol four numbers: the input and the dimension that is
            factor * symbol + offset, the factor and the offset.
        checks: For each relation that must hold five numbers: kind and value of a
            size, ``EQUAL`` or ``AT_LEAST``, kind and value of another size.
        arena: The size of the program's scratch memory, in bytes.
        constants: Addresses, in the order of the buffers.
        threads: How many may work on one call, the caller included, as far as
            :func:`get_max_threads` and other callers allow.
        keep_alive: What owns the code and the constants; lives as long as the function.
        profile: Address of a ``relax_rt2_profile`` of :mod:`relax_mlir.runtime.profile`,
            in which a call notes how long its kernels took; 0 if nobody wants to know. A
            function with one is called by one thread at a time.

    Raises:
        ValueError: A size is of no known kind, or a symbol is bound by no input.
    """
    function = _global("make_executable")(
        main,
        shapes,
        name,
        inputs,
        outputs,
        sizes,
        binders,
        checks,
        arena,
        constants,
        threads,
        _Owner(keep_alive),
        profile,
    )
    function.release_gil = True  # the default, but for an environment variable
    return function


def tensor_of(array: np.ndarray) -> tvm_ffi.Tensor:
    """A tensor on the memory of an array, which it keeps alive.

    Takes what DLPack refuses: read-only arrays, and the types of ml_dtypes. The memory
    is shared, except of views with a stride that is not a multiple of the element size.

    Raises:
        TypeError: The elements are not in the byte order of this machine.
        ValueError: The elements are not numbers.
    """
    if not array.dtype.isnative:
        order = f"expected elements in native byte order, got `{array.dtype.str}`"
        raise TypeError(f"{order}. Hint: `array.astype({array.dtype.name!r})`.")
    if array.dtype.kind not in "biufcV":
        raise ValueError(f"expected an array of numbers, got one of {array.dtype.name}")
    item = array.dtype.itemsize
    if any(stride % item for stride in array.strides):
        array = array.copy()
    strides = tuple(stride // item for stride in array.strides)
    return _tensor(array.ctypes.data, array.shape, strides, array.dtype.name, array)


def array_of(tensor: Any) -> np.ndarray:  # Any: a tensor of tvm-ffi, or with DLPack
    """An array on the memory of a CPU tensor, which it keeps alive.

    A call with tensors of another library gives such tensors; they are taken as well.
    """
    if not isinstance(tensor, tvm_ffi.Tensor):
        tensor = tvm_ffi.from_dlpack(tensor)
    try:
        narrow = getattr(ml_dtypes, str(tensor.dtype), None)
    except ValueError:  # tvm-ffi 0.1.15 has no name for complex types
        narrow = None
    if narrow is None:
        return np.from_dlpack(tensor)
    dtype = np.dtype(narrow)
    # numpy imports no such type: let it see the bits.
    bits = f"uint{8 * dtype.itemsize}"
    address, shape, strides = tensor.data_ptr(), tensor.shape, tensor.strides
    return np.from_dlpack(_tensor(address, shape, strides, bits, tensor)).view(dtype)


def _tensor(
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: str,
    owner: object,
) -> tvm_ffi.Tensor:
    """A tensor on memory of ``owner``; strides in elements."""
    make = _global("tensor_from_memory")
    return make(address, shape, strides, dtype, _Owner(owner))


@dataclass(frozen=True)
class _Owner:
    """A Python object that crosses tvm-ffi as it is, whatever it may convert to."""

    value: object


@functools.cache
def _global(name: str) -> tvm_ffi.Function:
    load_library()
    return tvm_ffi.get_global_func(f"relax_mlir.{name}")

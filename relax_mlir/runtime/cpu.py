"""Bindings of the native runtime: loads the library, and wraps compiled programs.

The library (``native/``, C++17) validates and converts arguments, allocates outputs and
arenas, runs kernels on a thread pool, and registers the functions that compiled code calls
by name, such as ``relax_mlir.topk``.
"""

from __future__ import annotations

import ctypes
import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relax_mlir.errors import IndexOutOfRangeError
from relax_mlir.runtime.elements import element_type, is_narrow
from relax_mlir.runtime.process_exit import close_native_calls_at_exit
from relax_mlir.runtime.signature import (
    AT_LEAST,
    DERIVED,
    EQUAL,
    STATIC,
    SYMBOL,
    Size,
)
from relax_mlir.support.ffi import tvm_ffi

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
    "cpu_features",
    "derive_constant",
    "get_max_threads",
    "library_path",
    "load_library",
    "make_executable",
    "request_amx_tiles",
    "set_max_threads",
    "tensor_of",
]

_THREADS_LIMIT = 1024

Parameter = tuple[str, str, Sequence[int]]
"""Name, element type (``float32``, ``bfloat16``, ``bool``, ...) and dimensions, flattened
as alternating kinds and values."""


def library_path() -> str:
    """Path of the native runtime, for engines that load it themselves."""
    return str(Path(__file__).with_name("librelax_mlir_rt.so"))


@functools.cache
def load_library() -> ctypes.CDLL:
    """Load the native runtime with its symbols visible to compiled code.

    Raises:
        ImportError: the library is not built, or is incompatible with this tvm-ffi.
    """
    path = Path(__file__).with_name("librelax_mlir_rt.so")
    if not path.exists():
        raise ImportError(
            f"`{path.name}`: the native runtime is not built. Run `pip install -e "
            "packaging/runtime` in the source tree, or install a wheel of relax-mlir-runtime.",
            name=__name__,
        )
    tvm_ffi.register_error(IndexOutOfRangeError)  # the library throws it by name
    try:
        library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise ImportError(
            f"`{path.name}`: {error}. Build it again with `pip install -e packaging/runtime`.",
            name=__name__,
        ) from error
    close_native_calls_at_exit(
        library.relax_rt2_close_calls, library.relax_rt2_other_calls
    )
    return library


def cpu_count() -> int:
    """Number of CPUs available to this process, by its affinity and its cgroup's quota."""
    return load_library().relax_rt2_cpu_count()


def request_amx_tiles() -> bool:
    """Request permission from Linux to use AMX tile registers; returns whether granted.

    The permission is per process and permanent; further calls have no effect.
    """
    return bool(load_library().relax_rt2_request_tiles())


def derive_constant(
    derivation: np.ndarray, source: np.ndarray, result: np.ndarray
) -> None:
    """Compute a constant from another one; see ``relax_rt2_derive_constant`` of ``abi.h``.

    Raises:
        MemoryError: there is not enough memory.
    """
    function = load_library().relax_rt2_derive_constant
    addresses = (derivation.ctypes.data, source.ctypes.data, result.ctypes.data)
    if function(*map(ctypes.c_void_p, addresses), get_max_threads()):
        raise MemoryError("constants that are derived from others")


def cpu_features() -> str:
    """Instruction set extensions of this machine that kernels may use: ``+avx2,-avx512f``.

    Names are LLVM's. AMX also needs :func:`request_amx_tiles`. Empty on systems for which
    none are known.
    """
    function = load_library().relax_rt2_cpu_features
    function.restype = ctypes.c_char_p
    return function().decode()


def check_threads(count: int, what: str = "threads") -> int:
    """Validate a number of threads.

    Raises:
        TypeError: the number is not an integer.
        ValueError: the number is out of range.
    """
    number = operator.index(count)
    if not 1 <= number <= _THREADS_LIMIT:
        raise ValueError(f"{what}: expected 1 to {_THREADS_LIMIT}, got {number}")
    return number


def get_max_threads() -> int:
    """Maximum number of busy threads of this package in the process, over all calls.

    Defaults to :func:`cpu_count`, as of the first use.
    """
    return load_library().relax_rt2_max_threads()


def set_max_threads(count: int | None) -> None:
    """Set the maximum number of busy threads of this package, over all calls.

    Calling threads always take part; workers of the thread pool join up to the limit. A
    model's ``threads`` limits one call, this limits the process. Running kernels are not
    affected.

    Args:
        count: may exceed the number of CPUs; None for the current :func:`cpu_count`.

    Raises:
        ValueError: the number is out of range.
    """
    limit = 0 if count is None else check_threads(count, "max_threads")
    load_library().relax_rt2_set_max_threads(limit)


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
    """Wrap a compiled program as a function of tensors.

    The function takes the inputs and returns an array of new outputs, or takes inputs and
    outputs, and returns the outputs. It releases the GIL, and allows concurrent calls. It
    raises ``TypeError`` (number, type, device) and ``ValueError`` (rank, size) that name
    the argument and the dimension.

    Inputs may have any strides and alignment, and are copied if the program cannot read
    them in place; so are outputs, and outputs that alias inputs.

    Args:
        main: address of ``int32_t main(void** buffers, const int64_t* sizes, void*
            arena, void* context)``; the buffers are inputs, outputs and constants. A
            nonzero result means that an error is raised in tvm-ffi.
        shapes: address of ``void shapes(int64_t* sizes)``, which computes the derived
            sizes after the symbols; 0 if there are none.
        name: of the program, for errors.
        inputs: parameters.
        outputs: parameters.
        sizes: names of the symbols, then of the derived sizes.
        binders: per symbol four numbers: input and dimension with the size
            factor * symbol + offset, the factor and the offset.
        checks: per constraint five numbers: kind and value of a size, ``EQUAL`` or
            ``AT_LEAST``, kind and value of another size.
        arena: size of the arena in bytes.
        constants: addresses, in the order of the buffers.
        threads: maximum number of threads per call, including the caller, subject to
            :func:`get_max_threads`.
        keep_alive: owner of the code and the constants, kept alive by the function.
        profile: address of a ``relax_rt2_profile`` of :mod:`relax_mlir.runtime.profile`,
            which receives the durations of kernels; 0 for none. A function with a profile
            does not allow concurrent calls.

    Raises:
        ValueError: the kind of a size is unknown, or no input binds a symbol.
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
    function.release_gil = True  # overrides tvm-ffi's environment variable
    return function


def tensor_of(array: np.ndarray) -> tvm_ffi.Tensor:
    """A tensor that shares the memory of an array, and keeps it alive.

    Supports arrays that DLPack rejects: read-only ones, and ml_dtypes. Views whose strides
    are not multiples of the element size are copied.

    Raises:
        TypeError: the elements are not in native byte order.
        ValueError: the elements are not numbers.
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
    """An array that shares the memory of a CPU tensor, and keeps it alive.

    Tensors of other libraries are accepted, too: calls with such inputs return them.
    """
    if not isinstance(tensor, tvm_ffi.Tensor):
        tensor = tvm_ffi.from_dlpack(tensor)
    try:
        name = str(tensor.dtype)
    except ValueError:  # tvm-ffi 0.1.15 has no name for complex types
        return np.from_dlpack(tensor)
    if not is_narrow(name):
        return np.from_dlpack(tensor)
    dtype = element_type(name)
    # numpy cannot import ml_dtypes by DLPack, so their bits are imported.
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
    create = _global("tensor_from_memory")
    return create(address, shape, strides, dtype, _Owner(owner))


@dataclass(frozen=True)
class _Owner:
    """An opaque Python object for tvm-ffi, which would convert the value itself."""

    value: object


@functools.cache
def _global(name: str) -> tvm_ffi.Function:
    load_library()
    return tvm_ffi.get_global_func(f"relax_mlir.{name}")

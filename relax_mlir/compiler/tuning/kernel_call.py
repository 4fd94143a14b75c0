"""Direct calls of single kernels, without ``main``, for tuning."""

import ctypes
from collections.abc import Sequence

import numpy as np

from relax_mlir.codegen.object_code import machine_code
from relax_mlir.errors import OutOfMemoryError
from relax_mlir.runtime import cpu
from relax_mlir.runtime.machine_code import load_code

__all__ = ["LoadedKernel"]


class _Context(ctypes.Structure):
    """``relax_rt2_context`` of the native runtime."""

    _fields_ = (
        ("threads", ctypes.c_int32),
        ("failure", ctypes.c_int32),
        ("profile", ctypes.c_void_p),
    )


class LoadedKernel:
    """A loaded kernel with bound arguments.

    Args:
        code: the object file.
        symbol: its entry point.
        arrays: its buffers, in order.
        sizes: values of its size arguments.
        threads: maximum number of threads per call.
    """

    def __init__(
        self,
        code: bytes,
        symbol: str,
        arrays: Sequence[np.ndarray],
        sizes: Sequence[int],
        threads: int = 1,
    ) -> None:
        cpu.load_library()
        self._library, addresses = load_code(machine_code([code], [symbol]), [symbol])
        self._arrays = list(arrays)  # kept alive: the kernel has only their addresses
        pointer = ctypes.c_void_p
        pointers = (pointer * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))
        numbers = (ctypes.c_int64 * max(1, len(sizes)))(*sizes)
        self._context = _Context(threads, 0, None)
        self._arguments = pointers, numbers, ctypes.byref(self._context)
        self._entry = ctypes.CFUNCTYPE(None, *[pointer] * 3)(addresses[symbol])

    def __call__(self) -> None:
        """Run the kernel.

        Raises:
            OutOfMemoryError: its scratch memory cannot be allocated.
        """
        self._entry(*self._arguments)
        if self._context.failure:
            self._context.failure = 0
            raise OutOfMemoryError("kernel: out of memory for its scratch buffers")

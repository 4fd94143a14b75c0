"""Call one kernel by itself, as ``main`` calls it."""

import ctypes
from collections.abc import Sequence

import numpy as np

from relax_mlir.errors import OutOfMemoryError
from relax_mlir.runtime import cpu, objects

__all__ = ["LoadedKernel"]


class _Context(ctypes.Structure):
    """``relax_rt2_context`` of the native runtime."""

    _fields_ = (
        ("threads", ctypes.c_int32),
        ("failure", ctypes.c_int32),
        ("profile", ctypes.c_void_p),
    )


class LoadedKernel:
    """The entry of a kernel's machine code, with the arrays that it works on.

    Args:
        code: the object file.
        symbol: what it defines.
        arrays: the memory of its buffers, in order.
        sizes: that it takes.
        threads: how many may work on one call.
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
        self._library, addresses = objects.load_objects([code], [symbol])
        self._arrays = list(arrays)  # the kernel has but their addresses
        pointer = ctypes.c_void_p
        pointers = (pointer * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))
        numbers = (ctypes.c_int64 * max(1, len(sizes)))(*sizes)
        self._context = _Context(threads, 0, None)
        self._arguments = pointers, numbers, ctypes.byref(self._context)
        self._entry = ctypes.CFUNCTYPE(None, *[pointer] * 3)(addresses[symbol])

    def __call__(self) -> None:
        """Run it.

        Raises:
            OutOfMemoryError: there is no scratch memory for it.
        """
        self._entry(*self._arguments)
        if self._context.failure:
            self._context.failure = 0
            raise OutOfMemoryError("kernel: out of memory for its tiles")

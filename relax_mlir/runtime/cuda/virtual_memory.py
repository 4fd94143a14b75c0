"""Growable workspace with stable addresses: earlier allocations stay valid."""

from __future__ import annotations

from contextlib import ExitStack

from relax_mlir.runtime.cuda.devices import Device
from relax_mlir.runtime.cuda.memory import Memory

__all__ = ["GrowableWorkspace"]

_MIN_BYTES = 1 << 16
_THREAD_STREAM = 2  # per-thread default stream, which does not synchronise with others


class GrowableWorkspace:
    """A workspace for growing needs, on the current device.

    CUDA graphs keep the addresses of earlier allocations, so these are not freed. Sizes are
    powers of two, so that their total is less than twice the largest.

    Args:
        use: purpose, for errors.
        is_zero: whether it is zero-filled.
    """

    def __init__(self, device: Device, use: str, *, is_zero: bool = False) -> None:
        self._device, self._use, self._is_zero = device, use, is_zero
        self._allocations: list[Memory] = []

    def at_least(self, size_bytes: int) -> Memory:
        """Memory of at least ``size_bytes``, valid until :meth:`close`.

        Raises:
            OutOfMemoryError: memory is insufficient.
        """
        if not self._allocations or self._allocations[-1].size_bytes < size_bytes:
            rounded = 1 << (max(size_bytes, _MIN_BYTES) - 1).bit_length()
            memory = Memory(self._device, rounded, use=self._use)
            if self._is_zero:
                self._clear(memory)
            self._allocations.append(memory)
        return self._allocations[-1]

    def _clear(self, memory: Memory) -> None:
        driver, what = self._device.driver, "`main`: memory cannot be set to zero"
        arguments = memory.address, 0, memory.size_bytes, _THREAD_STREAM
        driver.call("cuMemsetD8Async", *arguments, what=what)
        driver.call("cuStreamSynchronize", _THREAD_STREAM, what=what)

    def close(self) -> None:
        """Free all allocations."""
        with ExitStack() as cleanup:
            while self._allocations:
                cleanup.callback(self._allocations.pop().free)

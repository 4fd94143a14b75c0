"""Memory of a GPU that grows while what is there stays where it is."""

from __future__ import annotations

from contextlib import ExitStack

from relax_mlir.runtime.cuda.devices import Device
from relax_mlir.runtime.cuda.memory import Memory

__all__ = ["GrowingMemory"]

_LEAST_BYTES = 1 << 16
_OWN_STREAM = 2  # of the thread: it waits for no other


class GrowingMemory:
    """Memory of which more and more is needed, on a device, which is current.

    Graphs know the address of what they were given. Sizes are doubled, so that all of them
    are less than twice the last one.

    Args:
        use: what for, for errors.
        is_zero: whether all of its bytes are 0, and stay so.
    """

    def __init__(self, device: Device, use: str, *, is_zero: bool = False) -> None:
        self._device, self._use, self._is_zero = device, use, is_zero
        self._pieces: list[Memory] = []

    def at_least(self, size_bytes: int) -> Memory:
        """Memory of at least so many bytes, until this is closed.

        Raises:
            OutOfMemoryError: there is none.
        """
        if not self._pieces or self._pieces[-1].size_bytes < size_bytes:
            rounded = 1 << (max(size_bytes, _LEAST_BYTES) - 1).bit_length()
            piece = Memory(self._device, rounded, use=self._use)
            if self._is_zero:
                self._clear(piece)
            self._pieces.append(piece)
        return self._pieces[-1]

    def _clear(self, piece: Memory) -> None:
        driver, what = self._device.driver, "`main`: memory cannot be set to zero"
        given = piece.address, 0, piece.size_bytes, _OWN_STREAM
        driver.call("cuMemsetD8Async", *given, what=what)
        driver.call("cuStreamSynchronize", _OWN_STREAM, what=what)

    def close(self) -> None:
        """Give all of it back."""
        with ExitStack() as given_back:
            while self._pieces:
                given_back.callback(self._pieces.pop().free)

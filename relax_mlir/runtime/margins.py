"""Arrays between margins of NaNs, so that reads out of bounds show in results."""

import numpy as np

__all__ = ["between_margins"]

_MARGIN_BYTES = 1 << 14  # on either side
_ALIGNMENT = 64  # bytes, as the runtime wants of arrays that it reads in place


def between_margins(array: np.ndarray) -> np.ndarray:
    """A row-major copy whose memory goes on with NaNs on both sides.

    All bits of the margins are 1: a NaN in every IEEE format, -1 as an integer. Memory
    around an ordinary array is often 0, which a sum does not show.
    """
    memory = np.full(array.nbytes + 2 * _MARGIN_BYTES + _ALIGNMENT, 0xFF, np.uint8)
    begin = _MARGIN_BYTES + -(memory.ctypes.data + _MARGIN_BYTES) % _ALIGNMENT
    copy = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy

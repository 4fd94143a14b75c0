"""What libraries read and write between launches: none of it outside, or twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relax_mlir.emulator.memory import Buffer, EmulationError

__all__ = ["addresses_of", "check_apart", "check_inside"]


def check_inside(buffer: Buffer, places: np.ndarray) -> np.ndarray:
    """Places in the memory of a buffer, all of which are there.

    Args:
        places: as elements from the buffer's first one on.

    Raises:
        EmulationError: one is outside.
    """
    places = int(buffer.offset[0]) + places
    if places.size and (places.min() < 0 or places.max() >= buffer.memory.size):
        wrong = int(places.min() if places.min() < 0 else places.max())
        raise EmulationError(f"element {wrong} of a buffer of {buffer.memory.size}")
    return places


def check_apart(
    result: tuple[Buffer, np.ndarray], read: Sequence[tuple[Buffer, np.ndarray]]
) -> None:
    """Refuse results that lie on each other, or on what is read.

    Raises:
        EmulationError: they do.
    """
    buffer, places = result
    if len(np.unique(places)) != places.size:
        raise EmulationError("two results lie at one place")
    for other, where in read:
        written = addresses_of(buffer, places).ravel()
        if np.intersect1d(written, addresses_of(other, where)).size:
            raise EmulationError("a result lies in an operand")


def addresses_of(buffer: Buffer, places: np.ndarray) -> np.ndarray:
    """Where elements are in the memory of this process."""
    array = buffer.memory.array
    return array.ctypes.data + places * array.itemsize

"""Bytes of a block's memory that something reads or writes while threads go on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from relax_mlir.emulator.lanes import Team
from relax_mlir.errors import EmulationError

__all__ = ["Busy", "busy", "refuse_busy", "swizzled"]


def swizzled(addresses: np.ndarray) -> np.ndarray:
    """Where bytes of rows of 128 are, by where they would be."""
    return addresses ^ ((addresses >> 7 & 7) << 4)


@dataclass(eq=False)
class Busy:
    """Bytes of a block's memory that something still reads or writes by itself.

    Attributes:
        begin, end: addresses; is_written: whether they are written.
    """

    begin: int
    end: int
    is_written: bool


_BARRIER_BYTES = 8


class _AllBusy(list[Busy]):
    """Those of a team."""


def busy(team: Team) -> list[Busy]:
    """What is read or written by itself."""
    return team.once(_AllBusy, _AllBusy)


def refuse_busy(
    team: Team, first: np.ndarray, size_bytes: int, *, is_written: bool
) -> None:
    """Refuse that bytes are read before they have come, or overwritten before they are read.

    Args:
        first: addresses of the first bytes; size_bytes: from each on.

    Raises:
        EmulationError: they are, or a barrier is there.
    """
    for barrier in team.reserved:
        if ((first < barrier + _BARRIER_BYTES) & (first + size_bytes > barrier)).any():
            raise EmulationError("a barrier is there")
    for other in busy(team):
        if ((first < other.end) & (first + size_bytes > other.begin)).any():
            if other.is_written:
                raise EmulationError("race: a copy has not brought what is there")
            if is_written:
                raise EmulationError("race: a product still reads what is there")

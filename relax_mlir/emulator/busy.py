"""What a block's memory holds beside numbers: barriers, and what comes and goes by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from relax_mlir.emulator.lanes import Team
from relax_mlir.errors import EmulationError

__all__ = ["Barrier", "Busy", "barriers", "busy", "refuse_busy", "swizzled"]


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


@dataclass
class Barrier:
    """A barrier in a block's memory.

    Attributes:
        arrivals: that end a phase; left: of them, in this phase.
        made: by which thread, and when, as lanes tell.
        bytes_left: that copies have not brought; phase: how many have ended.
    """

    arrivals: int
    left: int
    made: tuple[int, int]
    bytes_left: int = 0
    phase: int = 0

    def expect(self, bytes_: int) -> None:
        """Let the phase not end before copies have brought so many bytes more."""
        self.bytes_left += bytes_

    def bring(self, bytes_: int) -> None:
        """A copy has brought bytes."""
        self.bytes_left -= bytes_
        self._advance()

    def arrive(self, count: int) -> None:
        """Threads arrive.

        Raises:
            EmulationError: more than are awaited.
        """
        self.left -= count
        if self.left < 0:
            raise EmulationError(f"more threads than {self.arrivals} arrive")
        self._advance()

    def _advance(self) -> None:
        if self.left == 0 and self.bytes_left == 0:
            self.phase += 1
            self.left = self.arrivals


_BARRIER_BYTES = 8


class _AllBarriers(dict[int, Barrier]):
    """Those of a block, by address."""


def barriers(team: Team) -> dict[int, Barrier]:
    """Those in the memory of a block that is emulated alone."""
    return team.once(_AllBarriers, _AllBarriers)


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
    for barrier in barriers(team):
        if ((first < barrier + _BARRIER_BYTES) & (first + size_bytes > barrier)).any():
            raise EmulationError("a barrier is there")
    for other in busy(team):
        if ((first < other.end) & (first + size_bytes > other.begin)).any():
            if other.is_written:
                raise EmulationError("race: a copy has not brought what is there")
            if is_written:
                raise EmulationError("race: a product still reads what is there")

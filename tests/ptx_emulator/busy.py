"""mbarrier objects, and in-flight asynchronous accesses, in shared memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from relax_mlir.errors import EmulationError
from tests.ptx_emulator.lanes import Team

__all__ = ["Barrier", "Busy", "barriers", "busy", "refuse_busy", "swizzled"]


def swizzled(addresses: np.ndarray) -> np.ndarray:
    """Byte offsets under the 128-byte swizzle."""
    return addresses ^ ((addresses >> 7 & 7) << 4)


@dataclass(eq=False)
class Busy:
    """A range of shared memory with an asynchronous access in flight.

    Attributes:
        begin, end: addresses; is_written: whether the access is a write.
    """

    begin: int
    end: int
    is_written: bool


@dataclass
class Barrier:
    """An mbarrier object in shared memory.

    Attributes:
        arrivals: that complete a phase; left: pending ones of the current phase.
        made: thread and time of the initialization.
        bytes_left: pending transaction bytes; phase: number of completed phases.
    """

    arrivals: int
    left: int
    made: tuple[int, int]
    bytes_left: int = 0
    phase: int = 0

    def expect(self, bytes_: int) -> None:
        """``expect_tx``: increases the pending transaction count."""
        self.bytes_left += bytes_

    def bring(self, bytes_: int) -> None:
        """``complete_tx``: a copy has transferred bytes."""
        self.bytes_left -= bytes_
        self._advance()

    def arrive(self, count: int) -> None:
        """Counts arrivals.

        Raises:
            EmulationError: there are more arrivals than expected.
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
    """The mbarriers of a block, by address."""


def barriers(team: Team) -> dict[int, Barrier]:
    """The mbarriers of a block that is emulated alone."""
    return team.once(_AllBarriers, _AllBarriers)


class _AllBusy(list[Busy]):
    """The in-flight accesses of a team."""


def busy(team: Team) -> list[Busy]:
    """The in-flight accesses of a team."""
    return team.once(_AllBusy, _AllBusy)


def refuse_busy(
    team: Team, first: np.ndarray, size_bytes: int, *, is_written: bool
) -> None:
    """Checks that an access does not race with an in-flight one or touch an mbarrier.

    Args:
        first: start addresses; size_bytes: of each access.

    Raises:
        EmulationError: it does.
    """
    for barrier in barriers(team):
        if ((first < barrier + _BARRIER_BYTES) & (first + size_bytes > barrier)).any():
            raise EmulationError("an mbarrier is there")
    for other in busy(team):
        if ((first < other.end) & (first + size_bytes > other.begin)).any():
            if other.is_written:
                raise EmulationError("race: an asynchronous copy to it is in flight")
            if is_written:
                raise EmulationError("race: an asynchronous wgmma still reads it")

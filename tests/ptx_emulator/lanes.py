"""Emulated threads, and the state that the threads of a block share."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

__all__ = ["WARP", "WARPGROUP", "Lanes", "Team", "chosen", "happened_before"]

WARP, WARPGROUP = 32, 128  # threads

T = TypeVar("T")


class Team:
    """All threads of some blocks, which are emulated together.

    Args:
        blocks: their ids; threads: per block.
        rng: source of randomness, where the order of events is unspecified.

    Attributes:
        padded_threads: per block, rounded up to whole warps.
        epochs: number of block barriers passed, by block.
        landing: asynchronous copies in flight, whose completion time is unspecified.
    """

    def __init__(
        self, blocks: np.ndarray, threads: int, rng: np.random.Generator
    ) -> None:
        self.blocks, self.threads, self.rng = blocks, threads, rng
        self.padded_threads = -(-threads // WARP) * WARP
        self.epochs = np.zeros(len(blocks), np.int64)
        self.landing: list[Callable[[], None]] = []
        self._made: dict[Hashable, Any] = {}

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """State shared by threads, created on first use."""
        if what not in self._made:
            self._made[what] = make()
        return self._made[what]

    def made(self, kind: type[T]) -> list[T]:
        """All state of a kind that :meth:`once` has created."""
        return [made for made in self._made.values() if isinstance(made, kind)]

    def land_one(self) -> bool:
        """Completes one asynchronous copy; returns whether there was one."""
        if not self.landing:
            return False
        self.landing.pop(int(self.rng.integers(len(self.landing))))()
        return True


class Lanes:
    """Threads that are emulated in lockstep: a range of threads of each block of a team.

    Args:
        team: all threads of these blocks; first, threads: which of each block.
        is_early: whether they may start before the previous grid has completed.

    Attributes:
        count: of the threads; numbers: index of each.
        thread: of each in its block; place: of its block among the team's; block: which
            that is.
        identity: a number of each among all threads of the team.
        steps: how often each has met its warp.
        is_late: whether the launch before has ended for each, as it knows.
    """

    def __init__(self, team: Team, first: int, threads: int, *, is_early: bool) -> None:
        self.team, self.first, self.threads = team, first, threads
        self.count = len(team.blocks) * self.threads
        self.numbers = np.arange(self.count)
        self.thread = first + self.numbers % self.threads
        self.place = self.numbers // self.threads
        self.block = team.blocks[self.place]
        self.identity = self.place * team.padded_threads + self.thread
        self.steps = np.zeros(self.count, np.int64)
        self.is_late = np.full(self.count, not is_early)

    @property
    def global_numbers(self) -> np.ndarray:
        """A number for every thread of the grid."""
        return self.block * self.team.padded_threads + self.thread

    @property
    def now(self) -> np.ndarray:
        """By thread, what it has waited for: barriers of its block, then of its warp."""
        return self.team.epochs[self.place] << _STEP_BITS | self.steps


_STEP_BITS = 32


def chosen(values: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    """Values of the threads that do something; the one that is for all."""
    return values if len(values) == 1 or mask is None else values[mask]


def happened_before(
    then: np.ndarray, who: np.ndarray, now: np.ndarray, me: np.ndarray
) -> np.ndarray:
    """Whether what threads ``who`` did at ``then`` is over for threads ``me`` at ``now``."""
    has_met_block = now >> _STEP_BITS > then >> _STEP_BITS
    return has_met_block | ((who // WARP == me // WARP) & (now > then))

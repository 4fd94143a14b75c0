"""Threads that take turns: each goes on until it waits for another."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from relax_mlir.emulator.lanes import Team
from relax_mlir.errors import EmulationError

__all__ = ["DeadlockError", "Run", "finish"]

Run = Generator[bool, None, list[Any]]
"""Threads at work: at each turn, whether they got on."""


class DeadlockError(EmulationError):
    """All threads that are left wait for each other."""


_LANDING = 0.25  # chance by turn that something that goes on by itself is done


def finish(runs: Sequence[Run], team: Team) -> None:
    """Run the threads of a team until all have ended.

    Who is first is chance, as it is on a device.

    Raises:
        DeadlockError: those that are left wait for each other.
    """
    live = list(runs)
    while live:
        got_on = False
        for run in [live[n] for n in team.rng.permutation(len(live))]:
            turn = next(run, None)
            if turn is None:
                live.remove(run)
            got_on |= turn is not False
        if not got_on and not team.land_one():
            raise DeadlockError("deadlock: all threads that are left wait")
        if got_on and team.rng.random() < _LANDING:
            team.land_one()
    while team.land_one():
        pass

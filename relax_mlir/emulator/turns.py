"""Threads that take turns: each goes on until it waits for another."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from relax_mlir.emulator.lanes import Team
from relax_mlir.emulator.memory import EmulationError

__all__ = ["Run", "finish", "until"]

Run = Generator[bool, None, list[Any]]
"""Threads at work: at each turn, whether they got on."""

_LANDING = 0.25  # chance by turn that something that goes on by itself is done


def until(condition: Callable[[], bool]) -> Iterator[bool]:
    """Wait for something that others do."""
    if condition():
        return
    yield True
    while not condition():
        yield False
    yield True


def finish(runs: Sequence[Run], team: Team) -> None:
    """Run the threads of a team until all have ended.

    Who is first is chance, as it is on a device.

    Raises:
        EmulationError: those that are left wait for each other.
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
            raise EmulationError("deadlock: all threads that are left wait")
        if got_on and team.rng.random() < _LANDING:
            team.land_one()
    while team.land_one():
        pass

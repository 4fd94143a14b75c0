"""Cooperative scheduler: each group of threads runs until it waits for another."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from relax_mlir.errors import EmulationError
from tests.ptx_emulator.lanes import Team

__all__ = ["DeadlockError", "Run", "finish"]

Run = Generator[bool, None, None]
"""Threads at work: at each turn, whether they got on."""


class DeadlockError(EmulationError):
    """All remaining threads wait for each other."""


_LANDING = 0.25  # probability per step that an asynchronous copy completes


def finish(runs: Sequence[Run], team: Team) -> None:
    """Runs the threads of a team to completion.

    The order is random, as it is on a device.

    Raises:
        DeadlockError: all remaining threads wait for each other.
    """
    live = {run: int(team.rng.choice(_SPEEDS)) for run in runs}
    while live:
        got_on = False
        order = list(live)
        for number in team.rng.permutation(len(order)):
            run = order[number]
            turns, is_over = _take_turns(run, live[run])
            if is_over:
                del live[run]
            got_on |= is_over or turns > 0
        if not got_on and not team.land_one():
            raise DeadlockError("deadlock: all remaining threads wait")
        if got_on and team.rng.random() < _LANDING:
            team.land_one()


_SPEEDS = (1, 4, 32)  # turns in a row


def _take_turns(run: Run, most: int) -> tuple[int, bool]:
    """Runs threads a random number of steps; returns the number, and whether they ended."""
    for number in range(most):
        turn = next(run, None)
        if not turn:
            return number, turn is None
    return most, False

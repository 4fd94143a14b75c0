"""Threads that take turns: each goes on until it waits for another."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from relax_mlir.emulator.lanes import Team
from relax_mlir.errors import EmulationError

__all__ = ["DeadlockError", "Run", "finish"]

Run = Generator[bool, None, None]
"""Threads at work: at each turn, whether they got on."""


class DeadlockError(EmulationError):
    """All threads that are left wait for each other."""


_LANDING = 0.25  # chance by turn that something that goes on by itself is done


def finish(runs: Sequence[Run], team: Team) -> None:
    """Run the threads of a team until all have ended.

    Who is first, and who is fast, is chance, as it is on a device.

    Raises:
        DeadlockError: those that are left wait for each other.
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
            raise DeadlockError("deadlock: all threads that are left wait")
        if got_on and team.rng.random() < _LANDING:
            team.land_one()


_SPEEDS = (1, 4, 32)  # turns in a row


def _take_turns(run: Run, most: int) -> tuple[int, bool]:
    """Let threads get on; how often they did, and whether they have ended."""
    for number in range(most):
        turn = next(run, None)
        if not turn:
            return number, turn is None
    return most, False

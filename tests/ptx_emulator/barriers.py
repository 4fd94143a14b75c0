"""Synchronization PTX instructions: named barriers and mbarriers.

Source: NVIDIA, PTX ISA: bar, barrier, mbarrier.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from relax_mlir.errors import EmulationError
from tests.ptx_emulator.busy import Barrier, barriers
from tests.ptx_emulator.lanes import WARP, Team, happened_before
from tests.ptx_emulator.machine import Effect, Machine, Mask, Wait
from tests.ptx_emulator.memory import WINDOWS
from tests.ptx_emulator.operands import WORD, Operand
from tests.ptx_emulator.program import Instruction

__all__ = ["WAITING", "barrier_at", "refuse_unfinished"]

_SPIN = 0.25  # probability that a try_wait times out


class _Numbered:
    """A named barrier, in each block of a team.

    Attributes:
        threads: number of arrivals that complete a phase.
        arrived: arrivals of the phase; waiting: arrivals that wait, by block.
        came: arrived warps, ``[block, warp]``; phase: number of completed phases.
    """

    def __init__(self, team: Team, threads: int) -> None:
        blocks = len(team.blocks)
        self.threads = threads
        self.arrived, self.waiting = (np.zeros(blocks, np.int64) for _ in range(2))
        self.came = np.zeros((blocks, team.padded_threads // WARP), bool)
        self.phase = np.zeros(blocks, np.int64)

    def arrive(self, machine: Machine, mask: Mask, *, is_waiting: bool) -> np.ndarray:
        """Whole warps arrive; returns the blocks where a phase completes.

        Raises:
            EmulationError: a warp arrives twice in a phase, or too many arrive.
        """
        lanes = machine.lanes
        active = slice(None) if mask is None else mask
        place, warp = lanes.place[active], lanes.thread[active] // WARP
        if self.came[place, warp].any():
            raise EmulationError("threads arrive at a barrier twice in a phase")
        self.came[place, warp] = True
        count = np.bincount(place, minlength=len(self.arrived))
        self.arrived += count
        self.waiting += count if is_waiting else 0
        if (self.arrived > self.threads).any():
            raise EmulationError(
                f"more than {self.threads} threads arrive at a barrier"
            )
        opens = self.arrived == self.threads
        self.phase += opens
        # Only waiting threads are ordered after the others.
        lanes.team.epochs += opens & (self.waiting == lanes.team.threads)
        self.arrived[opens] = self.waiting[opens] = 0
        self.came[opens] = False
        return opens


def _bar(machine: Machine, instruction: Instruction, mask: Mask) -> Wait | None:
    """``bar.sync``, ``bar.arrive``, ``bar.warp.sync``."""
    if "warp" in instruction.modifiers:
        if machine.same(machine.read(instruction.operands[0], WORD), mask) != _ALL:
            raise EmulationError("expected a barrier of all threads of a warp")
        machine.lanes.steps += 1 if mask is None else mask
        return None
    number, *count = (
        machine.same(machine.read(operand, WORD), mask)
        for operand in instruction.operands
    )
    lanes = machine.lanes
    team = lanes.team
    threads = count[0] if count else team.threads
    if threads % WARP and threads != team.threads:
        raise EmulationError(f"expected whole warps, got {threads} threads")
    if not 0 <= number < _BARRIERS:
        raise EmulationError(f"barrier {number}: expected 0 to {_BARRIERS - 1}")
    barrier = team.once((_Numbered, number), lambda: _Numbered(team, threads))
    if barrier.threads != threads:
        raise EmulationError(
            f"barrier {number} has {barrier.threads} threads elsewhere"
        )
    before = barrier.phase[lanes.place]
    is_waiting = "arrive" not in instruction.modifiers
    opens = barrier.arrive(machine, mask, is_waiting=is_waiting)
    place = lanes.place if mask is None else lanes.place[mask]
    if not is_waiting or bool(opens[place].all()):
        return None
    return Wait(lambda: barrier.phase[lanes.place] > before)


_ALL, _BARRIERS = 0xFFFFFFFF, 16


def refuse_unfinished(team: Team) -> None:
    """Checks that no thread exits while a barrier still waits for arrivals.

    Raises:
        EmulationError: they do.
    """
    if any(barrier.arrived.any() for barrier in team.made(_Numbered)):
        raise EmulationError("threads wait at a barrier that never completes")


# Barriers in a block's memory


def _shared_address(machine: Machine, operand: Operand, space: str) -> np.ndarray:
    """Addresses in shared memory, from generic or shared ones."""
    found = machine.addresses(operand)
    return found if space else found - WINDOWS["shared"]


def barrier_at(machine: Machine, address: int, mask: Mask) -> Barrier:
    """An initialized mbarrier.

    Raises:
        EmulationError: it is not initialized, or the initialization is unordered.
    """
    found = barriers(machine.lanes.team).get(address)
    if found is None or not _is_surely_made(machine, found, mask):
        raise EmulationError(
            "race: the mbarrier is used before its initialization is ordered"
        )
    return found


def _is_surely_made(machine: Machine, barrier: Barrier, mask: Mask) -> bool:
    lanes = machine.lanes
    active = slice(None) if mask is None else mask
    who, then = (np.array([n]) for n in barrier.made)
    me, now = lanes.identity[active], lanes.now[active]
    return bool(((me == who) | happened_before(then, who, now, me)).all())


def _memory_barrier(
    machine: Machine, instruction: Instruction, mask: Mask
) -> Wait | None:
    """``mbarrier``."""
    kind, *modifiers = instruction.modifiers
    if kind == "init":
        return _make(machine, instruction, mask)
    if kind == "try_wait" and "parity" in modifiers:
        return _try_wait(machine, instruction, mask)
    if kind == "arrive":
        return _arrive(machine, instruction, mask)
    raise EmulationError("unsupported instruction")


def _make(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    place, count = instruction.operands
    address = machine.same(_shared_address(machine, place, instruction.space), mask)
    arrivals = machine.same(machine.read(count, WORD), mask)
    if not arrivals:
        raise EmulationError("an mbarrier of no arrivals")
    if address % 8 or not 0 <= address <= machine.spaces.shared.size_bytes - 8:
        raise EmulationError(f"no mbarrier can be at {address:#x} of a block's memory")
    lanes, number = machine.lanes, int(machine.active(mask)[0])
    made = int(lanes.identity[number]), int(lanes.now[number])
    barriers(machine.lanes.team)[address] = Barrier(arrivals, arrivals, made)


def _arrive(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``arrive``, and ``arrive.expect_tx`` with a transaction count in bytes."""
    place, *more = instruction.operands[1:]
    addresses = _shared_address(machine, place, instruction.space)
    barrier = barrier_at(machine, machine.same(addresses, mask), mask)
    threads = len(machine.active(mask))
    if "expect_tx" in instruction.modifiers:
        barrier.expect(machine.same(machine.read(more[0], WORD), mask) * threads)
    elif more:
        threads *= machine.same(machine.read(more[0], WORD), mask)
    barrier.arrive(threads)


def _try_wait(machine: Machine, instruction: Instruction, mask: Mask) -> Wait | None:
    """``try_wait.parity``: waits for a phase; it may also time out and return false."""
    target, place, parity = instruction.operands[:3]
    addresses = _shared_address(machine, place, instruction.space)
    barrier = barrier_at(machine, machine.same(addresses, mask), mask)
    awaited = machine.same(machine.read(parity, WORD), mask) & 1
    is_over = barrier.phase % 2 != awaited
    if is_over or machine.lanes.team.rng.random() < _SPIN:
        machine.write(target, np.array([is_over]), mask)
        return None
    return Wait(lambda: barrier.phase % 2 != awaited, comes_again=True)


WAITING: Mapping[str, Effect] = {
    "bar": _bar,
    "barrier": _bar,
    "mbarrier": _memory_barrier,
}

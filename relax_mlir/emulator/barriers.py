"""Instructions of PTX where threads wait for others, and for copies.

Source: NVIDIA, PTX ISA: bar, barrier, mbarrier.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from relax_mlir.emulator.busy import Barrier, barriers
from relax_mlir.emulator.lanes import WARP, Team, happened_before
from relax_mlir.emulator.machine import Effect, Machine, Mask, Wait
from relax_mlir.emulator.memory import WINDOWS
from relax_mlir.emulator.operands import WORD, Operand
from relax_mlir.emulator.program import Instruction
from relax_mlir.errors import EmulationError

__all__ = ["WAITING", "barrier_at", "refuse_unfinished"]

_SPIN = 0.25  # chance that a thread that would wait is told to ask again


class _Numbered:
    """A barrier by number, in each block of a team.

    Attributes:
        threads: that open it.
        arrived: how many have come, and waiting: of these, how many wait, by block.
        came: which warps have come, ``[block, warp]``; phase: how often it has opened.
    """

    def __init__(self, team: Team, threads: int) -> None:
        blocks = len(team.blocks)
        self.threads = threads
        self.arrived, self.waiting = (np.zeros(blocks, np.int64) for _ in range(2))
        self.came = np.zeros((blocks, team.padded_threads // WARP), bool)
        self.phase = np.zeros(blocks, np.int64)

    def arrive(self, machine: Machine, mask: Mask, *, is_waiting: bool) -> np.ndarray:
        """Whole warps come; in which blocks it opens.

        Raises:
            EmulationError: some have come before in this phase, or too many come.
        """
        lanes = machine.lanes
        active = slice(None) if mask is None else mask
        place, warp = lanes.place[active], lanes.thread[active] // WARP
        if self.came[place, warp].any():
            raise EmulationError("threads come to a barrier twice before it opens")
        self.came[place, warp] = True
        count = np.bincount(place, minlength=len(self.arrived))
        self.arrived += count
        self.waiting += count if is_waiting else 0
        if (self.arrived > self.threads).any():
            raise EmulationError(f"more than {self.threads} threads come to a barrier")
        opens = self.arrived == self.threads
        self.phase += opens
        # What the others have done is only over for those who wait.
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
    """Refuse that threads end while others are awaited at a barrier.

    Raises:
        EmulationError: they do.
    """
    if any(barrier.arrived.any() for barrier in team.made(_Numbered)):
        raise EmulationError("threads have come to a barrier that never opens")


# Barriers in a block's memory


def _shared_address(machine: Machine, operand: Operand, space: str) -> np.ndarray:
    """Addresses in a block's memory, generic or not."""
    found = machine.addresses(operand)
    return found if space else found - WINDOWS["shared"]


def barrier_at(machine: Machine, address: int, mask: Mask) -> Barrier:
    """A barrier that has been made.

    Raises:
        EmulationError: it has not, or perhaps not yet.
    """
    found = barriers(machine.lanes.team).get(address)
    if found is None or not _is_surely_made(machine, found, mask):
        raise EmulationError("race: the barrier is used before it is surely made")
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
    raise EmulationError("the emulator does not know this instruction")


def _make(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    place, count = instruction.operands
    address = machine.same(_shared_address(machine, place, instruction.space), mask)
    arrivals = machine.same(machine.read(count, WORD), mask)
    if not arrivals:
        raise EmulationError("a barrier of no arrivals")
    if address % 8 or not 0 <= address <= machine.spaces.shared.size_bytes - 8:
        raise EmulationError(f"no barrier can be at {address:#x} of a block's memory")
    lanes, number = machine.lanes, int(machine.active(mask)[0])
    made = int(lanes.identity[number]), int(lanes.now[number])
    barriers(machine.lanes.team)[address] = Barrier(arrivals, arrivals, made)


def _arrive(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """Threads arrive: each once, or each telling of bytes that copies will bring."""
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
    """Until the phase of a parity has ended; it may also be told to ask again."""
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

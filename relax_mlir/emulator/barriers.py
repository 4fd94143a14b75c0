"""Where threads wait: for those of their block, of their warp, and for copies.

Source: NVIDIA, PTX ISA, "mbarrier": arrivals and bytes that are awaited end a phase;
"barrier": threads that have come, whether they wait or not, open it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from relax_mlir.emulator.lanes import WARP, Lanes, Team
from relax_mlir.emulator.memory import EmulationError
from relax_mlir.emulator.turns import until

if TYPE_CHECKING:
    from relax_mlir.emulator.interpreter import Instruction, Interpreter

__all__ = [
    "BARRIER_CONTROL",
    "BARRIER_EFFECTS",
    "Barrier",
    "barrier_at",
    "refuse_partial_warps",
    "refuse_unfinished",
]

Mask = np.ndarray | None


def _barrier(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> Iterator[bool]:
    lanes = machine.lanes
    team = lanes.team
    waiting = np.ones(len(team.blocks), bool)
    if mask is not None:
        by_block = np.broadcast_to(mask, lanes.count).reshape(-1, lanes.threads)
        waiting = by_block.any(axis=1)
        if (by_block.all(axis=1) != waiting).any():
            raise EmulationError("some threads of a block do not come to the barrier")
    if lanes.is_whole:
        team.epochs[waiting] += 1
        return
    team.waiting += lanes.threads
    before = int(team.epochs[0])
    if team.waiting == team.threads:
        team.waiting = 0
        team.epochs += 1
    yield from until(lambda: team.epochs[0] != before)


@dataclass
class _Named:
    """A barrier by number, at which some of a block's threads meet.

    Attributes:
        threads: that end a phase; arrived: the first of each group that came in this one.
        phase: how many have ended.
    """

    threads: int
    arrived: list[int] = field(default_factory=list)
    phase: int = 0

    def arrive(self, lanes: Lanes) -> int:
        """Some threads come; the phase that they come in.

        Raises:
            EmulationError: they have come before in this phase, or too many come.
        """
        if lanes.first in self.arrived:
            raise EmulationError("threads come to a barrier twice before it opens")
        self.arrived.append(lanes.first)
        count = len(self.arrived) * lanes.threads
        if count > self.threads:
            raise EmulationError(f"{count} threads come to a barrier of {self.threads}")
        phase = self.phase
        if count == self.threads:
            self.phase, self.arrived = phase + 1, []
        return phase


def _come(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> tuple[_Named, int]:
    """Let threads come to the barrier of an instruction; that, and in which phase.

    Raises:
        EmulationError: some of them do not come, or others come to another barrier.
    """
    lanes = machine.lanes
    number, threads = (machine.same(v, mask) for v in machine.operands(instruction))
    if not 0 < number < _BARRIERS:
        raise EmulationError(f"barrier {number}: expected 1 to {_BARRIERS - 1}")
    if mask is not None or len(lanes.team.blocks) > 1:
        raise EmulationError("expected all threads of a warpgroup")
    made = lanes.team.once((_Named, number), lambda: _Named(threads))
    if made.threads != threads:
        raise EmulationError(f"barrier {number} has {made.threads} threads elsewhere")
    return made, made.arrive(lanes)


_BARRIERS = 16  # of a block; the first is that of all its threads


def _arrive_at(machine: Interpreter, instruction: Instruction, mask: Mask) -> None:
    """``nvvm.barrier.arrive``."""
    _come(machine, instruction, mask)


def _meet_at(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> Iterator[bool]:
    """``nvvm.barrier`` of some threads."""
    barrier, phase = _come(machine, instruction, mask)
    yield from until(lambda: barrier.phase > phase)


def refuse_unfinished(team: Team) -> None:
    """Refuse that threads end while others are awaited at a barrier.

    Raises:
        EmulationError: they do.
    """
    if any(barrier.arrived for barrier in team.made(_Named)):
        raise EmulationError("threads have come to a barrier that never opens")


def _meet_warp(machine: Interpreter, instruction: Instruction, mask: Mask) -> None:
    """``nvvm.bar.warp.sync`` of all threads of a warp."""
    lanes = machine.lanes
    (members,) = machine.operands(instruction)
    if machine.same(members, mask) != -1:
        raise EmulationError("expected a barrier of all threads of a warp")
    refuse_partial_warps(lanes, mask)
    lanes.steps += 1 if mask is None else mask


def refuse_partial_warps(lanes: Lanes, mask: Mask) -> None:
    """Refuse that some threads of a warp do not take part.

    Raises:
        EmulationError: they do not.
    """
    if lanes.threads % WARP:
        raise EmulationError("expected whole warps")
    if mask is not None:
        by_warp = np.broadcast_to(mask, lanes.count).reshape(-1, WARP)
        if (by_warp.any(axis=1) != by_warp.all(axis=1)).any():
            raise EmulationError("some threads of a warp do not take part")


@dataclass
class Barrier:
    """A barrier in a block's memory.

    Attributes:
        arrivals: that end a phase; left: of them, in this phase.
        made: by which thread first, and at which epoch of the block.
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


def barrier_at(
    machine: Interpreter, group: list[Barrier | None], number: int
) -> Barrier:
    """A barrier that has been made.

    Raises:
        EmulationError: it has not, or perhaps not yet.
    """
    found, lanes = group[number], machine.lanes
    is_new = found is not None and found.made[1] == lanes.team.epochs[0]
    if found is None or (is_new and found.made[0] != lanes.first):
        raise EmulationError("race: the barrier is used before it is surely made")
    return found


def _create(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> list[list[Barrier | None]]:
    text = str(instruction.operation.operation.results[0].type)
    count = int(text.partition("num_barriers = ")[2].partition(">")[0] or 1)
    return [machine.lanes.team.once(instruction.operation, lambda: [None] * count)]


def _initialize(machine: Interpreter, instruction: Instruction, mask: Mask) -> None:
    group, arrivals, number, *_ = machine.operands(instruction)
    lanes = machine.lanes
    count = machine.same(arrivals, mask)
    made = lanes.first, int(lanes.team.epochs[0])
    group[machine.same(number, mask)] = Barrier(count, count, made)


def _at(machine: Interpreter, group: Any, number: np.ndarray, mask: Mask) -> Barrier:
    return barrier_at(machine, group, machine.same(number, mask))


def _active(machine: Interpreter, mask: Mask) -> int:
    return machine.lanes.count if mask is None else int(mask.sum())


def _arrive(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> list[np.ndarray]:
    group, number = machine.operands(instruction)
    _at(machine, group, number, mask).arrive(_active(machine, mask))
    return [np.zeros(1, np.int64)]


def _expect(machine: Interpreter, instruction: Instruction, mask: Mask) -> None:
    group, bytes_, number, *_ = machine.operands(instruction)
    barrier, count = _at(machine, group, number, mask), _active(machine, mask)
    barrier.expect(machine.same(bytes_, mask) * count)
    barrier.arrive(count)


def _wait(machine: Interpreter, instruction: Instruction, mask: Mask) -> Iterator[bool]:
    """Until the phase of a parity has ended."""
    group, parity, _, number = machine.operands(instruction)
    barrier = _at(machine, group, number, mask)
    awaited = machine.same(parity, mask)
    yield from until(lambda: barrier.phase % 2 != awaited)


BARRIER_CONTROL: Mapping[str, Callable[..., Iterator[bool]]] = {
    "gpu.barrier": _barrier,
    "nvvm.barrier": _meet_at,
    "nvgpu.mbarrier.try_wait.parity": _wait,
}
BARRIER_EFFECTS: Mapping[str, Callable[..., Any]] = {
    "nvgpu.mbarrier.create": _create,
    "nvgpu.mbarrier.init": _initialize,
    "nvgpu.mbarrier.arrive": _arrive,
    "nvgpu.mbarrier.arrive.expect_tx": _expect,
    "nvvm.bar.warp.sync": _meet_warp,
    "nvvm.barrier.arrive": _arrive_at,
}

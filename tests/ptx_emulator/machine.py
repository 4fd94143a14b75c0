"""Interpreter loop: threads run in lockstep until they diverge.

The divergent threads that are furthest behind go first, so that they reconverge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np

from relax_mlir.errors import EmulationError
from tests.ptx_emulator.lanes import WARP, Lanes, chosen
from tests.ptx_emulator.memory import POISON, Spaces
from tests.ptx_emulator.operands import (
    Address,
    Inverted,
    Label,
    Number,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Variable,
    unsigned,
)
from tests.ptx_emulator.program import Instruction, Kernel
from tests.ptx_emulator.turns import Run

__all__ = ["Effect", "Machine", "Mask", "Wait"]

T = TypeVar("T")

Mask = np.ndarray | None
"""Which threads do something; all if it is None."""


@dataclass(frozen=True)
class Wait:
    """A request of an instruction that its threads wait.

    Attributes:
        condition: by thread, or for all, whether it may continue.
        comes_again: whether the instruction is then executed again.
    """

    condition: Callable[[], np.ndarray | bool]
    comes_again: bool = False


@dataclass
class _Waiting:
    """Waiting threads.

    Attributes:
        place: where they go on; mask: who they are.
        condition: tells by thread, or of all, whether it may.
    """

    place: int
    mask: Mask
    condition: Callable[[], np.ndarray | bool]


class Machine:
    """Threads with their registers and program counters.

    Args:
        special: special registers, by name.
        takes_turns: whether other machines run threads of the same block.
        effects: semantics of instructions, by name.
    """

    def __init__(
        self,
        kernel: Kernel,
        spaces: Spaces,
        lanes: Lanes,
        special: Mapping[str, np.ndarray],
        effects: Mapping[str, Effect],
        *,
        takes_turns: bool,
    ) -> None:
        self.kernel, self.lanes, self.spaces = kernel, lanes, spaces
        # Registers that products use by themselves.
        self.read_later: set[int] = set()
        self.written_later: set[int] = set()
        self._effects, self._takes_turns = effects, takes_turns
        self._registers: list[np.ndarray | None] = [None] * len(kernel.registers)
        self._special = special
        self._states: dict[type, object] = {}
        self._fronts: dict[int, Mask] = {0: None}
        self._parked: dict[int, np.ndarray] = {}  # short of threads of their warps
        self._waiting: list[_Waiting] = []
        warps = -(-lanes.threads // WARP)
        self._warp = lanes.place * warps + (lanes.numbers % lanes.threads) // WARP
        self._warp_sizes = np.bincount(self._warp)

    def state(self, kind: type[T]) -> T:
        """State of these threads that a kind of instructions keeps; created empty."""
        found = self._states.setdefault(kind, kind())
        assert isinstance(found, kind)
        return found

    # Values

    def read(self, operand: Operand, dtype: np.dtype) -> np.ndarray:
        """Reads an operand: a value per thread, or a uniform one."""
        if isinstance(operand, Register):
            if operand.slot in self.written_later:
                raise EmulationError(
                    "race: the register is the result of a pending wgmma"
                )
            found = self._registers[operand.slot]
            if found is None:
                found = _undefined(operand.bits)
        elif isinstance(operand, Number):
            return operand.of(dtype)
        elif isinstance(operand, Special):
            found = self._special[operand.name]
        elif isinstance(operand, Variable):
            found = np.array([operand.address], np.uint64)
        else:
            raise EmulationError("expected a value")
        if found.dtype.itemsize != dtype.itemsize:
            found = found.astype(unsigned(dtype.itemsize))
        return found.view(dtype)

    def predicate(self, operand: Operand) -> np.ndarray:
        """Reads a predicate."""
        if isinstance(operand, Inverted):
            return ~self.predicate(operand.register)
        if isinstance(operand, Number):
            return np.array([operand.bits != 0])
        found = None
        if isinstance(operand, Register) and operand.bits == 1:
            found = self._registers[operand.slot]
        if found is None:
            raise EmulationError("a predicate that was never written")
        return found

    def write(self, operand: Operand, values: np.ndarray, mask: Mask) -> None:
        """Writes a register; wider registers are sign-extended."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Register):
            raise EmulationError("expected a register")
        if operand.slot in self.read_later or operand.slot in self.written_later:
            raise EmulationError("race: an asynchronous wgmma still uses the register")
        if operand.bits > 1:
            size = operand.bits // 8
            if values.dtype.itemsize != size:
                if values.dtype.kind not in "iu":
                    values = values.view(unsigned(values.dtype.itemsize))
                values = values.astype(unsigned(size))
            values = values.view(unsigned(size))
        if mask is not None:
            old = self._registers[operand.slot]
            if old is None:
                old = _undefined(operand.bits)
            values = np.where(mask, values, old)
        self._registers[operand.slot] = values

    def write_pair(
        self, operand: Operand, first: np.ndarray, second: np.ndarray, mask: Mask
    ) -> None:
        """Writes one register, or a pair."""
        if isinstance(operand, Pair):
            self.write(operand.first, first, mask)
            self.write(operand.second, second, mask)
        else:
            self.write(operand, first, mask)

    def addresses(self, operand: Operand) -> np.ndarray:
        """Evaluates an address operand."""
        if not isinstance(operand, Address):
            raise EmulationError("expected an address")
        base = operand.base
        size = base.bits // 8 if isinstance(base, Register) else 8
        found = self.read(base, unsigned(size)).astype(np.int64)
        return found + operand.offset_bytes if operand.offset_bytes else found

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Broadcasts a uniform value to all threads."""
        whole = np.broadcast_to(values, (self.lanes.count, *values.shape[1:]))
        return np.ascontiguousarray(whole)

    def same(self, values: np.ndarray, mask: Mask) -> int:
        """The value that is uniform over the active threads.

        Raises:
            EmulationError: it is not uniform.
        """
        own = chosen(values, mask)
        if (own != own[0]).any():
            raise EmulationError("expected a uniform value")
        return int(own[0])

    def active(self, mask: Mask) -> np.ndarray:
        """Indices of the active threads."""
        return self.lanes.numbers if mask is None else np.flatnonzero(mask)

    # Control

    def join(self, place: int, mask: Mask) -> None:
        """Moves threads to an instruction, where they reconverge with those already there."""
        others = [
            fronts.pop(place)
            for fronts in (self._fronts, self._parked)
            if place in fronts
        ]
        for other in others:
            mask = None if mask is None or other is None else mask | other
        self._fronts[place] = None if mask is None or mask.all() else mask

    def run(self) -> Run:
        """Runs all threads to completion.

        Raises:
            EmulationError: the kernel has an error.
        """
        while self._fronts or self._waiting:
            got_on = self._wake()
            while self._fronts:
                got_on = True
                place = min(self._fronts)
                self._go(place, self._fronts.pop(place))
                if self._takes_turns:
                    yield True
            if not got_on:
                yield False
        self.refuse_parted()

    def refuse_parted(self) -> None:
        """Checks that no thread still waits for the rest of its warp.

        Raises:
            EmulationError: they are.
        """
        if self._parked:
            text = self.kernel.code[min(self._parked)].text
            raise EmulationError(f"some threads of a warp do not reach `{text}`")

    def _wake(self) -> bool:
        """Wakes threads whose condition holds; returns whether there are any."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            ready = one.condition()
            if np.all(ready):
                self.join(one.place, one.mask)
            elif not np.any(ready):
                self._waiting.append(one)
            else:
                mask = self.spread(np.ones(1, bool)) if one.mask is None else one.mask
                if (mask & ready).any():
                    self.join(one.place, mask & ready)
                if (mask & ~ready).any():
                    left = _Waiting(one.place, mask & ~ready, one.condition)
                    self._waiting.append(left)
        return bool(self._fronts)

    def _go(self, place: int, mask: Mask) -> None:
        """Runs threads until they diverge, wait, or reconverge."""
        code = self.kernel.code
        while place < len(code):
            instruction = code[place]
            name = instruction.name
            active, rest = self._guarded(instruction, mask)
            if name in _COLLECTIVE and active is not None:
                mask = active = self._gathered(place, active, rest)
                if not active.any():
                    return
                rest = None
            if name == "ret":
                if rest is not None:
                    self.join(place + 1, rest)
                return
            if name == "bra":
                self._branch(instruction, place, active, rest)
                return
            if active is None or active.any():
                wait = self._do(instruction, active)
                if wait is not None:
                    self._leave(wait, place, active, rest)
                    return
            place += 1
            meets_others = place in self._fronts or place in self._parked
            if meets_others or (self._takes_turns and name in _SEEN_BY_OTHERS):
                self.join(place, mask)
                return

    def _do(self, instruction: Instruction, mask: Mask) -> Wait | None:
        """Executes an instruction.

        Raises:
            EmulationError: it is an error, or not supported.
        """
        self.spaces.instruction = instruction
        try:
            return self._effects[instruction.name](self, instruction, mask)
        except EmulationError as error:
            raise EmulationError(f"{self._at(instruction)}: {error}") from error
        except (LookupError, ValueError, TypeError, AssertionError) as error:
            what = "unsupported form of an instruction"
            raise EmulationError(f"{self._at(instruction)}: {what}") from error

    def _at(self, instruction: Instruction) -> str:
        return f"kernel `{self.kernel.name}`: `{instruction.text}`"

    def _guarded(self, instruction: Instruction, mask: Mask) -> tuple[Mask, Mask]:
        """Active and inactive threads under an instruction's guard; None for empty sets."""
        if instruction.guard is None:
            return mask, None
        does = self.predicate(instruction.guard)
        active = does if mask is None else does & mask
        rest = ~does if mask is None else ~does & mask
        if not rest.any():
            return mask, None
        return self._wide(active), self._wide(rest)

    def _wide(self, mask: np.ndarray) -> np.ndarray:
        return np.broadcast_to(mask, self.lanes.count)

    def _branch(
        self, instruction: Instruction, place: int, active: Mask, rest: Mask
    ) -> None:
        (label,) = instruction.operands
        assert isinstance(label, Label)
        if rest is not None:
            self.join(place + 1, rest)
        if active is None or active.any():
            self.join(label.target, active)

    def _leave(self, wait: Wait, place: int, active: Mask, rest: Mask) -> None:
        """Suspends some threads; the others continue."""
        if rest is not None:
            self.join(place + 1, rest)
        goes_on = place if wait.comes_again else place + 1
        self._waiting.append(_Waiting(goes_on, active, wait.condition))

    def _gathered(self, place: int, mask: np.ndarray, rest: Mask) -> np.ndarray:
        """The threads whose warps, or warpgroups, have converged at a collective instruction.

        The others are left there; the rest, which does not do it, goes on.
        """
        if rest is not None:
            self.join(place + 1, rest)
        if self.kernel.code[place].name in _OF_WARPGROUPS:
            is_whole = np.zeros(self.lanes.count, bool)  # all of them would be None
        else:
            there = np.bincount(self._warp[mask], minlength=len(self._warp_sizes))
            is_whole = (there == self._warp_sizes)[self._warp] & mask
        short = mask & ~is_whole
        if short.any():
            self._parked[place] = short
        return is_whole


Effect: TypeAlias = Callable[[Machine, Instruction, Mask], Wait | None]
"""What an instruction does for the threads that do it."""

# What all threads of a warp, or of four, do together.
_OF_WARPGROUPS = {"setmaxnreg", "wgmma"}
_COLLECTIVE = {"bar", "barrier", "ldmatrix", "mma", "shfl", *_OF_WARPGROUPS}

# Behind these, threads of other machines take their turns.
_SEEN_BY_OTHERS = {"bar", "barrier", "cp", "mbarrier", "wgmma"}


def _undefined(bits: int) -> np.ndarray:
    """A register that was never written."""
    if bits == 1:
        return np.ones(1, bool)
    return np.full(bits // 8, POISON, np.uint8).view(unsigned(bits // 8))

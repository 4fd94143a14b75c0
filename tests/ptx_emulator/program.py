"""Parsed PTX: kernels, instructions, variables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tests.ptx_emulator.operands import DTYPES, Inverted, Operand, Register
from tests.ptx_emulator.stores import stored_parameters

__all__ = ["GLOBALS_ADDRESS", "Instruction", "Kernel", "Program"]

GLOBALS_ADDRESS = 1 << 56  # of a program's own variables


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction.

    Attributes:
        name: the opcode, such as ``ld``; modifiers: dot-separated; the last is the type.
        guard: its predicate; None if unconditional.
        text: the source.
    """

    name: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | Inverted | None
    text: str

    @property
    def type(self) -> str:
        """The type modifier, which is the last one, if any."""
        return self.modifiers[-1] if self.modifiers else ""

    @property
    def space(self) -> str:
        """The state space modifier; none for generic addresses."""
        names = (modifier.partition("::")[0] for modifier in self.modifiers)
        return next((name for name in names if name in _SPACES), "")

    @property
    def width(self) -> int:
        """Vector width, in elements."""
        found = map(_VECTOR.fullmatch, self.modifiers)
        return next((int(match[1]) for match in found if match), 1)

    def moved_bytes(self, space: str) -> int | None:
        """Bytes that a thread accesses in global or shared memory; None if it does not."""
        is_there = self.name in ("ld", "st") and self.space in (space, "")
        if is_there and self.type in DTYPES:
            return DTYPES[self.type].itemsize * self.width
        return _LEAST_COPY_BYTES if self.name == "cp" else None


_SPACES = ("global", "shared", "local", "param", "const")
_VECTOR = re.compile(r"v([248])")
_LEAST_COPY_BYTES, _MOST_MOVED_BYTES = 4, 16


@dataclass(frozen=True)
class Kernel:
    """A kernel.

    Attributes:
        parameters: offset and size of each.
        code: its instructions; registers: width of each, in bits.
        shared_bytes: static shared memory, up to the start of the dynamic one.
        local_bytes: of a thread; max_threads: ``.maxntid``, if given.
    """

    name: str
    parameters: tuple[tuple[int, int], ...]
    code: tuple[Instruction, ...]
    registers: tuple[int, ...]
    shared_bytes: int
    local_bytes: int
    max_threads: int | None

    @property
    def parameter_bytes(self) -> int:
        """Size of all parameters."""
        return max((begin + size for begin, size in self.parameters), default=0)

    @cached_property
    def granule_bytes(self) -> Mapping[str, int]:
        """Granularity of accesses by space: the smallest access size."""
        return {space: self._least_moved(space) for space in ("global", "shared")}

    @cached_property
    def stored(self) -> frozenset[int] | None:
        """Offsets of the pointer parameters that it may write through; None for all."""
        return stored_parameters(self)

    def _least_moved(self, space: str) -> int:
        moved = (instruction.moved_bytes(space) for instruction in self.code)
        return min([_MOST_MOVED_BYTES, *filter(None, moved)])

    def packed(self, values: Sequence[bytes]) -> bytes:
        """Packs arguments into the parameter bytes."""
        made = bytearray(self.parameter_bytes)
        for (begin, size), value in zip(self.parameters, values, strict=True):
            made[begin : begin + size] = value
        return bytes(made)


@dataclass(frozen=True)
class Program:
    """A module: kernels by name, and the constant tables that they share."""

    kernels: Mapping[str, Kernel]
    variables: np.ndarray

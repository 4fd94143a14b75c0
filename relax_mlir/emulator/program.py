"""What PTX is, when it is no text any more: kernels, instructions, variables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from relax_mlir.emulator.operands import DTYPES, Inverted, Operand, Register
from relax_mlir.emulator.stores import stored_parameters

__all__ = ["GLOBALS_ADDRESS", "Instruction", "Kernel", "Program"]

GLOBALS_ADDRESS = 1 << 56  # of a program's own variables


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        name: such as ``ld``; modifiers: what follows behind dots; the last is the type.
        guard: which threads do it; all if it is None.
        text: as it was written.
    """

    name: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | Inverted | None
    text: str

    @property
    def type(self) -> str:
        """The last modifier; none if there is none."""
        return self.modifiers[-1] if self.modifiers else ""

    @property
    def space(self) -> str:
        """The state space that it names; none if its addresses are generic."""
        names = (modifier.partition("::")[0] for modifier in self.modifiers)
        return next((name for name in names if name in _SPACES), "")

    @property
    def width(self) -> int:
        """How many elements it moves at once."""
        found = map(_VECTOR.fullmatch, self.modifiers)
        return next((int(match[1]) for match in found if match), 1)

    def moved_bytes(self, space: str) -> int | None:
        """Of a thread, to or from a space that others see; None if it moves none."""
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
        parameters: where each begins among the bytes of all, and its size.
        code: what every thread does; registers: bits of each.
        shared_bytes: static memory of a block, up to where the dynamic one begins.
        local_bytes: of a thread; most_threads: of a block, if it tells.
    """

    name: str
    parameters: tuple[tuple[int, int], ...]
    code: tuple[Instruction, ...]
    registers: tuple[int, ...]
    shared_bytes: int
    local_bytes: int
    most_threads: int | None

    @property
    def parameter_bytes(self) -> int:
        """Of all parameters."""
        return max((begin + size for begin, size in self.parameters), default=0)

    @cached_property
    def granule_bytes(self) -> Mapping[str, int]:
        """By space, the smallest pieces that it reads or writes, at multiples of them."""
        return {space: self._least_moved(space) for space in ("global", "shared")}

    @cached_property
    def stored(self) -> frozenset[int] | None:
        """Where parameters begin that point to what it may write; None if all may."""
        return stored_parameters(self)

    def _least_moved(self, space: str) -> int:
        moved = (instruction.moved_bytes(space) for instruction in self.code)
        return min([_MOST_MOVED_BYTES, *filter(None, moved)])

    def packed(self, values: Sequence[bytes]) -> bytes:
        """The bytes of all parameters, where the kernel has them."""
        made = bytearray(self.parameter_bytes)
        for (begin, size), value in zip(self.parameters, values, strict=True):
            made[begin : begin + size] = value
        return bytes(made)


@dataclass(frozen=True)
class Program:
    """Kernels by name, and the variables that they share: tables of constants."""

    kernels: Mapping[str, Kernel]
    variables: np.ndarray

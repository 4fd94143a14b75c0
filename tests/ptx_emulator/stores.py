"""May-write analysis: the pointer parameters from which store addresses are computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tests.ptx_emulator.operands import (
    Address,
    Inverted,
    Operand,
    Pair,
    Register,
    Variable,
    members,
)

if TYPE_CHECKING:
    from tests.ptx_emulator.program import Instruction, Kernel

__all__ = ["stored_parameters"]

_ANY = -1  # what memory holds may point anywhere


def stored_parameters(kernel: Kernel) -> frozenset[int] | None:
    """Offsets of the parameters that a kernel may store through; None if unknown."""
    sources: dict[int, frozenset[int]] = {}
    is_changed = True
    while is_changed:  # until no register is computed from more
        is_changed = False
        for instruction in kernel.code:
            if instruction.name == "st" or not instruction.operands:
                continue
            target, *read = instruction.operands
            found = _loaded(kernel, instruction)
            for register in _registers(read):
                found |= sources.get(register.slot, frozenset())
            for register in _registers([target]):
                before = sources.get(register.slot, frozenset())
                if not found <= before:
                    sources[register.slot] = before | found
                    is_changed = True
    stored = frozenset[int]()
    for instruction in kernel.code:
        if instruction.name == "st" and instruction.space in ("global", ""):
            for register in _registers(instruction.operands[:1]):
                stored |= sources.get(register.slot, frozenset())
    return None if _ANY in stored else stored


def _loaded(kernel: Kernel, instruction: Instruction) -> frozenset[int]:
    """The parameter that an instruction loads, if it is one."""
    if instruction.name != "ld":
        return frozenset()
    place = instruction.operands[1]
    if instruction.space == "param" and isinstance(place, Address):
        base = place.base
        if isinstance(base, Variable):
            address = base.address + place.offset_bytes
            return frozenset(b for b, n in kernel.parameters if b <= address < b + n)
    return frozenset({_ANY})


def _registers(operands: Sequence[Operand]) -> Iterator[Register]:
    for operand in operands:
        for member in members(operand):
            if isinstance(member, Register):
                yield member
            elif isinstance(member, Inverted):
                yield member.register
            elif isinstance(member, Pair):
                yield from _registers([member.first, member.second])
            elif isinstance(member, Address):
                yield from _registers([member.base])

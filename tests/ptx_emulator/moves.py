"""Data-movement PTX instructions: ``ld``, ``st``, ``mov``, ``cvta``, prefetch, fences.

Source: NVIDIA, PTX ISA: data movement and conversion.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from relax_mlir.errors import EmulationError
from tests.ptx_emulator.machine import Effect, Machine, Mask
from tests.ptx_emulator.memory import WINDOWS
from tests.ptx_emulator.operands import (
    DTYPES,
    Address,
    Group,
    members,
    unsigned,
)
from tests.ptx_emulator.program import Instruction

__all__ = ["MOVES"]


def _load(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    target, place = instruction.operands
    dtype = DTYPES[instruction.type]
    found = machine.spaces.load(
        instruction.space,
        machine.addresses(place),
        dtype,
        instruction.width,
        mask,
        is_constant="nc" in instruction.modifiers,
    )
    registers = members(target)
    if len(registers) != instruction.width:
        raise EmulationError(f"expected {instruction.width} registers")
    for number, register in enumerate(registers):
        machine.write(register, np.ascontiguousarray(found[:, number]), mask)


def _store(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    place, source = instruction.operands
    dtype = unsigned(DTYPES[instruction.type].itemsize)
    values = [machine.read(register, dtype) for register in members(source)]
    if len(values) != instruction.width:
        raise EmulationError(f"expected {instruction.width} values")
    stacked = np.stack(np.broadcast_arrays(*values), axis=1)
    addresses = machine.addresses(place)
    machine.spaces.store(instruction.space, addresses, stacked, mask)


def _move(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``mov``, including packing and unpacking of vectors."""
    target, source = instruction.operands
    if instruction.type == "pred":
        machine.write(target, machine.predicate(source), mask)
        return
    if isinstance(source, Address):
        raise EmulationError("expected a value")
    size = DTYPES[instruction.type].itemsize
    if isinstance(source, Group):
        part = unsigned(size // len(source.members))
        values = [machine.read(member, part) for member in source.members]
        stacked = np.stack(np.broadcast_arrays(*values), axis=1)
        machine.write(target, stacked.view(unsigned(size))[:, 0], mask)
        return
    value = machine.read(source, unsigned(size))
    if not isinstance(target, Group):
        machine.write(target, value, mask)
        return
    part = unsigned(size // len(target.members))
    split = np.ascontiguousarray(value).view(part).reshape(-1, len(target.members))
    for number, member in enumerate(target.members):
        machine.write(member, np.ascontiguousarray(split[:, number]), mask)


def _convert_address(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``cvta``: converts between generic addresses and those of a space."""
    target, source = instruction.operands
    size = DTYPES[instruction.type].itemsize
    value = machine.read(source, unsigned(size)).astype(np.int64)
    window = WINDOWS[instruction.space]
    is_back = "to" in instruction.modifiers
    value = value - window if is_back else value + window
    machine.write(target, value.view(np.uint64), mask)


def _nothing(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """No operation: hints, and fences, because memory is sequentially consistent here."""


def _prefetch(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``prefetch``: only checks that the address is mapped."""
    if instruction.space == "global":
        machine.spaces.refuse_outside(machine.addresses(instruction.operands[0]), mask)


def _control_grids(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``griddepcontrol``: ``wait`` is recorded, ``launch_dependents`` is ignored."""
    if "wait" in instruction.modifiers:
        machine.lanes.is_late[slice(None) if mask is None else mask] = True


MOVES: Mapping[str, Effect] = {
    "cvta": _convert_address,
    "fence": _nothing,
    "griddepcontrol": _control_grids,
    "ld": _load,
    "membar": _nothing,
    "mov": _move,
    "prefetch": _prefetch,
    "setmaxnreg": _nothing,
    "st": _store,
}

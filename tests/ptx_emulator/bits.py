"""Bitwise PTX instructions: logic, shifts, bit fields.

Source: NVIDIA, PTX ISA: logic and shift instructions, integer arithmetic on fields of bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from relax_mlir.errors import EmulationError
from tests.ptx_emulator.arithmetic import typed
from tests.ptx_emulator.machine import Effect, Machine, Mask
from tests.ptx_emulator.operands import WORD, Operand, unsigned
from tests.ptx_emulator.program import Instruction

__all__ = ["BITS"]


def _bits(function: Callable[..., np.ndarray]) -> Effect:
    def effect(machine: Machine, instruction: Instruction, mask: Mask) -> None:
        target, *operands = instruction.operands
        if instruction.type == "pred":
            values = [machine.predicate(operand) for operand in operands]
        else:
            values = [typed(machine, operand, instruction.type) for operand in operands]
        machine.write(target, function(*values), mask)

    return effect


def _shift(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``shl``, ``shr``; shift amounts are clamped to the width."""
    target, value, distance = instruction.operands
    values = typed(machine, value, instruction.type)
    far = machine.read(distance, WORD)
    bits = 8 * values.dtype.itemsize
    steps = np.minimum(far, bits - 1).astype(values.dtype)
    shifted = values << steps if instruction.name == "shl" else values >> steps
    if instruction.name == "shl" or values.dtype.kind == "u":
        shifted = np.where(far >= bits, values.dtype.type(0), shifted)
    machine.write(target, shifted, mask)


def _words(machine: Machine, operands: tuple[Operand, ...]) -> list[np.ndarray]:
    """Operands of 32 bits, zero-extended to 64."""
    return [machine.read(operand, WORD).astype(np.uint64) for operand in operands]


def _funnel_shift(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    direction, mode, _ = instruction.modifiers
    target, *operands = instruction.operands
    low, high, far = _words(machine, tuple(operands))
    far = far & np.uint64(31) if mode == "wrap" else np.minimum(far, np.uint64(32))
    both = high << np.uint64(32) | low
    shifted = both >> far
    if direction == "l":
        shifted = both << far >> np.uint64(32)
    machine.write(target, shifted.astype(WORD), mask)


def _mask_of(length: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A mask of low bits."""
    bits = 8 * dtype.itemsize
    one = dtype.type(1)
    some = (one << np.minimum(length, bits - 1).astype(dtype)) - one
    return np.where(length >= bits, ~dtype.type(0), some)


def _field(
    machine: Machine, operands: tuple[Operand, ...], dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Position and length of a bit field, and whether it is non-empty."""
    bits = 8 * dtype.itemsize
    begin, length = (machine.read(o, WORD) & np.uint32(255) for o in operands)
    begin = np.minimum(begin, bits)
    return begin, np.minimum(length, bits - begin), length > 0


def _extract_bits(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    target, value, *field = instruction.operands
    values = typed(machine, value, instruction.type)
    dtype = unsigned(values.dtype.itemsize)
    begin, length, is_any = _field(machine, tuple(field), dtype)
    last = dtype.type(8 * dtype.itemsize - 1)
    ones = _mask_of(length, dtype)
    raw = values.view(dtype)
    found = raw >> np.minimum(begin, last).astype(dtype) & ones
    found = np.where(begin > last, dtype.type(0), found)
    if values.dtype.kind == "i":
        end = np.minimum(np.maximum(begin + length, 1) - 1, last).astype(dtype)
        is_negative = (raw >> end & dtype.type(1)).astype(bool) & is_any
        found = np.where(is_negative, found | ~ones, found)
    machine.write(target, found, mask)


def _insert_bits(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``bfi``: inserts the low bits of the first operand into the second."""
    target, source, into, *field = instruction.operands
    values, whole = (typed(machine, o, instruction.type) for o in (source, into))
    begin, length, _ = _field(machine, tuple(field), values.dtype)
    last = values.dtype.type(8 * values.dtype.itemsize - 1)
    steps = np.minimum(begin, last).astype(values.dtype)
    ones = np.where(begin > last, values.dtype.type(0), _mask_of(length, values.dtype))
    made = (whole & ~(ones << steps)) | (values & ones) << steps
    machine.write(target, made, mask)


def _permute_bytes(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``prmt``: selects each byte from eight, optionally replicating its sign."""
    if instruction.type != "b32" or len(instruction.modifiers) > 1:
        raise EmulationError("only `prmt.b32` is supported")
    target, *operands = instruction.operands
    low, high, choice = _words(machine, tuple(operands))
    both = high << np.uint64(32) | low
    made = np.zeros(1, np.uint64)
    for place in range(0, 32, 8):
        pick = choice >> np.uint64(place // 2)
        byte = both >> (pick & np.uint64(7)) * np.uint64(8) & np.uint64(255)
        sign = (byte >> np.uint64(7)) * np.uint64(255)
        byte = np.where(pick & np.uint64(8), sign, byte)
        made = made | byte << np.uint64(place)
    machine.write(target, made.astype(WORD), mask)


def _any_logic(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``lop3``: a truth table of eight bits for three operands."""
    target, *operands, table = instruction.operands
    values = [machine.read(operand, WORD) for operand in operands]
    bits = machine.same(machine.read(table, WORD), None)
    made = np.zeros(1, np.uint32)
    for place in range(8):
        if bits >> place & 1:
            flags = (place >> 2 & 1, place >> 1 & 1, place & 1)
            each = [v if flag else ~v for v, flag in zip(values, flags, strict=True)]
            made = made | (each[0] & each[1] & each[2])
    machine.write(target, made, mask)


def _count(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``popc``, ``clz``."""
    target, value = instruction.operands
    values = typed(machine, value, instruction.type)
    if instruction.name == "popc":
        found = np.bitwise_count(values)
    else:
        bits = 8 * values.dtype.itemsize
        lengths = [bits - int(v).bit_length() for v in values]
        found = np.array(lengths)
    machine.write(target, found.astype(np.uint32), mask)


BITS: Mapping[str, Effect] = {
    "and": _bits(np.bitwise_and),
    "bfe": _extract_bits,
    "bfi": _insert_bits,
    "clz": _count,
    "lop3": _any_logic,
    "not": _bits(np.invert),
    "or": _bits(np.bitwise_or),
    "popc": _count,
    "prmt": _permute_bytes,
    "shf": _funnel_shift,
    "shl": _shift,
    "shr": _shift,
    "xor": _bits(np.bitwise_xor),
}

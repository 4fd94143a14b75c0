"""Warp-level instructions: ``shfl.sync``, ``ldmatrix``, ``mma.sync``.

Source: NVIDIA, PTX ISA: shfl.sync, ldmatrix, mma.m16n8k16, mma.m16n8k8.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from relax_mlir.errors import EmulationError
from tests.ptx_emulator.lanes import WARP
from tests.ptx_emulator.machine import Effect, Machine, Mask
from tests.ptx_emulator.operands import DTYPES, PAIRS, WORD, Operand, members
from tests.ptx_emulator.program import Instruction

__all__ = ["WARP_EFFECTS", "element_bytes", "elements", "fragments"]

_ALL = 0xFFFFFFFF
_TF32_BITS = np.uint32(0xFFFFE000)  # of a number, that tensor cores read
_FACTORS = {
    **{name: DTYPES[name] for name in ("f16", "bf16")},
    "tf32": DTYPES["f32"],
    **{name: PAIRS[f"{name}x2"] for name in ("e4m3", "e5m2")},
}


def _refuse_parts(machine: Machine) -> None:
    if machine.lanes.threads % WARP:
        raise EmulationError("expected whole warps")


def _shuffle(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    target, source, distance, limits, *members = instruction.operands
    lanes = machine.lanes
    _refuse_parts(machine)
    if machine.same(machine.read(members[0], WORD), mask) != _ALL:
        raise EmulationError("expected a shuffle of all threads of a warp")
    values = machine.spread(machine.read(source, WORD))
    far = machine.read(distance, WORD).astype(np.int64) & 31
    word = machine.read(limits, WORD).astype(np.int64)
    lane = lanes.numbers % WARP
    segment, clamp = word >> 8 & 31, word & 31
    last, first = lane & segment | clamp & ~segment, lane & segment
    mode = instruction.modifiers[1]
    from_ = {
        "up": lane - far,
        "down": lane + far,
        "bfly": lane ^ far,
        "idx": first | far & ~segment,
    }[mode]
    is_valid = from_ >= last if mode == "up" else from_ <= last
    from_ = np.where(is_valid, from_, lane) + (lanes.numbers - lane)
    if mask is not None and (mask & ~mask[from_]).any():
        raise EmulationError("a shuffle from an inactive thread")
    machine.write_pair(target, values[from_], is_valid, mask)


def _load_matrices(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``ldmatrix``: lane ``8 * t + r`` has the address of row ``r`` of matrix ``t``."""
    target, place = instruction.operands
    _refuse_parts(machine)
    registers = members(target)
    count = len(registers)
    addresses = machine.spread(machine.addresses(place))
    tells = machine.lanes.numbers % WARP < 8 * count
    active = tells if mask is None else tells & mask
    found = machine.spaces.load("shared", addresses, np.dtype(np.uint16), 8, active)
    rows = found.reshape(-1, WARP, 8)
    lane = np.arange(WARP)
    for number, register in enumerate(registers):
        tile = rows[:, 8 * number : 8 * number + 8]
        if "trans" in instruction.modifiers:
            tile = tile.swapaxes(1, 2)
        pair = [tile[:, lane // 4, 2 * (lane % 4) + half] for half in range(2)]
        words = np.stack(pair, axis=-1).view(np.uint32).reshape(-1)
        machine.write(register, words, mask)


def fragments(machine: Machine, words: Operand, kind: str) -> np.ndarray:
    """Operand fragments: ``[register, lane, element]``, as f32."""
    raw = [machine.spread(machine.read(word, WORD)) for word in members(words)]
    return elements(np.stack(raw)[..., None], kind)


def elements(raw: np.ndarray, kind: str) -> np.ndarray:
    """Operand elements as tensor cores read them, in f32, from bits ``[..., n]``."""
    found = np.ascontiguousarray(raw).view(_FACTORS[kind])
    if kind == "tf32":  # the lower bits are not read
        found = (found.view(np.uint32) & _TF32_BITS).view(np.float32)
    return found.astype(np.float32)


def element_bytes(kind: str) -> int:
    """Size of an operand element."""
    return _FACTORS[kind].itemsize


def _multiply_matrices(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``mma.sync``: m16n8k16 of f16 or bf16, m16n8k8 of TF32."""
    _refuse_parts(machine)
    target, *groups = instruction.operands
    *known, _, kind, other, sums_type = instruction.modifiers
    shape = next(text for text in known if text.startswith("m16n8k"))
    if kind != other or kind not in ("f16", "bf16", "tf32") or sums_type != "f32":
        raise EmulationError("unsupported matmul shape or type")
    left, right, start = groups
    rows_of, columns_of = (
        fragments(machine, left, kind),
        fragments(machine, right, kind),
    )
    width = rows_of.shape[2]  # elements of a register
    depth = 2 * width * len(rows_of)
    if shape != f"m16n8k{depth}":
        raise EmulationError(f"a product of {depth} steps")
    warps, lane = machine.lanes.count // WARP, np.arange(WARP)
    group, place = lane // 4, width * (lane % 4)
    rows = np.empty((warps, 16, depth), np.float32)
    columns = np.empty((warps, depth, 8), np.float32)
    for part in range(width):
        for n, register in enumerate(rows_of):
            step = place + part + depth // 2 * (n // 2)
            rows[:, group + 8 * (n % 2), step] = register[:, part].reshape(warps, WARP)
        for n, register in enumerate(columns_of):
            step = place + part + depth // 2 * n
            columns[:, step, group] = register[:, part].reshape(warps, WARP)
    found = rows @ columns
    float_ = np.dtype(np.float32)
    for n, (register, old) in enumerate(
        zip(members(target), members(start), strict=True)
    ):
        own = found[:, group + 8 * (n // 2), 2 * (lane % 4) + n % 2].reshape(-1)
        machine.write(register, machine.read(old, float_) + own, mask)


WARP_EFFECTS: Mapping[str, Effect] = {
    "ldmatrix": _load_matrices,
    "mma": _multiply_matrices,
    "shfl": _shuffle,
}

"""Warpgroup instructions: ``wgmma.mma_async``, descriptors, fences, groups.

Source: NVIDIA, PTX ISA: wgmma.mma_async, its fragments and matrix descriptors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from relax_mlir.errors import EmulationError
from tests.ptx_emulator.busy import Busy, busy, refuse_busy, swizzled
from tests.ptx_emulator.lanes import WARP, WARPGROUP
from tests.ptx_emulator.machine import Effect, Machine, Mask
from tests.ptx_emulator.operands import Group, Operand, Register, members
from tests.ptx_emulator.program import Instruction
from tests.ptx_emulator.warps import element_bytes, elements, fragments

__all__ = ["WARPGROUP_EFFECTS"]

_ROWS = 64  # M of an instruction
_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
_LONG, _FLOAT = np.dtype(np.uint64), np.dtype(np.float32)


@dataclass
class _Uses:
    """Resources in use by asynchronous matmuls.

    Attributes:
        matrices: in shared memory; read, written: registers.
    """

    matrices: list[Busy] = field(default_factory=list)
    read: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)


@dataclass
class _PendingWgmma:
    """Pending ``wgmma`` of a warpgroup, by group.

    Attributes:
        open: not committed yet; is_fenced: whether registers were fenced.
    """

    closed: list[_Uses] = field(default_factory=list)
    open: _Uses = field(default_factory=_Uses)
    is_fenced: bool = False

    def mark(self, machine: Machine) -> None:
        """Marks the registers in use."""
        groups = [*self.closed, self.open]
        machine.read_later = set().union(*(uses.read for uses in groups))
        machine.written_later = set().union(*(uses.written for uses in groups))


def _do(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``wgmma``: computed at once, but inaccessible until the wait."""
    lanes, products = machine.lanes, machine.state(_PendingWgmma)
    if lanes.count != WARPGROUP or lanes.first % WARPGROUP or mask is not None:
        raise EmulationError("expected all threads of a warpgroup")
    kind = instruction.modifiers[0]
    if kind == "fence":
        products.is_fenced = True
    elif kind == "commit_group":
        products.closed.append(products.open)
        products.open = _Uses()
    elif kind == "wait_group":
        left = machine.same(machine.read(instruction.operands[0], _LONG), None)
        while len(products.closed) > left:
            for matrix in products.closed.pop(0).matrices:
                busy(lanes.team).remove(matrix)
        products.mark(machine)
        products.is_fenced = False
    elif kind == "mma_async":
        # What threads do to its registers behind the fence, assemblers put in front of one.
        if not products.is_fenced:
            raise EmulationError("wgmma without a fence")
        _multiply(machine, instruction, products.open)
        products.mark(machine)
    else:
        raise EmulationError("unsupported instruction")


def _multiply(machine: Machine, instruction: Instruction, uses: _Uses) -> None:
    shape = next(filter(None, map(_SHAPE.fullmatch, instruction.modifiers)))
    columns, steps = int(shape[1]), int(shape[2])
    sums_type, kind, other = instruction.modifiers[-3:]
    if sums_type != "f32" or kind != other:
        raise EmulationError("unsupported matmul shape or type")
    sums, left, right, keeps, *numbers = instruction.operands
    scales = [machine.same(machine.read(n, np.dtype("i4")), None) for n in numbers]
    if scales[:2] != [1, 1]:
        raise EmulationError("scaled wgmma is unsupported")
    transposed = [*([0] * (2 - len(scales[2:]))), *scales[2:]]  # of each operand
    own = _slots(sums)
    if isinstance(left, Group):
        uses.read |= _slots(left)
        rows = _from_registers(machine, left, kind)
    else:
        rows, matrix = _from_memory(machine, left, _ROWS, steps, kind, transposed[0])
        uses.matrices.append(matrix)
    across, matrix = _from_memory(machine, right, columns, steps, kind, transposed[1])
    uses.matrices.append(matrix)
    product = rows @ across.T
    old = machine.predicate(keeps)
    machine.written_later = (
        machine.written_later - own
    )  # wgmma on the same accumulators
    numbers_ = machine.lanes.numbers
    warp, lane = numbers_ // WARP, numbers_ % WARP
    for number, register in enumerate(members(sums)):
        n, part = divmod(number, 4)
        row = 16 * warp + lane // 4 + 8 * (part // 2)
        found = product[row, 8 * n + 2 * (lane % 4) + part % 2]
        start = np.where(old, machine.read(register, _FLOAT), np.float32(0))
        machine.write(register, start + found, None)
    uses.written |= own


def _slots(registers: Operand) -> set[int]:
    return {one.slot for one in members(registers) if isinstance(one, Register)}


def _from_registers(machine: Machine, words: Operand, kind: str) -> np.ndarray:
    """The A operand from registers: 64 x 16, eight elements in four registers per thread."""
    found = fragments(machine, words, kind)
    made = np.empty((_ROWS, 16), np.float32)
    numbers = machine.lanes.numbers
    warp, lane = numbers // WARP, numbers % WARP
    for number, register in enumerate(found):
        for half in range(2):
            row = 16 * warp + lane // 4 + 8 * (number % 2)
            step = 8 * (number // 2) + 2 * (lane % 4) + half
            made[row, step] = register[:, half]
    return made


def _from_memory(
    machine: Machine,
    descriptor: Operand,
    places: int,
    steps: int,
    kind: str,
    is_transposed: int,
) -> tuple[np.ndarray, Busy]:
    """The operand of a descriptor in shared memory as ``[point, k]``, with its byte ranges.

    Args:
        is_transposed: whether it is MN-major, not K-major.
    """
    word = machine.same(machine.read(descriptor, _LONG), None)
    begin, lead, stride = (((word >> at) & 0x3FFF) << 4 for at in (0, 16, 32))
    if word >> 62 & 3 != 1 or word >> 49 & 7:
        raise EmulationError("expected a matrix with the 128-byte swizzle")
    size = element_bytes(kind)
    place, step = np.arange(places)[:, None], np.arange(steps)[None]
    if is_transposed:
        wide = 128 // size
        offsets = place // wide * lead + step // 8 * stride
        offsets = offsets + step % 8 * 128 + place % wide * size
    else:
        offsets = place // 8 * stride + place % 8 * 128 + step * size
    addresses = swizzled(begin + offsets)
    shared = machine.spaces.shared
    first, end = int(addresses.min()), int(addresses.max()) + size
    if end > shared.size_bytes:
        raise EmulationError("a matrix is outside of shared memory")
    team = machine.lanes.team
    refuse_busy(team, addresses.reshape(-1), size, is_written=False)
    machine.spaces.refuse_written(addresses, size)
    read = Busy(first, end, is_written=False)
    busy(team).append(read)
    bytes_ = shared.rows[0][addresses[..., None] + np.arange(size)]
    return elements(bytes_, kind)[..., 0], read


WARPGROUP_EFFECTS: Mapping[str, Effect] = {"wgmma": _do}

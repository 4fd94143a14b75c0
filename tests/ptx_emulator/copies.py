"""Asynchronous copies to shared memory: ``cp.async`` and TMA.

Source: NVIDIA, PTX ISA: cp.async, cp.async.bulk.tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from relax_mlir.errors import EmulationError
from tests.ptx_emulator.barriers import barrier_at
from tests.ptx_emulator.busy import Busy, busy, refuse_busy, swizzled
from tests.ptx_emulator.descriptors import Descriptor
from tests.ptx_emulator.forms import BOX_COPY, BOX_PREFETCH
from tests.ptx_emulator.machine import Effect, Machine, Mask
from tests.ptx_emulator.memory import POISON
from tests.ptx_emulator.operands import WORD, Register, TensorAddress
from tests.ptx_emulator.program import Instruction

__all__ = ["COPIES"]

_BYTE = np.dtype(np.uint8)


@dataclass(frozen=True)
class _Copy:
    """An asynchronous copy in flight.

    Attributes:
        addresses: in shared memory; values: bytes of each lane; mask: active lanes.
        groups: commit group, by lane.
    """

    addresses: np.ndarray
    values: np.ndarray
    mask: np.ndarray
    groups: np.ndarray


@dataclass
class _Copies:
    """The asynchronous copies of some threads.

    Attributes:
        pending: in flight; commits: number of committed groups, by thread.
    """

    pending: list[_Copy] = field(default_factory=list)
    commits: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))


def _copy(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``cp.async``: copies, groups, and TMA."""
    kinds = instruction.modifiers[1]
    if instruction.modifiers[0] != "async":
        raise EmulationError("unsupported instruction")
    if kinds in ("ca", "cg"):
        _begin(machine, instruction, mask)
    elif kinds == "commit_group":
        copies = machine.state(_Copies)
        copies.commits = copies.commits + (1 if mask is None else mask)
    elif kinds in ("wait_group", "wait_all"):
        _wait(machine, instruction, mask)
    elif "prefetch" in instruction.modifiers:
        _ask_for_box(machine, instruction, mask)
    elif kinds == "bulk" and "tensor" in instruction.modifiers:
        _copy_box(machine, instruction, mask)
    else:
        raise EmulationError("unsupported instruction")


def _begin(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """Issues the copy of each thread; bytes past the source size are 0."""
    target, source, size, *given = instruction.operands
    if any(isinstance(g, Register) and g.bits == 1 for g in given) or len(given) > 1:
        raise EmulationError("unsupported form of an instruction")
    size_bytes = machine.same(machine.read(size, WORD), None)
    if size_bytes not in (4, 8, 16):
        raise EmulationError("expected 4, 8 or 16 bytes")
    lanes, spaces = machine.lanes, machine.spaces
    addresses = machine.spread(machine.addresses(target))
    sources = machine.spread(machine.addresses(source))
    read = machine.read(given[0], WORD) if given else np.array([size_bytes])
    read = machine.spread(read)
    active = np.ones(lanes.count, bool) if mask is None else np.array(mask)
    values = np.zeros((lanes.count, size_bytes), np.uint8)
    whole = active & (read >= size_bytes)
    if whole.any():
        found = spaces.load("global", sources, WORD, size_bytes // 4, whole)
        values[whole] = found.view(np.uint8)[whole]
    for number in range(size_bytes):  # of those that read a part
        some = active & ~whole & (number < read)
        if some.any():
            found = spaces.load("global", sources + number, _BYTE, 1, some)
            values[some, number] = found[some, 0]
    if (sources[active] % size_bytes != 0).any():
        raise EmulationError(f"a copy is not aligned to {size_bytes} bytes")
    poison = np.full((lanes.count, size_bytes), POISON, np.uint8)
    spaces.store("shared", addresses, poison.view(WORD), mask)
    copies = machine.state(_Copies)
    copies.pending.append(_Copy(addresses, values, active, copies.commits))


def _wait(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``wait_group``: waits until at most N groups of a thread are pending."""
    copies = machine.state(_Copies)
    arrives = copies.commits + 1
    if instruction.modifiers[1] == "wait_group":
        left = machine.same(machine.read(instruction.operands[0], WORD), None)
        arrives = copies.commits - left
    waiting: list[_Copy] = []
    for copy in copies.pending:
        lands = copy.mask & (copy.groups < arrives)
        lands = lands if mask is None else lands & mask
        if lands.any():
            values = copy.values.view(np.uint32)
            machine.spaces.store(
                "shared", copy.addresses, values, lands, is_counted=False
            )
        others = copy.mask & ~lands
        if others.any():
            waiting.append(_Copy(copy.addresses, copy.values, others, copy.groups))
    copies.pending = waiting


def _ask_for_box(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """TMA prefetch to L2."""
    if not BOX_PREFETCH.issuperset(instruction.modifiers):
        raise EmulationError("unsupported instruction")
    (tensor,) = instruction.operands
    assert isinstance(tensor, TensorAddress)
    _described(machine, instruction, tensor, mask)


def _described(
    machine: Machine, instruction: Instruction, tensor: TensorAddress, mask: Mask
) -> tuple[Descriptor, list[int]]:
    """The tensor map of a TMA instruction, and the coordinates of its box."""
    map_ = machine.same(machine.read(tensor.map, np.dtype(np.int64)), mask)
    descriptor = Descriptor.decoded(machine.spaces.tensor_map(map_))
    first = [machine.same(machine.read(n, np.dtype("i4")), mask) for n in tensor.first]
    if f"{len(first)}d" not in instruction.modifiers or len(first) != len(
        descriptor.sizes
    ):
        raise EmulationError(f"a tensor of {len(descriptor.sizes)} dimensions")
    if first[0] * descriptor.element_bytes % _COORDINATE_BYTES:
        raise EmulationError(
            f"a box starts at element {first[0]} of a row: expected a multiple of 16 bytes"
        )
    return descriptor, first


def _copy_box(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """Issues a TMA copy; out-of-bounds elements are 0."""
    if not BOX_COPY.issuperset(instruction.modifiers):
        raise EmulationError("unsupported instruction")
    target, tensor, barrier = instruction.operands
    assert isinstance(tensor, TensorAddress)
    if len(machine.active(mask)) != 1:
        raise EmulationError("expected one thread to issue the copy")
    team, shared = machine.lanes.team, machine.spaces.shared
    descriptor, first = _described(machine, instruction, tensor, mask)
    machine.spaces.refuse_early("global", np.array([descriptor.address]), mask)
    bytes_ = _box(machine, descriptor, first)
    begin = machine.same(machine.addresses(target), mask)
    is_swizzled = descriptor.swizzle_bytes > 0
    if descriptor.swizzle_bytes not in (0, _ROW_BYTES):
        raise EmulationError("unsupported swizzle")
    if begin % (1024 if is_swizzled else 128):
        raise EmulationError(f"a box starts at byte {begin} of the block's memory")
    end = begin + len(bytes_)
    if begin < 0 or end > shared.size_bytes:
        raise EmulationError("a box is outside of shared memory")
    places = np.arange(begin, end)
    places = swizzled(places) if is_swizzled else places
    refuse_busy(team, np.array([begin]), end - begin, is_written=True)
    mine = Busy(begin, end, is_written=True)
    busy(team).append(mine)
    row = shared.rows[0]
    row[places] = POISON
    arrived = barrier_at(machine, machine.same(machine.addresses(barrier), mask), mask)

    def land() -> None:
        row[places] = bytes_
        busy(team).remove(mine)
        arrived.bring(len(bytes_))

    team.landing.append(land)


_COORDINATE_BYTES = 16  # others are an illegal instruction on an H200
_ROW_BYTES = 128  # of which the emulator knows how they are swizzled


def _box(machine: Machine, map_: Descriptor, first: list[int]) -> np.ndarray:
    """The bytes of a box at some coordinates, innermost dimension first."""
    if not all(map_.sizes):
        raise EmulationError("a copy from an empty tensor, which has no tensor map")
    strides = (map_.element_bytes, *map_.strides_bytes)
    counts = [-(-n // s) for n, s in zip(map_.box, map_.steps, strict=True)]
    inside = np.ones(counts[::-1], bool)
    offsets = np.zeros(counts[::-1], np.int64)
    rank = len(first)
    for axis, count in enumerate(counts):
        along = [1] * rank
        along[rank - 1 - axis] = count
        where = (first[axis] + np.arange(count) * map_.steps[axis]).reshape(along)
        inside &= (where >= 0) & (where < map_.sizes[axis])
        offsets = offsets + where * strides[axis]
    places = map_.address + offsets[inside]
    values = np.zeros((*inside.shape, map_.element_bytes), np.uint8)
    if len(places):
        first_place, size = int(places.min()), map_.element_bytes
        values[inside] = machine.spaces.launch.copied(first_place, places, size)
    return values.reshape(-1)


COPIES: Mapping[str, Effect] = {"cp": _copy}

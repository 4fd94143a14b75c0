"""Boxes of tensors that the copy engine brings to a block's memory.

Source: NVIDIA, PTX ISA, cp.async.bulk.tensor; CUDA driver API, ``cuTensorMapEncodeTiled``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from mlir import ir

from relax_mlir.dialects.tir import marks
from relax_mlir.emulator.barriers import barrier_at
from relax_mlir.emulator.lanes import Team
from relax_mlir.emulator.memory import Buffer, EmulationError, Memory, poison

if TYPE_CHECKING:
    from relax_mlir.emulator.interpreter import Instruction, Interpreter

__all__ = ["SWIZZLE_BYTES", "TENSOR_MAP_EFFECTS", "Busy", "refuse_busy", "swizzled"]

Mask = np.ndarray | None

SWIZZLE_BYTES = 128  # of a row whose 16-byte pieces change places


def swizzled(addresses: np.ndarray) -> np.ndarray:
    """Where bytes of rows of 128 are, by where they would be."""
    return addresses ^ ((addresses >> 7 & 7) << 4)


@dataclass(eq=False)
class Busy:
    """Bytes of a block's memory that something still reads or writes by itself.

    Attributes:
        begin, end: addresses; is_written: whether they are written.
    """

    begin: int
    end: int
    is_written: bool


class _AllBusy(list[Busy]):
    """Those of a team."""


def busy(team: Team) -> list[Busy]:
    """What is read or written by itself."""
    return team.once(_AllBusy, _AllBusy)


def refuse_busy(team: Team, begin: int, end: int, *, is_written: bool) -> None:
    """Refuse that bytes are read before they have come, or overwritten before they are read.

    Raises:
        EmulationError: they are.
    """
    for other in busy(team):
        if other.begin < end and begin < other.end:
            if other.is_written:
                raise EmulationError("race: a copy has not brought what is there")
            if is_written:
                raise EmulationError("race: a product still reads what is there")


@dataclass
class _TensorMap:
    """A tensor, and the box of it that one copy brings.

    Attributes:
        sizes, box: outermost first; steps: of which elements it takes each so many-th.
    """

    buffer: Buffer
    sizes: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    is_swizzled: bool


def _create(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> list[_TensorMap]:
    buffer, *box = machine.operands(instruction)
    text = str(instruction.operation.operation.results[0].type)
    swizzle = text.partition("swizzle = ")[2].partition(",")[0]
    if swizzle not in ("none", "swizzle_none", "swizzle_128b"):
        raise EmulationError(f"the emulator does not know {swizzle}")
    if "oob = zero, interleave = none" not in text:
        raise EmulationError(f"the emulator does not know {text}")
    sizes, extents = (
        tuple(machine.same(np.atleast_1d(n), mask) for n in numbers)
        for numbers in (buffer.sizes, box)
    )
    attributes = instruction.operation.attributes
    steps = (1,) * len(extents)
    if marks.STEPS in attributes:
        steps = tuple(ir.DenseI64ArrayAttr(attributes[marks.STEPS]))
    made = _TensorMap(buffer, sizes, extents, steps, swizzle == "swizzle_128b")
    size = buffer.memory.array.itemsize
    *strides, inner = buffer.strides
    far = [buffer.offset, *strides]
    if inner != 1 or any(np.any(np.asarray(n) * size % 16) for n in far):
        raise EmulationError(
            f"a tensor that begins at element {buffer.offset[0]}, of strides "
            f"{buffer.strides}: expected multiples of 16 bytes, and 1"
        )
    _check_numbers(made, [int(np.asarray(n).flat[0]) * size for n in strides])
    spans = [(n - 1) * step + 1 for n, step in zip(made.box, steps, strict=True)]
    if max(spans) > 256 or steps[-1] != 1 or made.box[-1] * size % 16:
        raise EmulationError(f"a box of {made.box}: expected 16 bytes, at most 256")
    if made.is_swizzled and made.box[-1] * size > SWIZZLE_BYTES:
        raise EmulationError(f"rows of {made.box[-1] * size} bytes cannot be swizzled")
    return [made]


_MOST_STEP = 8
_MOST_ELEMENTS, _MOST_STRIDE_BYTES = 1 << 32, 1 << 40


def _check_numbers(made: _TensorMap, strides_bytes: Sequence[int]) -> None:
    """Refuse what the driver does not describe, and MLIR does not know.

    Raises:
        EmulationError: it does not.
    """
    if not all(0 <= n <= _MOST_ELEMENTS for n in made.sizes):
        raise EmulationError(f"a tensor of sizes {made.sizes}: expected up to 2**32")
    if not all(0 <= n < _MOST_STRIDE_BYTES for n in strides_bytes):
        raise EmulationError(f"strides of {strides_bytes} bytes: expected below 2**40")
    if not all(1 <= n <= _MOST_STEP for n in made.steps):
        raise EmulationError(f"a box by steps of {made.steps}: expected 1 to 8")


def _load(machine: Interpreter, instruction: Instruction, mask: Mask) -> None:
    """A box on its way; what lies outside of the tensor is 0."""
    target, group, map_, *where, number = machine.operands(instruction)
    lanes = machine.lanes
    if mask is None or int(mask.sum()) != 1:
        raise EmulationError("expected one thread to copy")
    if not all(map_.sizes):
        raise EmulationError("a copy from an empty tensor, which has no descriptor")
    first = [machine.same(n, mask) for n in where]
    values = _box(map_, first[::-1])
    bytes_ = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    memory: Memory = target.memory
    offset = int(np.broadcast_to(target.offset, lanes.count)[mask][0])
    begin = memory.address + offset * memory.array.itemsize
    if begin % (1024 if map_.is_swizzled else 128):
        raise EmulationError(f"a box begins at byte {begin} of the block's memory")
    end = begin + len(bytes_)
    if end > memory.address + memory.array.nbytes:
        raise EmulationError("a box leaves its buffer")
    places = np.arange(begin, end)
    places = (swizzled(places) if map_.is_swizzled else places) - memory.address
    team = lanes.team
    refuse_busy(team, begin, end, is_written=True)
    mine = Busy(begin, end, is_written=True)
    busy(team).append(mine)
    array = memory.array.view(np.uint8)
    array[places] = poison(values.size, values.dtype).view(np.uint8)
    barrier = barrier_at(machine, group, machine.same(number, mask))

    def land() -> None:
        array[places] = bytes_
        busy(team).remove(mine)
        barrier.bring(len(bytes_))

    team.landing.append(land)


def _box(map_: _TensorMap, first: list[int]) -> np.ndarray:
    """The elements of a box.

    Args:
        first: where it begins, outermost first.
    """
    axes = [
        np.arange(n) * step + at
        for n, step, at in zip(map_.box, map_.steps, first, strict=True)
    ]
    grid = np.meshgrid(*axes, indexing="ij", sparse=True)
    inside = np.ones(map_.box, bool)
    for place, size in zip(grid, map_.sizes, strict=True):
        inside &= (place >= 0) & (place < size)
    offsets = np.where(inside, map_.buffer.at(grid), 0)
    memory = map_.buffer.memory
    values = memory.read_as_nobody(offsets)
    return np.where(inside, values, values.dtype.type(0))


TENSOR_MAP_EFFECTS: Mapping[str, Callable[..., Any]] = {
    "nvgpu.tma.create.descriptor": _create,
    "nvgpu.tma.async.load": _load,
}

"""Copies to shared memory that go on by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from mlir import ir

from relax_mlir.emulator.memory import EmulationError, Memory, poison

if TYPE_CHECKING:
    from relax_mlir.emulator.interpreter import Instruction, Interpreter

__all__ = ["COPY_EFFECTS", "Copy"]


@dataclass
class Copy:
    """A copy on its way: what will be written where, and by whom."""

    memory: Memory
    places: np.ndarray
    values: np.ndarray
    mask: np.ndarray | None


def _copy_async(
    machine: Interpreter, instruction: Instruction, mask: np.ndarray | None
) -> list[None]:
    """``nvgpu.device_async_copy``: until it is waited for, nobody knows what is there."""
    attributes = instruction.operation.attributes
    segments = list(ir.DenseI32ArrayAttr(attributes["operandSegmentSizes"]))
    operands = iter(machine.operands(instruction))
    target, to, source, from_, given = (
        [next(operands) for _ in range(n)] for n in segments
    )
    count = ir.IntegerAttr(attributes["dstElements"]).value
    lanes = machine.lanes
    read = given[0] if given else np.array([count])
    offsets = np.broadcast_to(source[0].at(from_), lanes.count)
    some = np.broadcast_to(read > 0, lanes.count)
    active = some if mask is None else some & mask
    memory = source[0].memory
    values = memory.read(memory.places(offsets, count, active, lanes), active, lanes)
    values = np.where(np.arange(count) < read[:, None], values, values.dtype.type(0))
    bytes_ = count * values.dtype.itemsize
    where = np.broadcast_to(target[0].at(to), lanes.count)
    if bytes_ not in (4, 8, 16) or (where % count).any() or (offsets % count).any():
        raise EmulationError("expected 4, 8 or 16 bytes at multiples of them")
    memory = target[0].memory
    places = memory.places(where, count, mask, lanes)
    memory.write(
        places, poison(values.size, values.dtype).reshape(values.shape), mask, lanes
    )
    machine.copies[-1].append(Copy(memory, places, values, mask))
    return [None]


def _commit_copies(
    machine: Interpreter, instruction: Instruction, mask: np.ndarray | None
) -> None:
    machine.copies.append([])


def _wait_for_copies(
    machine: Interpreter, instruction: Instruction, mask: np.ndarray | None
) -> None:
    """``nvvm.cp.async.wait.group``: all groups but the last ``n`` have arrived."""
    left = ir.IntegerAttr(instruction.operation.attributes["n"]).value
    *groups, open_ = machine.copies
    arrived = groups[: len(groups) - left] if left else groups
    for group in arrived:
        for copy in group:
            copy.memory.write(copy.places, copy.values, copy.mask, machine.lanes)
    machine.copies = [*groups[len(arrived) :], open_]


COPY_EFFECTS: Mapping[str, Callable[..., Any]] = {
    "nvgpu.device_async_copy": _copy_async,
    "nvvm.cp.async.commit.group": _commit_copies,
    "nvvm.cp.async.wait.group": _wait_for_copies,
}

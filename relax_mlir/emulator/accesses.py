"""What kernels read and write, and views of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from mlir import ir

from relax_mlir.emulator.memory import Buffer, EmulationError, Memory, poison
from relax_mlir.emulator.operations import bit_mask, numpy_type

if TYPE_CHECKING:
    from relax_mlir.emulator.interpreter import Instruction, Interpreter

__all__ = ["ACCESS_EFFECTS"]

Mask = np.ndarray | None
Value = Any  # Any: an array of numbers by lane, or a Buffer


def _load(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> list[np.ndarray]:
    buffer, *indices = machine.operands(instruction)
    assert isinstance(buffer, Buffer)
    return [_read(machine, buffer, buffer.at(indices), instruction, mask)]


def _width(type_: ir.Type) -> int:
    if not isinstance(type_, ir.VectorType):
        return 1
    if len(type_.shape) != 1:
        raise EmulationError("vectors of memory have one dimension")
    return type_.shape[0]


def _read(
    machine: Interpreter,
    buffer: Buffer,
    offsets: np.ndarray,
    instruction: Instruction,
    mask: Mask,
) -> np.ndarray:
    type_ = instruction.operation.operation.results[0].type
    count = _width(type_)
    places = buffer.memory.places(offsets, count, mask, machine.lanes)
    found = buffer.memory.read(places, mask, machine.lanes)
    bits = bit_mask(type_)
    if bits is not None:
        found = found & bits
    return (
        found
        if not isinstance(type_, ir.VectorType) or count > 1
        else found.reshape(-1, 1)
    )


def _store(machine: Interpreter, instruction: Instruction, mask: Mask) -> None:
    value, buffer, *indices = machine.operands(instruction)
    assert isinstance(buffer, Buffer)
    _write(machine, value, buffer, buffer.at(indices), instruction, mask)


def _write(
    machine: Interpreter,
    value: np.ndarray,
    buffer: Buffer,
    offsets: np.ndarray,
    instruction: Instruction,
    mask: Mask,
) -> None:
    count = _width(instruction.operation.operation.operands[0].type)
    if value.ndim == 2 and count == 1:
        value = value[:, 0]
    places = buffer.memory.places(offsets, count, mask, machine.lanes)
    buffer.memory.write(places, value, mask, machine.lanes)


def _lane_mask(lanes: np.ndarray, mask: Mask) -> np.ndarray:
    return lanes if mask is None else lanes & mask[:, None]


def _masked_load(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> list[np.ndarray]:
    buffer, *indices, which, other = machine.operands(instruction)
    offsets = buffer.at(indices)[:, None] + np.arange(which.shape[1])
    return [_read_some(machine, buffer, offsets, _lane_mask(which, mask), other)]


def _gather(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> list[np.ndarray]:
    buffer, *indices, steps, which, other = machine.operands(instruction)
    offsets = buffer.at(indices)[:, None] + steps
    return [_read_some(machine, buffer, offsets, _lane_mask(which, mask), other)]


def _read_some(
    machine: Interpreter,
    buffer: Buffer,
    offsets: np.ndarray,
    which: np.ndarray,
    other: np.ndarray,
) -> np.ndarray:
    """Elements where ``which`` says so, column by column."""
    shape = (machine.lanes.count, offsets.shape[1])
    which, offsets = np.broadcast_to(which, shape), np.broadcast_to(offsets, shape)
    made = np.array(np.broadcast_to(other, shape))
    for column in range(shape[1]):
        active = which[:, column]
        if active.any():
            places = buffer.memory.places(offsets[:, column], 1, active, machine.lanes)
            found = buffer.memory.read(places, active, machine.lanes)
            made[active, column] = found[active]
    return made


def _masked_store(machine: Interpreter, instruction: Instruction, mask: Mask) -> None:
    buffer, *indices, which, value = machine.operands(instruction)
    shape = (machine.lanes.count, which.shape[1])
    offsets = np.broadcast_to(buffer.at(indices)[:, None] + np.arange(shape[1]), shape)
    which = np.broadcast_to(_lane_mask(which, mask), shape)
    value = np.broadcast_to(value, shape)
    for column in range(shape[1]):
        active = which[:, column]
        if active.any():
            places = buffer.memory.places(offsets[:, column], 1, active, machine.lanes)
            buffer.memory.write(places, value[:, column], active, machine.lanes)


def _allocate(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> list[Buffer]:
    type_ = ir.MemRefType(instruction.operation.operation.results[0].type)
    given = iter(machine.operands(instruction))
    shape = [n if n >= 0 else machine.same(next(given), mask) for n in type_.shape]
    if "workgroup" in str(type_.memory_space):
        team = machine.lanes.team
        memory = team.once(
            instruction.operation, lambda: _shared(machine, instruction, type_)
        )
        return [Buffer.of(memory, shape)]
    size, lanes = int(np.prod(shape)), machine.lanes
    is_private = instruction.name == "memref.alloca"
    count = lanes.count if is_private else 1
    array = poison(size * count, numpy_type(type_.element_type))
    memory = Memory(array, size, lanes.numbers if is_private else None)
    return [Buffer.of(memory, shape)]


_MOST_SHARED_BYTES = 227 * 1024  # of a block, on Hopper
_SHARED_ALIGNMENT = 128  # bytes, where nothing is said


def _shared(
    machine: Interpreter, instruction: Instruction, type_: ir.MemRefType
) -> Memory:
    """Memory of each block, behind what it has already."""
    lanes, dtype = machine.lanes, numpy_type(type_.element_type)
    size = int(np.prod(type_.shape))
    attributes = instruction.operation.attributes
    alignment = _SHARED_ALIGNMENT
    if "alignment" in attributes:
        alignment = ir.IntegerAttr(attributes["alignment"]).value
    ends = [m.address + m.size * m.array.itemsize for m in lanes.team.made(Memory)]
    address = -(-max(ends, default=0) // alignment) * alignment
    end = address + size * dtype.itemsize
    if end > _MOST_SHARED_BYTES:
        raise EmulationError(
            f"a block shares {end} bytes: expected at most {_MOST_SHARED_BYTES}"
        )
    blocks = len(lanes.team.blocks)
    instance = lanes.place if blocks > 1 else None
    array = poison(size * blocks, dtype)
    return Memory(array, size, instance, is_shared=True, address=address)


def _address(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> list[np.ndarray]:
    """``memref.extract_aligned_pointer_as_index``: where a buffer of a block begins."""
    (buffer,) = machine.operands(instruction)
    if not buffer.memory.is_shared:
        raise EmulationError("the address of a buffer that is not a block's")
    return [np.array([buffer.memory.address])]


def _mixed(static: Sequence[int], dynamic: Iterator[np.ndarray]) -> _Extents:
    mark = ir.ShapedType.get_dynamic_stride_or_offset()
    return [next(dynamic) if n in (mark, -1 << 63) else n for n in static]


def _static(instruction: Instruction, name: str) -> list[int]:
    return list(ir.DenseI64ArrayAttr(instruction.operation.attributes[name]))


_Extents = list[np.ndarray | int]


def _layout(
    machine: Interpreter, instruction: Instruction
) -> tuple[Buffer, _Extents, _Extents, _Extents]:
    """A buffer, and the offsets, sizes and strides of a view of it."""
    buffer, *given = machine.operands(instruction)
    dynamic = iter(given)
    offsets, sizes, strides = (
        _mixed(_static(instruction, f"static_{name}"), dynamic)
        for name in ("offsets", "sizes", "strides")
    )
    return buffer, offsets, sizes, strides


def _reinterpret(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> list[Buffer]:
    buffer, (offset,), sizes, strides = _layout(machine, instruction)
    start = np.zeros(1, np.int64) + offset
    return [
        Buffer(buffer.memory, buffer.offset * 0 + start, tuple(sizes), tuple(strides))
    ]


def _subview(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> list[Buffer]:
    buffer, offsets, sizes, strides = _layout(machine, instruction)
    start = buffer.at(offsets)
    steps = [a * b for a, b in zip(strides, buffer.strides, strict=True)]
    type_ = ir.MemRefType(instruction.operation.operation.results[0].type)
    kept = range(len(steps))
    if "tir.kept" in instruction.operation.attributes:
        kept = _static(instruction, "tir.kept")
    elif len(type_.shape) != len(steps):
        kept = [n for n in kept if sizes[n] != 1]
    return [
        Buffer(
            buffer.memory,
            start,
            tuple(sizes[n] for n in kept),
            tuple(steps[n] for n in kept),
        )
    ]


def _dim(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> list[np.ndarray]:
    buffer, number = machine.operands(instruction)
    return [np.zeros(1, np.int64) + buffer.sizes[machine.same(number, mask)]]


def _pass_on(machine: Interpreter, instruction: Instruction, mask: Mask) -> list[Value]:
    return [machine.operands(instruction)[0]]


def _view(machine: Interpreter, instruction: Instruction, mask: Mask) -> list[Buffer]:
    """Some bytes as elements of another type."""
    source, offset, *given = machine.operands(instruction)
    type_ = ir.MemRefType(instruction.operation.operation.results[0].type)
    sizes = iter(given)
    shape = [n if n >= 0 else machine.same(next(sizes), mask) for n in type_.shape]
    begin, dtype = machine.same(offset, mask), numpy_type(type_.element_type)
    end = begin + int(np.prod(shape)) * dtype.itemsize
    if end > source.memory.size:
        raise EmulationError(f"bytes {begin} to {end} of {source.memory.size}")
    return [Buffer.of(Memory(source.memory.array[begin:end].view(dtype)), shape)]


def _copy(machine: Interpreter, instruction: Instruction, mask: Mask) -> None:
    source, target = (_places_of(b) for b in machine.operands(instruction))
    arrays = [b.memory.array for b in machine.operands(instruction)]
    arrays[1][target] = arrays[0][source]


def _places_of(buffer: Buffer) -> np.ndarray:
    """Where all elements of a buffer of the host are."""
    return buffer.at(list(np.indices([int(n) for n in buffer.sizes])))


ACCESS_EFFECTS: Mapping[str, Callable[..., Any]] = {
    "memref.view": _view,
    "memref.copy": _copy,
    "memref.load": _load,
    "vector.load": _load,
    "memref.store": _store,
    "vector.store": _store,
    "vector.maskedload": _masked_load,
    "vector.maskedstore": _masked_store,
    "vector.gather": _gather,
    "memref.alloc": _allocate,
    "memref.alloca": _allocate,
    "memref.reinterpret_cast": _reinterpret,
    "memref.subview": _subview,
    "memref.dim": _dim,
    "memref.extract_aligned_pointer_as_index": _address,
    "memref.cast": _pass_on,
}

"""Runs the operations of kernels on many threads in step, a numpy lane for each."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.emulator.copies import COPY_EFFECTS, Copy
from relax_mlir.emulator.memory import Buffer, EmulationError, Lanes, Memory, poison
from relax_mlir.emulator.operations import PURE, bit_mask, numpy_type
from relax_mlir.emulator.warps import WARP_EFFECTS

__all__ = ["Block", "Instruction", "Interpreter", "Value", "decode", "finish"]

Value = Any  # an array of numbers by lane, or a Buffer
Mask = np.ndarray | None


@dataclass
class Instruction:
    """An operation, decoded.

    Attributes:
        operation: for what it says, and for errors.
        operands, results: slots of values.
        compute: of operations that only compute.
        blocks: of its regions.
    """

    operation: ir.OpView
    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    compute: Callable[..., np.ndarray] | None
    blocks: tuple[Block, ...]


@dataclass
class Block:
    """A block, decoded: slots of its arguments, and of what it yields."""

    arguments: tuple[int, ...]
    instructions: list[Instruction] = field(default_factory=list)
    yielded: tuple[int, ...] = ()


_ENDS = frozenset(
    {"scf.yield", "gpu.terminator", "func.return", "gpu.return", "gpu.yield"}
)


class _Decoder:
    def __init__(self) -> None:
        self.slots: dict[ir.Value, int] = {}

    def slot(self, value: ir.Value) -> int:
        return self.slots.setdefault(value, len(self.slots))

    def block(self, block: ir.Block) -> Block:
        made = Block(tuple(map(self.slot, block.arguments)))
        for operation in block.operations:
            name = operation.operation.name
            operands = tuple(map(self.slot, operation.operation.operands))
            if name in _ENDS:
                made.yielded = operands
                return made
            blocks = tuple(
                self.block(region.blocks[0])
                for region in operation.operation.regions
                if len(region.blocks)
            )
            results = tuple(map(self.slot, operation.operation.results))
            make = PURE.get(name)
            compute = None if make is None else make(operation)
            made.instructions.append(
                Instruction(operation, name, operands, results, compute, blocks)
            )
        return made


def decode(block: ir.Block) -> tuple[Block, int]:
    """A block, and how many slots its values take."""
    decoder = _Decoder()
    made = decoder.block(block)
    return made, len(decoder.slots)


class Interpreter:
    """Runs blocks for some threads.

    Args:
        slots: of values; lanes: the threads; host: runs calls and launches.
    """

    def __init__(self, slots: list[Value], lanes: Lanes, host: Any) -> None:
        self.slots, self.lanes, self.host = slots, lanes, host
        self.copies: list[list[Copy]] = [[]]  # on their way, by group; the last is open

    def run(self, block: Block, mask: Mask) -> Generator[bool, None, list[Value]]:
        """Run a block; what it yields.

        A turn of the generator is a place where the threads wait: whether they got on.

        Raises:
            EmulationError: an operation does what it must not, or is not known.
        """
        slots = self.slots
        for instruction in block.instructions:
            try:
                if instruction.compute is not None:
                    operands = [slots[n] for n in instruction.operands]
                    slots[instruction.results[0]] = instruction.compute(*operands)
                    continue
                control = _CONTROL.get(instruction.name)
                if control is not None:
                    yield from control(self, instruction, mask)
                    continue
                found = self._effect(instruction)(self, instruction, mask)
            except EmulationError as error:
                raise _placed(error, instruction) from None
            for slot, value in zip(instruction.results, found or (), strict=True):
                slots[slot] = value
        return [slots[n] for n in block.yielded]

    def _effect(
        self, instruction: Instruction
    ) -> Callable[..., Sequence[Value] | None]:
        try:
            return _EFFECTS[instruction.name]
        except KeyError:
            raise EmulationError("the emulator does not know this operation") from None

    def operands(self, instruction: Instruction) -> list[Value]:
        """The values of an instruction's operands."""
        return [self.slots[n] for n in instruction.operands]

    def uniform(self, value: np.ndarray, mask: Mask) -> int | None:
        """The number that a value is in all active lanes; None if they differ."""
        if len(value) == 1:
            return int(value[0])
        active = value if mask is None else value[mask]
        first = active[0]
        return int(first) if (active == first).all() else None


class _PlacedError(EmulationError):
    """An error that tells its operation already."""


def _placed(error: EmulationError, instruction: Instruction) -> EmulationError:
    if isinstance(error, _PlacedError):
        return error
    text = str(instruction.operation).split("\n")[0]
    return _PlacedError(f"{text}: {error}")


def finish(runs: Sequence[Generator[bool, None, list[Value]]]) -> None:
    """Run threads until all have ended.

    Raises:
        EmulationError: those that are left wait for each other.
    """
    live = list(runs)
    while live:
        turns = [next(run, None) for run in live]  # None: it has ended
        if not any(turn is None or turn for turn in turns):
            raise EmulationError("deadlock: all threads that are left wait")
        live = [run for run, turn in zip(live, turns, strict=True) if turn is not None]


# control


def _merged(mask: Mask, new: Value, old: Value) -> Value:
    """New values for active lanes."""
    if mask is None or isinstance(new, Buffer):
        return new
    which = mask.reshape(-1, *[1] * (new.ndim - 1))
    return np.where(which, new, old)


def _for(machine: Interpreter, instruction: Instruction, mask: Mask) -> Iterator[bool]:
    begin, end, step, *carried = machine.operands(instruction)
    (block,) = instruction.blocks
    induction, *arguments = block.arguments
    known = [machine.uniform(v, mask) for v in (begin, end, step)]
    slots = machine.slots
    if None not in known:
        for number in range(*known):  # type: ignore[arg-type]
            slots[induction] = np.array([number])
            for slot, value in zip(arguments, carried, strict=True):
                slots[slot] = value
            carried = yield from machine.run(block, mask)
    else:
        place = begin
        while True:
            active = place < end
            active = np.broadcast_to(active, machine.lanes.count)
            active = active if mask is None else active & mask
            if not active.any():
                break
            slots[induction] = place
            for slot, value in zip(arguments, carried, strict=True):
                slots[slot] = value
            following = yield from machine.run(block, active)
            carried = [
                _merged(active, n, o) for n, o in zip(following, carried, strict=True)
            ]
            place = place + step
    for slot, value in zip(instruction.results, carried, strict=True):
        slots[slot] = value


def _if(machine: Interpreter, instruction: Instruction, mask: Mask) -> Iterator[bool]:
    (condition,) = machine.operands(instruction)
    results: list[Value | None] = [None] * len(instruction.results)
    for block, wanted in zip(instruction.blocks, (True, False), strict=False):
        taken = condition if wanted else ~condition
        if len(taken) == 1:
            if not taken[0]:
                continue
            active = mask
        else:
            active = taken if mask is None else taken & mask
            if not active.any():
                continue
            if active.all():
                active = None
        found = yield from machine.run(block, active)
        results = [
            new if old is None else _merged(active, new, old)
            for new, old in zip(found, results, strict=True)
        ]
    for slot, value in zip(instruction.results, results, strict=True):
        assert value is not None
        machine.slots[slot] = value


def _while(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> Iterator[bool]:
    before, after = instruction.blocks
    carried = machine.operands(instruction)
    active = mask
    while True:
        for slot, value in zip(before.arguments, carried, strict=True):
            machine.slots[slot] = value
        condition, *passed = yield from machine.run(before, active)
        goes_on = np.broadcast_to(condition, machine.lanes.count)
        goes_on = goes_on if active is None else goes_on & active
        if not goes_on.any():
            break
        active = goes_on
        for slot, value in zip(after.arguments, passed, strict=True):
            machine.slots[slot] = value
        following = yield from machine.run(after, active)
        carried = [
            _merged(active, n, o) for n, o in zip(following, carried, strict=True)
        ]
    for slot, value in zip(instruction.results, passed, strict=True):
        machine.slots[slot] = value


def _barrier(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> Iterator[bool]:
    lanes = machine.lanes
    waiting = np.ones(len(lanes.blocks), bool)
    if mask is not None:
        by_block = np.broadcast_to(mask, lanes.count).reshape(-1, lanes.threads)
        waiting = by_block.any(axis=1)
        if (by_block.all(axis=1) != waiting).any():
            raise EmulationError("some threads of a block do not come to the barrier")
    lanes.epochs[waiting] += 1
    return
    yield  # makes this a generator


_CONTROL: dict[str, Callable[..., Iterator[bool]]] = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
    "gpu.barrier": _barrier,
}


# memory


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
    shape = [n if n >= 0 else _same(machine, next(given), mask) for n in type_.shape]
    size, lanes = int(np.prod(shape)), machine.lanes
    is_shared = "workgroup" in str(type_.memory_space)
    is_private = not is_shared and instruction.name == "memref.alloca"
    count = len(lanes.blocks) if is_shared else lanes.count if is_private else 1
    array = poison(size * count, numpy_type(type_.element_type))
    instance = lanes.place if is_shared else lanes.numbers if is_private else None
    memory = Memory(array, size, instance, is_shared)
    return [Buffer.of(memory, shape)]


def _same(machine: Interpreter, value: np.ndarray, mask: Mask) -> int:
    found = machine.uniform(value, mask)
    if found is None:
        raise EmulationError("expected one size for all threads")
    return found


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
    return [np.zeros(1, np.int64) + buffer.sizes[_same(machine, number, mask)]]


def _pass_on(machine: Interpreter, instruction: Instruction, mask: Mask) -> list[Value]:
    return [machine.operands(instruction)[0]]


# the host


def _call(machine: Interpreter, instruction: Instruction, mask: Mask) -> None:
    callee = ir.FlatSymbolRefAttr(instruction.operation.attributes["callee"]).value
    machine.host.call(callee, machine.operands(instruction))


def _launch(machine: Interpreter, instruction: Instruction, mask: Mask) -> None:
    sizes = [_same(machine, v, mask) for v in machine.operands(instruction)[:6]]
    (body,) = instruction.blocks
    machine.host.launch(body, machine.slots, sizes[:3], sizes[3:])


def _view(machine: Interpreter, instruction: Instruction, mask: Mask) -> list[Buffer]:
    """Some bytes as elements of another type."""
    source, offset, *given = machine.operands(instruction)
    type_ = ir.MemRefType(instruction.operation.operation.results[0].type)
    sizes = iter(given)
    shape = [n if n >= 0 else _same(machine, next(sizes), mask) for n in type_.shape]
    begin, dtype = _same(machine, offset, mask), numpy_type(type_.element_type)
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


_EFFECTS: dict[str, Callable[..., Sequence[Value] | None]] = {
    **COPY_EFFECTS,
    **WARP_EFFECTS,
    "func.call": _call,
    "gpu.launch": _launch,
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
    "memref.cast": _pass_on,
}

"""Runs the operations of kernels on many threads in step, a numpy lane for each."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.emulator.accesses import ACCESS_EFFECTS
from relax_mlir.emulator.barriers import BARRIER_CONTROL, BARRIER_EFFECTS
from relax_mlir.emulator.copies import COPY_EFFECTS, Copy
from relax_mlir.emulator.lanes import Lanes
from relax_mlir.emulator.memory import Buffer, EmulationError
from relax_mlir.emulator.operations import PURE
from relax_mlir.emulator.tensor_maps import TENSOR_MAP_EFFECTS
from relax_mlir.emulator.warpgroups import WARPGROUP_EFFECTS, Groups
from relax_mlir.emulator.warps import WARP_EFFECTS

__all__ = ["Block", "Instruction", "Interpreter", "Value", "decode"]

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
        self.products = Groups()

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

    def same(self, value: np.ndarray, mask: Mask) -> int:
        """The number that a value is in all active lanes.

        Raises:
            EmulationError: they differ.
        """
        found = self.uniform(value, mask)
        if found is None:
            raise EmulationError("expected one number for all threads")
        return found


class _PlacedError(EmulationError):
    """An error that tells its operation already."""


def _placed(error: EmulationError, instruction: Instruction) -> EmulationError:
    if isinstance(error, _PlacedError):
        return error
    text = str(instruction.operation).split("\n")[0]
    return _PlacedError(f"{text}: {error}")


# control


def _merged(mask: Mask, new: Value, old: Value) -> Value:
    """New values for active lanes."""
    if mask is None or isinstance(new, Buffer):
        return new
    if isinstance(new, list):
        raise EmulationError("fragments of some threads of a warpgroup")
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


_CONTROL: dict[str, Callable[..., Iterator[bool]]] = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
    **BARRIER_CONTROL,
}


# the host


def _call(machine: Interpreter, instruction: Instruction, mask: Mask) -> None:
    callee = ir.FlatSymbolRefAttr(instruction.operation.attributes["callee"]).value
    machine.host.call(callee, machine.operands(instruction))


def _launch(machine: Interpreter, instruction: Instruction, mask: Mask) -> None:
    sizes = [machine.same(v, mask) for v in machine.operands(instruction)[:6]]
    (body,) = instruction.blocks
    machine.host.launch(body, machine.slots, sizes[:3], sizes[3:])


def _library_product(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> None:
    machine.host.multiply(instruction.operation, machine.operands(instruction))


def _library_convolution(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> None:
    machine.host.convolve(instruction.operation, machine.operands(instruction))


_EFFECTS: dict[str, Callable[..., Sequence[Value] | None]] = {
    **ACCESS_EFFECTS,
    **BARRIER_EFFECTS,
    **COPY_EFFECTS,
    **TENSOR_MAP_EFFECTS,
    **WARPGROUP_EFFECTS,
    **WARP_EFFECTS,
    "func.call": _call,
    "gpu.launch": _launch,
    "tir.library_convolution": _library_convolution,
    "tir.library_product": _library_product,
}

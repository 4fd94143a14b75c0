"""Runs ``main`` at the level ``loops`` in numpy: sizes, calls, and grids of threads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.tir import LibraryConvolutionOp, LibraryProductOp
from relax_mlir.emulator.barriers import refuse_unfinished
from relax_mlir.emulator.convolutions import convolve
from relax_mlir.emulator.interpreter import (
    Block,
    Interpreter,
    Value,
    decode,
)
from relax_mlir.emulator.lanes import WARPGROUP, Lanes, Team
from relax_mlir.emulator.memory import Buffer, EmulationError, Memory, poison
from relax_mlir.emulator.operations import numpy_type
from relax_mlir.emulator.products import multiply
from relax_mlir.emulator.turns import finish
from relax_mlir.errors import RelaxError
from relax_mlir.module import IRModule
from relax_mlir.programs import argument_shape, argument_symbols

__all__ = ["DeviceBytes", "emulate", "emulate_kernel", "emulate_launch"]

_LANES = 1 << 15  # that are emulated at once: so many fit caches

DeviceBytes = Callable[[str, int, int], np.ndarray | None]
"""Memory of a launch by role (``argument``, or ``scratch`` for buffers of the program's
own), number and size in bytes; None if the launch does not get it."""


def emulate(
    module: IRModule, *arrays: np.ndarray, seed: int = 0
) -> tuple[np.ndarray, ...]:
    """Run a module, lowered for a GPU to the level ``loops``, thread by thread.

    Memory that nobody has written holds NaNs or other numbers that show.

    Args:
        *arrays: the inputs of ``main``.
        seed: of the chance by which threads get on, and copies arrive.

    Returns:
        The outputs.

    Raises:
        EmulationError: a kernel leaves its memory, or threads race for an element of it;
            the message tells the operation.
        RelaxError: the module is not at that level.
    """
    attributes = module.mlir.operation.attributes
    if "relax.signature" not in attributes:
        raise RelaxError(
            "module has no signature: expected one at the level `loops`. Hint: "
            '`lower(module, target="cuda:sm_90", to="loops")`'
        )
    signature = json.loads(ir.StringAttr(attributes["relax.signature"]).value)
    sizes = _sizes(signature, arrays)
    outputs = [_array(p, sizes) for p in signature["outputs"]]
    weights = [np.asarray(module.constants[k]) for k in signature["constants"]]
    arena = poison(_size(signature["arena"], sizes), np.dtype(np.int8))
    inputs = [np.asarray(a, order="C") for a in arrays]
    with np.errstate(all="ignore"), module.context:
        host = _Host(module, seed=seed)
        types = module.func_op("main").type.inputs
        arrays = (*inputs, *outputs, *weights, arena)
        buffers = [_buffer(a, t) for a, t in zip(arrays, types, strict=False)]
        numbers = [np.array([sizes[name]]) for name in signature["symbols"]]
        host.call("main", [*buffers, *numbers])
    return tuple(outputs)


def _sizes(signature: dict[str, Any], arrays: Sequence[np.ndarray]) -> dict[str, int]:
    """The symbolic sizes, from dimensions that are one."""
    found = {
        text: size
        for parameter, array in zip(signature["inputs"], arrays, strict=True)
        for text, size in zip(parameter["shape"], array.shape, strict=True)
        if text in signature["symbols"]
    }
    missing = [name for name in signature["symbols"] if name not in found]
    if missing:
        raise RelaxError(f"no dimension of an input is the size `{missing[0]}`")
    return found


def _size(text: str, sizes: dict[str, int]) -> int:
    found = shapes.substitute(shapes.parse(text), sizes)
    assert isinstance(found, int)
    return found


def _array(parameter: dict[str, Any], sizes: dict[str, int]) -> np.ndarray:
    shape = [_size(text, sizes) for text in parameter["shape"]]
    kind = dtype(parameter["dtype"]).numpy
    return poison(int(np.prod(shape)), np.dtype(kind)).reshape(shape)


def _buffer(array: np.ndarray, type_: ir.Type) -> Buffer:
    """The memory itself, in the types that MLIR has."""
    flat = array.reshape(-1).view(numpy_type(ir.MemRefType(type_).element_type))
    return Buffer.of(Memory(flat), array.shape)


def emulate_kernel(
    module: IRModule,
    name: str,
    arrays: Sequence[np.ndarray],
    sizes: Sequence[int] = (),
    *,
    most_blocks: int | None = None,
    seed: int = 0,
) -> None:
    """Run one tensor program at the level ``loops``; it writes to the last of the arrays.

    Args:
        sizes: that it takes behind its buffers.
        most_blocks: of a grid that are run: the first, the last, and others by chance; all
            by default.
        seed: of that chance.

    Raises:
        EmulationError: as :func:`emulate`.
    """
    with np.errstate(all="ignore"), module.context:
        types = module.func_op(name).type.inputs
        pairs = zip(arrays, types, strict=False)
        buffers = [_buffer(array, type_) for array, type_ in pairs]
        numbers = [np.array([size]) for size in sizes]
        _Host(module, most_blocks, seed).call(name, [*buffers, *numbers])


def emulate_launch(
    module: IRModule,
    name: str,
    number: int,
    grid: Sequence[int],
    sizes: Mapping[str, int],
    memory: DeviceBytes,
) -> None:
    """Run one launch of a tensor program at the level ``loops``, on memory that is given.

    Args:
        name: of the program; number: of the launch in it.
        grid: numbers of blocks, which must be those that the program computes.
        sizes: that the program takes, by name.

    Raises:
        EmulationError: as :func:`emulate`, or the grid is another.
    """
    function = module.func_op(name)
    with np.errstate(all="ignore"), module.context:
        block, count = decode(function.entry_block)
        slots: list[Value] = [None] * count
        buffers = 0
        symbols = argument_symbols(function)
        for place, argument in enumerate(function.arguments):
            slot = block.arguments[place]
            if argument in symbols:
                slots[slot] = np.array([sizes[symbols[argument]]])
                continue
            type_, dims = argument.type, argument_shape(function, place)
            shape = [shapes.evaluate(dim, sizes) for dim in dims]
            slots[slot] = _given(memory, "argument", buffers, shape, type_)
            buffers += 1
        host = _OneLaunch(module, number, grid)
        machine = host.machine(slots)
        scratch = 0
        for instruction in block.instructions:
            if instruction.name != "memref.alloc":
                host.run(machine, Block((), [instruction]))
                continue
            type_ = instruction.operation.operation.results[0].type
            given = iter([int(slots[n][0]) for n in instruction.operands])
            shape = [n if n >= 0 else next(given) for n in ir.MemRefType(type_).shape]
            made = _given(memory, "scratch", scratch, shape, type_)
            slots[instruction.results[0]] = made
            scratch += 1


def _given(
    memory: DeviceBytes, role: str, number: int, shape: Sequence[int], type_: ir.Type
) -> Buffer:
    """A buffer that is somebody else's memory; poison if the launch does not get it."""
    element = np.dtype(numpy_type(ir.MemRefType(type_).element_type))
    size = int(np.prod(shape))
    found = memory(role, number, size * element.itemsize)
    array = poison(size, element) if found is None else found.view(element)
    return Buffer.of(Memory(array), shape)


class _Host:
    """Calls functions of a module."""

    def __init__(
        self, module: IRModule, most_blocks: int | None = None, seed: int = 0
    ) -> None:
        self._module = module
        self._most_blocks, self._rng = most_blocks, np.random.default_rng(seed)
        self._decoded: dict[str, tuple[Block, int]] = {}

    def call(self, name: str, arguments: Sequence[Value]) -> None:
        if name not in self._decoded:
            self._decoded[name] = decode(self._module.func_op(name).entry_block)
        block, count = self._decoded[name]
        slots: list[Value] = [None] * count
        for slot, argument in zip(block.arguments, arguments, strict=True):
            slots[slot] = argument
        self.run(self.machine(slots), block)

    def machine(self, slots: list[Value]) -> Interpreter:
        """What runs on the host: one thread."""
        team = Team(np.zeros(1, np.int64), 1, self._rng)
        return Interpreter(slots, Lanes(team), self)

    def run(self, machine: Interpreter, block: Block) -> None:
        """Run a block on the host."""
        finish([machine.run(block, None)], machine.lanes.team)

    def launch(
        self,
        body: Block,
        slots: Sequence[Value],
        grid: Sequence[int],
        threads: Sequence[int],
    ) -> None:
        """Run a grid, some blocks at a time."""
        count = int(np.prod(threads))
        takes_turns = any(i.name == "nvgpu.mbarrier.create" for i in body.instructions)
        at_once = 1 if takes_turns else max(1, _LANES // count)
        part = WARPGROUP if takes_turns else count
        for buffer in slots:
            if isinstance(buffer, Buffer):
                buffer.memory.forget_writers()
        blocks = self._blocks(int(np.prod(grid)))
        for first in range(0, len(blocks), at_once):
            team = Team(blocks[first : first + at_once], count, self._rng)
            runs = []
            for thread in range(0, count, part):
                lanes = Lanes(team, thread, min(part, count - thread))
                own = list(slots)
                ids = [*_places(lanes.block, grid), *_places(lanes.thread, threads)]
                ids += [np.array([n]) for n in (*grid, *threads)]
                for slot, value in zip(body.arguments, ids, strict=False):
                    own[slot] = value
                runs.append(Interpreter(own, lanes, self).run(body, None))
            finish(runs, team)
            refuse_unfinished(team)

    def multiply(self, operation: LibraryProductOp, operands: Sequence[Value]) -> None:
        """Compute a product in a library's place."""
        multiply(operation, *operands)

    def convolve(
        self, operation: LibraryConvolutionOp, operands: Sequence[Value]
    ) -> None:
        """Compute a convolution in a library's place."""
        convolve(operation, *operands)

    def _blocks(self, total: int) -> np.ndarray:
        """The numbers of the blocks that are run."""
        most = self._most_blocks
        if most is None or total <= most:
            return np.arange(total)
        others = self._rng.choice(total, most, replace=False)
        return np.unique([0, total - 1, *others])


def _places(numbers: np.ndarray, extents: Sequence[int]) -> list[np.ndarray]:
    """Where the points of a grid are along x, y and z; neighbours differ in x."""
    places = []
    for extent in extents:
        is_flat = extent == 1
        places.append(np.zeros(1, np.int64) if is_flat else numbers % extent)
        numbers = numbers // extent
    return places


class _OneLaunch(_Host):
    """Runs one launch of a program, and passes over all others."""

    def __init__(self, module: IRModule, number: int, grid: Sequence[int]) -> None:
        super().__init__(module)
        self._left, self._grid = number, tuple(grid)

    def launch(
        self,
        body: Block,
        slots: Sequence[Value],
        grid: Sequence[int],
        threads: Sequence[int],
    ) -> None:
        self._left -= 1
        if self._left != -1:
            return
        if tuple(grid) != self._grid:
            raise EmulationError(f"expected a grid of {tuple(grid)}, got {self._grid}")
        super().launch(body, slots, grid, threads)

    def multiply(self, operation: LibraryProductOp, operands: Sequence[Value]) -> None:
        """Nothing: it is no launch."""

    def convolve(
        self, operation: LibraryConvolutionOp, operands: Sequence[Value]
    ) -> None:
        """Nothing: it is no launch."""

"""Runs compiled models whose kernels are PTX, with no GPU and no driver."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relax_mlir.emulator.descriptors import DESCRIPTOR_BYTES, Descriptor
from relax_mlir.emulator.launch import launch
from relax_mlir.emulator.library import Library
from relax_mlir.emulator.memory import DeviceMemory, poison
from relax_mlir.emulator.program import Program
from relax_mlir.emulator.text import parse
from relax_mlir.emulator.traffic import Traffic
from relax_mlir.errors import EmulationError
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.plan import (
    Copy,
    HostArray,
    HostCall,
    KnownPlan,
    Launch,
    Pointer,
    Started,
    TensorMap,
)
from relax_mlir.runtime.cuda.products import Product
from relax_mlir.runtime.cuda.tensor_maps import (
    ELEMENT_BYTES,
    SWIZZLE_BYTES,
    problem_of,
    spans,
    steps_of,
)
from relax_mlir.runtime.elements import element_type
from relax_mlir.runtime.ndarray import shared
from relax_mlir.runtime.registry import get_global_func
from relax_mlir.runtime.signature import Parameter
from relax_mlir.runtime.sizes import SizeBinder

__all__ = ["emulate"]


def emulate(
    model: CudaExecutable,
    *arrays: np.ndarray,
    most_blocks: int | None = None,
    seed: int = 0,
    traffic: Traffic | None = None,
) -> tuple[np.ndarray, ...]:
    """Run a compiled model: its plan, and the PTX of its kernels, thread by thread.

    Memory that nobody has written holds NaNs or other numbers that show.

    Args:
        *arrays: the inputs of ``main``.
        most_blocks: of every grid that are run: the first, the last, and others by chance;
            all by default.
        seed: of the chance by which threads get on, and copies arrive.
        traffic: counts accesses to memory.

    Returns:
        The outputs.

    Raises:
        ValueError: a shape or element type is not what it must be.
        EmulationError: a kernel, or a call of a library, does what it must not.
    """
    signature = model.signature
    if len(arrays) != len(signature.inputs):
        raise ValueError(
            f"`main`: expected {len(signature.inputs)} inputs, got {len(arrays)}"
        )
    inputs = [
        _checked(number, parameter, array)
        for number, (parameter, array) in enumerate(
            zip(signature.inputs, arrays, strict=True)
        )
    ]
    binder = SizeBinder(signature)
    sizes = binder.bind([array.shape for array in inputs])
    outputs = [
        poison(int(np.prod(shape)), element_type(parameter.dtype)).reshape(shape)
        for parameter, shape in zip(
            signature.outputs, binder.output_shapes(sizes), strict=True
        )
    ]
    constants = [model.contents.constants[key] for key in signature.constants]
    known = model.contents.plan.at(sizes)
    memory = _Memory(
        {
            "input": [array.copy() for array in inputs],
            "output": outputs,
            "constant": [np.array(constant) for constant in constants],
            "arena": [_bytes(binder.arena_bytes(sizes))],
            "workspace": [_bytes(known.workspace_bytes)],
        }
    )
    _Run(model.contents.ptx, memory, most_blocks, seed, traffic).all_of(known)
    return tuple(outputs)


def _checked(number: int, parameter: Parameter, array: np.ndarray) -> np.ndarray:
    expected = element_type(parameter.dtype)
    if array.dtype != expected:
        raise ValueError(
            f"`main`: input {number} (`{parameter.name}`): expected {expected}, got "
            f"{array.dtype}"
        )
    return np.asarray(array, order="C")


def _bytes(size: int) -> np.ndarray:
    return poison(max(1, size), np.dtype(np.uint8))


class _Memory:
    """All arrays of a call, and where they are."""

    def __init__(self, arrays: dict[str, list[np.ndarray]]) -> None:
        self.device = DeviceMemory()
        self._arrays = arrays
        self._bases = {
            base: [self.device.place(array) for array in row]
            for base, row in arrays.items()
        }

    def address(self, pointer: Pointer) -> int:
        return self._bases[pointer.base][pointer.number] + pointer.offset_bytes

    def bytes_at(self, pointer: Pointer, count: int) -> np.ndarray:
        array = self._arrays[pointer.base][pointer.number]
        begin = pointer.offset_bytes
        return array.reshape(-1).view(np.uint8)[begin : begin + count]


class _Run:
    """A call that goes on."""

    def __init__(
        self,
        ptx: Sequence[bytes],
        memory: _Memory,
        most_blocks: int | None,
        seed: int,
        traffic: Traffic | None,
    ) -> None:
        self._ptx, self._memory = ptx, memory
        self._most_blocks, self._seed = most_blocks, seed
        self._traffic = traffic
        self._library = Library(memory.device, memory.address)
        self._programs: dict[int, Program] = {}

    def all_of(self, plan: KnownPlan) -> None:
        """Do all steps of a plan."""
        for step in plan.steps:
            for part in step:
                if isinstance(part, Copy):
                    source, target = (
                        self._memory.bytes_at(pointer, part.size_bytes)
                        for pointer in (part.source, part.target)
                    )
                    target[:] = source.copy()
                elif isinstance(part, HostCall):
                    self._call(part)
                elif not part.launch.is_empty:
                    self._start(part)

    def _start(self, started: Started) -> None:
        """A kernel, or what a library does in the place of one."""
        if isinstance(started.launch, Launch):
            self._launch(started.program, started.launch)
        elif isinstance(started.launch, Product):
            self._library.multiply(started.launch)
        else:
            self._library.convolve(started.launch)

    def _call(self, call: HostCall) -> None:
        """A function on the host, which sees the arrays."""
        views = [
            self._memory.bytes_at(array.pointer, _size_bytes(array))
            .view(element_type(array.dtype))
            .reshape(array.shape)
            for array in call.arrays
        ]
        get_global_func(call.function)(*map(shared, views))

    def _launch(self, number: int, started: Launch) -> None:
        if number not in self._programs:
            self._programs[number] = parse(self._ptx[number].decode().rstrip("\0"))
        program = self._programs[number]
        kernel = program.kernels[started.kernel]
        values = [
            self._value(argument, size)
            for (_, size), argument in zip(
                kernel.parameters, started.arguments, strict=True
            )
        ]
        grid, threads = ((*n, 1, 1)[:3] for n in (started.grid, started.block))
        launch(
            program,
            started.kernel,
            grid,
            threads,
            started.shared_bytes,
            kernel.packed(values),
            self._memory.device,
            most_blocks=self._most_blocks,
            seed=self._seed,
            traffic=self._traffic,
            is_early=started.waits,
        )

    def _value(self, argument: Pointer | TensorMap | int, size: int) -> bytes:
        if isinstance(argument, TensorMap):
            return _descriptor(argument, self._memory.address(argument.pointer))
        if isinstance(argument, Pointer):
            argument = self._memory.address(argument)
        return (argument & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _size_bytes(array: HostArray) -> int:
    return int(np.prod(array.shape)) * element_type(array.dtype).itemsize


def _descriptor(tensor: TensorMap, address: int) -> bytes:
    """A descriptor; of an empty tensor, which no kernel reads, zeros.

    Raises:
        EmulationError: a driver would not describe the tensor.
    """
    if not all(tensor.sizes):
        return bytes(DESCRIPTOR_BYTES)
    problem = problem_of(tensor, address)
    if problem is not None:
        raise EmulationError(f"no descriptor for {tensor}: {problem}")
    made = Descriptor(
        address,
        list(ELEMENT_BYTES).index(tensor.element),
        tensor.sizes,
        tensor.strides_bytes,
        tuple(spans(tensor)),
        steps_of(tensor),
        list(SWIZZLE_BYTES).index(tensor.swizzle),
    )
    return made.encoded()

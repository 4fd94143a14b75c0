"""Runs compiled models on emulated kernels, without a GPU or a driver."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relax_mlir.errors import EmulationError
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.matmul_descriptors import Matmul
from relax_mlir.runtime.cuda.plan import (
    BoundLaunch,
    BoundPlan,
    Copy,
    HostArray,
    HostCall,
    Launch,
    Pointer,
    TensorMap,
)
from relax_mlir.runtime.cuda.tensor_maps import (
    ELEMENT_BYTES,
    SWIZZLE_BYTES,
    box_spans,
    element_strides,
    unsupported_reason,
)
from relax_mlir.runtime.elements import element_type
from relax_mlir.runtime.ndarray import shared
from relax_mlir.runtime.registry import get_global_func
from relax_mlir.runtime.signature import Parameter
from relax_mlir.runtime.sizes import SizeBinder
from tests.ptx_emulator.descriptors import DESCRIPTOR_BYTES, Descriptor
from tests.ptx_emulator.launch import launch
from tests.ptx_emulator.library import Library
from tests.ptx_emulator.memory import DeviceMemory, poison
from tests.ptx_emulator.program import Program
from tests.ptx_emulator.text import parse
from tests.ptx_emulator.traffic import Traffic

__all__ = ["emulate"]


def emulate(
    model: CudaExecutable,
    *arrays: np.ndarray,
    max_blocks: int | None = None,
    seed: int = 0,
    traffic: Traffic | None = None,
) -> tuple[np.ndarray, ...]:
    """Runs a compiled model: its launch plan, with emulated kernels.

    Uninitialized memory holds NaN or another poison value.

    Args:
        *arrays: the inputs of ``main``.
        max_blocks: number of blocks of each grid to run: the first, the last and random ones;
            all by default.
        seed: of the random scheduling of threads and completion of copies.
        traffic: counts accesses to memory.

    Returns:
        The outputs.

    Raises:
        ValueError: an input has another shape or element type than expected.
        EmulationError: a kernel or a library call has an error.
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
    _Run(model.contents.ptx, memory, max_blocks, seed, traffic).all_of(known)
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
    """The arrays of a call, by pointer."""

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
    """A call in progress."""

    def __init__(
        self,
        ptx: Sequence[bytes],
        memory: _Memory,
        max_blocks: int | None,
        seed: int,
        traffic: Traffic | None,
    ) -> None:
        self._ptx, self._memory = ptx, memory
        self._most_blocks, self._seed = max_blocks, seed
        self._traffic = traffic
        self._library = Library(memory.device, memory.address)
        self._programs: dict[int, Program] = {}

    def all_of(self, plan: BoundPlan) -> None:
        """Runs all steps of a plan."""
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

    def _start(self, started: BoundLaunch) -> None:
        """Runs a kernel or a library call."""
        if isinstance(started.launch, Launch):
            self._launch(started.program, started.launch)
        elif isinstance(started.launch, Matmul):
            self._library.multiply(started.launch)
        else:
            self._library.convolve(started.launch)

    def _call(self, call: HostCall) -> None:
        """Calls a host function on the arrays."""
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
            max_blocks=self._most_blocks,
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
    """Encodes a tensor map; zeros for an empty tensor, which no kernel reads.

    Raises:
        EmulationError: the driver would reject the tensor.
    """
    if not all(tensor.sizes):
        return bytes(DESCRIPTOR_BYTES)
    problem = unsupported_reason(tensor, address)
    if problem is not None:
        raise EmulationError(f"no tensor map for {tensor}: {problem}")
    made = Descriptor(
        address,
        list(ELEMENT_BYTES).index(tensor.element),
        tensor.sizes,
        tensor.strides_bytes,
        tuple(box_spans(tensor)),
        element_strides(tensor),
        list(SWIZZLE_BYTES).index(tensor.swizzle),
    )
    return made.encoded()

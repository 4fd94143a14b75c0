"""Verifier of launch plans, which come from files: when loaded, and before each call.

A damaged or forged plan must not launch a kernel on memory outside of the model's. What the
kernels themselves access is not checked: PTX is code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from relax_mlir.runtime.cuda.arrays import ALIGNMENT
from relax_mlir.runtime.cuda.conv_descriptors import Convolution
from relax_mlir.runtime.cuda.matmul_descriptors import (
    ACTIVATIONS,
    ITEM_BYTES,
    BatchedMatrix,
    Matmul,
)
from relax_mlir.runtime.cuda.plan import (
    Argument,
    BoundLaunch,
    BoundPlan,
    Call,
    Copy,
    Expression,
    HostArray,
    HostCall,
    Launch,
    LibraryCall,
    Plan,
    Pointer,
    Program,
    TensorMap,
)
from relax_mlir.runtime.cuda.tensor_maps import ELEMENT_BYTES, SWIZZLE_BYTES
from relax_mlir.runtime.elements import element_type
from relax_mlir.symbolic import symbols

__all__ = ["check_bounds", "check_plan"]

_ENTRY = re.compile(rb"\.entry\s+([\w$]+)\s*\(([^)]*)\)")
_WAITING = re.compile(  # kernels that wait for the previous launch
    rb"\.entry\s+([\w$]+)\s*\((?:(?!\.entry).)*?griddepcontrol\.wait;", re.DOTALL
)
_PARAMETER = re.compile(
    rb"\.param\s[^,\[]*?\.[busf](8|16|32|64)\b[^,\[]*(?:\[(\d{1,9})\])?"
)
_WORD_BYTES, _MAP_BYTES = 8, 128  # of arguments
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]{0,1023}")  # of a kernel in PTX
_LIMIT = 1 << 62  # bytes, and any number
_RANKS = range(1, 6)  # of tensors with descriptors

_Counts = Mapping[str, int]


def check_plan(
    plan: Plan,
    ptx: Sequence[bytes],
    counts: _Counts,
    names: Collection[str],
    kernels: int,
) -> None:
    """Verify the structure of a plan.

    Args:
        ptx: of every program.
        counts: numbers of inputs, outputs, constants and arenas.
        names: of the symbolic sizes; kernels: number of kernel calls of the model.

    Raises:
        ValueError: a number, name or type is invalid.
    """
    if len(ptx) != len(plan.programs):
        raise ValueError(f"{len(plan.programs)} programs, but PTX of {len(ptx)}")
    for number, program in enumerate(plan.programs):
        where = f"program {number}"
        _check_program(program, where)
        _check_kernels(program, ptx[number], where)
    for number, step in enumerate(plan.steps):
        where = f"step {number}"
        if isinstance(step, Call):
            _check_index(step.program, len(plan.programs), f"{where}: program")
            _check_index(step.kernel, kernels, f"{where}: kernel")
            _check_call(step, plan.programs[step.program], where)
            _check_all(step.sizes, names, where)
            pointers: Sequence[Pointer] = step.pointers
        elif isinstance(step, Copy):
            _check_expression(step.size_bytes, names, where)
            pointers = (step.source, step.target)
        else:
            pointers = _host_pointers(step, names, where)
        for pointer in pointers:
            _check_pointer(pointer, counts, names, where)


def _check_call(call: Call, program: Program, where: str) -> None:
    if len(call.sizes) != len(program.sizes):
        raise ValueError(
            f"{where}: expected {len(program.sizes)} sizes, got {len(call.sizes)}"
        )
    for pointer in _pointers(program):
        if pointer.base == "argument":
            _check_index(pointer.number, len(call.pointers), f"{where}: argument")


def _pointers(program: Program) -> list[Pointer]:
    arguments = [a for launch in _launches(program) for a in launch.arguments]
    maps = [a.pointer for a in arguments if isinstance(a, TensorMap)]
    calls = [call for call in program.launches if not isinstance(call, Launch)]
    of_calls = [pointer for call in calls for pointer in call.pointers]
    return [*maps, *(a for a in arguments if isinstance(a, Pointer)), *of_calls]


def _launches(program: Program) -> list[Launch]:
    return [launch for launch in program.launches if isinstance(launch, Launch)]


def _host_pointers(call: HostCall, names: Collection[str], where: str) -> list[Pointer]:
    _text(call.function, where)
    for array in call.arrays:
        element_type(_text(array.dtype, where))
        _check_all(array.shape, names, where)
    return [array.pointer for array in call.arrays]


def _check_program(program: Program, where: str) -> None:
    names = [_text(name, where) for name in program.sizes]
    _check_all(program.scratch, names, where)
    counts = {"argument": _LIMIT, "scratch": len(program.scratch)}
    for launch in program.launches:
        if isinstance(launch, Launch):
            _check_launch(launch, counts, names, where)
        else:
            _check_library_call(launch, counts, names, where)


def _check_kernels(program: Program, ptx: bytes, where: str) -> None:
    """Check launches against the parameters of their kernels: a mismatch can crash.

    Also checks that kernels with dependent launch wait for the previous one.
    """
    entries = {name.decode(): text for name, text in _ENTRY.findall(ptx)}
    waiting = {name.decode() for name in _WAITING.findall(ptx)}
    for launch in _launches(program):
        if launch.kernel not in entries:
            raise ValueError(f"{where}: kernel `{launch.kernel}` does not exist")
        if launch.waits and launch.kernel not in waiting:
            raise ValueError(f"{where}: kernel `{launch.kernel}` does not wait")
        parameter_bytes = [
            int(bits) // 8 * int(count or 1)
            for bits, count in _PARAMETER.findall(entries[launch.kernel])
        ]
        argument_bytes = [
            _MAP_BYTES if isinstance(argument, TensorMap) else _WORD_BYTES
            for argument in launch.arguments
        ]
        pairs = zip(parameter_bytes, argument_bytes, strict=False)
        is_match = all(parameter <= argument for parameter, argument in pairs)
        if len(parameter_bytes) != len(argument_bytes) or not is_match:
            raise ValueError(
                f"{where}: kernel `{launch.kernel}` has parameters of {parameter_bytes} "
                f"bytes, got arguments of {argument_bytes}"
            )


def _check_launch(
    launch: Launch, counts: _Counts, names: Collection[str], where: str
) -> None:
    if not _NAME.fullmatch(_text(launch.kernel, where)):
        raise ValueError(f"{where}: {launch.kernel!r} is not a kernel name")
    if len(launch.grid) != 3 or len(launch.block) != 3:
        raise ValueError(f"{where}: expected 3-D grid and block sizes")
    _check_all((*launch.grid, *launch.block, launch.shared_bytes), names, where)
    if type(launch.waits) is not bool:
        raise ValueError(f"{where}: kernel `{launch.kernel}` waits: {launch.waits!r}")
    for argument in launch.arguments:
        _check_argument(argument, counts, names, where)


def _check_library_call(
    call: LibraryCall, counts: _Counts, names: Collection[str], where: str
) -> None:
    kind = "matmul" if isinstance(call, Matmul) else "convolution"
    if call.activation not in ACTIVATIONS or type(call.tf32) is not bool:
        options = f"tf32 {call.tf32!r}, activation {call.activation!r}"
        raise ValueError(f"{where}: a {kind} with unknown options: {options}")
    if isinstance(call, Matmul):
        _check_matmul(call, names, where)
    else:
        _check_convolution(call, names, where)
    for pointer in call.pointers:
        _check_pointer(pointer, counts, names, where)


def _check_convolution(
    convolution: Convolution, names: Collection[str], where: str
) -> None:
    element = _text(convolution.element, where)
    if element not in ITEM_BYTES:
        raise ValueError(f"{where}: a convolution of unknown element type `{element}`")
    _check_expression(convolution.batch, names, where)
    try:
        convolution.shape.check()
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _check_matmul(matmul: Matmul, names: Collection[str], where: str) -> None:
    if len(matmul.sizes) != 4:
        raise ValueError(f"{where}: a matmul with {len(matmul.sizes)} sizes")
    _check_all(matmul.sizes, names, where)
    for matrix in (matmul.lhs, matmul.rhs, matmul.result):
        _check_matrix(matrix, names, where)
    if matmul.lhs.element != matmul.rhs.element or matmul.result.is_transposed:
        raise ValueError(f"{where}: a matmul of incompatible matrices")


def _check_matrix(matrix: BatchedMatrix, names: Collection[str], where: str) -> None:
    element, is_transposed = matrix.element, matrix.is_transposed
    if _text(element, where) not in ITEM_BYTES or type(is_transposed) is not bool:
        kind = f"`{element}`, transposed {is_transposed!r}"
        raise ValueError(f"{where}: a matrix of an unknown kind: {kind}")
    _check_all((matrix.leading, matrix.step), names, where)


def _check_argument(
    argument: Argument, counts: _Counts, names: Collection[str], where: str
) -> None:
    if isinstance(argument, TensorMap):
        _check_map(argument, names, where)
        argument = argument.pointer
    if isinstance(argument, Pointer):
        _check_pointer(argument, counts, names, where)
    else:
        _check_expression(argument, names, where)


def _check_map(tensor: TensorMap, names: Collection[str], where: str) -> None:
    rank = len(tensor.sizes)
    is_match = (len(tensor.strides_bytes), len(tensor.box)) == (rank - 1, rank)
    is_match = is_match and len(tensor.steps) in (0, rank)
    if rank not in _RANKS or not is_match:
        raise ValueError(
            f"{where}: a descriptor of {rank} sizes, {len(tensor.strides_bytes)} strides "
            f"and a box of {len(tensor.box)}, {len(tensor.steps)} steps"
        )
    if tensor.element not in ELEMENT_BYTES or tensor.swizzle not in SWIZZLE_BYTES:
        kind = f"`{tensor.element}`, swizzle `{tensor.swizzle}`"
        raise ValueError(f"{where}: a descriptor of unknown kind: {kind}")
    _check_all((*tensor.sizes, *tensor.strides_bytes), names, where)
    _check_all((*tensor.box, *tensor.steps), (), where)


def _check_pointer(
    pointer: Pointer, counts: _Counts, names: Collection[str], where: str
) -> None:
    if pointer.base not in counts:
        known = ", ".join(counts)
        raise ValueError(f"{where}: expected memory of {known}, got {pointer.base!r}")
    _check_index(pointer.number, counts[pointer.base], f"{where}: {pointer.base}")
    _check_expression(pointer.offset_bytes, names, where)


def _check_index(number: Any, count: int, where: str) -> None:  # Any: JSON
    if type(number) is not int or not 0 <= number < count:
        raise ValueError(f"{where} {number!r}: out of range, there are {count}")


def _check_all(
    expressions: Sequence[Expression], names: Collection[str], where: str
) -> None:
    for expression in expressions:
        _check_expression(expression, names, where)


def _check_expression(
    expression: Expression, names: Collection[str], where: str
) -> None:
    if type(expression) is int:
        if abs(expression) >= _LIMIT:
            raise ValueError(f"{where}: {expression} is too large")
        return
    unknown = set(symbols.symbols_of(symbols.parse(_text(expression, where))))
    unknown.difference_update(names)
    if unknown:
        raise ValueError(f"{where}: `{expression}`: unknown size `{min(unknown)}`")


def _text(value: Any, where: str) -> str:  # Any: JSON
    if not isinstance(value, str):
        raise ValueError(f"{where}: expected a string, got {value!r}")
    return value


def check_bounds(
    plan: BoundPlan, held_bytes: Mapping[str, Sequence[int]], steps: Sequence[int]
) -> None:
    """Check that the accesses of a bound plan are in bounds.

    Args:
        held_bytes: sizes of inputs, outputs, constants, the arena and the workspace.
        steps: indices of the steps to check.

    Raises:
        ValueError: an access is out of bounds.
    """
    for number in steps:
        where = f"step {number}"
        for operation in plan.steps[number]:
            if isinstance(operation, BoundLaunch):
                _check_accesses(operation.launch, held_bytes, where)
            elif isinstance(operation, Copy):
                for pointer in (operation.source, operation.target):
                    _check_span(pointer, operation.size_bytes, held_bytes, where)
            else:
                for array in operation.arrays:
                    size_bytes = _array_bytes(array)
                    _check_span(array.pointer, size_bytes, held_bytes, where)


def _check_accesses(
    launch: Launch | LibraryCall, held_bytes: Mapping[str, Sequence[int]], where: str
) -> None:
    if not isinstance(launch, Launch):
        _check_library_sizes(launch, where)
        for pointer, size_bytes in [] if launch.is_empty else launch.spans():
            _check_span(pointer, size_bytes, held_bytes, where)
        return
    _check_sizes(launch, where)
    for argument in launch.arguments:
        if isinstance(argument, TensorMap):
            _check_span(argument.pointer, _map_bytes(argument), held_bytes, where)
        elif isinstance(argument, Pointer):
            _check_span(argument, 0, held_bytes, where)


def _check_library_sizes(call: LibraryCall, where: str) -> None:
    """Check sizes, strides and alignment of a library call."""
    if isinstance(call, Matmul):
        _check_matrices(call, where)
        return
    if call.batch < 0:
        raise ValueError(f"{where}: a convolution with batch size {call.batch}")
    for pointer in call.pointers:
        if pointer.offset_bytes % ALIGNMENT:
            raise ValueError(
                f"{where}: a convolution has an operand at {pointer.offset_bytes}: "
                f"expected a multiple of {ALIGNMENT}"
            )


def _check_matrices(matmul: Matmul, where: str) -> None:
    """Check sizes and leading dimensions of the matrices of a matmul."""
    batch, m, n, k = matmul.sizes
    numbers = [*matmul.sizes]
    for matrix in (matmul.lhs, matmul.rhs, matmul.result):
        numbers += matrix.leading, matrix.step
    if min(numbers) < 0 or (not matmul.is_empty and not k):
        raise ValueError(f"{where}: a matmul of {batch}x{m}x{n}x{k}")
    if matmul.is_empty:
        return
    shapes = (m, k), (k, n), (m, n)
    matrices = matmul.lhs, matmul.rhs, matmul.result
    for matrix, shape in zip(matrices, shapes, strict=True):
        _, columns, leading = matrix.memory_shape(*shape)
        if leading < columns:
            raise ValueError(
                f"{where}: leading dimension {leading} of rows of {columns} elements"
            )


def _check_sizes(launch: Launch, where: str) -> None:
    numbers = (*launch.grid, *launch.block, launch.shared_bytes)
    if min(numbers) < 0:
        raise ValueError(
            f"{where}: kernel `{launch.kernel}` has a size of {min(numbers)}"
        )


def _map_bytes(tensor: TensorMap) -> int:
    """Bytes from the first element of a tensor to the end of the last."""
    if min((*tensor.sizes, *tensor.strides_bytes)) < 0:
        return -1
    if not all(tensor.sizes):
        return 0
    item_bytes = ELEMENT_BYTES[tensor.element]
    outer = zip(tensor.sizes[1:], tensor.strides_bytes, strict=True)
    return tensor.sizes[0] * item_bytes + sum((n - 1) * step for n, step in outer)


def _array_bytes(array: HostArray) -> int:
    if min(array.shape, default=0) < 0:
        return -1
    return math.prod(array.shape) * element_type(array.dtype).itemsize


def _check_span(
    pointer: Pointer,
    size_bytes: int,
    held_bytes: Mapping[str, Sequence[int]],
    where: str,
) -> None:
    held = held_bytes[pointer.base][pointer.number]
    offset = pointer.offset_bytes
    if offset < 0 or size_bytes < 0 or offset + size_bytes > held:
        raise ValueError(
            f"{where}: {size_bytes} bytes at {offset} of {pointer.base} {pointer.number}, "
            f"which has {held}"
        )

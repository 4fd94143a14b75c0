"""Interpreter of host programs: threaded code, a Python callable per instruction.

A function is linked once: each instruction becomes a callable that reads and writes the
registers of a frame, a list. A call runs them in order, without lookups by name except for
registered functions, which may be replaced. Calls between host functions, and branches, use
an explicit stack, so they can nest deeper than Python's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from tvm_ffi import Shape

from relax_mlir.runtime.elements import element_type
from relax_mlir.runtime.host import instructions
from relax_mlir.runtime.host.closure import Closure, Entry, Frame, LinkedBlock, Step
from relax_mlir.runtime.host.program import (
    OPCODES,
    Block,
    HostFunction,
    HostProgram,
    Instruction,
    Literal,
)
from relax_mlir.runtime.host.scalars import INTEGER_FUNCTIONS, SCALAR_FUNCTIONS
from relax_mlir.runtime.ndarray import NDArray
from relax_mlir.runtime.registry import get_global_func

__all__ = ["link", "link_function"]


def link(
    program: HostProgram, named: Mapping[str, Mapping[str, Any]]
) -> dict[str, Callable[..., Any]]:
    """Link a verified program; returns its functions without captures as callables.

    Args:
        program: the functions.
        named: values of named literals, by kind.
    """
    linker = _Linker(named)
    for name, function in program.functions.items():
        code = linker.code(function.block)
        linker.closures[name] = Closure(name, len(function.params), code, ())
    for name, function in program.functions.items():
        linker.closures[name].rest = linker.rest(function)
    return {
        n: linker.closures[n] for n, f in program.functions.items() if not f.captured
    }


def link_function(name: str, function: HostFunction) -> Callable[..., Any]:
    """Link a single function, which refers to no other."""
    return link(HostProgram({name: function}), {})[name]


class _Linker:
    """Links instructions to steps.

    Args:
        named: values of named literals, by kind.

    Attributes:
        closures: of all functions, without captured values.
    """

    def __init__(self, named: Mapping[str, Mapping[str, Any]]) -> None:
        self._named = named
        self.closures: dict[str, Closure] = {}

    def code(self, block: Block) -> LinkedBlock:
        """Link a block."""
        enters = any(i.opcode in _CALL_OPCODES for i in block.instructions())
        return LinkedBlock(tuple(map(self._step, block.body)), block.result, not enters)

    def rest(self, function: HostFunction) -> list[Any]:
        """The literals of a function, and initial values of its result registers."""
        literals = list(map(self._value, function.literals))
        return literals + [None] * (function.register_count - function.first_result)

    def segment(self, name: str) -> Callable[..., Any]:
        """The native function called ``name``."""
        return self._named["segment"][name]

    def _value(self, literal: Literal) -> Any:
        if literal.kind == "value":
            return literal.value
        if literal.kind == "function":
            return self.closures[literal.value]
        return self._named[literal.kind][literal.value]

    def _step(self, instruction: Instruction) -> Step:
        link = _LINKERS.get(instruction.opcode)
        if link is not None:
            return link(self, instruction)
        fast = INTEGER_FUNCTIONS.get(instruction.opcode)
        if fast is not None:
            return _arithmetic(fast, SCALAR_FUNCTIONS[instruction.opcode], instruction)
        return _applied(_FUNCTIONS[instruction.opcode], instruction)


_CALL_OPCODES = ("call", "call_spread")  # may enter another host function


def _arguments(operands: Sequence[int]) -> Callable[[Frame], tuple[Any, ...]]:
    """A function that reads registers of a frame."""
    if len(operands) > 1:
        return itemgetter(*operands)
    if not operands:
        return lambda frame: ()
    (only,) = operands
    return lambda frame: (frame[only],)


def _applied(function: Callable[..., Any], instruction: Instruction) -> Step:
    """A step that calls a Python function with registers and immediates."""
    operands, immediates = instruction.operands, instruction.immediates
    arguments = _arguments(operands)
    if not instruction.results:

        def check(frame: Frame) -> None:
            function(*arguments(frame), *immediates)

        return check
    target = _target(instruction)
    if len(operands) == 1 and not immediates:
        (only,) = operands

        def unary(frame: Frame) -> None:
            frame[target] = function(frame[only])

        return unary

    def step(frame: Frame) -> None:
        frame[target] = function(*arguments(frame), *immediates)

    return step


def _arithmetic(
    fast: Callable[[int, int], Any],
    checked: Callable[[Any, Any], Any],
    instruction: Instruction,
) -> Step:
    """A step of binary scalar arithmetic.

    Args:
        fast: the implementation for integers.
        checked: the implementation for all values.
    """
    target, (first, second) = _target(instruction), instruction.operands

    def step(frame: Frame) -> None:
        a, b = frame[first], frame[second]
        apply = fast if type(a) is int and type(b) is int else checked
        frame[target] = apply(a, b)

    return step


def _target(instruction: Instruction) -> int:
    """The single result register of an instruction."""
    (target,) = instruction.results
    assert target is not None
    return target


# Checks. The fast path is inline; functions of `instructions` raise the errors.


def _bindings(instruction: Instruction) -> list[tuple[int, int]]:
    """Registers to bind to sizes, with their axes."""
    results = enumerate(instruction.results)
    return [(target, axis) for axis, target in results if target is not None]


def _check_tensor(linker: _Linker, instruction: Instruction) -> Step:
    (source,), (sizes, dtype, where) = instruction.operands, instruction.immediates
    bound, check = _bindings(instruction), instructions.check_tensor
    rank = -1 if sizes is None else len(sizes)
    static = [(axis, s) for axis, s in enumerate(sizes or ()) if s is not None]
    element = _element(dtype)

    def step(frame: Frame) -> None:
        value = frame[source]
        is_fast = type(value) is NDArray and value.element_type is element
        shape = value.shape if is_fast else check(value, sizes, dtype, where)
        if len(shape) != rank and rank >= 0:
            check(value, sizes, dtype, where)
        for axis, size in static:
            if shape[axis] != size:
                check(value, sizes, dtype, where)
        for target, axis in bound:
            frame[target] = shape[axis]

    return step


def _element(dtype: str) -> np.dtype | None:
    """The element type of a name; None for unknown names."""
    try:
        return element_type(dtype)
    except ValueError:
        return None


def _check_shape(linker: _Linker, instruction: Instruction) -> Step:
    (source,), (ndim, where) = instruction.operands, instruction.immediates
    bound, check = _bindings(instruction), instructions.check_shape

    def step(frame: Frame) -> None:
        value = frame[source]
        if type(value) is not Shape or len(value) != ndim:
            check(value, ndim, where)
        for target, axis in bound:
            frame[target] = value[axis]

    return step


def _check_number(linker: _Linker, instruction: Instruction) -> Step:
    (source,), (dtype, where) = instruction.operands, instruction.immediates
    targets = [target for target, _ in _bindings(instruction)]

    def step(frame: Frame) -> None:
        value = frame[source]
        if type(value) is not int:
            instructions.check_number(value, dtype, where)
        for target in targets:
            frame[target] = value

    return step


def _check_size(linker: _Linker, instruction: Instruction) -> Step:
    (got, expected), (stated, where) = instruction.operands, instruction.immediates

    def step(frame: Frame) -> None:
        if frame[got] != frame[expected]:
            instructions.check_size(frame[got], frame[expected], stated, where)

    return step


# Values.


def _tuple(linker: _Linker, instruction: Instruction) -> Step:
    target, arguments = _target(instruction), _arguments(instruction.operands)

    def step(frame: Frame) -> None:
        frame[target] = [*arguments(frame)]

    return step


def _shape(linker: _Linker, instruction: Instruction) -> Step:
    target, arguments = _target(instruction), _arguments(instruction.operands)

    def step(frame: Frame) -> None:
        frame[target] = Shape(arguments(frame))

    return step


def _copy(linker: _Linker, instruction: Instruction) -> Step:
    target, (source,) = _target(instruction), instruction.operands

    def step(frame: Frame) -> None:
        frame[target] = frame[source]

    return step


# Control flow and calls.


def _if(linker: _Linker, instruction: Instruction) -> Step:
    target, (condition,) = _target(instruction), instruction.operands
    then, otherwise = map(linker.code, instruction.blocks)
    truth = instructions.truth

    def enter(frame: Frame) -> Entry:
        return (then if truth(frame[condition]) else otherwise), frame, target

    def step(frame: Frame) -> None:
        block = then if truth(frame[condition]) else otherwise
        for inner in block.steps:
            inner(frame)
        frame[target] = frame[block.result]

    return step if then.is_flat and otherwise.is_flat else enter


def _call_directly(callee: Any, args: Sequence[Any]) -> Any:
    """Call a value other than a host function with blocks to enter.

    Raises:
        TypeError: the value is not callable.
    """
    if not callable(callee):
        got = type(callee).__name__
        raise TypeError(f"expected a function to call, got `{got}`")
    return callee(*args)


def _call(linker: _Linker, instruction: Instruction) -> Step:
    target, (callee, *operands) = _target(instruction), instruction.operands
    arguments = _arguments(operands)

    def step(frame: Frame) -> Entry | None:
        function = frame[callee]
        if type(function) is Closure and not function.code.is_flat:
            return function.code, function.frame(arguments(frame)), target
        frame[target] = _call_directly(function, arguments(frame))
        return None

    return step


def _call_spread(linker: _Linker, instruction: Instruction) -> Step:
    target, (callee, operand) = _target(instruction), instruction.operands

    def step(frame: Frame) -> Entry | None:
        function = frame[callee]
        if type(function) is Closure and not function.code.is_flat:
            return function.code, function.frame(tuple(frame[operand])), target
        frame[target] = _call_directly(function, tuple(frame[operand]))
        return None

    return step


def _call_segment(linker: _Linker, instruction: Instruction) -> Step:
    segment = linker.segment(*instruction.immediates)
    operands = instruction.operands
    targets = [
        t for t in instruction.results if t is not None
    ]  # none is None, by the verifier
    arguments = _arguments(operands)
    if len(operands) == len(targets) == 1:
        (source,), (target,) = operands, targets

        def unary(frame: Frame) -> None:
            (frame[target],) = segment(frame[source])

        return unary

    def step(frame: Frame) -> None:
        for target, value in zip(targets, segment(*arguments(frame)), strict=True):
            frame[target] = value

    return step


def _call_packed(linker: _Linker, instruction: Instruction) -> Step:
    target, (name,) = _target(instruction), instruction.immediates
    operands, to_value = instruction.operands, instructions.to_value
    arguments = _arguments(operands)
    if len(operands) == 1:
        (source,) = operands

        def unary(frame: Frame) -> None:
            frame[target] = to_value(get_global_func(name)(frame[source]))

        return unary

    def step(frame: Frame) -> None:
        # Looked up in each call, since registered functions may be replaced.
        frame[target] = to_value(get_global_func(name)(*arguments(frame)))

    return step


def _closure(linker: _Linker, instruction: Instruction) -> Step:
    target, (name,) = _target(instruction), instruction.immediates
    operands = instruction.operands
    arguments = _arguments(operands)
    own = [number for number, register in enumerate(operands) if register == target]

    def step(frame: Frame) -> None:
        plain = linker.closures[name]
        rest = [*arguments(frame), *plain.rest]
        closure = Closure(name, plain.param_count, plain.code, rest)
        for number in own:
            rest[number] = closure
        frame[target] = closure

    return step


_LINKERS: Mapping[str, Callable[[_Linker, Instruction], Step]] = {
    "check_tensor": _check_tensor,
    "check_shape": _check_shape,
    "check_number": _check_number,
    "check_size": _check_size,
    "copy": _copy,
    "tuple": _tuple,
    "shape": _shape,
    "if": _if,
    "call": _call,
    "call_spread": _call_spread,
    "call_segment": _call_segment,
    "call_packed": _call_packed,
    "closure": _closure,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    name: SCALAR_FUNCTIONS.get(name) or getattr(instructions, name)
    for name in OPCODES
    if name not in _LINKERS
}

"""The interpreter of host programs: threaded code, a callable per instruction.

A function is linked once: each instruction becomes a Python function of ours that reads
and writes the registers of a frame, a list. A call then runs them one after the other, and
looks nothing up by name but registered functions, which may be registered again.
Calls between host functions and branches use a stack of the interpreter's own, so they
nest deeper than calls of Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from operator import itemgetter
from typing import Any, NamedTuple

from tvm_ffi import Shape

from relax_mlir.errors import RunError
from relax_mlir.relax.vm import host_values
from relax_mlir.relax.vm.host_program import (
    OPCODES,
    Block,
    HostFunction,
    HostProgram,
    Instruction,
    Literal,
)
from relax_mlir.relax.vm.host_scalars import SCALAR_FUNCTIONS
from relax_mlir.runtime.registry import get_global_func

__all__ = ["link", "link_function"]

# Any: frames hold the values of the program.
_Frame = list[Any]
_MAX_CALLS = 20_000  # nested calls and branches; each takes less than a kilobyte


class _Code(NamedTuple):
    """A linked block.

    Attributes:
        steps: run in order on a frame; one that enters a block returns an :class:`_Entry`.
        result: the register with the value of the block.
    """

    steps: Sequence[Callable[[_Frame], _Entry | None]]
    result: int


class _Entry(NamedTuple):
    """A block to run before the next step.

    Attributes:
        code: the block.
        frame: the registers that it works on.
        target: the caller's register for its value.
    """

    code: _Code
    frame: _Frame
    target: int


_Step = Callable[[_Frame], "_Entry | None"]


class _Closure:
    """A host function as a value, with what it captured.

    Attributes:
        name: for errors.
        code: what it does.
        param_count: how many arguments it takes.
        rest: the registers behind the arguments when a call begins.
    """

    __slots__ = ("code", "name", "param_count", "rest")

    def __init__(self, name: str, function: HostFunction, code: _Code) -> None:
        self.name, self.code = name, code
        self.param_count = len(function.params)
        self.rest: list[Any] = []

    def with_captured(self, values: Sequence[Any]) -> _Closure:
        """It with values of the function around it."""
        made = copy(self)
        made.rest = [*values, *self.rest]
        return made

    def frame(self, args: Sequence[Any]) -> _Frame:
        """The registers of a call.

        Raises:
            TypeError: it takes another number of arguments.
        """
        if len(args) != self.param_count:
            raise TypeError(
                f"`{self.name}`: expected {self.param_count} arguments, got {len(args)}"
            )
        return [*args, *self.rest]

    def __call__(self, *args: Any) -> Any:
        return _run(self.code, self.frame(args), self.name)


def _run(code: _Code, frame: _Frame, name: str) -> Any:
    """Run a block, and those that it enters.

    Raises:
        RunError: calls nest too deeply.
    """
    callers: list[tuple[Iterator[_Step], _Frame, int, int]] = []
    steps, result = iter(code.steps), code.result
    while True:
        for step in steps:
            entry = step(frame)
            if entry is not None:
                callers.append((steps, frame, result, entry.target))
                if len(callers) > _MAX_CALLS:
                    raise RunError(
                        f"`{name}`: expected at most {_MAX_CALLS} nested calls and "
                        "branches, got more. Hint: does a function call itself for ever?"
                    )
                (inner, result), frame, _ = entry
                steps = iter(inner)
                break
        else:
            value = frame[result]
            if not callers:
                return value
            steps, frame, result, target = callers.pop()
            frame[target] = value


def link(
    program: HostProgram, named: Mapping[str, Mapping[str, Any]]
) -> dict[str, Callable[..., Any]]:
    """The functions of a verified program that capture nothing, ready to be called.

    Args:
        program: the functions.
        named: by kind of literal, what names stand for.
    """
    linker = _Linker(named)
    codes = {n: linker.code(f.block) for n, f in program.functions.items()}
    for name, function in program.functions.items():
        linker.closures[name] = _Closure(name, function, codes[name])
    for name, function in program.functions.items():
        linker.closures[name].rest = linker.rest(function)
    return {
        n: linker.closures[n] for n, f in program.functions.items() if not f.captured
    }


def link_function(name: str, function: HostFunction) -> Callable[..., Any]:
    """A function by itself, which refers to no other."""
    return link(HostProgram({name: function}), {})[name]


class _Linker:
    """Makes steps of instructions.

    Args:
        named: by kind of literal, what names stand for.

    Attributes:
        closures: of all functions, without what they capture.
    """

    def __init__(self, named: Mapping[str, Mapping[str, Any]]) -> None:
        self._named = named
        self.closures: dict[str, _Closure] = {}

    def code(self, block: Block) -> _Code:
        """A block, linked."""
        return _Code(tuple(map(self._step, block.body)), block.result)

    def rest(self, function: HostFunction) -> list[Any]:
        """The literals of a function, and room for what instructions write."""
        literals = list(map(self._value, function.literals))
        return literals + [None] * (function.register_count - function.first_result)

    def segment(self, name: str) -> Callable[..., Any]:
        """Machine code that gives a list of tensors."""
        return self._named["segment"][name]

    def _value(self, literal: Literal) -> Any:
        if literal.kind == "value":
            return literal.value
        if literal.kind == "function":
            return self.closures[literal.value]
        return self._named[literal.kind][literal.value]

    def _step(self, instruction: Instruction) -> _Step:
        make = _STEPS.get(instruction.opcode)
        if make is not None:
            return make(self, instruction)
        return _applied(_FUNCTIONS[instruction.opcode], instruction)


def _arguments(operands: Sequence[int]) -> Callable[[_Frame], Sequence[Any]]:
    """What reads some registers."""
    if len(operands) > 1:
        return itemgetter(*operands)
    if not operands:
        return lambda frame: ()
    (only,) = operands
    return lambda frame: (frame[only],)


def _applied(function: Callable[..., Any], instruction: Instruction) -> _Step:
    """A step that calls a function with registers and immediates."""
    operands, immediates = instruction.operands, instruction.immediates
    if not instruction.results:
        return _checked(function, operands, immediates)
    target = _target(instruction)
    if len(operands) == 1:
        (only,) = operands

        def unary(frame: _Frame) -> None:
            frame[target] = function(frame[only], *immediates)

        return unary
    arguments = _arguments(operands)

    def step(frame: _Frame) -> None:
        frame[target] = function(*arguments(frame), *immediates)

    return step


def _checked(
    check: Callable[..., Any], operands: Sequence[int], immediates: Sequence[Any]
) -> _Step:
    """A step that calls a function for its errors."""
    arguments = _arguments(operands)

    def step(frame: _Frame) -> None:
        check(*arguments(frame), *immediates)

    return step


def _target(instruction: Instruction) -> int:
    """The only register that an instruction writes."""
    (target,) = instruction.results
    assert target is not None
    return target


def _sized(check: Callable[..., Any]) -> Callable[[_Linker, Instruction], _Step]:
    """A check that gives the sizes of what it checked."""

    def make(linker: _Linker, instruction: Instruction) -> _Step:
        (source,), immediates = instruction.operands, instruction.immediates
        results = enumerate(instruction.results)
        bound = [(axis, target) for axis, target in results if target is not None]

        def step(frame: _Frame) -> None:
            sizes = check(frame[source], *immediates)
            for axis, target in bound:
                frame[target] = sizes[axis]

        return step

    return make


def _tuple(linker: _Linker, instruction: Instruction) -> _Step:
    target, arguments = _target(instruction), _arguments(instruction.operands)

    def step(frame: _Frame) -> None:
        frame[target] = [*arguments(frame)]

    return step


def _shape(linker: _Linker, instruction: Instruction) -> _Step:
    target, arguments = _target(instruction), _arguments(instruction.operands)

    def step(frame: _Frame) -> None:
        frame[target] = Shape(arguments(frame))

    return step


def _copy(linker: _Linker, instruction: Instruction) -> _Step:
    target, (source,) = _target(instruction), instruction.operands

    def step(frame: _Frame) -> None:
        frame[target] = frame[source]

    return step


# Control flow and calls.


def _if(linker: _Linker, instruction: Instruction) -> _Step:
    target, (condition,) = _target(instruction), instruction.operands
    then, otherwise = map(linker.code, instruction.blocks)
    truth = host_values.truth

    def step(frame: _Frame) -> _Entry:
        return _Entry(then if truth(frame[condition]) else otherwise, frame, target)

    return step


def _entered(
    frame: _Frame, target: int, callee: Any, args: Sequence[Any]
) -> _Entry | None:
    """Call a value; a host function is entered.

    Raises:
        TypeError: it is no function.
    """
    if type(callee) is _Closure:
        return _Entry(callee.code, callee.frame(args), target)
    if not callable(callee):
        raise TypeError(f"expected a function to call, got `{type(callee).__name__}`")
    frame[target] = callee(*args)
    return None


def _call(linker: _Linker, instruction: Instruction) -> _Step:
    target, (callee, *operands) = _target(instruction), instruction.operands
    arguments = _arguments(operands)

    def step(frame: _Frame) -> _Entry | None:
        return _entered(frame, target, frame[callee], arguments(frame))

    return step


def _call_spread(linker: _Linker, instruction: Instruction) -> _Step:
    target, (callee, operand) = _target(instruction), instruction.operands

    def step(frame: _Frame) -> _Entry | None:
        return _entered(frame, target, frame[callee], tuple(frame[operand]))

    return step


def _call_segment(linker: _Linker, instruction: Instruction) -> _Step:
    segment = linker.segment(*instruction.immediates)
    arguments = _arguments(instruction.operands)
    targets = [t for t in instruction.results if t is not None]  # all, as is verified

    def step(frame: _Frame) -> None:
        for target, value in zip(targets, segment(*arguments(frame)), strict=True):
            frame[target] = value

    return step


def _call_packed(linker: _Linker, instruction: Instruction) -> _Step:
    target, (name,) = _target(instruction), instruction.immediates
    arguments, to_value = _arguments(instruction.operands), host_values.to_value

    def step(frame: _Frame) -> None:
        # Looked up in each call: functions may be registered again.
        frame[target] = to_value(get_global_func(name)(*arguments(frame)))

    return step


def _closure(linker: _Linker, instruction: Instruction) -> _Step:
    target, (name,) = _target(instruction), instruction.immediates
    operands = instruction.operands
    arguments = _arguments(operands)
    own = [number for number, register in enumerate(operands) if register == target]

    def step(frame: _Frame) -> None:
        made = linker.closures[name].with_captured(arguments(frame))
        for number in own:
            made.rest[number] = made
        frame[target] = made

    return step


_STEPS: Mapping[str, Callable[[_Linker, Instruction], _Step]] = {
    "check_tensor": _sized(host_values.check_tensor),
    "check_shape": _sized(host_values.check_shape),
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
    name: SCALAR_FUNCTIONS.get(name) or getattr(host_values, name)
    for name in OPCODES
    if name not in _STEPS
}

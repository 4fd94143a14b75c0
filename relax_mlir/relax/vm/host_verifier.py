"""The verifier of host programs: every register, name and count, before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir.relax.vm.host_program import (
    Block,
    HostFunction,
    HostProgram,
    Instruction,
)

__all__ = ["Callees", "check_function", "check_program"]

_MAX_REGISTERS = 1 << 20


@dataclass(frozen=True)
class Callees:
    """What a host program refers to by name.

    Attributes:
        segments: how many tensors each takes and gives.
        programs: tensor programs.
        tensors: constants.
    """

    segments: Mapping[str, tuple[int, int]]
    programs: Collection[str]
    tensors: Collection[str]


def check_program(
    program: HostProgram, callees: Callees, public: Mapping[str, Sequence[str]]
) -> None:
    """Refuse a program that no compiler writes.

    Args:
        program: all of it.
        callees: what it may refer to.
        public: parameters of the functions that callers see, by name.

    Raises:
        ValueError: a register is read before it is written or out of range; a name is
            missing; a call has another number of values than its callee.
    """
    for name, params in public.items():
        _check_public(program, name, params)
    for name, function in program.functions.items():
        _check_named(name, function, _Calls(program, callees, function))


def _check_named(name: str, function: HostFunction, calls: _Calls) -> None:
    try:
        check_function(function)
        calls.check()
    except ValueError as error:
        raise ValueError(f"host function `{name}`: {error}") from error


def _check_public(program: HostProgram, name: str, params: Sequence[str]) -> None:
    function = program.functions.get(name)
    if function is None or function.captured:
        raise ValueError(f"public function `{name}`: expected a host function")
    if len(function.params) != len(params):
        raise ValueError(
            f"public function `{name}`: expected {len(params)} parameters, got "
            f"{len(function.params)}"
        )


def check_function(function: HostFunction) -> None:
    """Refuse registers that are out of range, or read before they are written.

    Raises:
        ValueError: there is one.
    """
    limit = function.register_count
    if limit > _MAX_REGISTERS:
        raise ValueError(f"expected at most {_MAX_REGISTERS} registers, got {limit}")
    first = function.first_result
    _Registers(first, limit).check(function.block, set(range(first)))


@dataclass(frozen=True)
class _Registers:
    """Follows which registers are written.

    Attributes:
        first: the first that an instruction may write.
        limit: how many there are.
    """

    first: int
    limit: int

    def check(self, block: Block, written: set[int]) -> set[int]:
        """The registers that are written behind a block, of those in front of it."""
        for instruction in block.body:
            own = instruction.results if instruction.opcode == "closure" else ()
            for register in instruction.operands:
                if register not in own:  # a function may capture itself
                    self._check_read(register, written, instruction.opcode)
            for nested in instruction.blocks:
                self.check(nested, set(written))
            written.update(self._written_by(instruction))
        self._check_read(block.result, written, "result")
        return written

    def _written_by(self, instruction: Instruction) -> list[int]:
        registers = [r for r in instruction.results if r is not None]
        for register in registers:
            if type(register) is not int or not self.first <= register < self.limit:
                raise ValueError(
                    f"`{instruction.opcode}`: expected a register of {self.first} to "
                    f"{self.limit - 1} to write, got {register!r:.60}"
                )
        return registers

    @staticmethod
    def _check_read(register: Any, written: set[int], where: str) -> None:
        if type(register) is not int or register not in written:
            raise ValueError(
                f"`{where}`: expected a register that is written before, got "
                f"{register!r:.60}"
            )


@dataclass(frozen=True)
class _Calls:
    """Compares what a function calls with what is there."""

    program: HostProgram
    callees: Callees
    function: HostFunction

    def check(self) -> None:
        functions = self.program.functions
        known: Mapping[str, Collection[str]] = {
            "segment": self.callees.segments,
            "program": self.callees.programs,
            "tensor": self.callees.tensors,
            "function": [n for n, f in functions.items() if not f.captured],
        }
        for literal in self.function.literals:
            if literal.kind in known and literal.value not in known[literal.kind]:
                raise ValueError(f"no {literal.kind} is called `{literal.value}`")
        for instruction in self.function.block.instructions():
            if instruction.opcode == "call_segment":
                self._check_segment(instruction)
            elif instruction.opcode == "closure":
                self._check_closure(instruction)
            elif instruction.opcode == "call":
                self._check_call(instruction)

    def _check_segment(self, instruction: Instruction) -> None:
        (name,) = instruction.immediates
        if name not in self.callees.segments:
            raise ValueError(f"no segment is called `{name}`")
        takes, gives = self.callees.segments[name]
        given, made = len(instruction.operands), len(instruction.results)
        if (given, made) != (takes, gives):
            raise ValueError(
                f"segment `{name}`: expected {takes} arguments and {gives} results, got "
                f"{given} and {made}"
            )

    def _check_closure(self, instruction: Instruction) -> None:
        (name,) = instruction.immediates
        inner = self.program.functions.get(name)
        if inner is None:
            raise ValueError(f"no function is called `{name}`")
        if inner.captured != len(instruction.operands):
            raise ValueError(
                f"function `{name}`: expected {inner.captured} captured values, got "
                f"{len(instruction.operands)}"
            )

    def _check_call(self, instruction: Instruction) -> None:
        literal = self.function.literal(instruction.operands[0])
        if literal is None or literal.kind != "function":
            return
        takes = len(self.program.functions[literal.value].params)
        given = len(instruction.operands) - 1
        if given != takes:
            raise ValueError(
                f"function `{literal.value}`: expected {takes} arguments, got {given}"
            )

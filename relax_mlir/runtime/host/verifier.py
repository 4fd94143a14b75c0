"""Verifier of host programs: checks all registers, names and counts before execution."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir.runtime.host.program import (
    Block,
    HostFunction,
    HostProgram,
    Instruction,
)

__all__ = ["Callees", "check_function", "check_program"]

_MAX_REGISTERS = 1 << 20


@dataclass(frozen=True)
class Callees:
    """The objects that a host program may refer to by name.

    Attributes:
        segments: number of arguments and results of each native function.
        programs: kernels.
        tensors: constants.
    """

    segments: Mapping[str, tuple[int, int]]
    programs: Collection[str]
    tensors: Collection[str]


def check_program(
    program: HostProgram, callees: Callees, public: Mapping[str, Sequence[str]]
) -> None:
    """Verify a program.

    Args:
        program: the program.
        callees: objects that it may refer to.
        public: parameters of the public functions, by name.

    Raises:
        ValueError: a register is out of range, or read before it is written; a name is
            undefined; a call has a wrong number of arguments or results.
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
    """Verify that registers are in range, and written before they are read.

    Raises:
        ValueError: a register violates this.
    """
    limit = function.register_count
    if limit > _MAX_REGISTERS:
        raise ValueError(f"expected at most {_MAX_REGISTERS} registers, got {limit}")
    first = function.first_result
    _Registers(first, limit).check(function.block, set(range(first)))


@dataclass(frozen=True)
class _Registers:
    """Definite-assignment analysis of registers.

    Attributes:
        first: the first result register.
        limit: the number of registers.
    """

    first: int
    limit: int

    def check(self, block: Block, written: set[int]) -> set[int]:
        """Check a block; returns the registers that are written after it."""
        for instruction in block.body:
            own = instruction.results if instruction.opcode == "closure" else ()
            for register in instruction.operands:
                if register not in own:  # recursive functions capture themselves
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
    """Checks the names and counts of a function's references against the callees."""

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
                raise ValueError(f"no {literal.kind} has the name `{literal.value}`")
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
            raise ValueError(f"no segment has the name `{name}`")
        expected = self.callees.segments[name]
        got = len(instruction.operands), len(instruction.results)
        if got != expected:
            raise ValueError(
                f"segment `{name}`: expected {expected[0]} arguments and {expected[1]} "
                f"results, got {got[0]} and {got[1]}"
            )

    def _check_closure(self, instruction: Instruction) -> None:
        (name,) = instruction.immediates
        inner = self.program.functions.get(name)
        if inner is None:
            raise ValueError(f"no function has the name `{name}`")
        if inner.captured != len(instruction.operands):
            raise ValueError(
                f"function `{name}`: expected {inner.captured} captured values, got "
                f"{len(instruction.operands)}"
            )

    def _check_call(self, instruction: Instruction) -> None:
        literal = self.function.literal(instruction.operands[0])
        if literal is None or literal.kind != "function":
            return
        expected = len(self.program.functions[literal.value].params)
        got = len(instruction.operands) - 1
        if got != expected:
            raise ValueError(
                f"function `{literal.value}`: expected {expected} arguments, got {got}"
            )

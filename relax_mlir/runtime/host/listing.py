"""Listings of host programs in Python-like syntax, for reading only."""

from __future__ import annotations

from collections.abc import Iterator

from relax_mlir.runtime.host.program import (
    Block,
    HostFunction,
    HostProgram,
    Instruction,
    Literal,
)

__all__ = ["format_program"]


def format_program(program: HostProgram) -> str:
    """Format a program, one function after the other."""
    functions = (_Listing(f).lines(name) for name, f in program.functions.items())
    return "\n\n".join("\n".join(lines) for lines in functions)


class _Listing:
    """Formats one function."""

    def __init__(self, function: HostFunction) -> None:
        self._function = function

    def lines(self, name: str) -> Iterator[str]:
        count = len(self._function.params)
        params = ", ".join(map(self._register, range(count)))
        yield f"def f_{name}({params}):"
        inner = range(count, count + self._function.captured)
        if inner:
            yield f"    nonlocal {', '.join(map(self._register, inner))}"
        yield from self._block(self._function.block, 1, "return")

    def _block(self, block: Block, depth: int, last: str) -> Iterator[str]:
        indent = "    " * depth
        for instruction in block.body:
            if instruction.opcode == "if":
                yield from self._if(instruction, depth)
            else:
                yield indent + self._instruction(instruction)
        yield f"{indent}{last} {self._register(block.result)}"

    def _if(self, instruction: Instruction, depth: int) -> Iterator[str]:
        (condition,), (target,) = instruction.operands, instruction.results
        assert target is not None
        indent, last = "    " * depth, f"{self._register(target)} ="
        for head, block in zip(
            (f"if {self._register(condition)}:", "else:"),
            instruction.blocks,
            strict=True,
        ):
            yield indent + head
            yield from self._block(block, depth + 1, last)

    def _instruction(self, instruction: Instruction) -> str:
        call = self._call(instruction)
        results = instruction.results
        if not any(r is not None for r in results):
            return call
        named = ["_" if r is None else self._register(r) for r in results]
        is_list = len(results) != 1 or instruction.opcode in _LIST_OPCODES
        targets = f"[{', '.join(named)}]" if is_list else named[0]
        return f"{targets} = {call}"

    def _call(self, instruction: Instruction) -> str:
        opcode, immediates = instruction.opcode, instruction.immediates
        operands = list(map(self._register, instruction.operands))
        inside = ", ".join(operands)
        if opcode == "call_segment":
            return f"{immediates[0]}({inside})"
        if opcode == "call_packed":
            return f"rt.packed({immediates[0]!r})({inside})"
        if opcode == "call":
            return f"{operands[0]}({', '.join(operands[1:])})"
        if opcode == "call_spread":
            return f"{operands[0]}(*{operands[1]})"
        if opcode == "copy":
            return inside
        if opcode == "tuple":
            return f"[{inside}]"
        return f"rt.{opcode}({', '.join([*operands, *map(repr, immediates)])})"

    def _register(self, number: int) -> str:
        literal = self._function.literal(number)
        if literal is not None:
            return _literal_text(literal)
        return self._function.names.get(number, f"r{number}")


_LIST_OPCODES = ("call_segment", "check_tensor", "check_shape")  # any number of results


def _literal_text(literal: Literal) -> str:
    if literal.kind == "value":
        return repr(literal.value)
    if literal.kind == "function":
        return f"f_{literal.value}"
    return f"program_{literal.value}" if literal.kind == "program" else literal.value

"""Builds host functions: registers without numbers, and instructions in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.objects.names import identifier
from relax_mlir.relax.vm.host_program import (
    Block,
    HostFunction,
    Instruction,
    Literal,
)

__all__ = ["FunctionBuilder", "OpenBlock", "Register"]


@dataclass(eq=False)
class Register:
    """A register; it gets its number when the function is finished.

    Attributes:
        name: for listings; empty if it has none.
    """

    name: str = ""


@dataclass(eq=False)
class _Draft:
    """An instruction whose registers have no numbers yet."""

    opcode: str
    results: Sequence[Register | None]
    operands: Sequence[Register]
    immediates: Sequence[Any]  # Any: JSON
    blocks: Sequence[OpenBlock]


@dataclass(eq=False)
class OpenBlock:
    """A block that is being built.

    Attributes:
        drafts: its instructions so far.
        result: the register with its value; set before the function is finished.
    """

    drafts: list[_Draft] = field(default_factory=list)
    result: Register | None = None


class FunctionBuilder:
    """Builds one host function.

    Args:
        params: names of the parameters.

    Attributes:
        params: registers of the parameters.
    """

    def __init__(self, params: Sequence[str]) -> None:
        self._used: set[str] = set()
        self.params = [Register(self._unused(name)) for name in params]
        self._param_names = tuple(params)
        self._captured: list[Register] = []
        self._literals: dict[tuple[str, type, str], tuple[Literal, Register]] = {}
        self._block = OpenBlock()

    def emit(
        self,
        opcode: str,
        operands: Sequence[Register] = (),
        immediates: Sequence[Any] = (),
        *,
        name: str = "",
        blocks: Sequence[OpenBlock] = (),
    ) -> Register:
        """Add an instruction that gives one value; return its register."""
        result = self.register(name)
        self.emit_to([result], opcode, operands, immediates, blocks=blocks)
        return result

    def emit_to(
        self,
        results: Sequence[Register | None],
        opcode: str,
        operands: Sequence[Register] = (),
        immediates: Sequence[Any] = (),
        *,
        blocks: Sequence[OpenBlock] = (),
    ) -> None:
        """Add an instruction that writes given registers."""
        draft = _Draft(opcode, results, operands, immediates, blocks)
        self._block.drafts.append(draft)

    def register(self, name: str = "") -> Register:
        """A new register."""
        return Register(self._unused(name) if name else "")

    def literal(self, value: Any, kind: str = "value") -> Register:
        """The register of a literal; see :class:`Literal`."""
        key = (kind, type(value), repr(value))  # 1, 1.0 and True are equal
        if key not in self._literals:
            self._literals[key] = (Literal(kind, value), Register())
        return self._literals[key][1]

    def capture(self, name: str) -> Register:
        """A register that gets a value of the function around this one."""
        self._captured.append(self.register(name))
        return self._captured[-1]

    @contextmanager
    def block(self) -> Iterator[OpenBlock]:
        """What is emitted inside is a block of its own."""
        outer, self._block = self._block, OpenBlock()
        try:
            yield self._block
        finally:
            self._block = outer

    def splice(self, block: OpenBlock) -> None:
        """Add the instructions of a block."""
        self._block.drafts += block.drafts

    def finish(self, result: Register) -> HostFunction:
        """The function, which returns the value of a register."""
        self._block.result = result
        literals = list(self._literals.values())
        first = [*self.params, *self._captured, *(r for _, r in literals)]
        numbers = {register: number for number, register in enumerate(first)}
        block = _numbered(self._block, numbers)
        return HostFunction(
            self._param_names,
            len(self._captured),
            tuple(literal for literal, _ in literals),
            block,
            {number: r.name for r, number in numbers.items() if r.name},
        )

    def _unused(self, hint: str) -> str:
        clean = identifier(hint)
        name, number = clean, 0
        while name in self._used:
            number += 1
            name = f"{clean}_{number}"
        self._used.add(name)
        return name


def _numbered(block: OpenBlock, numbers: dict[Register, int]) -> Block:
    """A block with numbers for its registers; new ones are added to ``numbers``."""
    return Block(
        tuple(_instruction(draft, numbers) for draft in block.drafts),
        numbers[_result_of(block)],
    )


def _result_of(block: OpenBlock) -> Register:
    assert block.result is not None
    return block.result


def _instruction(draft: _Draft, numbers: dict[Register, int]) -> Instruction:
    blocks = tuple(_numbered(block, numbers) for block in draft.blocks)
    results = tuple(
        None if r is None else numbers.setdefault(r, len(numbers))
        for r in draft.results
    )
    operands = tuple(numbers[register] for register in draft.operands)
    immediates = tuple(draft.immediates)
    return Instruction(draft.opcode, results, operands, immediates, blocks)

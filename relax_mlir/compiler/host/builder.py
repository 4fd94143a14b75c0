"""Builder of host functions: virtual registers, numbered when a function is finished."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.ir.function_attributes import python_identifier
from relax_mlir.runtime.host.program import Block, HostFunction, Instruction, Literal

__all__ = ["BlockDraft", "FunctionBuilder", "Register"]


@dataclass(eq=False)
class Register:
    """A virtual register, numbered when the function is finished.

    Attributes:
        name: for listings; may be empty.
    """

    name: str = ""


@dataclass(eq=False)
class _InstructionDraft:
    """An instruction on virtual registers."""

    opcode: str
    results: Sequence[Register | None]
    operands: Sequence[Register]
    immediates: Sequence[Any]  # Any: JSON
    blocks: Sequence[BlockDraft]


@dataclass(eq=False)
class BlockDraft:
    """A block under construction.

    Attributes:
        drafts: its instructions so far.
        result: the register that it yields; set before the function is finished.
    """

    drafts: list[_InstructionDraft] = field(default_factory=list)
    result: Register | None = None


class FunctionBuilder:
    """Builder of one host function.

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
        self._block = BlockDraft()

    def emit(
        self,
        opcode: str,
        operands: Sequence[Register] = (),
        immediates: Sequence[Any] = (),
        *,
        name: str = "",
        blocks: Sequence[BlockDraft] = (),
    ) -> Register:
        """Append an instruction with one result; returns its register."""
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
        blocks: Sequence[BlockDraft] = (),
    ) -> None:
        """Append an instruction that writes to the given registers."""
        draft = _InstructionDraft(opcode, results, operands, immediates, blocks)
        self._block.drafts.append(draft)

    def register(self, name: str = "") -> Register:
        """Create a register."""
        return Register(self._unused(name) if name else "")

    def literal(self, value: Any, kind: str = "value") -> Register:
        """The register of a literal; see :class:`Literal`."""
        key = (kind, type(value), repr(value))  # 1, 1.0 and True are equal
        if key not in self._literals:
            self._literals[key] = (Literal(kind, value), Register())
        return self._literals[key][1]

    def capture(self, name: str) -> Register:
        """A register that captures a value of the enclosing function."""
        self._captured.append(self.register(name))
        return self._captured[-1]

    @contextmanager
    def block(self) -> Iterator[BlockDraft]:
        """Redirect emission to a new block inside the context."""
        outer, self._block = self._block, BlockDraft()
        try:
            yield self._block
        finally:
            self._block = outer

    def splice(self, block: BlockDraft) -> None:
        """Append the instructions of a block."""
        self._block.drafts += block.drafts

    def finish(self, result: Register) -> HostFunction:
        """Finish the function, which returns the value of a register."""
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
        clean = python_identifier(hint)
        name, number = clean, 0
        while name in self._used:
            number += 1
            name = f"{clean}_{number}"
        self._used.add(name)
        return name


def _numbered(block: BlockDraft, numbers: dict[Register, int]) -> Block:
    """Number the registers of a block; extends ``numbers``."""
    return Block(
        tuple(_instruction(draft, numbers) for draft in block.drafts),
        numbers[_result_of(block)],
    )


def _result_of(block: BlockDraft) -> Register:
    assert block.result is not None
    return block.result


def _instruction(draft: _InstructionDraft, numbers: dict[Register, int]) -> Instruction:
    blocks = tuple(_numbered(block, numbers) for block in draft.blocks)
    results = tuple(
        None if r is None else numbers.setdefault(r, len(numbers))
        for r in draft.results
    )
    operands = tuple(numbers[register] for register in draft.operands)
    immediates = tuple(draft.immediates)
    return Instruction(draft.opcode, results, operands, immediates, blocks)

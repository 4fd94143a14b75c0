"""Numbers and addresses of plans, which may depend on the sizes of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from relax_mlir.dialects import symbols

__all__ = ["Expression", "Json", "Pointer", "Sizes", "evaluate", "evaluate_all"]

Expression: TypeAlias = Any  # Any: int or str; int where sizes are known
Json: TypeAlias = Any  # Any: what JSON holds
Sizes: TypeAlias = Mapping[str, int]


def evaluate(expression: Expression, sizes: Sizes) -> int:
    """The number that an expression is when sizes have these values.

    Raises:
        ValueError: it is none, names an unknown size, or divides by zero.
    """
    if isinstance(expression, int):
        return expression
    return symbols.evaluate(symbols.parse(expression), sizes)


def evaluate_all(expressions: Sequence[Expression], sizes: Sizes) -> tuple[int, ...]:
    """The numbers that some expressions are."""
    return tuple(evaluate(e, sizes) for e in expressions)


@dataclass(frozen=True)
class Pointer:
    """An address on the device.

    Attributes:
        base: what it points into: ``input``, ``output``, ``constant`` or ``arena`` in
            ``main``; ``argument`` or ``scratch``, memory of its own, in a program;
            ``workspace``, the scratch of all programs, when sizes are known.
        number: which of them.
        offset_bytes: from there.
    """

    base: str
    number: int
    offset_bytes: Expression = 0

    def fields(self) -> Json:
        """As JSON holds it."""
        return ["pointer", self.base, self.number, self.offset_bytes]

    @staticmethod
    def from_fields(fields: Json) -> Pointer:
        """What :meth:`fields` made."""
        _, base, number, offset = fields
        return Pointer(base, number, offset)

    def at(self, sizes: Sizes) -> Pointer:
        """It, when sizes are known."""
        if isinstance(self.offset_bytes, int):
            return self
        return Pointer(self.base, self.number, evaluate(self.offset_bytes, sizes))

    def moved(self, by_bytes: int) -> Pointer:
        """Another address in the same memory; offsets are known."""
        if not by_bytes:
            return self
        return Pointer(self.base, self.number, self.offset_bytes + by_bytes)

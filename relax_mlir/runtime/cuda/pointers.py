"""Size expressions and pointers of launch plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from relax_mlir.symbolic import symbols

__all__ = ["Expression", "Json", "Pointer", "Sizes", "evaluate", "evaluate_all"]

Expression: TypeAlias = Any  # Any: int or str; int for bound sizes
Json: TypeAlias = Any  # Any: JSON values
Sizes: TypeAlias = Mapping[str, int]


def evaluate(expression: Expression, sizes: Sizes) -> int:
    """Evaluate an expression for values of the symbolic sizes.

    Raises:
        ValueError: the expression is invalid, has an unknown symbol, or divides by zero.
    """
    if isinstance(expression, int):
        return expression
    return symbols.evaluate(symbols.parse(expression), sizes)


def evaluate_all(expressions: Sequence[Expression], sizes: Sizes) -> tuple[int, ...]:
    """Evaluate several expressions."""
    return tuple(evaluate(e, sizes) for e in expressions)


@dataclass(frozen=True)
class Pointer:
    """An address on the device.

    Attributes:
        base: kind of memory: ``input``, ``output``, ``constant`` or ``arena`` in ``main``;
            ``argument`` or ``scratch`` in a program; ``workspace``, the scratch memory of
            all programs, in bound plans.
        number: index among memory of this kind.
        offset_bytes: from its start.
    """

    base: str
    number: int
    offset_bytes: Expression = 0

    def fields(self) -> Json:
        """The JSON form."""
        return ["pointer", self.base, self.number, self.offset_bytes]

    @staticmethod
    def from_fields(fields: Json) -> Pointer:
        """Inverse of :meth:`fields`."""
        _, base, number, offset = fields
        return Pointer(base, number, offset)

    def at(self, sizes: Sizes) -> Pointer:
        """Evaluate for values of the symbolic sizes."""
        if isinstance(self.offset_bytes, int):
            return self
        return Pointer(self.base, self.number, evaluate(self.offset_bytes, sizes))

    def offset_by(self, by_bytes: int) -> Pointer:
        """Pointer arithmetic; for bound sizes."""
        if not by_bytes:
            return self
        return Pointer(self.base, self.number, self.offset_bytes + by_bytes)

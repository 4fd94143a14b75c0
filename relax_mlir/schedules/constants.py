"""Numbers that bodies compute from constants alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from mlir import ir

__all__ = ["number_of"]


def number_of(value: ir.Value) -> float | None:
    """The number that a value is wherever its body runs; None if that is not known."""
    made = value.owner
    if isinstance(made, ir.Block):
        return None
    if made.name == "arith.constant":
        attribute = made.attributes["value"]
        return attribute.value if isinstance(attribute, ir.FloatAttr) else None
    compute = _COMPUTED.get(made.name)
    if compute is None:
        return None
    numbers = []
    for operand in made.operands:
        number = number_of(operand)
        if number is None:
            return None
        numbers.append(number)
    try:
        return compute(*numbers)
    except (ArithmeticError, ValueError):  # as of a root of less than 0
        return None


_COMPUTED: Mapping[str, Callable[..., float]] = {
    "arith.divf": lambda lhs, rhs: lhs / rhs,
    "arith.extf": lambda number: number,
    "arith.mulf": lambda lhs, rhs: lhs * rhs,
    "math.sqrt": math.sqrt,
}

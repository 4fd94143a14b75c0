"""Constant folding of scalars in statement bodies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from mlir import ir

__all__ = ["constant_value"]


def constant_value(value: ir.Value) -> float | None:
    """The constant value of a float; None if it is not constant."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    if owner.name == "arith.constant":
        attribute = owner.attributes["value"]
        return attribute.value if isinstance(attribute, ir.FloatAttr) else None
    fold = _FOLDERS.get(owner.name)
    if fold is None:
        return None
    numbers = []
    for operand in owner.operands:
        number = constant_value(operand)
        if number is None:
            return None
        numbers.append(number)
    try:
        return fold(*numbers)
    except (
        ArithmeticError,
        ValueError,
    ):  # such as the square root of a negative number
        return None


_FOLDERS: Mapping[str, Callable[..., float]] = {
    "arith.divf": lambda lhs, rhs: lhs / rhs,
    "arith.extf": lambda number: number,
    "arith.mulf": lambda lhs, rhs: lhs * rhs,
    "math.sqrt": math.sqrt,
}

"""Arithmetic of host programs on Python's integers and floats."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from relax_mlir.errors import RunError

__all__ = ["INTEGER_FUNCTIONS", "SCALAR_FUNCTIONS"]

# Any: numbers, or whatever a damaged program has in their place.

_FEW = 1 << 64
_MAX_BITS = 256  # of integers: sizes have 63, what is on the way to one may have more


def _unary(apply: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of a number; strings and lists have operators of their own in Python."""

    def checked(a: Any) -> Any:
        return apply(a) if isinstance(a, (int, float)) else _refuse(a)

    return checked


def _binary(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function of two numbers."""

    def checked(a: Any, b: Any) -> Any:
        if isinstance(a, (int, float)) and isinstance(b, (int, float)):
            return apply(a, b)
        return _refuse(a, b)

    return checked


def _refuse(*values: Any) -> None:
    got = ", ".join(f"`{type(v).__name__}`" for v in values)
    raise TypeError(f"expected numbers to compute with, got {got}")


def _truncated(a: Any, b: Any) -> Any:
    """Division towards zero; of floats, plain division."""
    if isinstance(a, float):
        return a / b
    quotient = abs(a) // abs(b)  # exact, where a float has 53 bits
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: Any, b: Any) -> Any:
    """What :func:`_truncated` leaves."""
    return math.fmod(a, b) if isinstance(a, float) else a - b * _truncated(a, b)


def _multiply(a: Any, b: Any) -> Any:
    product = a * b
    return product if -_FEW < product < _FEW else _bounded(product)


def _shift_left(a: Any, b: Any) -> Any:
    return _bounded(a << b) if b <= _MAX_BITS else _bounded(1 << _MAX_BITS)


def _bounded(value: Any) -> Any:
    """An integer that a few more steps cannot make larger than memory."""
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise RunError(f"size: expected an integer of at most {_MAX_BITS} bits")
    return value


def _cast(value: Any, dtype: str) -> Any:
    """A number as another type; an integer that is out of range wraps."""
    if not isinstance(value, (int, float)):
        return _refuse(value)
    return np.asarray(value).astype(dtype).item()


INTEGER_FUNCTIONS: Mapping[str, Callable[[int, int], Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": _multiply,
    "truncdiv": _truncated,
    "truncmod": _remainder,
    "floordiv": operator.floordiv,
    "floormod": operator.mod,
    "minimum": min,
    "maximum": max,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "shift_left": _shift_left,
    "shift_right": operator.rshift,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
}
"""Of two integers, by opcode."""

SCALAR_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "cast": _cast,
    "not": operator.not_,
    "abs": _unary(abs),
    **{name: _binary(apply) for name, apply in INTEGER_FUNCTIONS.items()},
}
"""Of all values, by opcode."""

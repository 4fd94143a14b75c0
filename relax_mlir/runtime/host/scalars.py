"""Scalar arithmetic of host programs, on Python integers and floats."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from relax_mlir.errors import RunError

__all__ = ["INTEGER_FUNCTIONS", "SCALAR_FUNCTIONS"]

# Any: numbers, or other values in a damaged program.

_SMALL = 1 << 64  # fast path without a bit count
_MAX_BITS = 256  # of integers: sizes have 63 bits, intermediate values may have more


def _unary(apply: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Type-checked unary function: Python's operators accept strings and lists, too."""

    def checked(a: Any) -> Any:
        return apply(a) if isinstance(a, (int, float)) else _refuse(a)

    return checked


def _binary(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Type-checked binary function."""

    def checked(a: Any, b: Any) -> Any:
        if isinstance(a, (int, float)) and isinstance(b, (int, float)):
            return apply(a, b)
        return _refuse(a, b)

    return checked


def _refuse(*values: Any) -> None:
    got = ", ".join(f"`{type(v).__name__}`" for v in values)
    raise TypeError(f"expected numbers as operands, got {got}")


def _truncated(a: Any, b: Any) -> Any:
    """Integer division towards zero; for floats, ordinary division."""
    if isinstance(a, float):
        return a / b
    quotient = abs(a) // abs(b)  # exact, unlike float division
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: Any, b: Any) -> Any:
    """Remainder of :func:`_truncated`."""
    return math.fmod(a, b) if isinstance(a, float) else a - b * _truncated(a, b)


def _multiply(a: Any, b: Any) -> Any:
    product = a * b
    return product if -_SMALL < product < _SMALL else _bounded(product)


def _shift_left(a: Any, b: Any) -> Any:
    return _bounded(a << b) if b <= _MAX_BITS else _bounded(1 << _MAX_BITS)


def _bounded(value: Any) -> Any:
    """Limits the size of integers, which could otherwise exhaust memory."""
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise RunError(f"size: expected an integer of at most {_MAX_BITS} bits")
    return value


def _cast(value: Any, dtype: str) -> Any:
    """Convert a number to another type; out-of-range integers wrap."""
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
"""Implementations for two integers, by opcode."""

SCALAR_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "cast": _cast,
    "not": operator.not_,
    "abs": _unary(abs),
    **{name: _binary(apply) for name, apply in INTEGER_FUNCTIONS.items()},
}
"""Implementations for all values, by opcode."""

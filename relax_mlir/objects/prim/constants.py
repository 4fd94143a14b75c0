"""Scalar constants: integers, floats and strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from relax_mlir.errors import OperatorError, short_repr
from relax_mlir.objects.argument_checks import instance_of
from relax_mlir.objects.prim.expr import NUMBERS, PrimExpr

__all__ = ["FloatImm", "IntImm", "StringImm", "convert", "type_name"]


_Number = TypeVar("_Number", int, float)


def _number(kind: Callable[[Any], _Number], value: Any, dtype: object) -> _Number:
    """Converts a value to a Python number.

    Raises:
        OperatorError: the value is not a number, or the type cannot represent it.
    """
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError):
        raise OperatorError(
            f"a constant of {short_repr(dtype)}: expected a number, got {short_repr(value)}"
        ) from None


def type_name(dtype: object) -> str:
    """The name of an element type."""
    return dtype if isinstance(dtype, str) else short_repr(dtype).strip("'")


class IntImm(PrimExpr):
    """An integer or boolean constant."""

    __slots__ = ("value",)

    def __init__(self, dtype: str, value: Any, span: object = None) -> None:
        self.dtype = type_name(dtype)
        self.value = _number(int, value, dtype)

    def key(self) -> tuple[object, ...]:
        return (self.dtype, self.value)

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __float__(self) -> float:
        return float(self.value)

    def __bool__(self) -> bool:
        return self.value != 0

    def __eq__(self, other: object) -> Any:
        if isinstance(other, NUMBERS):
            return self.value == other
        return PrimExpr.__eq__(self, other)

    def __hash__(self) -> int:
        return hash(self.value)


class FloatImm(PrimExpr):
    """A floating-point constant."""

    __slots__ = ("value",)

    def __init__(self, dtype: str, value: Any, span: object = None) -> None:
        self.dtype = type_name(dtype)
        if self.is_integer:
            raise OperatorError(
                f"`FloatImm`: expected a floating-point type, got {self.dtype}"
            )
        self.value = _number(float, value, dtype)

    def key(self) -> tuple[object, ...]:
        return (self.dtype, repr(self.value))

    def __float__(self) -> float:
        return self.value

    def __eq__(self, other: object) -> Any:
        if isinstance(other, NUMBERS):
            return self.value == other
        return PrimExpr.__eq__(self, other)

    def __hash__(self) -> int:
        return hash(self.value)


class StringImm(PrimExpr):
    """A string constant, as an argument of a call."""

    __slots__ = ("value",)

    def __init__(self, value: str, span: object = None) -> None:
        self.dtype = "handle"
        self.value = instance_of(value, str, "StringImm: `value`", "a string")

    def key(self) -> tuple[object, ...]:
        return (self.value,)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, str):
            return self.value == other
        return isinstance(other, StringImm) and self.value == other.value

    def __ne__(self, other: object) -> Any:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.value)


def convert(value: Any) -> Any:  # Any: numbers and expressions in, expressions out
    """A Python or numpy scalar as a scalar expression; expressions are returned as is.

    Raises:
        TypeError: the value is neither.
    """
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, (bool, np.bool_)):
        return IntImm("bool", value)
    if isinstance(value, int):
        fits = -(2**31) <= value < 2**31
        return IntImm("int32" if fits else "int64", value)
    if isinstance(value, np.integer):
        return IntImm(value.dtype.name, int(value))
    if isinstance(value, (float, np.floating)):
        name = value.dtype.name if isinstance(value, np.floating) else "float32"
        return FloatImm("float32" if name == "float64" else name, float(value))
    if isinstance(value, str):
        return StringImm(value)
    as_prim_expr = getattr(value, "as_prim_expr", None)
    if as_prim_expr is not None:
        return as_prim_expr()
    raise TypeError(
        f"expected a scalar expression or a number, got {short_repr(value)}"
    )

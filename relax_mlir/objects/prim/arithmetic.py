"""Python operators on scalar expressions: type checks and constant folding."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from relax_mlir.errors import OperatorError
from relax_mlir.objects.prim.calls import Call
from relax_mlir.objects.prim.constants import IntImm
from relax_mlir.objects.prim.conversion import const, matched
from relax_mlir.objects.prim.expr import PrimExpr
from relax_mlir.objects.prim.lanes import element_type
from relax_mlir.objects.prim.operations import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryExpr,
    Div,
    FloorDiv,
    FloorMod,
    Mul,
    Or,
    Sub,
    binary,
    rounded,
)
from relax_mlir.objects.prim.selection import Not

__all__ = ["OPERATORS"]


def _true_divide(a: Any, b: Any) -> PrimExpr:
    try:
        pair = matched(a, b)
    except TypeError:
        return NotImplemented
    if pair[0].is_integer:
        raise TypeError(
            "`/` of integers is ambiguous: use `//` (rounds down) or `T.truncdiv`"
        )
    return binary(Div, *pair)


def _bitwise(name: str, logical: type[BinaryExpr] | None, a: Any, b: Any) -> PrimExpr:
    try:
        a, b = matched(a, b)
    except TypeError:
        return NotImplemented
    if a.dtype == "bool" and logical is not None:
        return binary(logical, a, b)
    if not a.is_integer and element_type(a.dtype) != "bool":
        raise OperatorError(f"`{name}`: expected integers, got {a.dtype}")
    if name.startswith("shift"):
        _check_shift(name, a, b)
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return const(rounded(_BITWISE[name](a.value, b.value), a.dtype), a.dtype)
    return Call(a.dtype, name, [a, b])


def _check_shift(name: str, a: PrimExpr, b: PrimExpr) -> None:
    digits = element_type(a.dtype).lstrip("uint")
    if not digits.isdigit():
        raise OperatorError(f"`{name}`: expected integers, got {a.dtype}")
    bits = int(digits)
    if isinstance(b, IntImm) and not 0 <= b.value < bits:
        raise OperatorError(
            f"`{name}` of {a.dtype}: expected a number of bits from 0 to {bits - 1}, "
            f"got {b.value}"
        )


def _invert(a: PrimExpr) -> PrimExpr:
    if not a.is_integer and element_type(a.dtype) != "bool":
        raise OperatorError(f"`bitwise_not`: expected an integer, got {a.dtype}")
    return Not(a) if a.dtype == "bool" else Call(a.dtype, "bitwise_not", [a])


_BITWISE: Mapping[str, Callable[[int, int], int]] = {
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "shift_left": operator.lshift,
    "shift_right": operator.rshift,
}

OPERATORS: Mapping[str, Callable[..., PrimExpr]] = {
    "+": partial(binary, Add),
    "-": partial(binary, Sub),
    "*": partial(binary, Mul),
    "/": _true_divide,
    "//": partial(binary, FloorDiv),
    "%": partial(binary, FloorMod),
    "<": partial(binary, LT),
    "<=": partial(binary, LE),
    ">": partial(binary, GT),
    ">=": partial(binary, GE),
    "==": partial(binary, EQ),
    "!=": partial(binary, NE),
    "&": partial(_bitwise, "bitwise_and", And),
    "|": partial(_bitwise, "bitwise_or", Or),
    "^": partial(_bitwise, "bitwise_xor", None),
    "<<": partial(_bitwise, "shift_left", None),
    ">>": partial(_bitwise, "shift_right", None),
    "~": _invert,
}

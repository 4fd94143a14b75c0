"""Casts and vectors of scalars, and the usual arithmetic conversions of operands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from relax_mlir.dialects import dtypes
from relax_mlir.errors import OperatorError
from relax_mlir.objects.argument_checks import dtype_text
from relax_mlir.objects.prim.constants import (
    FloatImm,
    IntImm,
    StringImm,
    convert,
    type_name,
)
from relax_mlir.objects.prim.expr import PrimExpr
from relax_mlir.objects.prim.lanes import (
    element_type,
    lane_count,
    lanes_of,
    vector_type,
    with_lanes,
)

__all__ = ["Broadcast", "Cast", "Ramp", "cast", "const", "matched"]


class Cast(PrimExpr):
    """A cast to another type; the constructor does not fold constants."""

    __slots__ = ("value",)
    fields = ("value",)

    def __init__(self, dtype: str, value: Any, span: object = None) -> None:
        self.dtype = type_name(dtype)
        self.value = convert(value)

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        return cast(self.dtype, *children)


class Broadcast(PrimExpr):
    """A vector with one value in every lane."""

    __slots__ = ("lanes", "value")
    fields = ("value",)

    def __init__(self, value: Any, lanes: Any, span: object = None) -> None:
        self.value = convert(value)
        self.lanes = lane_count(lanes)
        self.dtype = vector_type(self.value.dtype, self.lanes)

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        (value,) = children
        return Broadcast(value, self.lanes)


class Ramp(PrimExpr):
    """The vector ``base``, ``base + stride``, ``base + 2 * stride``, ...

    Attributes:
        lanes: the number of lanes; a multiple of ``vscale()`` for scalable vectors.
    """

    __slots__ = ("base", "lanes", "stride")
    fields = ("base", "stride")

    def __init__(self, base: Any, stride: Any, lanes: Any, span: object = None) -> None:
        self.base, self.stride = matched(base, stride)
        self.lanes = lane_count(lanes)
        self.dtype = vector_type(self.base.dtype, self.lanes)

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        base, stride = children
        return Ramp(base, stride, self.lanes)


def const(value: Any, dtype: str | None = None, span: object = None) -> PrimExpr:
    """A constant of type ``dtype`` (by default int32, float32 or bool)."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if dtype is None and isinstance(value, np.float64):
        return FloatImm("float64", value)  # otherwise isinstance(value, float) holds
    if dtype is None:
        return convert(value)
    name = dtype_text(dtype, "const: `dtype`")
    if element_type(name) != name:
        return Broadcast(const(value, element_type(name)), lanes_of(name))
    if name.startswith(("int", "uint", "bool")):
        return IntImm(name, value)
    return FloatImm(name, value)


def cast(dtype: str, value: Any) -> PrimExpr:
    """A value cast to another type; constants are folded."""
    value = convert(value)
    if value.dtype == dtype:
        return value
    if isinstance(value, StringImm):
        raise OperatorError(f"`{value}` as {dtype}: expected a number, got a string")
    element = element_type(dtype)
    if element != dtype and not isinstance(value, Ramp):
        if element_type(value.dtype) == value.dtype:
            return Broadcast(cast(element, value), lanes_of(dtype))
        if isinstance(value, Broadcast):
            return Broadcast(cast(element, value.value), value.lanes)
    if isinstance(value, (IntImm, FloatImm)):
        is_bool = dtype == "bool"
        return const(value.value != 0 if is_bool else _converted(value, dtype), dtype)
    return Cast(dtype, value)


def _converted(value: IntImm | FloatImm, dtype: str) -> Any:
    if not dtype.startswith(("int", "uint")):
        return value.value
    if isinstance(value, IntImm):
        return _low_bits(value.value, dtype)
    # Casts from floats saturate; sub-byte integers keep the low bits of an int32.
    is_short = dtypes.dtype(dtype).bits < 8
    low, high = _limits("int32" if is_short else dtype)
    if math.isnan(value.value):
        return _low_bits(low, dtype)
    return _low_bits(int(min(max(value.value, low), high)), dtype)


def _low_bits(value: int, dtype: str) -> int:
    """An integer truncated to the low bits of a type."""
    low, high = _limits(dtype)
    return (value - low) % (high - low + 1) + low


def _limits(dtype: str) -> tuple[int, int]:
    """The least and greatest integer of a type."""
    type_ = dtypes.dtype(dtype)
    is_signed = type_.kind == "i"
    highest = (1 << type_.bits - is_signed) - 1
    return -highest - 1 if is_signed else 0, highest


def matched(a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    """Both operands in a common type: a Python number takes the type of the other side."""
    is_number_a, is_number_b = not isinstance(a, PrimExpr), not isinstance(b, PrimExpr)
    a, b = convert(a), convert(b)
    if a.dtype == b.dtype:
        return a, b
    if is_number_b and isinstance(b, (IntImm, FloatImm)) and _takes_type_of(a, b):
        return a, cast(a.dtype, b)
    if is_number_a and isinstance(a, (IntImm, FloatImm)) and _takes_type_of(b, a):
        return cast(b.dtype, a), b
    if element_type(a.dtype) != a.dtype or element_type(b.dtype) != b.dtype:
        return _matched_vectors(a, b)
    wide = _common_type(a.dtype, b.dtype)
    return cast(wide, a), cast(wide, b)


def _matched_vectors(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Vector operands in a common type; a scalar beside a vector is broadcast."""
    if element_type(a.dtype) == a.dtype:
        a = Broadcast(a, lanes_of(b.dtype))
    elif element_type(b.dtype) == b.dtype:
        b = Broadcast(b, lanes_of(a.dtype))
    if with_lanes("", a.dtype) != with_lanes("", b.dtype):
        raise ValueError(f"vectors of different length: {a.dtype} and {b.dtype}")
    wide = _common_type(element_type(a.dtype), element_type(b.dtype))
    wide = with_lanes(wide, a.dtype)
    return cast(wide, a), cast(wide, b)


def _takes_type_of(typed: PrimExpr, imm: IntImm | FloatImm) -> bool:
    """Whether a Python number takes the type of the other operand."""
    if isinstance(imm, FloatImm):
        return typed.dtype.startswith(("float", "bfloat"))
    return typed.dtype != "handle"


def _common_type(a: str, b: str) -> str:
    """The result type of TVM's arithmetic conversions."""
    floats = [t for t in (a, b) if t.startswith(("float", "bfloat"))]
    if len(floats) == 1:
        return floats[0]
    signs = {t.rstrip("0123456789") for t in (a, b)}
    if signs == {"int", "uint"}:
        return f"uint{max(_bits(a), _bits(b))}"
    return max((a, b), key=lambda t: (_bits(t), not t.startswith("u")))


def _bits(dtype: str) -> int:
    digits = "".join(c for c in dtype if c.isdigit())
    return int(digits) if digits else 1

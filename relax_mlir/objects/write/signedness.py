"""Signedness of integer expressions: in MLIR it is a property of operations, not of types."""

from __future__ import annotations

from relax_mlir.dialects import dtypes
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim.lanes import element_type, with_lanes
from relax_mlir.objects.prim.operations import rounded

__all__ = ["as_signed", "as_unsigned", "low_bit", "with_equal_sign", "wrapped"]


def wrapped(value: int, dtype: str) -> int:
    """The low bits of an integer as a value of an integer type or bool."""
    return int(rounded(value, dtype))


def as_unsigned(expr: PrimExpr) -> PrimExpr:
    """A signed integer reinterpreted as unsigned."""
    return _of_type(expr, f"u{expr.dtype}") if expr.dtype.startswith("int") else expr


def as_signed(expr: PrimExpr) -> PrimExpr:
    """An integer reinterpreted as signed; a boolean is -1 or 0."""
    if element_type(expr.dtype) == "bool":
        sides = (prim.const(v, with_lanes("int8", expr.dtype)) for v in (-1, 0))
        return prim.Select(expr, *sides)
    if expr.dtype.startswith("uint"):
        return _of_type(expr, expr.dtype.removeprefix("u"))
    return expr


def _of_type(expr: PrimExpr, dtype: str) -> PrimExpr:
    if isinstance(expr, prim.IntImm):
        return prim.const(wrapped(expr.value, dtype), dtype)
    if isinstance(expr, prim.Cast) and expr.value.dtype == dtype:
        return expr.value
    return prim.Cast(dtype, expr)


def with_equal_sign(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Two expressions of equal width with equal types; a constant takes the other's."""
    if a.dtype == b.dtype:
        return a, b
    if isinstance(b, prim.IntImm):
        return a, _of_type(b, a.dtype)
    if isinstance(a, prim.IntImm):
        return _of_type(a, b.dtype), b
    return a, b


def low_bit(expr: PrimExpr) -> PrimExpr:
    """Whether the lowest bit of an integer is set: truncation to one bit."""
    if element_type(expr.dtype) == "bool":
        return expr
    bits = dtypes.dtype(expr.dtype).element
    one = prim.const(1, with_lanes(bits.name, expr.dtype))
    return prim.Cast(with_lanes("bool", expr.dtype), expr & one)

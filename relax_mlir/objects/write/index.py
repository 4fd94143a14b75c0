"""Writes index expressions of tensor programs as arithmetic on MLIR's ``index``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mlir import ir

from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.tir import Index
from relax_mlir.dialects.tir.scalars import emit, nonzero_divisor
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim.index_facts import is_never_negative
from relax_mlir.objects.prim.value_types import marked

if TYPE_CHECKING:
    from relax_mlir.objects.write.prim_expr import PrimExprWriter

__all__ = [
    "INDEX_TYPES",
    "from_index",
    "has_all_values",
    "is_index",
    "write_index",
]

_OPERATIONS: Mapping[type, str] = {
    prim.Add: "arith.addi",
    prim.Sub: "arith.subi",
    prim.Mul: "arith.muli",
    prim.Min: "arith.minsi",
    prim.Max: "arith.maxsi",
    prim.FloorDiv: "arith.floordivsi",
    prim.Div: "arith.divsi",
    prim.Mod: "arith.remsi",
}
_EXPRESSIONS = (*_OPERATIONS, prim.FloorMod)
INDEX_TYPES = frozenset({"int32", "int64"})  # assumed not to wrap around


def is_index(writer: PrimExprWriter, expr: PrimExpr) -> bool:
    """Whether an integer expression depends only on indices, and on at least one."""
    if isinstance(expr, Var):
        value = writer.find_variable(expr)
        return value is not None and isinstance(value.type, ir.IndexType)
    if expr.dtype not in INDEX_TYPES:
        return False
    if isinstance(expr, prim.Cast):
        return is_index(writer, expr.value)
    if not isinstance(expr, _EXPRESSIONS):
        return False
    children = expr.children()
    numbers = [isinstance(c, prim.IntImm) for c in children]
    fits = [n or is_index(writer, c) for n, c in zip(numbers, children, strict=True)]
    return all(fits) and not all(numbers)


def write_index(writer: PrimExprWriter, expr: PrimExpr) -> ir.Value:
    """Writes an integer expression as a value of type ``index``."""
    if isinstance(expr, prim.IntImm):
        return _constant(expr.value)
    if isinstance(expr, Var):
        return _as_index(writer.variable(expr), expr.dtype)
    if (
        isinstance(expr, prim.Cast)
        and expr.value.is_integer
        and _keeps_index(writer, expr)
    ):
        return write_index(writer, expr.value)
    if expr.dtype not in INDEX_TYPES:
        return _as_index(writer.value(expr), expr.dtype)
    if isinstance(expr, prim.FloorMod):
        return _remainder(writer, expr)
    name = _OPERATIONS.get(type(expr))
    if name is None:
        return _as_index(writer.value(expr), expr.dtype)
    assert isinstance(expr, prim.BinaryExpr)
    lhs, rhs = write_index(writer, expr.a), write_index(writer, expr.b)
    if isinstance(expr, (prim.Div, prim.Mod, prim.FloorDiv)):
        rhs = _safe_divisor(writer, expr.b, rhs)
    return emit(name, ir.IndexType.get(), lhs, rhs)


def _keeps_index(writer: PrimExprWriter, expr: prim.Cast) -> bool:
    """Whether an integer cast preserves all indices."""
    if expr.dtype in INDEX_TYPES and is_index(writer, expr.value):
        return True
    return has_all_values(expr.dtype, expr.value.dtype)


def has_all_values(name: str, other: str) -> bool:
    """Whether an integer type represents all values of another one."""
    wide, narrow = dtype(name), dtype(other)
    if wide.is_vector or not (wide.is_integer and narrow.is_integer):
        return False
    if wide.kind == narrow.kind:
        return wide.bits >= narrow.bits
    return wide.kind == "i" and wide.bits > narrow.bits


def _remainder(writer: PrimExprWriter, expr: prim.FloorMod) -> ir.Value:
    """The remainder with the sign of the divisor."""
    lhs, divisor = write_index(writer, expr.a), write_index(writer, expr.b)
    rhs = _safe_divisor(writer, expr.b, divisor)
    index = ir.IndexType.get()
    if all(is_never_negative(v, writer.sizes) for v in (lhs, rhs)):
        return emit("arith.remui", index, lhs, rhs)
    quotient = emit("arith.floordivsi", index, lhs, rhs)
    whole = emit("arith.muli", index, quotient, divisor)
    return emit("arith.subi", index, lhs, whole)


def from_index(value: ir.Value, name: str) -> ir.Value:
    """Converts an index to an integer type."""
    return marked(emit("arith.index_cast", dtype(name).scalar_type, value), name)


def _constant(number: int) -> ir.Value:
    index = ir.IndexType.get()
    return emit("arith.constant", index, value=ir.IntegerAttr.get(index, number))


def _as_index(value: ir.Value, name: str) -> ir.Value:
    if isinstance(value.type, ir.IndexType):
        return value
    is_signed = dtype(name).kind == "i"
    operation = "arith.index_cast" if is_signed else "arith.index_castui"
    target: ir.Type = ir.IndexType.get()
    if isinstance(value.type, ir.VectorType):
        scalable = [value.type.scalable]
        target = ir.VectorType.get(value.type.shape, target, scalable=scalable)
    return emit(operation, target, value)


def _safe_divisor(writer: PrimExprWriter, expr: PrimExpr, value: ir.Value) -> ir.Value:
    if isinstance(expr, prim.IntImm):
        return value
    is_size = is_never_negative(value, writer.sizes)
    return nonzero_divisor(Index(value), is_size=is_size).value

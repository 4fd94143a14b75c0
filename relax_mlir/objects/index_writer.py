"""Indices of tensor programs: integer terms as arithmetic of MLIR's ``index``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mlir import ir

from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.tir import Index
from relax_mlir.dialects.tir.scalars import emit, nonzero_divisor
from relax_mlir.objects import prim
from relax_mlir.objects.index_facts import is_never_negative
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.value_types import marked

if TYPE_CHECKING:
    from relax_mlir.objects.term_writer import TermWriter

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
_TERMS = (*_OPERATIONS, prim.FloorMod)
INDEX_TYPES = frozenset({"int32", "int64"})  # whose arithmetic nobody expects to wrap


def is_index(writer: TermWriter, term: PrimExpr) -> bool:
    """Whether an integer depends on indices alone, and on at least one."""
    if isinstance(term, Var):
        value = writer.find_variable(term)
        return value is not None and isinstance(value.type, ir.IndexType)
    if term.dtype not in INDEX_TYPES:
        return False
    if isinstance(term, prim.Cast):
        return is_index(writer, term.value)
    if not isinstance(term, _TERMS):
        return False
    children = term.children()
    numbers = [isinstance(c, prim.IntImm) for c in children]
    fits = [n or is_index(writer, c) for n, c in zip(numbers, children, strict=True)]
    return all(fits) and not all(numbers)


def write_index(writer: TermWriter, term: PrimExpr) -> ir.Value:
    """An integer term as a value of type ``index``."""
    if isinstance(term, prim.IntImm):
        return _constant(term.value)
    if isinstance(term, Var):
        return _as_index(writer.variable(term), term.dtype)
    if (
        isinstance(term, prim.Cast)
        and term.value.is_integer
        and _keeps_index(writer, term)
    ):
        return write_index(writer, term.value)
    if term.dtype not in INDEX_TYPES:
        return _as_index(writer.value(term), term.dtype)
    if isinstance(term, prim.FloorMod):
        return _remainder(writer, term)
    name = _OPERATIONS.get(type(term))
    if name is None:
        return _as_index(writer.value(term), term.dtype)
    assert isinstance(term, prim.BinaryExpr)
    lhs, rhs = write_index(writer, term.a), write_index(writer, term.b)
    if isinstance(term, (prim.Div, prim.Mod, prim.FloorDiv)):
        rhs = _safe_divisor(writer, term.b, rhs)
    return emit(name, ir.IndexType.get(), lhs, rhs)


def _keeps_index(writer: TermWriter, term: prim.Cast) -> bool:
    """Whether a cast of an integer leaves every index as it is."""
    if term.dtype in INDEX_TYPES and is_index(writer, term.value):
        return True
    return has_all_values(term.dtype, term.value.dtype)


def has_all_values(name: str, other: str) -> bool:
    """Whether a type of integers has all values of another one."""
    wide, narrow = dtype(name), dtype(other)
    if wide.is_vector or not (wide.is_integer and narrow.is_integer):
        return False
    if wide.kind == narrow.kind:
        return wide.bits >= narrow.bits
    return wide.kind == "i" and wide.bits > narrow.bits


def _remainder(writer: TermWriter, term: prim.FloorMod) -> ir.Value:
    """What is left, with the sign of the divisor."""
    lhs, divisor = write_index(writer, term.a), write_index(writer, term.b)
    rhs = _safe_divisor(writer, term.b, divisor)
    index = ir.IndexType.get()
    if all(is_never_negative(v, writer.sizes) for v in (lhs, rhs)):
        return emit("arith.remui", index, lhs, rhs)
    quotient = emit("arith.floordivsi", index, lhs, rhs)
    whole = emit("arith.muli", index, quotient, divisor)
    return emit("arith.subi", index, lhs, whole)


def from_index(value: ir.Value, name: str) -> ir.Value:
    """An index as a value of an integer type."""
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


def _safe_divisor(writer: TermWriter, term: PrimExpr, value: ir.Value) -> ir.Value:
    if isinstance(term, prim.IntImm):
        return value
    is_size = is_never_negative(value, writer.sizes)
    return nonzero_divisor(Index(value), is_size=is_size).value

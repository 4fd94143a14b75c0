"""Writes scalar expressions as arithmetic of tensor programs.

Expressions of only loop variables, axes and sizes become arithmetic on MLIR's ``index``;
others have the expression's type. :mod:`relax_mlir.objects.read.prim_expr` reads all equivalent
forms in MLIR.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlir import ir

from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.tir import (
    AddressOp,
    LetOp,
    RampOp,
    Scalar,
    VectorLoadOp,
    constant,
)
from relax_mlir.dialects.tir.scalars import emit, emit_same_type, from_memory, select
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim.value_types import (
    cast_value,
    marked,
    pointee,
    pointer_type,
    prim_expr_dtype,
)
from relax_mlir.objects.stmt.buffer import BufferLoad
from relax_mlir.objects.write.calls import write_call, write_generic_call
from relax_mlir.objects.write.index import from_index, is_index, write_index
from relax_mlir.objects.write.scope import ValueScope

__all__ = ["PrimExprWriter", "vector_segments"]

_COMPARISONS: Mapping[type, Callable[[Any, Any], Scalar]] = {
    prim.EQ: lambda a, b: a.equal(b),
    prim.NE: lambda a, b: a.not_equal(b),
    prim.LT: lambda a, b: a < b,
    prim.LE: lambda a, b: a <= b,
    prim.GT: lambda a, b: a > b,
    prim.GE: lambda a, b: a >= b,
}
_ARITHMETIC: Mapping[type, Callable[[Scalar, Scalar], Scalar]] = {
    prim.Add: lambda a, b: a + b,
    prim.Sub: lambda a, b: a - b,
    prim.Mul: lambda a, b: a * b,
    prim.Div: lambda a, b: a / b,
    prim.Mod: lambda a, b: a % b,
    prim.Min: lambda a, b: a.minimum(b),
    prim.Max: lambda a, b: a.maximum(b),
    prim.And: lambda a, b: a & b,
    prim.Or: lambda a, b: a | b,
}


class PrimExprWriter(ValueScope):
    """Writes scalar expressions at the current insertion point."""

    def index(self, expr: PrimExpr) -> ir.Value:
        """Writes an integer expression as a value of type ``index``."""
        return write_index(self, expr)

    def is_index(self, expr: PrimExpr) -> bool:
        """Whether an integer expression depends only on indices, and on at least one."""
        return is_index(self, expr)

    def value(self, expr: PrimExpr) -> ir.Value:
        """Writes an expression as a value of its scalar type.

        Raises:
            ValueError: a part of it cannot be computed in a PrimFunc.
        """
        if self.is_index(expr):
            return from_index(self.index(expr), expr.dtype)
        kind = Var if isinstance(expr, Var) else type(expr)
        write = _WRITERS.get(kind)
        if write is None:
            raise ValueError(f"`{expr}` is not supported in a tensor program")
        return marked(write(self, expr), expr.dtype)

    def scalar(self, expr: PrimExpr) -> Scalar:
        """Writes an expression as a scalar of its type."""
        return Scalar(self.value(expr), dtype(expr.dtype))

    def let(self, var: Var, value: ir.Value) -> ir.Value:
        """Binds a value to a named variable (``tir.let``)."""
        op = ir.Operation.create(
            LetOp.OPERATION_NAME,
            results=[value.type],
            operands=[value],
            attributes={"name": ir.StringAttr.get(var.name), **pointee(var)},
        )
        return marked(op.results[0], var.dtype)

    def _number(self, expr: prim.IntImm | prim.FloatImm) -> ir.Value:
        return constant(expr.value, prim_expr_dtype(expr)).value

    def _variable(self, expr: Var) -> ir.Value:
        if id(expr) in self.pointers and id(expr) not in self.vars:
            buffer = self.buffer(self.pointers[id(expr)])
            return emit(AddressOp.OPERATION_NAME, pointer_type(), buffer)
        return self.variable(expr)

    def _arithmetic(self, expr: prim.BinaryExpr) -> ir.Value:
        lhs, rhs = self.scalar(expr.a), self.scalar(expr.b)
        return _ARITHMETIC[type(expr)](lhs, rhs).value

    def _comparison(self, expr: prim.BinaryExpr) -> ir.Value:
        sides = (expr.a, expr.b)
        compare = _COMPARISONS[type(expr)]
        if any(map(self.is_index, sides)) and all(
            self.is_index(s) or isinstance(s, prim.IntImm) for s in sides
        ):
            # Indices are signed.
            lhs, rhs = (Scalar(self.index(s), dtype("int64")) for s in sides)
            return compare(lhs, rhs).value
        return compare(self.scalar(expr.a), self.scalar(expr.b)).value

    def _floor_div(self, expr: prim.FloorDiv) -> ir.Value:
        lhs, rhs = self.scalar(expr.a), self.scalar(expr.b)
        if lhs.dtype.is_float:
            return emit_same_type("math.floor", lhs / rhs).value
        if lhs.dtype.kind == "u":
            return (lhs / rhs).value
        return _floor_quotient(lhs, rhs).value

    def _floor_mod(self, expr: prim.FloorMod) -> ir.Value:
        lhs, rhs = self.scalar(expr.a), self.scalar(expr.b)
        if lhs.dtype.is_float:
            return (lhs - emit_same_type("math.floor", lhs / rhs) * rhs).value
        if lhs.dtype.kind == "u":
            return (lhs % rhs).value
        rest = lhs - _floor_quotient(lhs, rhs) * rhs
        return select(rhs.equal(0), constant(0, lhs.dtype), rest).value

    def _not(self, expr: prim.Not) -> ir.Value:
        return (~self.scalar(expr.a)).value

    def _cast(self, expr: prim.Cast) -> ir.Value:
        return cast_value(self.scalar(expr.value), prim_expr_dtype(expr))

    def _select(self, expr: prim.Select) -> ir.Value:
        condition = self.scalar(expr.condition)
        sides = self.scalar(expr.true_value), self.scalar(expr.false_value)
        return select(condition, *sides).value

    def _load(self, expr: BufferLoad) -> ir.Value:
        source = self.buffer(expr.buffer)
        indices = [self.index(i) for i in expr.indices]
        element = prim_expr_dtype(expr).buffer_type
        if indices and isinstance(indices[-1].type, ir.VectorType):
            mask = [] if expr.predicate is None else [self.value(expr.predicate)]
            loaded = ir.Operation.create(
                VectorLoadOp.OPERATION_NAME,
                results=[element],
                operands=[source, *indices, *mask],
                attributes=vector_segments([1, len(indices) - 1, 1, len(mask)]),
            ).results[0]
        else:
            loaded = emit("memref.load", element, source, *indices)
        return from_memory(loaded, prim_expr_dtype(expr)).value

    def _ramp(self, expr: prim.Ramp) -> ir.Value:
        ends = self.value(expr.base), self.value(expr.stride)
        return emit(RampOp.OPERATION_NAME, prim_expr_dtype(expr).scalar_type, *ends)

    def _broadcast(self, expr: prim.Broadcast) -> ir.Value:
        value = self.value(expr.value)
        return emit("vector.broadcast", prim_expr_dtype(expr).scalar_type, value)

    def _shuffle(self, expr: prim.Shuffle) -> ir.Value:
        args = [prim.const(len(expr.vectors)), *expr.children()]
        return write_generic_call(self, prim.Call(expr.dtype, "shuffle", args))[0]

    def _let(self, expr: prim.Let) -> ir.Value:
        value = self.value(expr.value)
        with self.defining(expr.var, self.let(expr.var, value)):
            return self.value(expr.body)


def vector_segments(counts: Sequence[int]) -> dict[str, ir.Attribute]:
    """The attribute with the sizes of the operand groups."""
    return {"operandSegmentSizes": ir.DenseI32ArrayAttr.get(counts)}


def _floor_quotient(lhs: Scalar, rhs: Scalar) -> Scalar:
    """a // b of signed integers; never traps, and is 0 for b = 0."""
    is_zero, is_minus_one = rhs.equal(0), rhs.equal(-1)
    one = constant(1, lhs.dtype)
    divisor = select(is_minus_one, one, select(is_zero, one, rhs))
    quotient = emit_same_type("arith.floordivsi", lhs, divisor)
    quotient = select(is_minus_one, 0 - lhs, quotient)
    return select(is_zero, constant(0, lhs.dtype), quotient)


_WRITERS: Mapping[type, Callable[[PrimExprWriter, Any], ir.Value]] = {
    prim.IntImm: PrimExprWriter._number,
    prim.FloatImm: PrimExprWriter._number,
    Var: PrimExprWriter._variable,
    **dict.fromkeys(_ARITHMETIC, PrimExprWriter._arithmetic),
    **dict.fromkeys(_COMPARISONS, PrimExprWriter._comparison),
    prim.FloorDiv: PrimExprWriter._floor_div,
    prim.FloorMod: PrimExprWriter._floor_mod,
    prim.Not: PrimExprWriter._not,
    prim.Cast: PrimExprWriter._cast,
    prim.Select: PrimExprWriter._select,
    prim.Let: PrimExprWriter._let,
    prim.Call: write_call,
    prim.Ramp: PrimExprWriter._ramp,
    prim.Broadcast: PrimExprWriter._broadcast,
    prim.Shuffle: PrimExprWriter._shuffle,
    BufferLoad: PrimExprWriter._load,
}

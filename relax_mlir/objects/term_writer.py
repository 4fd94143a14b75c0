"""Scalar terms written as arithmetic of tensor programs.

What depends on loop variables, axes and sizes alone is arithmetic of MLIR's ``index``;
everything else has the type that the term has. Where MLIR has several spellings of one
term, :mod:`.term_reader` reads them all.
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
from relax_mlir.dialects.tir.scalars import emit, from_memory, function, select
from relax_mlir.objects import prim
from relax_mlir.objects.buffer import BufferLoad
from relax_mlir.objects.call_writer import write_call, write_generic_call
from relax_mlir.objects.index_writer import from_index, is_index, write_index
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.term_scope import TermScope
from relax_mlir.objects.value_types import (
    converted,
    marked,
    pointee,
    pointer_type,
    term_dtype,
)

__all__ = ["TermWriter", "vector_segments"]

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


class TermWriter(TermScope):
    """Writes terms at the current insertion point."""

    def index(self, term: PrimExpr) -> ir.Value:
        """An integer term as a value of type ``index``."""
        return write_index(self, term)

    def is_index(self, term: PrimExpr) -> bool:
        """Whether an integer depends on indices alone, and on at least one."""
        return is_index(self, term)

    def value(self, term: PrimExpr) -> ir.Value:
        """A term as a value of the scalar type that it has.

        Raises:
            ValueError: it has a part that no program can compute.
        """
        if self.is_index(term):
            return from_index(self.index(term), term.dtype)
        kind = Var if isinstance(term, Var) else type(term)
        write = _WRITERS.get(kind)
        if write is None:
            raise ValueError(f"`{term}` cannot stand in a tensor program")
        return marked(write(self, term), term.dtype)

    def scalar(self, term: PrimExpr) -> Scalar:
        """A term as a scalar of its type."""
        return Scalar(self.value(term), dtype(term.dtype))

    def let(self, var: Var, value: ir.Value) -> ir.Value:
        """A value with the name of a variable."""
        op = ir.Operation.create(
            LetOp.OPERATION_NAME,
            results=[value.type],
            operands=[value],
            attributes={"name": ir.StringAttr.get(var.name), **pointee(var)},
        )
        return marked(op.results[0], var.dtype)

    def _number(self, term: prim.IntImm | prim.FloatImm) -> ir.Value:
        return constant(term.value, term_dtype(term)).value

    def _variable(self, term: Var) -> ir.Value:
        if id(term) in self.pointers and id(term) not in self.vars:
            buffer = self.buffer(self.pointers[id(term)])
            return emit(AddressOp.OPERATION_NAME, pointer_type(), buffer)
        return self.variable(term)

    def _arithmetic(self, term: prim.BinaryExpr) -> ir.Value:
        lhs, rhs = self.scalar(term.a), self.scalar(term.b)
        return _ARITHMETIC[type(term)](lhs, rhs).value

    def _comparison(self, term: prim.BinaryExpr) -> ir.Value:
        sides = (term.a, term.b)
        compare = _COMPARISONS[type(term)]
        if any(map(self.is_index, sides)) and all(
            self.is_index(s) or isinstance(s, prim.IntImm) for s in sides
        ):
            # The sign of an index counts here.
            lhs, rhs = (Scalar(self.index(s), dtype("int64")) for s in sides)
            return compare(lhs, rhs).value
        return compare(self.scalar(term.a), self.scalar(term.b)).value

    def _floor_div(self, term: prim.FloorDiv) -> ir.Value:
        lhs, rhs = self.scalar(term.a), self.scalar(term.b)
        if lhs.dtype.is_float:
            return function("math.floor", lhs / rhs).value
        if lhs.dtype.kind == "u":
            return (lhs / rhs).value
        return _floor_quotient(lhs, rhs).value

    def _floor_mod(self, term: prim.FloorMod) -> ir.Value:
        lhs, rhs = self.scalar(term.a), self.scalar(term.b)
        if lhs.dtype.is_float:
            return (lhs - function("math.floor", lhs / rhs) * rhs).value
        if lhs.dtype.kind == "u":
            return (lhs % rhs).value
        rest = lhs - _floor_quotient(lhs, rhs) * rhs
        return select(rhs.equal(0), constant(0, lhs.dtype), rest).value

    def _not(self, term: prim.Not) -> ir.Value:
        return (~self.scalar(term.a)).value

    def _cast(self, term: prim.Cast) -> ir.Value:
        return converted(self.scalar(term.value), term_dtype(term))

    def _select(self, term: prim.Select) -> ir.Value:
        condition = self.scalar(term.condition)
        sides = self.scalar(term.true_value), self.scalar(term.false_value)
        return select(condition, *sides).value

    def _load(self, term: BufferLoad) -> ir.Value:
        source = self.buffer(term.buffer)
        indices = [self.index(i) for i in term.indices]
        element = term_dtype(term).buffer_type
        if indices and isinstance(indices[-1].type, ir.VectorType):
            mask = [] if term.predicate is None else [self.value(term.predicate)]
            loaded = ir.Operation.create(
                VectorLoadOp.OPERATION_NAME,
                results=[element],
                operands=[source, *indices, *mask],
                attributes=vector_segments([1, len(indices) - 1, 1, len(mask)]),
            ).results[0]
        else:
            loaded = emit("memref.load", element, source, *indices)
        return from_memory(loaded, term_dtype(term)).value

    def _ramp(self, term: prim.Ramp) -> ir.Value:
        ends = self.value(term.base), self.value(term.stride)
        return emit(RampOp.OPERATION_NAME, term_dtype(term).scalar_type, *ends)

    def _broadcast(self, term: prim.Broadcast) -> ir.Value:
        value = self.value(term.value)
        return emit("vector.broadcast", term_dtype(term).scalar_type, value)

    def _shuffle(self, term: prim.Shuffle) -> ir.Value:
        args = [prim.const(len(term.vectors)), *term.children()]
        return write_generic_call(self, prim.Call(term.dtype, "shuffle", args))[0]

    def _let(self, term: prim.Let) -> ir.Value:
        value = self.value(term.value)
        with self.defining(term.var, self.let(term.var, value)):
            return self.value(term.body)


def vector_segments(counts: Sequence[int]) -> dict[str, ir.Attribute]:
    """The attribute that tells the groups of operands apart."""
    return {"operandSegmentSizes": ir.DenseI32ArrayAttr.get(counts)}


def _floor_quotient(lhs: Scalar, rhs: Scalar) -> Scalar:
    """a // b of signed integers; cannot trap, and is 0 for b = 0."""
    is_zero, is_minus_one = rhs.equal(0), rhs.equal(-1)
    one = constant(1, lhs.dtype)
    divisor = select(is_minus_one, one, select(is_zero, one, rhs))
    quotient = function("arith.floordivsi", lhs, divisor)
    quotient = select(is_minus_one, 0 - lhs, quotient)
    return select(is_zero, constant(0, lhs.dtype), quotient)


_WRITERS: Mapping[type, Callable[[TermWriter, Any], ir.Value]] = {
    prim.IntImm: TermWriter._number,
    prim.FloatImm: TermWriter._number,
    Var: TermWriter._variable,
    **dict.fromkeys(_ARITHMETIC, TermWriter._arithmetic),
    **dict.fromkeys(_COMPARISONS, TermWriter._comparison),
    prim.FloorDiv: TermWriter._floor_div,
    prim.FloorMod: TermWriter._floor_mod,
    prim.Not: TermWriter._not,
    prim.Cast: TermWriter._cast,
    prim.Select: TermWriter._select,
    prim.Let: TermWriter._let,
    prim.Call: write_call,
    prim.Ramp: TermWriter._ramp,
    prim.Broadcast: TermWriter._broadcast,
    prim.Shuffle: TermWriter._shuffle,
    BufferLoad: TermWriter._load,
}

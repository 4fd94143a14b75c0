"""Calls of functions of scalars, written as operations of tensor programs.

A function that MLIR has an operation for is that operation; any other is a ``tir.call``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.tir import AddressOp, CallOp, marks
from relax_mlir.dialects.tir.scalars import bitcast, emit
from relax_mlir.objects import prim
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.objects.buffer import Buffer, BufferLoad
from relax_mlir.objects.prim import IterVar, PrimExpr
from relax_mlir.objects.value_types import pointer_type, scalar_type, term_dtype

if TYPE_CHECKING:
    from relax_mlir.objects.term_writer import TermWriter

__all__ = ["MATH_OPERATIONS", "write_arguments", "write_call", "write_generic_call"]

# Functions of scalars that are one operation.
MATH_OPERATIONS: Mapping[str, str] = {
    **{
        name: f"math.{name}"
        for name in (
            *("exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "erf"),
            *("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan"),
            *("asinh", "acosh", "atanh", "atan2", "floor", "ceil", "round", "trunc"),
            *("copysign", "fma", "expm1", "cbrt", "erfc"),
        )
    },
    "pow": "math.powf",
    "nearbyint": "math.roundeven",
    "popcount": "math.ctpop",
    "clz": "math.ctlz",
}
# With those that are read in another way.
_OPERATIONS: Mapping[str, str] = {
    **MATH_OPERATIONS,
    "power": "math.powf",
    "bitwise_and": "arith.andi",
    "bitwise_or": "arith.ori",
    "bitwise_xor": "arith.xori",
    "shift_left": "arith.shli",
}
_CHECKS = {"isnan": "math.isnan", "isinf": "math.isinf", "isfinite": "math.isfinite"}


def write_call(writer: TermWriter, term: prim.Call) -> ir.Value:
    """A call that has a value.

    Raises:
        ValueError: an argument is none that the function takes.
    """
    name = term.op_name
    write = _WRITERS.get(name)
    if write is not None:
        return write(writer, term)
    if name in _OPERATIONS:
        return _operation(writer, _OPERATIONS[name], term)
    return write_generic_call(writer, term)[0]


def write_generic_call(writer: TermWriter, term: prim.Call) -> list[ir.Value]:
    """A call as a ``tir.call``; its results are none or one."""
    operands, literals = write_arguments(writer, term.args)
    has_result = term.dtype not in ("void", "")
    op = ir.Operation.create(
        CallOp.OPERATION_NAME,
        results=[scalar_type(term.dtype)] if has_result else [],
        operands=[tensors.pack(operands)],
        attributes={
            "callee": ir.StringAttr.get(term.op_name),
            "literals": ir.ArrayAttr.get(literals),
            marks.DTYPE: ir.StringAttr.get(term.dtype),
        },
    )
    if term.is_subroutine:
        op.attributes[marks.SUBROUTINE] = ir.UnitAttr.get()
    return list(op.results)


def write_arguments(
    writer: TermWriter, args: Sequence[Any]
) -> tuple[list[ir.Value], list[ir.Attribute]]:
    """What a call gets: values, and per argument what it is besides; see ``CallOp``."""
    operands: list[ir.Value] = []
    literals: list[ir.Attribute] = []
    for argument in args:
        literal = _literal(argument)
        literals.append(ir.UnitAttr.get() if literal is None else literal)
        if isinstance(argument, Buffer):
            memory = writer.buffer(argument)
            operands.append(emit(AddressOp.OPERATION_NAME, pointer_type(), memory))
        elif literal is None:
            term = argument.var if isinstance(argument, IterVar) else argument
            operands.append(writer.value(prim.convert(term)))
    return operands, literals


def _literal(argument: Buffer | PrimExpr) -> ir.Attribute | None:
    """What an argument is besides a value, if anything."""
    if isinstance(argument, Buffer):
        return to_attribute({"buffer": True})
    if isinstance(argument, prim.StringImm):
        return ir.StringAttr.get(argument.value)
    if isinstance(argument, prim.Call) and argument.op_name == "type_annotation":
        return to_attribute({"type_annotation": argument.dtype})
    return None


def _operation(writer: TermWriter, name: str, term: prim.Call) -> ir.Value:
    operands = [writer.value(a) for a in term.args]
    return emit(name, term_dtype(term).scalar_type, *operands)


def _absolute(writer: TermWriter, term: prim.Call) -> ir.Value:
    is_float = term_dtype(term).is_float
    return _operation(writer, "math.absf" if is_float else "math.absi", term)


def _check(writer: TermWriter, term: prim.Call) -> ir.Value:
    operand = writer.value(term.args[0])
    truth = dtype("bool").with_lanes_of(term_dtype(term.args[0]))
    return emit(_CHECKS[term.op_name], truth.scalar_type, operand)


def _round(writer: TermWriter, term: prim.Call) -> ir.Value:
    """`T.round` takes the even one of two, as `T.nearbyint` does; its name is kept."""
    value = _operation(writer, "math.roundeven", term)
    value.owner.attributes[marks.NAME] = ir.StringAttr.get("round")
    return value


def _shift_right(writer: TermWriter, term: prim.Call) -> ir.Value:
    is_signed = term_dtype(term).kind == "i"
    return _operation(writer, "arith.shrsi" if is_signed else "arith.shrui", term)


def _bitwise_not(writer: TermWriter, term: prim.Call) -> ir.Value:
    return (~writer.scalar(term.args[0])).value


def _remainder(writer: TermWriter, term: prim.Call) -> ir.Value:
    return (writer.scalar(term.args[0]) % writer.scalar(term.args[1])).value


def _reinterpret(writer: TermWriter, term: prim.Call) -> ir.Value:
    if "handle" in (term.dtype, term.args[0].dtype):
        return write_generic_call(writer, term)[0]
    return bitcast(writer.scalar(term.args[0]), term_dtype(term)).value


def _likely(writer: TermWriter, term: prim.Call) -> ir.Value:
    return writer.value(term.args[0])


def _if_then_else(writer: TermWriter, term: prim.Call) -> ir.Value:
    condition, *sides = term.args
    op = ir.Operation.create(
        "scf.if",
        results=[term_dtype(term).scalar_type],
        operands=[writer.value(condition)],
        regions=2,
    )
    for region, side in zip(op.regions, sides, strict=True):
        with ir.InsertionPoint(ir.Block.create_at_start(region, [])):
            ir.Operation.create("scf.yield", operands=[writer.value(side)])
    return op.results[0]


def _address_of(writer: TermWriter, term: prim.Call) -> ir.Value:
    (load,) = term.args
    if not isinstance(load, BufferLoad):
        raise ValueError(f"`{term}`: expected an element of a buffer, got `{load}`")
    indices = [writer.index(i) for i in load.indices]
    buffer = writer.buffer(load.buffer)
    return emit(AddressOp.OPERATION_NAME, pointer_type(), buffer, *indices)


_WRITERS: Mapping[str, Callable[[TermWriter, prim.Call], ir.Value]] = {
    **dict.fromkeys(("abs", "fabs"), _absolute),
    **dict.fromkeys(_CHECKS, _check),
    "round": _round,
    "shift_right": _shift_right,
    "bitwise_not": _bitwise_not,
    "fmod": _remainder,
    "reinterpret": _reinterpret,
    "likely": _likely,
    "if_then_else": _if_then_else,
    "address_of": _address_of,
}

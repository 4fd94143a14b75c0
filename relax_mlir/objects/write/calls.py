"""Writes calls of scalar intrinsics as operations of tensor programs.

A call is written as the corresponding MLIR operation, or else as a ``tir.call``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.tir import AddressOp, CallOp, attribute_names
from relax_mlir.dialects.tir.scalars import bitcast, emit
from relax_mlir.objects import prim
from relax_mlir.objects.mlir_attributes import to_attribute
from relax_mlir.objects.prim import IterVar, PrimExpr
from relax_mlir.objects.prim.value_types import (
    pointer_type,
    prim_expr_dtype,
    scalar_type,
)
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad

if TYPE_CHECKING:
    from relax_mlir.objects.write.prim_expr import PrimExprWriter

__all__ = ["MATH_OPERATIONS", "write_arguments", "write_call", "write_generic_call"]

# Intrinsics that are one operation.
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
# Those and others that the reader maps to another intrinsic.
_OPERATIONS: Mapping[str, str] = {
    **MATH_OPERATIONS,
    "power": "math.powf",
    "bitwise_and": "arith.andi",
    "bitwise_or": "arith.ori",
    "bitwise_xor": "arith.xori",
    "shift_left": "arith.shli",
}
_CHECKS = {"isnan": "math.isnan", "isinf": "math.isinf", "isfinite": "math.isfinite"}


def write_call(writer: PrimExprWriter, expr: prim.Call) -> ir.Value:
    """Writes a call with a result.

    Raises:
        ValueError: an argument is not valid for the intrinsic.
    """
    name = expr.op_name
    write = _WRITERS.get(name)
    if write is not None:
        return write(writer, expr)
    if name in _OPERATIONS:
        return _operation(writer, _OPERATIONS[name], expr)
    return write_generic_call(writer, expr)[0]


def write_generic_call(writer: PrimExprWriter, expr: prim.Call) -> list[ir.Value]:
    """Writes a call as a ``tir.call``; returns its results, one or none."""
    operands, literals = write_arguments(writer, expr.args)
    has_result = expr.dtype not in ("void", "")
    op = ir.Operation.create(
        CallOp.OPERATION_NAME,
        results=[scalar_type(expr.dtype)] if has_result else [],
        operands=[tensors.pack_tuple(operands)],
        attributes={
            "callee": ir.StringAttr.get(expr.op_name),
            "literals": ir.ArrayAttr.get(literals),
            attribute_names.DTYPE: ir.StringAttr.get(expr.dtype),
        },
    )
    if expr.is_subroutine:
        op.attributes[attribute_names.SUBROUTINE] = ir.UnitAttr.get()
    return list(op.results)


def write_arguments(
    writer: PrimExprWriter, args: Sequence[Any]
) -> tuple[list[ir.Value], list[ir.Attribute]]:
    """The operands of a call, and a literal attribute per argument; see ``CallOp``."""
    operands: list[ir.Value] = []
    literals: list[ir.Attribute] = []
    for argument in args:
        literal = _literal(argument)
        literals.append(ir.UnitAttr.get() if literal is None else literal)
        if isinstance(argument, Buffer):
            memory = writer.buffer(argument)
            operands.append(emit(AddressOp.OPERATION_NAME, pointer_type(), memory))
        elif literal is None:
            expr = argument.var if isinstance(argument, IterVar) else argument
            operands.append(writer.value(prim.convert(expr)))
    return operands, literals


def _literal(argument: Buffer | PrimExpr) -> ir.Attribute | None:
    """The literal attribute of an argument, or None for a plain value."""
    if isinstance(argument, Buffer):
        return to_attribute({"buffer": True})
    if isinstance(argument, prim.StringImm):
        return ir.StringAttr.get(argument.value)
    if isinstance(argument, prim.Call) and argument.op_name == "type_annotation":
        return to_attribute({"type_annotation": argument.dtype})
    return None


def _operation(writer: PrimExprWriter, name: str, expr: prim.Call) -> ir.Value:
    operands = [writer.value(a) for a in expr.args]
    return emit(name, prim_expr_dtype(expr).scalar_type, *operands)


def _absolute(writer: PrimExprWriter, expr: prim.Call) -> ir.Value:
    is_float = prim_expr_dtype(expr).is_float
    return _operation(writer, "math.absf" if is_float else "math.absi", expr)


def _check(writer: PrimExprWriter, expr: prim.Call) -> ir.Value:
    operand = writer.value(expr.args[0])
    truth = dtype("bool").with_lanes_of(prim_expr_dtype(expr.args[0]))
    return emit(_CHECKS[expr.op_name], truth.scalar_type, operand)


def _round(writer: PrimExprWriter, expr: prim.Call) -> ir.Value:
    """`T.round` rounds half to even, like `T.nearbyint`; an attribute keeps its name."""
    value = _operation(writer, "math.roundeven", expr)
    value.owner.attributes[attribute_names.NAME] = ir.StringAttr.get("round")
    return value


def _shift_right(writer: PrimExprWriter, expr: prim.Call) -> ir.Value:
    is_signed = prim_expr_dtype(expr).kind == "i"
    return _operation(writer, "arith.shrsi" if is_signed else "arith.shrui", expr)


def _bitwise_not(writer: PrimExprWriter, expr: prim.Call) -> ir.Value:
    return (~writer.scalar(expr.args[0])).value


def _remainder(writer: PrimExprWriter, expr: prim.Call) -> ir.Value:
    return (writer.scalar(expr.args[0]) % writer.scalar(expr.args[1])).value


def _reinterpret(writer: PrimExprWriter, expr: prim.Call) -> ir.Value:
    if "handle" in (expr.dtype, expr.args[0].dtype):
        return write_generic_call(writer, expr)[0]
    return bitcast(writer.scalar(expr.args[0]), prim_expr_dtype(expr)).value


def _likely(writer: PrimExprWriter, expr: prim.Call) -> ir.Value:
    return writer.value(expr.args[0])


def _if_then_else(writer: PrimExprWriter, expr: prim.Call) -> ir.Value:
    condition, *sides = expr.args
    op = ir.Operation.create(
        "scf.if",
        results=[prim_expr_dtype(expr).scalar_type],
        operands=[writer.value(condition)],
        regions=2,
    )
    for region, side in zip(op.regions, sides, strict=True):
        with ir.InsertionPoint(ir.Block.create_at_start(region, [])):
            ir.Operation.create("scf.yield", operands=[writer.value(side)])
    return op.results[0]


def _address_of(writer: PrimExprWriter, expr: prim.Call) -> ir.Value:
    (load,) = expr.args
    if not isinstance(load, BufferLoad):
        raise ValueError(f"`{expr}`: expected an element of a buffer, got `{load}`")
    indices = [writer.index(i) for i in load.indices]
    buffer = writer.buffer(load.buffer)
    return emit(AddressOp.OPERATION_NAME, pointer_type(), buffer, *indices)


_WRITERS: Mapping[str, Callable[[PrimExprWriter, prim.Call], ir.Value]] = {
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

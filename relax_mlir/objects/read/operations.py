"""Scalar expressions of arith and math operations, for :mod:`.prim_expr`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlir import ir

from relax_mlir.errors import OperatorError
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, intrinsics
from relax_mlir.objects.prim.lanes import element_type
from relax_mlir.objects.read.guard_patterns import FLOOR_MOD
from relax_mlir.objects.write.calls import MATH_OPERATIONS
from relax_mlir.objects.write.signedness import (
    as_signed,
    as_unsigned,
    with_equal_sign,
    wrapped,
)

__all__ = [
    "BINARY",
    "CMPF",
    "FUNCTIONS",
    "INDEX_DIVISIONS",
    "INDEX_OPERATIONS",
    "ROUNDINGS",
    "SIGNED",
    "UNSIGNED",
    "UNSIGNED_INDEX_OPERATIONS",
    "folding",
    "operation_expr",
    "remainder_or_difference",
    "round_half_away",
]


def folding(kind: type[prim.BinaryExpr]) -> Callable[[Any, Any], PrimExpr]:
    """A binary operation, folded if that preserves the value."""

    def combine(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        try:
            return prim.fold_exactly(kind, a, b)
        except ZeroDivisionError:
            return kind(a, b)

    return combine


def remainder_or_difference(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """``a - b``, simplified to ``a % c`` if b is ``a // c * c``."""
    if isinstance(b, prim.Mul) and isinstance(b.a, prim.FloorDiv):
        same = prim.structurally_equal
        if same(b.a.a, a) and same(b.a.b, b.b):
            return a % b.b
    return folding(prim.Sub)(a, b)


def _ceil_div(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The quotient rounded up; ``(a + b - 1) // b`` may overflow and needs b > 0."""
    is_inexact = folding(prim.NE)(folding(prim.FloorMod)(a, b), prim.const(0))
    quotient = folding(prim.FloorDiv)(a, b)
    return folding(prim.Add)(quotient, prim.cast(a.dtype, is_inexact))


def _number_min_or_max(
    kind: type[prim.BinaryExpr],
) -> Callable[[PrimExpr, PrimExpr], PrimExpr]:
    """The minimum or maximum of two floats, which ignores NaN operands."""

    def combine(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        rest = prim.Select(intrinsics.isnan(b), a, folding(kind)(a, b))
        return prim.Select(intrinsics.isnan(a), b, rest)

    return combine


def _xor(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if isinstance(b, prim.IntImm):
        if a.dtype == "bool" and b.value:
            is_known = isinstance(a, prim.IntImm)
            return prim.const(not a.value, "bool") if is_known else prim.Not(a)
        if a.dtype != "bool" and b.value == wrapped(-1, a.dtype):
            return prim.Call(a.dtype, "bitwise_not", [a])
    return a ^ b


# Operations independent of signedness, which MLIR's integer types lack.
BINARY: Mapping[str, Callable[[Any, Any], PrimExpr]] = {
    **dict.fromkeys(("arith.addi", "arith.addf"), folding(prim.Add)),
    **dict.fromkeys(("arith.subi", "arith.subf"), folding(prim.Sub)),
    **dict.fromkeys(("arith.muli", "arith.mulf"), folding(prim.Mul)),
    "arith.divf": folding(prim.Div),
    "arith.remf": folding(prim.Mod),
    "arith.minimumf": folding(prim.Min),
    "arith.maximumf": folding(prim.Max),
    "arith.minnumf": _number_min_or_max(prim.Min),
    "arith.maxnumf": _number_min_or_max(prim.Max),
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": _xor,
    "arith.shli": lambda a, b: a << b,
}
SIGNED: Mapping[str, Callable[[Any, Any], PrimExpr]] = {
    "arith.divsi": folding(prim.Div),
    "arith.remsi": folding(prim.Mod),
    "arith.floordivsi": folding(prim.FloorDiv),
    FLOOR_MOD: folding(prim.FloorMod),
    "arith.ceildivsi": _ceil_div,
    "arith.minsi": folding(prim.Min),
    "arith.maxsi": folding(prim.Max),
    "arith.shrsi": lambda a, b: a >> b,
}
UNSIGNED: Mapping[str, Callable[[Any, Any], PrimExpr]] = {
    "arith.divui": folding(prim.FloorDiv),
    "arith.remui": folding(prim.FloorMod),
    "arith.ceildivui": _ceil_div,
    "arith.minui": folding(prim.Min),
    "arith.maxui": folding(prim.Max),
    "arith.shrui": lambda a, b: a >> b,
}
# For booleans, which are 0 and -1 as signed integers: other quotients, remainders and shifts
# are by 1, -1 or 0, or undefined.
BOOLEAN: Mapping[str, Callable[[Any, Any], PrimExpr]] = {
    **dict.fromkeys(("arith.shli", "arith.shrsi", "arith.shrui"), lambda a, b: a),
    **dict.fromkeys(
        (
            *("arith.divsi", "arith.divui", "arith.floordivsi", "arith.ceildivsi"),
            "arith.ceildivui",
        ),
        prim.Div,
    ),
    **dict.fromkeys(("arith.remsi", "arith.remui", FLOOR_MOD), prim.Mod),
    **dict.fromkeys(("arith.maxsi", "arith.minui"), folding(prim.Min)),
    **dict.fromkeys(("arith.minsi", "arith.maxui"), folding(prim.Max)),
}
# Operations that the writer emits on indices; see `relax_mlir.objects.write.index`.
INDEX_OPERATIONS: Mapping[str, Callable[[Any, Any], PrimExpr]] = {
    **{name: BINARY[name] for name in ("arith.addi", "arith.muli")},
    "arith.subi": BINARY["arith.subi"],
    **{
        name: SIGNED[name]
        for name in (
            *("arith.divsi", "arith.remsi", "arith.floordivsi"),
            *("arith.minsi", "arith.maxsi"),
        )
    },
}
# Operations on non-negative indices.
UNSIGNED_INDEX_OPERATIONS: Mapping[str, Callable[[Any, Any], PrimExpr]] = {
    name: UNSIGNED[name]
    for name in ("arith.divui", "arith.remui", "arith.minui", "arith.maxui")
}
INDEX_DIVISIONS = frozenset(
    {
        *("arith.divsi", "arith.remsi", "arith.floordivsi"),
        *("arith.divui", "arith.remui"),
    }
)


def _is_unordered(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Whether an operand is NaN."""
    is_same = prim.structurally_equal(a, b)
    checks = [intrinsics.isnan(side) for side in ((a,) if is_same else (a, b))]
    return intrinsics.any(*checks)


def _differ(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Whether two operands are ordered and differ."""
    return prim.Or(prim.LT(a, b), prim.GT(a, b))


# By the predicates of arith.cmpf, in order; those from 8 on are true for NaN.
CMPF: Sequence[Callable[[PrimExpr, PrimExpr], PrimExpr]] = (
    lambda a, b: prim.const(False, prim.with_lanes("bool", a.dtype)),
    *map(folding, (prim.EQ, prim.GT, prim.GE, prim.LT, prim.LE)),
    _differ,
    lambda a, b: prim.Not(_is_unordered(a, b)),
    lambda a, b: prim.Not(_differ(a, b)),
    lambda a, b: prim.Not(prim.LE(a, b)),
    lambda a, b: prim.Not(prim.LT(a, b)),
    lambda a, b: prim.Not(prim.GE(a, b)),
    lambda a, b: prim.Not(prim.GT(a, b)),
    folding(prim.NE),
    _is_unordered,
    lambda a, b: prim.const(True, prim.with_lanes("bool", a.dtype)),
)


def round_half_away(x: PrimExpr) -> PrimExpr:
    """Rounds half away from zero, as `math.round`; ``T.round`` rounds half to even."""
    whole = intrinsics.trunc(x)
    is_half = intrinsics.abs(folding(prim.Sub)(x, whole)) >= prim.const(0.5, x.dtype)
    step = intrinsics.copysign(prim.const(1.0, x.dtype), x)
    return prim.Select(is_half, folding(prim.Add)(whole, step), whole)


# Rounding functions, which fold constants as in the script parser.
ROUNDINGS: Mapping[str, Callable[[PrimExpr], PrimExpr]] = {
    name: getattr(intrinsics, name)
    for name in ("floor", "ceil", "trunc", "round", "nearbyint")
}
FUNCTIONS: Mapping[str, str] = {
    **{operation: name for name, operation in MATH_OPERATIONS.items()},
    "math.absf": "fabs",
    "math.absi": "abs",
    **{f"math.{name}": name for name in ("isnan", "isinf", "isfinite")},
}


def operation_expr(op: ir.OpView, name: str, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The expression of a binary operation on scalars other than indices.

    Raises:
        ValueError: it is undefined, such as an excessive shift.
    """
    try:
        if element_type(a.dtype) == "bool" and name in BOOLEAN:
            return BOOLEAN[name](*with_equal_sign(a, b))
        if name in SIGNED:
            return SIGNED[name](*with_equal_sign(as_signed(a), as_signed(b)))
        if name in UNSIGNED:
            result = UNSIGNED[name](*with_equal_sign(as_unsigned(a), as_unsigned(b)))
            return result if a.dtype == result.dtype else prim.Cast(a.dtype, result)
        return BINARY[name](*with_equal_sign(a, b))
    except OperatorError as error:
        raise ValueError(f"{op.location}: `{name}`: {error}") from error

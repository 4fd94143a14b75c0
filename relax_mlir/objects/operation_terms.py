"""Terms of the operations of arith and math, for :mod:`.term_reader`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlir import ir

from relax_mlir.errors import OperatorError
from relax_mlir.objects import functions, prim
from relax_mlir.objects.call_writer import MATH_OPERATIONS
from relax_mlir.objects.guards import FLOOR_MOD
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim.lanes import element_type
from relax_mlir.objects.signs import as_signed, as_unsigned, of_one_sign, wrapped

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
    "folded",
    "operation_term",
    "remainder_or_difference",
    "round_half_away",
]


def folded(kind: type[prim.BinaryExpr]) -> Callable[[Any, Any], PrimExpr]:
    """An operation of two terms, folded where that is exact."""

    def combine(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        try:
            return prim.fold_exactly(kind, a, b)
        except ZeroDivisionError:
            return kind(a, b)

    return combine


def remainder_or_difference(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """``a - b``; ``a - a // c * c`` is ``a % c``."""
    if isinstance(b, prim.Mul) and isinstance(b.a, prim.FloorDiv):
        same = prim.structurally_equal
        if same(b.a.a, a) and same(b.a.b, b.b):
            return a % b.b
    return folded(prim.Sub)(a, b)


def _ceil_div(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The quotient rounded up; ``(a + b - 1) // b`` overflows, and needs b > 0."""
    is_inexact = folded(prim.NE)(folded(prim.FloorMod)(a, b), prim.const(0))
    quotient = folded(prim.FloorDiv)(a, b)
    return folded(prim.Add)(quotient, prim.cast(a.dtype, is_inexact))


def _extreme_number(
    kind: type[prim.BinaryExpr],
) -> Callable[[PrimExpr, PrimExpr], PrimExpr]:
    """The smaller or the larger of two floats; of one that is NaN, the other."""

    def combine(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        rest = prim.Select(functions.isnan(b), a, folded(kind)(a, b))
        return prim.Select(functions.isnan(a), b, rest)

    return combine


def _exclusive(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if isinstance(b, prim.IntImm):
        if a.dtype == "bool" and b.value:
            is_known = isinstance(a, prim.IntImm)
            return prim.const(not a.value, "bool") if is_known else prim.Not(a)
        if a.dtype != "bool" and b.value == wrapped(-1, a.dtype):
            return prim.Call(a.dtype, "bitwise_not", [a])
    return a ^ b


# Operations for which the sign of integers, which MLIR's have not, makes no difference.
BINARY: Mapping[str, Callable[[Any, Any], PrimExpr]] = {
    **dict.fromkeys(("arith.addi", "arith.addf"), folded(prim.Add)),
    **dict.fromkeys(("arith.subi", "arith.subf"), folded(prim.Sub)),
    **dict.fromkeys(("arith.muli", "arith.mulf"), folded(prim.Mul)),
    "arith.divf": folded(prim.Div),
    "arith.remf": folded(prim.Mod),
    "arith.minimumf": folded(prim.Min),
    "arith.maximumf": folded(prim.Max),
    "arith.minnumf": _extreme_number(prim.Min),
    "arith.maxnumf": _extreme_number(prim.Max),
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": _exclusive,
    "arith.shli": lambda a, b: a << b,
}
SIGNED: Mapping[str, Callable[[Any, Any], PrimExpr]] = {
    "arith.divsi": folded(prim.Div),
    "arith.remsi": folded(prim.Mod),
    "arith.floordivsi": folded(prim.FloorDiv),
    FLOOR_MOD: folded(prim.FloorMod),
    "arith.ceildivsi": _ceil_div,
    "arith.minsi": folded(prim.Min),
    "arith.maxsi": folded(prim.Max),
    "arith.shrsi": lambda a, b: a >> b,
}
UNSIGNED: Mapping[str, Callable[[Any, Any], PrimExpr]] = {
    "arith.divui": folded(prim.FloorDiv),
    "arith.remui": folded(prim.FloorMod),
    "arith.ceildivui": _ceil_div,
    "arith.minui": folded(prim.Min),
    "arith.maxui": folded(prim.Max),
    "arith.shrui": lambda a, b: a >> b,
}
# Of truth values, which as signed integers are 0 and -1: other quotients, remainders and
# shifts are by 1, -1 or 0, or not defined.
OF_TRUTHS: Mapping[str, Callable[[Any, Any], PrimExpr]] = {
    **dict.fromkeys(("arith.shli", "arith.shrsi", "arith.shrui"), lambda a, b: a),
    **dict.fromkeys(
        (
            *("arith.divsi", "arith.divui", "arith.floordivsi", "arith.ceildivsi"),
            "arith.ceildivui",
        ),
        prim.Div,
    ),
    **dict.fromkeys(("arith.remsi", "arith.remui", FLOOR_MOD), prim.Mod),
    **dict.fromkeys(("arith.maxsi", "arith.minui"), folded(prim.Min)),
    **dict.fromkeys(("arith.minsi", "arith.maxui"), folded(prim.Max)),
}
# Operations on indices that are written as such, see `index_writer`.
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
# Of indices that are not negative.
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
    """Whether one of two floats is NaN."""
    is_same = prim.structurally_equal(a, b)
    checks = [functions.isnan(side) for side in ((a,) if is_same else (a, b))]
    return functions.any(*checks)


def _differ(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Whether two floats are numbers that differ."""
    return prim.Or(prim.LT(a, b), prim.GT(a, b))


# The predicates of arith.cmpf in order; those from 8 on are true for NaN.
CMPF: Sequence[Callable[[PrimExpr, PrimExpr], PrimExpr]] = (
    lambda a, b: prim.const(False, prim.with_lanes("bool", a.dtype)),
    *map(folded, (prim.EQ, prim.GT, prim.GE, prim.LT, prim.LE)),
    _differ,
    lambda a, b: prim.Not(_is_unordered(a, b)),
    lambda a, b: prim.Not(_differ(a, b)),
    lambda a, b: prim.Not(prim.LE(a, b)),
    lambda a, b: prim.Not(prim.LT(a, b)),
    lambda a, b: prim.Not(prim.GE(a, b)),
    lambda a, b: prim.Not(prim.GT(a, b)),
    folded(prim.NE),
    _is_unordered,
    lambda a, b: prim.const(True, prim.with_lanes("bool", a.dtype)),
)


def round_half_away(x: PrimExpr) -> PrimExpr:
    """The nearest integer, of two the one away from 0; ``T.round`` takes the even one."""
    whole = functions.trunc(x)
    is_half = functions.abs(folded(prim.Sub)(x, whole)) >= prim.const(0.5, x.dtype)
    step = functions.copysign(prim.const(1.0, x.dtype), x)
    return prim.Select(is_half, folded(prim.Add)(whole, step), whole)


# Functions that fold, as they do where a script is read.
ROUNDINGS: Mapping[str, Callable[[PrimExpr], PrimExpr]] = {
    name: getattr(functions, name)
    for name in ("floor", "ceil", "trunc", "round", "nearbyint")
}
FUNCTIONS: Mapping[str, str] = {
    **{operation: name for name, operation in MATH_OPERATIONS.items()},
    "math.absf": "fabs",
    "math.absi": "abs",
    **{f"math.{name}": name for name in ("isnan", "isinf", "isfinite")},
}


def operation_term(op: ir.OpView, name: str, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """An operation on two numbers that are no indices.

    Raises:
        ValueError: it is defined for none, such as a shift by too many bits.
    """
    try:
        if element_type(a.dtype) == "bool" and name in OF_TRUTHS:
            return OF_TRUTHS[name](*of_one_sign(a, b))
        if name in SIGNED:
            return SIGNED[name](*of_one_sign(as_signed(a), as_signed(b)))
        if name in UNSIGNED:
            made = UNSIGNED[name](*of_one_sign(as_unsigned(a), as_unsigned(b)))
            return made if a.dtype == made.dtype else prim.Cast(a.dtype, made)
        return BINARY[name](*of_one_sign(a, b))
    except OperatorError as error:
        raise ValueError(f"{op.location}: `{name}`: {error}") from error

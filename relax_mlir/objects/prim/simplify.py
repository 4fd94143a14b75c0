"""Canonical simplification of scalar expressions: linear sums, folding, comparisons.

Variables are unconstrained except for :func:`.bounds.assuming`. Integers of 32 and 64
bits are indices, which do not overflow. The canonical form is that of TVM's analyzer with
the same knowledge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

from relax_mlir.objects import prim
from relax_mlir.objects.prim import IntImm, PrimExpr, const
from relax_mlir.objects.prim.bounds import INDEX_TYPES, bounds, is_assuming
from relax_mlir.objects.prim.intrinsics import rounded_constant
from relax_mlir.symbolic import intervals
from relax_mlir.symbolic.affine_forms import AffineForm
from relax_mlir.symbolic.intervals import UNBOUNDED

__all__ = ["simplify"]

_UNBOUNDED = 1 << 62
_SUMS = (prim.Add, prim.Sub, prim.Mul)


def simplify(expr: PrimExpr) -> PrimExpr:
    """The canonical form of an expression."""
    children = expr.children()
    if not children:
        return expr
    new = [simplify(child) for child in children]
    if any(a is not b for a, b in zip(new, children, strict=True)):
        expr = expr.with_children(new)
    rule = _RULES.get(type(expr))
    return expr if rule is None else rule(expr)


_Form: TypeAlias = AffineForm[PrimExpr]  # of non-linear expressions


def _form(expr: PrimExpr) -> _Form:
    """A canonical expression as an affine form of non-linear expressions."""
    if isinstance(expr, IntImm):
        return AffineForm({}, expr.value)
    if isinstance(expr, (prim.Add, prim.Sub)):
        sign = 1 if isinstance(expr, prim.Add) else -1
        return _form(expr.a).plus(_form(expr.b), sign)
    if isinstance(expr, prim.Mul):
        for number, other in ((expr.b, expr.a), (expr.a, expr.b)):
            if isinstance(number, IntImm):
                return _form(other).scaled(number.value)
    return _atom(expr)


def _atom(expr: PrimExpr) -> _Form:
    return AffineForm({expr: 1})


def _split(form: _Form, divisor: int) -> tuple[_Form, _Form]:
    """Splits into a quotient and a remainder part: the multiples of ``divisor``, divided
    by it, and the rest."""
    rest = {term: scale for term, scale in form.coefficients.items() if scale % divisor}
    whole = {
        term: scale // divisor
        for term, scale in form.coefficients.items()
        if term not in rest
    }
    quotient, remainder = divmod(form.constant, divisor)
    if rest and remainder:
        return AffineForm(whole), AffineForm(rest, form.constant)
    return AffineForm(whole, quotient), AffineForm(rest, remainder)


def _expr(form: _Form, dtype: str) -> PrimExpr:
    """A form as an expression: positive coefficients, largest first, then negative."""
    ordered = sorted(((n, term) for term, n in form.coefficients.items()), key=_order)
    total: PrimExpr | None = None
    for scale, expr in ordered:
        if scale > 0:
            total = _sum(total, _times(expr, scale))
    if form.constant > 0:
        total = _sum(total, const(form.constant, dtype))
    for scale, expr in ordered:
        if scale < 0:
            start = const(0, dtype) if total is None else total
            total = prim.Sub(start, _times(expr, -scale))
    if form.constant < 0:
        number = const(abs(form.constant), dtype)
        total = (
            const(form.constant, dtype) if total is None else prim.Sub(total, number)
        )
    return const(0, dtype) if total is None else total


def _sum(total: PrimExpr | None, expr: PrimExpr) -> PrimExpr:
    return expr if total is None else prim.Add(total, expr)


def _times(expr: PrimExpr, scale: int) -> PrimExpr:
    return expr if scale == 1 else prim.Mul(expr, const(scale, expr.dtype))


def _order(part: tuple[int, PrimExpr]) -> tuple[int, int, int]:
    """Sort key: larger coefficients first, then larger divisors."""
    scale, expr = part
    below, above = 1, _UNBOUNDED
    if isinstance(expr, prim.FloorMod) and isinstance(expr.b, IntImm):
        above = expr.b.value
        expr = expr.a
    if isinstance(expr, prim.FloorDiv) and isinstance(expr.b, IntImm):
        below = expr.b.value
    return -scale, -below, -above


def _is_index(expr: PrimExpr) -> bool:
    return expr.dtype in INDEX_TYPES


def _arithmetic(expr: PrimExpr) -> PrimExpr:
    if not _is_index(expr):
        return _cancel_subtrahend(expr)
    if isinstance(expr, prim.Mul) and not any(
        isinstance(side, IntImm) for side in (expr.a, expr.b)
    ):
        return _product(expr)
    moved = _sub_into_extreme(expr)
    if moved is not None:
        return moved
    total = _form(expr)
    is_term = len(total.coefficients) == 1 and not total.constant
    if isinstance(expr, prim.Mul) and is_term:
        ((term, scale),) = total.coefficients.items()
        return _times(term, scale)
    return _expr(total, expr.dtype)


def _cancel_subtrahend(expr: PrimExpr) -> PrimExpr:
    """``x + y - y`` as ``x``, for types that wrap around.

    Floats take the same rule, although it drops the rounding of the sum.
    """
    if not isinstance(expr, prim.Sub) or not isinstance(expr.a, prim.Add):
        return expr
    return expr.a.a if prim.structurally_equal(expr.a.b, expr.b) else expr


def _truncated_quotient(expr: prim.Div | prim.Mod) -> PrimExpr:
    """Truncating division of a quotient, both divisors constant."""
    a, b = expr.a, expr.b
    if not _is_index(expr) or not isinstance(b, IntImm) or b.value <= 0:
        return expr
    if not isinstance(a, prim.Div) or not isinstance(a.b, IntImm) or a.b.value <= 0:
        return expr
    product = const(a.b.value * b.value, a.dtype)
    if isinstance(expr, prim.Div):
        return prim.Div(a.a, product)
    return prim.Div(prim.Mod(a.a, product), a.b)


def _sub_into_extreme(expr: PrimExpr) -> PrimExpr | None:
    """``min(x + a, b) - x`` as ``min(a, b - x)``, and the same for ``max``."""
    if not isinstance(expr, prim.Sub) or not isinstance(expr.a, (prim.Min, prim.Max)):
        return None
    taken = _form(expr.b)
    sides = [_form(side) for side in (expr.a.a, expr.a.b)]
    if len(taken.coefficients) != 1 or not any(
        side.coefficients.items() >= taken.coefficients.items() for side in sides
    ):
        return None
    whole = AffineForm(taken.coefficients)
    inner = type(expr.a)(*(_expr(side.plus(whole, -1), expr.a.dtype) for side in sides))
    return _expr(_atom(inner).shifted(-taken.constant), inner.dtype)


def _product(expr: prim.Mul) -> PrimExpr:
    """A product of two expressions with their constant factors collected last."""
    number, sides = 1, []
    for side in (expr.a, expr.b):
        total = _form(side)
        if total.constant or len(total.coefficients) != 1:
            sides.append(side)
            continue
        ((term, scale),) = total.coefficients.items()
        number *= scale
        sides.append(term)
    return expr if number == 1 else _times(prim.Mul(*sides), number)


def _floor_div(expr: prim.FloorDiv) -> PrimExpr:
    a, b = expr.a, expr.b
    if not _is_index(expr):
        return expr
    if not isinstance(b, IntImm):
        return _symbolic_floor_div(a, b)
    if b.value <= 0:
        return expr
    whole, rest = _split(_form(a), b.value)
    return _expr(whole.plus(_quotient(rest, b.value, a.dtype)), a.dtype)


def _quotient(rest: _Form, divisor: int, dtype: str) -> _Form:
    """The quotient of a sum without multiples of ``divisor``, divided by it."""
    if not rest.coefficients:
        return AffineForm({}, rest.constant // divisor)
    if is_assuming() and _fits(rest, divisor, dtype):
        return AffineForm({})
    ((term, scale), *others) = rest.coefficients.items()
    if others or rest.constant or scale <= 0 or divisor % scale:
        return _atom(prim.FloorDiv(_expr(rest, dtype), const(divisor, dtype)))
    number, expr = divisor // scale, term
    if isinstance(expr, prim.FloorDiv) and isinstance(expr.b, IntImm):
        return _form(_floor_div(prim.FloorDiv(expr.a, expr.b * number)))
    return _atom(prim.FloorDiv(expr, const(number, dtype)))


def _symbolic_floor_div(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    factor = _factor(a, b)
    return prim.FloorDiv(a, b) if factor is None else factor


def _factor(expr: PrimExpr, divisor: PrimExpr) -> PrimExpr | None:
    """The factor by which an expression is a multiple of ``divisor``, or None."""
    if prim.structurally_equal(expr, divisor):
        return const(1, expr.dtype)
    if not isinstance(expr, prim.Mul):
        return None
    for one, other in ((expr.a, expr.b), (expr.b, expr.a)):
        inner = _factor(one, divisor)
        if inner is not None:
            return inner * other
    return None


def _floor_mod(expr: prim.FloorMod) -> PrimExpr:
    a, b = expr.a, expr.b
    if not _is_index(expr):
        return expr
    if not isinstance(b, IntImm):
        return expr if _factor(a, b) is None else const(0, a.dtype)
    if b.value <= 0:
        return expr
    return _remainder(_form(a), b.value, a.dtype)


def _remainder(total: _Form, divisor: int, dtype: str) -> PrimExpr:
    rest = AffineForm(
        {term: n for term, n in total.coefficients.items() if n % divisor},
        total.constant % divisor,
    )
    if _fits(rest, divisor, dtype):
        return _expr(rest, dtype)
    if not rest.coefficients:
        return const(rest.constant, dtype)
    ((term, scale), *others) = rest.coefficients.items()
    if others or rest.constant or scale <= 0:
        return prim.FloorMod(_expr(rest, dtype), const(divisor, dtype))
    inner = _nested_remainder(term, divisor) if scale == 1 else None
    if inner is not None:
        return inner
    if divisor % scale == 0:
        number = const(divisor // scale, dtype)
        return _times(prim.FloorMod(term, number), scale)
    return prim.FloorMod(_expr(rest, dtype), const(divisor, dtype))


def _nested_remainder(expr: PrimExpr, divisor: int) -> PrimExpr | None:
    """The remainder of a remainder or a quotient as one operation, if it combines."""
    if not isinstance(expr, (prim.FloorMod, prim.FloorDiv)):
        return None
    if not isinstance(expr.b, IntImm):
        return None
    inner = expr.b.value
    if isinstance(expr, prim.FloorDiv):
        rest = _remainder(_form(expr.a), inner * divisor, expr.a.dtype)
        return _floor_div(prim.FloorDiv(rest, expr.b))
    return None if inner % divisor else _remainder(_form(expr.a), divisor, expr.dtype)


def _fits(total: _Form, divisor: int, dtype: str) -> bool:
    """Whether a sum is provably in ``[0, divisor)``."""
    return intervals.contains((0, divisor - 1), bounds(_expr(total, dtype)))


def _min_or_max(expr: prim.Min | prim.Max) -> PrimExpr:
    kind = type(expr)
    a, b = expr.a, expr.b
    if prim.structurally_equal(a, b):
        return a
    if _is_index(expr):
        difference = _difference(a, b)
        if not difference.coefficients:
            return a if (difference.constant > 0) == (kind is prim.Max) else b
        found = bounds(_expr(difference, a.dtype)) if is_assuming() else UNBOUNDED
        if intervals.contains((0, None), found):
            return a if kind is prim.Max else b
        if intervals.contains((None, 0), found):
            return b if kind is prim.Max else a
    return kind(a, b)


def _difference(a: PrimExpr, b: PrimExpr) -> _Form:
    return _form(a).plus(_form(b), -1)


def _less(expr: prim.LT | prim.LE) -> PrimExpr:
    kind = type(expr)
    a, b = expr.a, expr.b
    if not _is_index(a):
        return expr
    difference = _difference(a, b)
    if not difference.coefficients:
        return const(kind.fold(difference.constant, 0), "bool")
    decided = _decided(kind, difference, a.dtype)
    if decided is not None:
        return const(decided, "bool")
    left, right = _sides(difference, a)
    total = _form(right)
    step = -1 if kind is prim.LE else 1
    if total.coefficients and total.constant == step and _form(left).coefficients:
        kind = prim.LT if kind is prim.LE else prim.LE
        right = _expr(total.shifted(-step), right.dtype)
    return kind(left, right)


def _decided(kind: type[prim.BinaryExpr], difference: _Form, dtype: str) -> bool | None:
    """The value of ``difference < 0`` or ``<= 0`` if it is the same for all variables."""
    if not is_assuming():
        return None
    found = bounds(_expr(difference, dtype))
    greatest = -1 if kind is prim.LT else 0  # for which it holds
    if intervals.contains((None, greatest), found):
        return True
    return False if intervals.contains((greatest + 1, None), found) else None


def _sides(difference: _Form, a: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Sides of a comparison: expressions stay on their side, the constant is alone."""
    ours = _form(a).coefficients
    left = AffineForm(difference.coefficients).restricted(ours.__contains__)
    right = left.plus(AffineForm(difference.coefficients), -1)
    if not left.coefficients and max(right.coefficients.values()) < 0:
        left, right = right.scaled(-1), left
    elif not right.coefficients and max(left.coefficients.values()) < 0:
        left, right = right, left.scaled(-1)
    if not left.coefficients:
        return const(difference.constant, a.dtype), _expr(right, a.dtype)
    on_right = right.shifted(-difference.constant)
    return _expr(left, a.dtype), _expr(on_right, a.dtype)


def _equality(expr: prim.EQ | prim.NE) -> PrimExpr:
    kind = type(expr)
    a, b = expr.a, expr.b
    if not _is_index(a):
        return expr
    difference = _difference(a, b)
    if not difference.coefficients:
        return const(kind.fold(difference.constant, 0), "bool")
    return kind(*_sides(difference, a))


def _greater(expr: prim.GT | prim.GE) -> PrimExpr:
    kind = prim.LT if isinstance(expr, prim.GT) else prim.LE
    return _less(kind(expr.b, expr.a))


_OPPOSITES: Mapping[type, type[prim.BinaryExpr]] = {
    prim.LT: prim.LE,
    prim.LE: prim.LT,
}


def _not(expr: prim.Not) -> PrimExpr:
    inner = expr.a
    if isinstance(inner, IntImm):
        return const(not inner.value, "bool")
    if isinstance(inner, prim.Not):
        return inner.a
    if isinstance(inner, (prim.LT, prim.LE)) and inner.a.is_integer:
        return _OPPOSITES[type(inner)](inner.b, inner.a)
    if isinstance(inner, (prim.And, prim.Or)):
        kind = prim.Or if isinstance(inner, prim.And) else prim.And
        return kind(_not(prim.Not(inner.a)), _not(prim.Not(inner.b)))
    if isinstance(inner, prim.EQ):
        return prim.NE(inner.a, inner.b)
    return prim.EQ(inner.a, inner.b) if isinstance(inner, prim.NE) else expr


def _select(expr: prim.Select) -> PrimExpr:
    return _fold_choice(expr, expr.condition, expr.true_value, expr.false_value)


def _fold_choice(
    expr: PrimExpr, condition: PrimExpr, then: PrimExpr, otherwise: PrimExpr
) -> PrimExpr:
    if isinstance(condition, IntImm):
        return then if condition.value else otherwise
    return then if prim.structurally_equal(then, otherwise) else expr


def _call(expr: prim.Call) -> PrimExpr:
    if expr.op_name == "if_then_else":
        condition, then, otherwise = expr.args
        return _fold_choice(expr, condition, then, otherwise)
    if expr.op_name == "likely" and isinstance(expr.args[0], IntImm):
        return expr.args[0]
    return _rounded(expr)


def _rounded(expr: prim.Call) -> PrimExpr:
    fold = _FOLDED.get(expr.op_name)
    folded = None if fold is None else rounded_constant(fold, expr.args[0])
    return expr if folded is None else folded


_FOLDED: Mapping[str, Callable[[float], float]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,
    "nearbyint": round,
}


def _cast(expr: prim.Cast) -> PrimExpr:
    return prim.cast(expr.dtype, expr.value)


_RULES: Mapping[type, Callable[..., PrimExpr]] = {
    **dict.fromkeys(_SUMS, _arithmetic),
    prim.FloorDiv: _floor_div,
    prim.FloorMod: _floor_mod,
    prim.Div: _truncated_quotient,
    prim.Mod: _truncated_quotient,
    prim.Min: _min_or_max,
    prim.Max: _min_or_max,
    prim.LT: _less,
    prim.LE: _less,
    prim.GT: _greater,
    prim.GE: _greater,
    prim.EQ: _equality,
    prim.NE: _equality,
    prim.Not: _not,
    prim.Select: _select,
    prim.Call: _call,
    prim.Cast: _cast,
}

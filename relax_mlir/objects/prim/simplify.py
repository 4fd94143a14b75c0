"""Canonical simplification of scalar expressions: linear sums, folding, comparisons.

Variables are unconstrained except for :func:`.bounds.assuming`. Integers of 32 and 64
bits are indices, which do not overflow. The canonical form is that of TVM's analyzer with
the same knowledge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from relax_mlir.objects import prim
from relax_mlir.objects.prim import IntImm, PrimExpr, const
from relax_mlir.objects.prim.bounds import INDEX_TYPES, bounds, is_assuming
from relax_mlir.objects.prim.intrinsics import rounded_constant

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


def _key(expr: PrimExpr) -> tuple[object, ...]:
    """Structural hash key of an expression."""
    return (type(expr), expr.key(), *map(_key, expr.children()))


@dataclass(frozen=True)
class _Sum:
    """A linear sum: a constant plus integer multiples of non-linear expressions.

    Attributes:
        parts: coefficient and expression, by the key of the expression.
        base: the constant.
    """

    parts: Mapping[tuple[object, ...], tuple[int, PrimExpr]]
    base: int
    dtype: str

    @staticmethod
    def of(expr: PrimExpr) -> _Sum:
        """A canonical expression as a linear sum."""
        if isinstance(expr, IntImm):
            return _Sum({}, expr.value, expr.dtype)
        if isinstance(expr, (prim.Add, prim.Sub)):
            sign = 1 if isinstance(expr, prim.Add) else -1
            return _Sum.of(expr.a).plus(_Sum.of(expr.b), sign)
        if isinstance(expr, prim.Mul):
            for number, other in ((expr.b, expr.a), (expr.a, expr.b)):
                if isinstance(number, IntImm):
                    return _Sum.of(other).times(number.value)
        return _Sum({_key(expr): (1, expr)}, 0, expr.dtype)

    def plus(self, other: _Sum, factor: int = 1) -> _Sum:
        """``self + factor * other``."""
        parts = dict(self.parts)
        for key, (scale, expr) in other.parts.items():
            total = parts.get(key, (0, expr))[0] + factor * scale
            parts[key] = (total, expr)
        kept = {key: part for key, part in parts.items() if part[0]}
        return _Sum(kept, self.base + factor * other.base, self.dtype)

    def times(self, factor: int) -> _Sum:
        """``factor * self``."""
        if factor == 0:
            return _Sum({}, 0, self.dtype)
        parts = {key: (scale * factor, t) for key, (scale, t) in self.parts.items()}
        return _Sum(parts, self.base * factor, self.dtype)

    def split(self, divisor: int) -> tuple[_Sum, _Sum]:
        """Splits into a quotient and a remainder part: the multiples of ``divisor``, divided
        by it, and the rest."""
        whole, rest = {}, {}
        for key, (scale, expr) in self.parts.items():
            if scale % divisor == 0:
                whole[key] = (scale // divisor, expr)
            else:
                rest[key] = (scale, expr)
        quotient, remainder = divmod(self.base, divisor)
        if not rest:
            return _Sum(whole, quotient, self.dtype), _Sum({}, remainder, self.dtype)
        if remainder == 0:
            return _Sum(whole, quotient, self.dtype), _Sum(rest, 0, self.dtype)
        return _Sum(whole, 0, self.dtype), _Sum(rest, self.base, self.dtype)

    def expr(self) -> PrimExpr:
        """The sum as an expression: positive coefficients, largest first, then negative."""
        ordered = sorted(self.parts.values(), key=_order)
        total: PrimExpr | None = None
        for scale, expr in ordered:
            if scale > 0:
                total = _sum(total, _times(expr, scale))
        if self.base > 0:
            total = _sum(total, const(self.base, self.dtype))
        for scale, expr in ordered:
            if scale < 0:
                start = const(0, self.dtype) if total is None else total
                total = prim.Sub(start, _times(expr, -scale))
        if self.base < 0:
            number = const(abs(self.base), self.dtype)
            total = (
                const(self.base, self.dtype)
                if total is None
                else prim.Sub(total, number)
            )
        return const(0, self.dtype) if total is None else total


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
    total = _Sum.of(expr)
    if isinstance(expr, prim.Mul) and not total.base and len(total.parts) == 1:
        ((scale, part),) = total.parts.values()
        return _times(part, scale)
    return total.expr()


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
    taken = _Sum.of(expr.b)
    sides = [_Sum.of(side) for side in (expr.a.a, expr.a.b)]
    if len(taken.parts) != 1 or not any(
        side.parts.items() >= taken.parts.items() for side in sides
    ):
        return None
    whole = _Sum(taken.parts, 0, taken.dtype)
    inner = type(expr.a)(*(side.plus(whole, -1).expr() for side in sides))
    return _atom(inner).plus(_Sum({}, -taken.base, taken.dtype)).expr()


def _product(expr: prim.Mul) -> PrimExpr:
    """A product of two expressions with their constant factors collected last."""
    number, sides = 1, []
    for side in (expr.a, expr.b):
        total = _Sum.of(side)
        if total.base or len(total.parts) != 1:
            sides.append(side)
            continue
        ((scale, part),) = total.parts.values()
        number *= scale
        sides.append(part)
    return expr if number == 1 else _times(prim.Mul(*sides), number)


def _floor_div(expr: prim.FloorDiv) -> PrimExpr:
    a, b = expr.a, expr.b
    if not _is_index(expr):
        return expr
    if not isinstance(b, IntImm):
        return _symbolic_floor_div(a, b)
    if b.value <= 0:
        return expr
    whole, rest = _Sum.of(a).split(b.value)
    return whole.plus(_quotient(rest, b.value)).expr()


def _quotient(rest: _Sum, divisor: int) -> _Sum:
    """The quotient of a sum without multiples of ``divisor``, divided by it."""
    if not rest.parts:
        return _Sum({}, rest.base // divisor, rest.dtype)
    if is_assuming() and _fits(rest, divisor):
        return _Sum({}, 0, rest.dtype)
    ((scale, expr), *others) = rest.parts.values()
    if others or rest.base or scale <= 0 or divisor % scale:
        return _atom(prim.FloorDiv(rest.expr(), const(divisor, rest.dtype)))
    number = divisor // scale
    if isinstance(expr, prim.FloorDiv) and isinstance(expr.b, IntImm):
        return _Sum.of(_floor_div(prim.FloorDiv(expr.a, expr.b * number)))
    return _atom(prim.FloorDiv(expr, const(number, rest.dtype)))


def _atom(expr: PrimExpr) -> _Sum:
    return _Sum({_key(expr): (1, expr)}, 0, expr.dtype)


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
    return _remainder(_Sum.of(a), b.value)


def _remainder(total: _Sum, divisor: int) -> PrimExpr:
    parts = {k: part for k, part in total.parts.items() if part[0] % divisor}
    base = total.base % divisor
    rest = _Sum(parts, base, total.dtype)
    if _fits(rest, divisor):
        return rest.expr()
    if not parts:
        return const(base, total.dtype)
    ((scale, expr), *others) = parts.values()
    if others or base or scale <= 0:
        return prim.FloorMod(rest.expr(), const(divisor, total.dtype))
    inner = _nested_remainder(expr, divisor) if scale == 1 else None
    if inner is not None:
        return inner
    if divisor % scale == 0:
        number = const(divisor // scale, total.dtype)
        return _times(prim.FloorMod(expr, number), scale)
    return prim.FloorMod(rest.expr(), const(divisor, total.dtype))


def _nested_remainder(expr: PrimExpr, divisor: int) -> PrimExpr | None:
    """The remainder of a remainder or a quotient as one operation, if it combines."""
    if not isinstance(expr, (prim.FloorMod, prim.FloorDiv)):
        return None
    if not isinstance(expr.b, IntImm):
        return None
    inner = expr.b.value
    if isinstance(expr, prim.FloorDiv):
        rest = _remainder(_Sum.of(expr.a), inner * divisor)
        return _floor_div(prim.FloorDiv(rest, expr.b))
    return None if inner % divisor else _remainder(_Sum.of(expr.a), divisor)


def _fits(total: _Sum, divisor: int) -> bool:
    """Whether a sum is provably in ``[0, divisor)``."""
    low, high = bounds(total.expr())
    return low >= 0 and high < divisor


def _min_or_max(expr: prim.Min | prim.Max) -> PrimExpr:
    kind = type(expr)
    a, b = expr.a, expr.b
    if prim.structurally_equal(a, b):
        return a
    if _is_index(expr):
        difference = _Sum.of(a).plus(_Sum.of(b), -1)
        if not difference.parts:
            return a if (difference.base > 0) == (kind is prim.Max) else b
        low, high = bounds(difference.expr()) if is_assuming() else (-1, 1)
        if low >= 0 or high <= 0:
            return a if (low >= 0) == (kind is prim.Max) else b
    return kind(a, b)


def _less(expr: prim.LT | prim.LE) -> PrimExpr:
    kind = type(expr)
    a, b = expr.a, expr.b
    if not _is_index(a):
        return expr
    difference = _Sum.of(a).plus(_Sum.of(b), -1)
    if not difference.parts:
        return const(kind.fold(difference.base, 0), "bool")
    decided = _decided(kind, difference)
    if decided is not None:
        return const(decided, "bool")
    left, right = _sides(difference, a, b)
    total = _Sum.of(right)
    step = -1 if kind is prim.LE else 1
    if total.parts and total.base == step and _Sum.of(left).parts:
        kind = prim.LT if kind is prim.LE else prim.LE
        right = _Sum(total.parts, 0, total.dtype).expr()
    return kind(left, right)


def _decided(kind: type[prim.BinaryExpr], difference: _Sum) -> bool | None:
    """The value of ``difference < 0`` or ``<= 0`` if it is the same for all variables."""
    if not is_assuming():
        return None
    ends = {bool(kind.fold(end, 0)) for end in bounds(difference.expr())}
    return ends.pop() if len(ends) == 1 else None


def _sides(difference: _Sum, a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Sides of a comparison: expressions stay on their side, the constant is alone."""
    ours = _Sum.of(a).parts
    left = {k: part for k, part in difference.parts.items() if k in ours}
    right = {k: (-s, t) for k, (s, t) in difference.parts.items() if k not in left}
    if not left and all(scale < 0 for scale, _ in right.values()):
        left, right = difference.parts, {}
    elif not right and all(scale < 0 for scale, _ in left.values()):
        left, right = {}, {k: (-s, t) for k, (s, t) in left.items()}
    if not left:
        start = const(difference.base, a.dtype)
        return start, _Sum(right, 0, a.dtype).expr()
    on_right = _Sum(right, -difference.base, a.dtype)
    return _Sum(left, 0, a.dtype).expr(), on_right.expr()


def _equality(expr: prim.EQ | prim.NE) -> PrimExpr:
    kind = type(expr)
    a, b = expr.a, expr.b
    if not _is_index(a):
        return expr
    difference = _Sum.of(a).plus(_Sum.of(b), -1)
    if not difference.parts:
        return const(kind.fold(difference.base, 0), "bool")
    return kind(*_sides(difference, a, b))


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

"""Scalar terms in a plain form: sums in order, constants folded, comparisons one way.

Nothing is assumed of the variables but what :func:`.term_bounds.assuming` says. Integers
of 32 and 64 bits are taken for indices, which do not overflow. The form is the one that
TVM's analyzer leaves where it knows as little.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from relax_mlir.objects import prim
from relax_mlir.objects.functions import rounded_constant
from relax_mlir.objects.prim import IntImm, PrimExpr, const
from relax_mlir.objects.term_bounds import INDEX_TYPES, bounds, is_assuming

__all__ = ["simplify"]

_UNBOUNDED = 1 << 62
_SUMS = (prim.Add, prim.Sub, prim.Mul)


def simplify(expr: PrimExpr) -> PrimExpr:
    """``expr`` in its plain form."""
    children = expr.children()
    if not children:
        return expr
    new = [simplify(child) for child in children]
    if any(a is not b for a, b in zip(new, children, strict=True)):
        expr = expr.with_children(new)
    rule = _RULES.get(type(expr))
    return expr if rule is None else rule(expr)


def _key(term: PrimExpr) -> tuple[object, ...]:
    """What is equal for terms that are the same."""
    return (type(term), term.key(), *map(_key, term.children()))


@dataclass(frozen=True)
class _Sum:
    """``base`` and multiples of terms that are no sums.

    Attributes:
        parts: a factor and a term by the key of the term.
    """

    parts: Mapping[tuple[object, ...], tuple[int, PrimExpr]]
    base: int
    dtype: str

    @staticmethod
    def of(term: PrimExpr) -> _Sum:
        """A term that is in plain form, as a sum."""
        if isinstance(term, IntImm):
            return _Sum({}, term.value, term.dtype)
        if isinstance(term, (prim.Add, prim.Sub)):
            sign = 1 if isinstance(term, prim.Add) else -1
            return _Sum.of(term.a).plus(_Sum.of(term.b), sign)
        if isinstance(term, prim.Mul):
            for number, other in ((term.b, term.a), (term.a, term.b)):
                if isinstance(number, IntImm):
                    return _Sum.of(other).times(number.value)
        return _Sum({_key(term): (1, term)}, 0, term.dtype)

    def plus(self, other: _Sum, factor: int = 1) -> _Sum:
        """This and ``factor`` times the other."""
        parts = dict(self.parts)
        for key, (scale, term) in other.parts.items():
            total = parts.get(key, (0, term))[0] + factor * scale
            parts[key] = (total, term)
        kept = {key: part for key, part in parts.items() if part[0]}
        return _Sum(kept, self.base + factor * other.base, self.dtype)

    def times(self, factor: int) -> _Sum:
        """All of it, ``factor`` times."""
        if factor == 0:
            return _Sum({}, 0, self.dtype)
        parts = {key: (scale * factor, t) for key, (scale, t) in self.parts.items()}
        return _Sum(parts, self.base * factor, self.dtype)

    def split(self, divisor: int) -> tuple[_Sum, _Sum]:
        """What ``divisor`` divides, divided by it; and what is left."""
        whole, rest = {}, {}
        for key, (scale, term) in self.parts.items():
            if scale % divisor == 0:
                whole[key] = (scale // divisor, term)
            else:
                rest[key] = (scale, term)
        quotient, remainder = divmod(self.base, divisor)
        if not rest:
            return _Sum(whole, quotient, self.dtype), _Sum({}, remainder, self.dtype)
        if remainder == 0:
            return _Sum(whole, quotient, self.dtype), _Sum(rest, 0, self.dtype)
        return _Sum(whole, 0, self.dtype), _Sum(rest, self.base, self.dtype)

    def term(self) -> PrimExpr:
        """The sum as a term: what is added, larger factors first, then the rest."""
        ordered = sorted(self.parts.values(), key=_order)
        total: PrimExpr | None = None
        for scale, term in ordered:
            if scale > 0:
                total = _sum(total, _times(term, scale))
        if self.base > 0:
            total = _sum(total, const(self.base, self.dtype))
        for scale, term in ordered:
            if scale < 0:
                start = const(0, self.dtype) if total is None else total
                total = prim.Sub(start, _times(term, -scale))
        if self.base < 0:
            number = const(abs(self.base), self.dtype)
            total = (
                const(self.base, self.dtype)
                if total is None
                else prim.Sub(total, number)
            )
        return const(0, self.dtype) if total is None else total


def _sum(total: PrimExpr | None, term: PrimExpr) -> PrimExpr:
    return term if total is None else prim.Add(total, term)


def _times(term: PrimExpr, scale: int) -> PrimExpr:
    return term if scale == 1 else prim.Mul(term, const(scale, term.dtype))


def _order(part: tuple[int, PrimExpr]) -> tuple[int, int, int]:
    """Larger factors first, then larger divisors."""
    scale, term = part
    below, above = 1, _UNBOUNDED
    if isinstance(term, prim.FloorMod) and isinstance(term.b, IntImm):
        above = term.b.value
        term = term.a
    if isinstance(term, prim.FloorDiv) and isinstance(term.b, IntImm):
        below = term.b.value
    return -scale, -below, -above


def _is_index(term: PrimExpr) -> bool:
    return term.dtype in INDEX_TYPES


def _arithmetic(term: PrimExpr) -> PrimExpr:
    if not _is_index(term):
        return _without_opposites(term)
    if isinstance(term, prim.Mul) and not any(
        isinstance(side, IntImm) for side in (term.a, term.b)
    ):
        return _product(term)
    moved = _moved_inside(term)
    if moved is not None:
        return moved
    total = _Sum.of(term)
    if isinstance(term, prim.Mul) and not total.base and len(total.parts) == 1:
        ((scale, part),) = total.parts.values()
        return _times(part, scale)
    return total.term()


def _without_opposites(term: PrimExpr) -> PrimExpr:
    """``x + y - y`` is ``x``; of numbers with fractions, where they are not rounded."""
    if not isinstance(term, prim.Sub) or not isinstance(term.a, prim.Add):
        return term
    return term.a.a if prim.structurally_equal(term.a.b, term.b) else term


def _truncated(term: prim.Div | prim.Mod) -> PrimExpr:
    """Division of a quotient, of which the divisors are numbers."""
    a, b = term.a, term.b
    if not _is_index(term) or not isinstance(b, IntImm) or b.value <= 0:
        return term
    if not isinstance(a, prim.Div) or not isinstance(a.b, IntImm) or a.b.value <= 0:
        return term
    product = const(a.b.value * b.value, a.dtype)
    if isinstance(term, prim.Div):
        return prim.Div(a.a, product)
    return prim.Div(prim.Mod(a.a, product), a.b)


def _moved_inside(term: PrimExpr) -> PrimExpr | None:
    """``min(x + a, b) - x`` as ``min(a, b - x)``, and what else may be added."""
    if not isinstance(term, prim.Sub) or not isinstance(term.a, (prim.Min, prim.Max)):
        return None
    taken = _Sum.of(term.b)
    sides = [_Sum.of(side) for side in (term.a.a, term.a.b)]
    if len(taken.parts) != 1 or not any(
        side.parts.items() >= taken.parts.items() for side in sides
    ):
        return None
    whole = _Sum(taken.parts, 0, taken.dtype)
    inner = type(term.a)(*(side.plus(whole, -1).term() for side in sides))
    return _atom(inner).plus(_Sum({}, -taken.base, taken.dtype)).term()


def _product(term: prim.Mul) -> PrimExpr:
    """A product of two terms, numbers last."""
    number, sides = 1, []
    for side in (term.a, term.b):
        total = _Sum.of(side)
        if total.base or len(total.parts) != 1:
            sides.append(side)
            continue
        ((scale, part),) = total.parts.values()
        number *= scale
        sides.append(part)
    return term if number == 1 else _times(prim.Mul(*sides), number)


def _floor_div(term: prim.FloorDiv) -> PrimExpr:
    a, b = term.a, term.b
    if not _is_index(term):
        return term
    if not isinstance(b, IntImm):
        return _symbolic_floor_div(a, b)
    if b.value <= 0:
        return term
    whole, rest = _Sum.of(a).split(b.value)
    return whole.plus(_quotient(rest, b.value)).term()


def _quotient(rest: _Sum, divisor: int) -> _Sum:
    """A sum that ``divisor`` divides nothing of, divided by it."""
    if not rest.parts:
        return _Sum({}, rest.base // divisor, rest.dtype)
    if is_assuming() and _fits(rest, divisor):
        return _Sum({}, 0, rest.dtype)
    ((scale, term), *others) = rest.parts.values()
    if others or rest.base or scale <= 0 or divisor % scale:
        return _atom(prim.FloorDiv(rest.term(), const(divisor, rest.dtype)))
    number = divisor // scale
    if isinstance(term, prim.FloorDiv) and isinstance(term.b, IntImm):
        return _Sum.of(_floor_div(prim.FloorDiv(term.a, term.b * number)))
    return _atom(prim.FloorDiv(term, const(number, rest.dtype)))


def _atom(term: PrimExpr) -> _Sum:
    return _Sum({_key(term): (1, term)}, 0, term.dtype)


def _symbolic_floor_div(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    factor = _factor(a, b)
    return prim.FloorDiv(a, b) if factor is None else factor


def _factor(term: PrimExpr, divisor: PrimExpr) -> PrimExpr | None:
    """What ``term`` is a multiple of ``divisor`` by, or None."""
    if prim.structurally_equal(term, divisor):
        return const(1, term.dtype)
    if not isinstance(term, prim.Mul):
        return None
    for one, other in ((term.a, term.b), (term.b, term.a)):
        inner = _factor(one, divisor)
        if inner is not None:
            return inner * other
    return None


def _floor_mod(term: prim.FloorMod) -> PrimExpr:
    a, b = term.a, term.b
    if not _is_index(term):
        return term
    if not isinstance(b, IntImm):
        return term if _factor(a, b) is None else const(0, a.dtype)
    if b.value <= 0:
        return term
    return _remainder(_Sum.of(a), b.value)


def _remainder(total: _Sum, divisor: int) -> PrimExpr:
    parts = {k: part for k, part in total.parts.items() if part[0] % divisor}
    base = total.base % divisor
    rest = _Sum(parts, base, total.dtype)
    if _fits(rest, divisor):
        return rest.term()
    if not parts:
        return const(base, total.dtype)
    ((scale, term), *others) = parts.values()
    if others or base or scale <= 0:
        return prim.FloorMod(rest.term(), const(divisor, total.dtype))
    inner = _nested_remainder(term, divisor) if scale == 1 else None
    if inner is not None:
        return inner
    if divisor % scale == 0:
        number = const(divisor // scale, total.dtype)
        return _times(prim.FloorMod(term, number), scale)
    return prim.FloorMod(rest.term(), const(divisor, total.dtype))


def _nested_remainder(term: PrimExpr, divisor: int) -> PrimExpr | None:
    """The remainder of a remainder or of a quotient, if that is one operation less."""
    if not isinstance(term, (prim.FloorMod, prim.FloorDiv)):
        return None
    if not isinstance(term.b, IntImm):
        return None
    inner = term.b.value
    if isinstance(term, prim.FloorDiv):
        rest = _remainder(_Sum.of(term.a), inner * divisor)
        return _floor_div(prim.FloorDiv(rest, term.b))
    return None if inner % divisor else _remainder(_Sum.of(term.a), divisor)


def _fits(total: _Sum, divisor: int) -> bool:
    """Whether a sum is known to be from 0 up to, but not including, ``divisor``."""
    low, high = bounds(total.term())
    return low >= 0 and high < divisor


def _extreme(term: prim.Min | prim.Max) -> PrimExpr:
    kind = type(term)
    a, b = term.a, term.b
    if prim.structurally_equal(a, b):
        return a
    if _is_index(term):
        difference = _Sum.of(a).plus(_Sum.of(b), -1)
        if not difference.parts:
            return a if (difference.base > 0) == (kind is prim.Max) else b
        low, high = bounds(difference.term()) if is_assuming() else (-1, 1)
        if low >= 0 or high <= 0:
            return a if (low >= 0) == (kind is prim.Max) else b
    return kind(a, b)


def _less(term: prim.LT | prim.LE) -> PrimExpr:
    kind = type(term)
    a, b = term.a, term.b
    if not _is_index(a):
        return term
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
        right = _Sum(total.parts, 0, total.dtype).term()
    return kind(left, right)


def _decided(kind: type[prim.BinaryExpr], difference: _Sum) -> bool | None:
    """What ``difference < 0``, or ``<= 0``, is for all that variables may be, if one."""
    if not is_assuming():
        return None
    ends = {bool(kind.fold(end, 0)) for end in bounds(difference.term())}
    return ends.pop() if len(ends) == 1 else None


def _sides(difference: _Sum, a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """The two sides of a comparison: terms stay on theirs, the constant stands alone."""
    ours = _Sum.of(a).parts
    left = {k: part for k, part in difference.parts.items() if k in ours}
    right = {k: (-s, t) for k, (s, t) in difference.parts.items() if k not in left}
    if not left and all(scale < 0 for scale, _ in right.values()):
        left, right = difference.parts, {}
    elif not right and all(scale < 0 for scale, _ in left.values()):
        left, right = {}, {k: (-s, t) for k, (s, t) in left.items()}
    if not left:
        start = const(difference.base, a.dtype)
        return start, _Sum(right, 0, a.dtype).term()
    on_right = _Sum(right, -difference.base, a.dtype)
    return _Sum(left, 0, a.dtype).term(), on_right.term()


def _same(term: prim.EQ | prim.NE) -> PrimExpr:
    kind = type(term)
    a, b = term.a, term.b
    if not _is_index(a):
        return term
    difference = _Sum.of(a).plus(_Sum.of(b), -1)
    if not difference.parts:
        return const(kind.fold(difference.base, 0), "bool")
    return kind(*_sides(difference, a, b))


def _greater(term: prim.GT | prim.GE) -> PrimExpr:
    kind = prim.LT if isinstance(term, prim.GT) else prim.LE
    return _less(kind(term.b, term.a))


_OPPOSITES: Mapping[type, type[prim.BinaryExpr]] = {
    prim.LT: prim.LE,
    prim.LE: prim.LT,
}


def _not(term: prim.Not) -> PrimExpr:
    inner = term.a
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
    return prim.EQ(inner.a, inner.b) if isinstance(inner, prim.NE) else term


def _select(term: prim.Select) -> PrimExpr:
    return _choice(term, term.condition, term.true_value, term.false_value)


def _choice(
    term: PrimExpr, condition: PrimExpr, then: PrimExpr, otherwise: PrimExpr
) -> PrimExpr:
    if isinstance(condition, IntImm):
        return then if condition.value else otherwise
    return then if prim.structurally_equal(then, otherwise) else term


def _call(term: prim.Call) -> PrimExpr:
    if term.op_name == "if_then_else":
        condition, then, otherwise = term.args
        return _choice(term, condition, then, otherwise)
    if term.op_name == "likely" and isinstance(term.args[0], IntImm):
        return term.args[0]
    return _rounded(term)


def _rounded(term: prim.Call) -> PrimExpr:
    fold = _FOLDED.get(term.op_name)
    folded = None if fold is None else rounded_constant(fold, term.args[0])
    return term if folded is None else folded


_FOLDED: Mapping[str, Callable[[float], float]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,
    "nearbyint": round,
}


def _cast(term: prim.Cast) -> PrimExpr:
    return prim.cast(term.dtype, term.value)


_RULES: Mapping[type, Callable[..., PrimExpr]] = {
    **dict.fromkeys(_SUMS, _arithmetic),
    prim.FloorDiv: _floor_div,
    prim.FloorMod: _floor_mod,
    prim.Div: _truncated,
    prim.Mod: _truncated,
    prim.Min: _extreme,
    prim.Max: _extreme,
    prim.LT: _less,
    prim.LE: _less,
    prim.GT: _greater,
    prim.GE: _greater,
    prim.EQ: _same,
    prim.NE: _same,
    prim.Not: _not,
    prim.Select: _select,
    prim.Call: _call,
    prim.Cast: _cast,
}

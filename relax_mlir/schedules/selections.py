"""Selections: reductions such as argmax, which keep one of two partial results whole."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

from mlir import ir

__all__ = ["Side", "is_weak_order"]

# Which result of a reduction a value is, and whether the one so far (old), or the one that
# comes; None if it is neither.
Side = Callable[[ir.Value], tuple[int, bool] | None]
_Point = tuple[int, ...]
_Test = Callable[[_Point, _Point], bool]
_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
# By number, the predicates of comparisons; of floats those of numbers, which NaN fails and
# then passes.
_OF_INTEGERS = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_OF_NUMBERS = ("", "eq", "gt", "ge", "lt", "le", "ne")
_OF_FLOATS = (*_OF_NUMBERS, *_OF_NUMBERS, "", "")
_LOGIC = {
    "arith.andi": operator.and_,
    "arith.ori": operator.or_,
    "arith.xori": operator.ne,
}
_KEEP_ORDER = ("arith.extsi", "arith.extui", "arith.extf")
_MOST_COORDINATES = 3


def is_weak_order(condition: ir.Value, side: Side) -> bool:
    """Whether a condition that selects old or new results does so by a strict weak order.

    Then a result is kept than which none is better, in whatever order and groups results
    are combined; of equally good ones it may be any. Conditions are read that combine
    comparisons of the old with the new value of one result each. Such a condition depends
    on how values are ordered alone, so three values of each result stand for all.
    """
    reader = _Reader(side)
    selects = reader.test(condition)
    if selects is None or len(reader.coordinates) > _MOST_COORDINATES:
        return False
    points = list(product(range(3), repeat=len(reader.coordinates)))
    pairs = list(product(points, points))
    better = {(a, b): selects(a, b) and not selects(b, a) for a, b in pairs}
    equal = {(a, b): not better[a, b] and not better[b, a] for a, b in pairs}
    return any(better.values()) and all(
        related[a, c]
        for related in (better, equal)
        for a, b in pairs
        if related[a, b]
        for c in points
        if related[b, c]
    )


class _Reader:
    """Reads a condition as a function of two points, the old one and the new one.

    Attributes:
        coordinates: the results that it compares, with conversions to wider types.
    """

    def __init__(self, side: Side) -> None:
        self._side = side
        self.coordinates: list[tuple[Any, ...]] = []
        self._signs: dict[int, str] = {}

    def test(self, value: ir.Value) -> _Test | None:
        """The function; None if the condition has another form."""
        owner = value.owner
        if isinstance(owner, ir.Block):
            return None
        if owner.name in _LOGIC:
            first, second = map(self.test, owner.operands)
            if first is None or second is None:
                return None
            join = _LOGIC[owner.name]
            return lambda old, new: join(first(old, new), second(old, new))
        if owner.name == "arith.constant":
            is_true = bool(ir.IntegerAttr(owner.attributes["value"]).value)
            return lambda old, new: is_true
        if owner.name in ("arith.cmpi", "arith.cmpf"):
            return self._comparison(owner.operation)
        return None

    def _comparison(self, compare: ir.Operation) -> _Test | None:
        number = ir.IntegerAttr(compare.attributes["predicate"]).value
        is_float = compare.name == "arith.cmpf"
        name = _OF_FLOATS[number] if is_float else _OF_INTEGERS[number]
        left, right = map(self._coordinate, compare.operands)
        if not name or left is None or right is None or left[0] != right[0]:
            return None
        place, is_old = left
        sign = name[:-2]
        if is_old == right[1] or (sign and self._signs.setdefault(place, sign) != sign):
            return None  # one value with itself; or integers in two orders
        test = _TESTS[name[-2:]]
        if is_old:
            return lambda old, new: test(old[place], new[place])
        return lambda old, new: test(new[place], old[place])

    def _coordinate(self, value: ir.Value) -> tuple[int, bool] | None:
        """The coordinate that a value is, and whether of the old point."""
        conversions: list[str] = []
        while (found := self._side(value)) is None:
            owner = value.owner
            if isinstance(owner, ir.Block) or owner.name not in _KEEP_ORDER:
                return None
            conversions.append(owner.name)
            value = owner.operands[0]
        key = (found[0], *conversions)
        if key not in self.coordinates:
            self.coordinates.append(key)
        return self.coordinates.index(key), found[1]

"""Argmax-like reductions, whose combiner selects one of two partial results as a whole."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

from mlir import ir

__all__ = ["Side", "is_weak_order"]

# The result number of a value of the combiner, and whether it is the accumulated (old) or
# the new one; None for other values.
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
# Predicates of arith.cmpi and arith.cmpf by number; of the latter first the ordered, then
# the unordered ones.
_INTEGER_PREDICATES = (
    "eq",
    "ne",
    "slt",
    "sle",
    "sgt",
    "sge",
    "ult",
    "ule",
    "ugt",
    "uge",
)
_ORDERED_PREDICATES = ("", "eq", "gt", "ge", "lt", "le", "ne")
_FLOAT_PREDICATES = (*_ORDERED_PREDICATES, *_ORDERED_PREDICATES, "", "")
_LOGIC = {
    "arith.andi": operator.and_,
    "arith.ori": operator.or_,
    "arith.xori": operator.ne,
}
_MONOTONE_CASTS = ("arith.extsi", "arith.extui", "arith.extf")
_MAX_COORDINATES = 3


def is_weak_order(condition: ir.Value, side: Side) -> bool:
    """Whether the condition that selects old or new results is a strict weak order.

    Then the reduction may be reassociated: it keeps a best result in any order and
    grouping, and any of several equally good ones. Supported conditions are boolean
    combinations of comparisons between the old and the new value of one result. They
    depend on the order of values only, so checking three values per result is exhaustive.
    """
    reader = _Reader(side)
    selects = reader.test(condition)
    if selects is None or len(reader.coordinates) > _MAX_COORDINATES:
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
    """Interprets a condition as a predicate of two points, the old and the new one.

    Attributes:
        coordinates: the results that it compares, each with its extensions.
    """

    def __init__(self, side: Side) -> None:
        self._side = side
        self.coordinates: list[tuple[Any, ...]] = []
        self._signs: dict[int, str] = {}

    def test(self, value: ir.Value) -> _Test | None:
        """The predicate; None for unsupported conditions."""
        owner = value.owner
        if isinstance(owner, ir.Block):
            return None
        if owner.name in _LOGIC:
            first, second = map(self.test, owner.operands)
            if first is None or second is None:
                return None
            combine = _LOGIC[owner.name]
            return lambda old, new: combine(first(old, new), second(old, new))
        if owner.name == "arith.constant":
            is_true = bool(ir.IntegerAttr(owner.attributes["value"]).value)
            return lambda old, new: is_true
        if owner.name in ("arith.cmpi", "arith.cmpf"):
            return self._comparison(owner.operation)
        return None

    def _comparison(self, compare: ir.Operation) -> _Test | None:
        number = ir.IntegerAttr(compare.attributes["predicate"]).value
        is_float = compare.name == "arith.cmpf"
        name = _FLOAT_PREDICATES[number] if is_float else _INTEGER_PREDICATES[number]
        lhs, rhs = map(self._coordinate, compare.operands)
        if not name or lhs is None or rhs is None or lhs[0] != rhs[0]:
            return None
        coordinate, is_old = lhs
        sign = name[:-2]
        known_sign = self._signs.setdefault(coordinate, sign) if sign else sign
        if is_old == rhs[1] or known_sign != sign:
            return None  # a value against itself, or both signed and unsigned order
        test = _TESTS[name[-2:]]
        if is_old:
            return lambda old, new: test(old[coordinate], new[coordinate])
        return lambda old, new: test(new[coordinate], old[coordinate])

    def _coordinate(self, value: ir.Value) -> tuple[int, bool] | None:
        """The coordinate of a value, and whether it belongs to the old point."""
        casts: list[str] = []
        while (side := self._side(value)) is None:
            owner = value.owner
            if isinstance(owner, ir.Block) or owner.name not in _MONOTONE_CASTS:
                return None
            casts.append(owner.name)
            value = owner.operands[0]
        key = (side[0], *casts)
        if key not in self.coordinates:
            self.coordinates.append(key)
        return self.coordinates.index(key), side[1]

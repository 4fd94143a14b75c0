"""Conditions on indices, and predicates of blocks as lists of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import dims
from relax_mlir.dialects.dim_bounds import bounds
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.monomials import terms_of
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.tir.schedule import edit, tree
from relax_mlir.tir.schedule.indices import Indices, Limits, replaced, simplify

__all__ = [
    "Condition",
    "conditions_of",
    "emit_conditions",
    "is_proved",
    "set_predicate",
    "without_quotient",
]

_SIGNS = {2: "lt", 3: "le", 4: "gt", 5: "ge"}
_NUMBERS = {"lt": 2, "le": 3}


@dataclass(frozen=True)
class Condition:
    """One part of a predicate.

    Attributes:
        sign: ``lt`` or ``le``; empty for what is no such comparison of indices.
        lhs, rhs: the sides.
        value: the condition itself, where it is no comparison of indices.
    """

    sign: str
    lhs: Dim = 0
    rhs: Dim = 0
    value: ir.Value | None = None

    @property
    def slack(self) -> Dim:
        """What is not negative where the condition holds."""
        return self.rhs - self.lhs - (1 if self.sign == "lt" else 0)

    def replaced(self, values: dict[str, Dim], limits: Limits) -> Condition:
        """The condition with expressions in place of symbols."""
        if self.value is not None:
            return self
        lhs, rhs = (replaced(side, values, limits) for side in (self.lhs, self.rhs))
        return Condition(self.sign, lhs, rhs)

    def tidy(self) -> Condition:
        """The constant on the other side than the variables."""
        if self.value is not None:
            return self
        slack, sign = self.rhs - self.lhs, self.sign
        number = sum(by for monomial, by in terms_of(slack) if not monomial)
        moving = slack - number
        sides = symbols_of(self.lhs), symbols_of(self.rhs)
        if not sides[0] and sides[1]:
            return Condition(sign, -number, moving)
        if not sides[1]:
            return Condition(sign, -moving, number)
        return self


def without_quotient(condition: Condition, others: Sequence[Condition]) -> Condition:
    """``x // k < n`` as a bound of ``x``, which is lower where ``x % k`` has one, too."""
    terms = terms_of(condition.lhs)
    if condition.sign != "lt" or len(terms) != 1 or not isinstance(condition.rhs, int):
        return condition
    (monomial, factor), *_ = terms
    if factor != 1 or len(monomial) != 1 or monomial[0].op != "floordiv":
        return condition
    x, k = monomial[0].args
    if not isinstance(k, int):
        return condition
    left = dims.mod(x, k)
    found = [o.rhs for o in others if o.sign == "lt" and o.lhs == left]
    last = found[0] if found and isinstance(found[0], int) else k
    return Condition("lt", x, (condition.rhs - 1) * k + last)


def conditions_of(value: ir.Value, indices: Indices) -> list[Condition]:
    """A predicate as conditions that all hold."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return [Condition("", value=value)]
    if owner.name == "arith.andi":
        lhs, rhs = owner.operands
        return [*conditions_of(lhs, indices), *conditions_of(rhs, indices)]
    if owner.name == "arith.cmpi" and isinstance(owner.operands[0].type, ir.IndexType):
        sign = _SIGNS.get(ir.IntegerAttr(owner.attributes["predicate"]).value, "")
        lhs, rhs = (indices.of(v) for v in owner.operands)
        if sign in ("lt", "le"):
            return [Condition(sign, lhs, rhs)]
        if sign:
            return [Condition({"gt": "lt", "ge": "le"}[sign], rhs, lhs)]
    return [Condition("", value=value)]


def block_conditions(block: ir.Operation, indices: Indices) -> list[Condition]:
    """The predicate of a block as conditions."""
    guard = tree.guard_of(block)
    return [] if guard is None else conditions_of(guard.operands[0], indices)


def emit_conditions(conditions: Sequence[Condition], indices: Indices) -> ir.Value:
    """The conjunction of conditions, at the insertion point."""
    i1, i64 = (ir.IntegerType.get_signless(n) for n in (1, 64))
    total: ir.Value | None = None
    for condition in conditions:
        if condition.value is not None:
            value = edit.copy_of(condition.value, {})
        else:
            sides = indices.emit(condition.lhs), indices.emit(condition.rhs)
            number = ir.IntegerAttr.get(i64, _NUMBERS[condition.sign])
            value = emit("arith.cmpi", i1, *sides, predicate=number)
        total = value if total is None else emit("arith.andi", i1, total, value)
    assert total is not None
    return total


def set_predicate(
    block: ir.Operation, conditions: Sequence[Condition], indices: Indices
) -> None:
    """Make conditions the predicate of a block."""
    guard = tree.guard_of(block)
    if not conditions:
        if guard is not None:
            block.move_before(guard)
            edit.bring_operands(block)
            guard.erase()
        return
    with ir.InsertionPoint(guard or block):
        value = emit_conditions(conditions, indices)
        if guard is not None:
            guard.operands[0] = value
            return
        made = edit.make_guard(value)
    block.move_before(edit.terminator(tree.body(made)))
    edit.bring_operands(block)


def is_proved(condition: Condition, limits: Limits, tops: dict[str, Dim]) -> bool:
    """Whether a condition always holds.

    Args:
        limits: bounds of symbols.
        tops: the greatest values of symbols, where those are no numbers.
    """
    if condition.value is not None:
        return False
    return is_never_negative(condition.slack, limits, tops)


def is_never_negative(dim: Dim, limits: Limits, tops: dict[str, Dim]) -> bool:
    """Whether an expression is proved to be 0 or more."""
    if _is_at_least_0(dim, limits):
        return True
    for name in sorted(tops, reverse=True):  # inner variables first
        if name in symbols_of(dim):
            dim = _least(dim, name, tops[name], limits)
    return _is_at_least_0(simplify(dim, limits), limits)


def _is_at_least_0(dim: Dim, limits: Limits) -> bool:
    low, _ = bounds(dim, limits)
    return low is not None and low >= 0


def _least(dim: Dim, name: str, top: Dim, limits: Limits) -> Dim:
    """``dim`` where a symbol has the value that makes it least, if that is clear."""
    bottom, _ = bounds(dims.symbol(name), limits)
    step = dims.symbol(name) + 1
    change = simplify(substitute(dim, {name: step}) - dim, limits)
    # The size may be 0, but then nothing asks.
    if bottom is not None and _is_at_least_0(change, limits):
        return replaced(dim, {name: bottom}, limits)
    if _is_at_least_0(-change, limits):
        return replaced(dim, {name: top}, limits)
    return dim

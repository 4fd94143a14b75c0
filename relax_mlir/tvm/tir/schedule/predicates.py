"""Block predicates as conjunctions of affine conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.bounds import bounds
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.monomials import terms_of
from relax_mlir.symbolic.symbols import substitute, symbols_of
from relax_mlir.tvm.tir.schedule import edit, tree
from relax_mlir.tvm.tir.schedule.indices import (
    IndexSymbols,
    Limits,
    simplify,
    substitute_and_simplify,
)

__all__ = [
    "Condition",
    "conditions_of",
    "emit_conditions",
    "is_proved",
    "set_predicate",
    "without_floordiv",
]

_SIGN_OF_PREDICATE = {2: "lt", 3: "le", 4: "gt", 5: "ge"}  # of arith.cmpi, signed
_PREDICATE_OF_SIGN = {"lt": 2, "le": 3}


@dataclass(frozen=True)
class Condition:
    """One conjunct of a predicate.

    Attributes:
        sign: ``lt`` or ``le``; empty if it is not such a comparison of indices.
        lhs, rhs: the sides.
        value: the condition as a value, if it is not a comparison of indices.
    """

    sign: str
    lhs: Dim = 0
    rhs: Dim = 0
    value: ir.Value | None = None

    @property
    def slack(self) -> Dim:
        """The slack ``rhs - lhs``, which is nonnegative where the condition holds."""
        return self.rhs - self.lhs - (1 if self.sign == "lt" else 0)

    def replaced(self, values: dict[str, Dim], limits: Limits) -> Condition:
        """The condition with expressions substituted for symbols."""
        if self.value is not None:
            return self
        lhs, rhs = (
            substitute_and_simplify(side, values, limits)
            for side in (self.lhs, self.rhs)
        )
        return Condition(self.sign, lhs, rhs)

    def canonical(self) -> Condition:
        """The condition with variables on one side and the constant on the other."""
        if self.value is not None:
            return self
        slack, sign = self.rhs - self.lhs, self.sign
        constant = sum(by for monomial, by in terms_of(slack) if not monomial)
        variable_part = slack - constant
        sides = symbols_of(self.lhs), symbols_of(self.rhs)
        if not sides[0] and sides[1]:
            return Condition(sign, -constant, variable_part)
        if not sides[1]:
            return Condition(sign, -variable_part, constant)
        return self


def without_floordiv(condition: Condition, others: Sequence[Condition]) -> Condition:
    """Rewrites ``x // k < n`` as a bound of ``x``, tightened by a condition on ``x % k``."""
    terms = terms_of(condition.lhs)
    if condition.sign != "lt" or len(terms) != 1 or not isinstance(condition.rhs, int):
        return condition
    (monomial, factor), *_ = terms
    if factor != 1 or len(monomial) != 1 or monomial[0].op != "floordiv":
        return condition
    x, k = monomial[0].args
    if not isinstance(k, int):
        return condition
    remainder = dims.mod(x, k)
    found = [o.rhs for o in others if o.sign == "lt" and o.lhs == remainder]
    bound = found[0] if found and isinstance(found[0], int) else k
    return Condition("lt", x, (condition.rhs - 1) * k + bound)


def conditions_of(value: ir.Value, indices: IndexSymbols) -> list[Condition]:
    """The conjuncts of a predicate value."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return [Condition("", value=value)]
    if owner.name == "arith.andi":
        lhs, rhs = owner.operands
        return [*conditions_of(lhs, indices), *conditions_of(rhs, indices)]
    if owner.name == "arith.cmpi" and isinstance(owner.operands[0].type, ir.IndexType):
        sign = _SIGN_OF_PREDICATE.get(
            ir.IntegerAttr(owner.attributes["predicate"]).value, ""
        )
        lhs, rhs = (indices.of(v) for v in owner.operands)
        if sign in ("lt", "le"):
            return [Condition(sign, lhs, rhs)]
        if sign:
            return [Condition({"gt": "lt", "ge": "le"}[sign], rhs, lhs)]
    return [Condition("", value=value)]


def block_conditions(block: ir.Operation, indices: IndexSymbols) -> list[Condition]:
    """The conjuncts of the predicate of a block."""
    guard = tree.predicate_of(block)
    return [] if guard is None else conditions_of(guard.operands[0], indices)


def emit_conditions(conditions: Sequence[Condition], indices: IndexSymbols) -> ir.Value:
    """Emits the conjunction of conditions at the insertion point."""
    i1, i64 = (ir.IntegerType.get_signless(n) for n in (1, 64))
    total: ir.Value | None = None
    for condition in conditions:
        if condition.value is not None:
            value = edit.clone_expression(condition.value, {})
        else:
            sides = indices.emit(condition.lhs), indices.emit(condition.rhs)
            number = ir.IntegerAttr.get(i64, _PREDICATE_OF_SIGN[condition.sign])
            value = emit("arith.cmpi", i1, *sides, predicate=number)
        total = value if total is None else emit("arith.andi", i1, total, value)
    assert total is not None
    return total


def set_predicate(
    block: ir.Operation, conditions: Sequence[Condition], indices: IndexSymbols
) -> None:
    """Set or remove the predicate of a block."""
    predicate = tree.predicate_of(block)
    if not conditions:
        if predicate is not None:
            block.move_before(predicate)
            edit.rematerialize_operands(block)
            predicate.erase()
        return
    with ir.InsertionPoint(predicate or block):
        value = emit_conditions(conditions, indices)
        if predicate is not None:
            predicate.operands[0] = value
            return
        made = edit.make_predicate(value)
    block.move_before(edit.terminator(tree.body(made)))
    edit.rematerialize_operands(block)


def is_proved(
    condition: Condition, limits: Limits, upper_bounds: dict[str, Dim]
) -> bool:
    """Whether a condition is proved to hold.

    Args:
        limits: value ranges of symbols.
        upper_bounds: the greatest values of symbols with symbolic ranges.
    """
    if condition.value is not None:
        return False
    return is_nonnegative(condition.slack, limits, upper_bounds)


def is_nonnegative(dim: Dim, limits: Limits, upper_bounds: dict[str, Dim]) -> bool:
    """Whether an expression is proved nonnegative."""
    if _is_at_least_0(dim, limits):
        return True
    for name in sorted(upper_bounds, reverse=True):  # inner variables first
        if name in symbols_of(dim):
            dim = _minimise_over(dim, name, upper_bounds[name], limits)
    return _is_at_least_0(simplify(dim, limits), limits)


def _is_at_least_0(dim: Dim, limits: Limits) -> bool:
    low, _ = bounds(dim, limits)
    return low is not None and low >= 0


def _minimise_over(dim: Dim, name: str, top: Dim, limits: Limits) -> Dim:
    """``dim`` with a symbol at the end of its range that minimises it, if it is monotonic."""
    bottom, _ = bounds(dims.symbol(name), limits)
    step = dims.symbol(name) + 1
    change = simplify(substitute(dim, {name: step}) - dim, limits)
    # The range may be empty, but then the condition is never evaluated.
    if bottom is not None and _is_at_least_0(change, limits):
        return substitute_and_simplify(dim, {name: bottom}, limits)
    if _is_at_least_0(-change, limits):
        return substitute_and_simplify(dim, {name: top}, limits)
    return dim

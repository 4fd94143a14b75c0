"""Bindings, bounds and predicates written anew after variables were replaced."""

from __future__ import annotations

from mlir import ir

from relax_mlir.tir.schedule import edit, legality, predicates, tree
from relax_mlir.tir.schedule.indices import Indices, simplify, without_units
from relax_mlir.tir.schedule.state import limits_at

__all__ = ["refresh"]


def refresh(root: ir.Operation, *, keep_units: bool = True) -> None:
    """Simplify what loops and blocks from ``root`` on are made of, and bring it there.

    Args:
        keep_units: whether bindings go on mentioning loops of one step.
    """
    for op in tree.subtree(root):
        indices = Indices()
        if tree.is_loop(op):
            _rewrite_operands(op, 2, indices)
        elif tree.is_block(op):
            _rewrite_operands(op, len(op.operands), indices, keep_units=keep_units)
        elif tree.is_where(op):
            _rewrite_predicate(op, indices)
    edit.localise(root)


def _rewrite_operands(
    op: ir.Operation, count: int, indices: Indices, *, keep_units: bool = True
) -> None:
    limits = limits_at(indices, tree.parent_of(op))
    for number in range(count):
        dim = indices.of(op.operands[number])
        dim = dim if keep_units else without_units(dim, limits)
        with ir.InsertionPoint(op):
            op.operands[number] = indices.emit(simplify(dim, limits))


def _rewrite_predicate(op: ir.Operation, indices: Indices) -> None:
    around = tree.parent_of(op)
    limits = limits_at(indices, around)
    found = predicates.conditions_of(op.operands[0], indices)
    simple = [c.replaced({}, limits) for c in found]
    (block,) = [b for b in tree.children(op) if tree.is_block(b)]
    predicates.set_predicate(
        block, legality.drop_proved(simple, indices, around), indices
    )

"""Simplification of bindings, bounds and predicates after variables are replaced."""

from __future__ import annotations

from mlir import ir

from relax_mlir.tvm.tir.schedule import edit, legality, predicates, tree
from relax_mlir.tvm.tir.schedule.indices import (
    IndexSymbols,
    fold_single_values,
    simplify,
)
from relax_mlir.tvm.tir.schedule.state import limits_at

__all__ = ["simplify_operands"]


def simplify_operands(root: ir.Operation, *, keep_units: bool = True) -> None:
    """Simplify and rematerialise the operands of loops and blocks from ``root`` on.

    Args:
        keep_units: whether bindings keep loops of extent 1.
    """
    # Only these: the terminator of a predicate that is proved is erased with it.
    for op in list(filter(_has_scalars, tree.subtree(root))):
        indices = IndexSymbols()
        if tree.is_loop(op):
            _rewrite_operands(op, 2, indices)
        elif tree.is_block(op):
            _rewrite_operands(op, len(op.operands), indices, keep_units=keep_units)
        else:
            _rewrite_predicate(op, indices)
    edit.rematerialize_all(root)


def _has_scalars(op: ir.Operation) -> bool:
    """Whether an operation is a loop, a block or a predicate."""
    return tree.is_loop(op) or tree.is_block(op) or tree.is_predicate(op)


def _rewrite_operands(
    op: ir.Operation, count: int, indices: IndexSymbols, *, keep_units: bool = True
) -> None:
    limits = limits_at(indices, tree.parent_of(op))
    for number in range(count):
        dim = indices.of(op.operands[number])
        dim = dim if keep_units else fold_single_values(dim, limits)
        with ir.InsertionPoint(op):
            op.operands[number] = indices.emit(simplify(dim, limits))


def _rewrite_predicate(op: ir.Operation, indices: IndexSymbols) -> None:
    around = tree.parent_of(op)
    limits = limits_at(indices, around)
    found = predicates.conditions_of(op.operands[0], indices)
    simplified = [c.replaced({}, limits) for c in found]
    (block,) = [b for b in tree.children(op) if tree.is_block(b)]
    predicates.set_predicate(
        block, legality.unproved_conditions(simplified, indices, around), indices
    )

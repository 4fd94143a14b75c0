"""Simplification of bindings, bounds and predicates after variables are replaced."""

from __future__ import annotations

from functools import partial

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
    # Classified before any is rewritten: a predicate that is proved is erased.
    rewrites = [
        (op, rewrite)
        for op in tree.subtree(root)
        for is_kind, rewrite in (
            (tree.is_loop, _rewrite_loop),
            (tree.is_block, partial(_rewrite_block, keep_units=keep_units)),
            (tree.is_predicate, _rewrite_predicate),
        )
        if is_kind(op)
    ]
    for op, rewrite in rewrites:
        rewrite(op, IndexSymbols())
    edit.rematerialize_all(root)


def _rewrite_loop(loop: ir.Operation, indices: IndexSymbols) -> None:
    _rewrite_operands(loop, 2, indices)


def _rewrite_block(
    block: ir.Operation, indices: IndexSymbols, *, keep_units: bool
) -> None:
    _rewrite_operands(block, len(block.operands), indices, keep_units=keep_units)


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

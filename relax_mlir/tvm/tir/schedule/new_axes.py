"""Replacing the iter vars of a block."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir.symbolic import dims
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.symbols import substitute, symbols_of
from relax_mlir.tvm.tir.schedule import edit, tree
from relax_mlir.tvm.tir.schedule.edit import IterVarSpec
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols, simplify
from relax_mlir.tvm.tir.schedule.state import ScheduleState, limits_at

__all__ = [
    "iter_symbol",
    "iter_symbols",
    "move_region",
    "simplify_accesses",
    "with_iter_vars",
]


def iter_symbol(number: int) -> str:
    """The symbol of a new iter var in expressions."""
    return f"relax.axis{number}"


def iter_symbols(block: ir.Operation, indices: IndexSymbols) -> dict[str, Dim]:
    """The :func:`iter_symbol` of each iter var, by the symbols of both regions' arguments."""
    return {
        indices.symbol(argument): dims.symbol(iter_symbol(number))
        for region in block.regions
        for inner in region.blocks
        for number, argument in enumerate(inner.arguments)
    }


def with_iter_vars(
    state: ScheduleState,
    block: ir.Operation,
    axes: Sequence[IterVarSpec],
    values: Sequence[Dim],
    old: Sequence[Dim],
    indices: IndexSymbols,
    *,
    keep_init: bool = True,
) -> ir.Operation:
    """Replaces the iter vars of a block, which keeps its name and annotations.

    Args:
        axes: the new iter vars.
        values: their bindings.
        old: each old iter var in terms of the :func:`iter_symbol` of the new ones.
        keep_init: whether to keep the init block.

    Returns:
        The new block, in place of the old one.
    """
    with edit.insertion_point_before(block):
        made = edit.make_block(
            tree.block_name(block),
            axes,
            [indices.emit(v) for v in values],
            indices.emit,
            tree.annotations_of(block),
        )
    for number in (0, 1) if keep_init else (1,):
        for source in block.regions[number].blocks:
            move_region(source, edit.create_region(made, number), old, indices)
    state.replace(block, made)
    state.erase(block)
    edit.rematerialize_all(made)
    return made


def move_region(
    source: ir.Block, target: ir.Block, old: Sequence[Dim], indices: IndexSymbols
) -> None:
    """Move the operations of a region into one with other iter vars."""
    known: dict[str, Dim] = {
        iter_symbol(n): indices.of(a) for n, a in enumerate(target.arguments)
    }
    end = edit.terminator(target)
    with edit.insertion_point_before(end):
        for argument, value in zip(source.arguments, old, strict=True):
            argument.replace_all_uses_with(indices.emit(substitute(value, known)))
    edit.move_body(source, end)


def simplify_accesses(root: ir.Operation) -> None:
    """Simplify the indices of loads and stores by the ranges of their variables."""
    for op in tree.subtree(root):
        if op.name not in ("memref.load", "memref.store"):
            continue
        indices = IndexSymbols()
        first = 1 if op.name == "memref.load" else 2
        limits = limits_at(indices, tree.parent_of(op))
        for number in range(first, len(op.operands)):
            dim = indices.of(op.operands[number])
            simplified = simplify(dim, limits)
            if simplified != dim or _is_redundant(op.operands[number], dim):
                with edit.insertion_point_before(op):
                    op.operands[number] = indices.emit(simplified)


def _is_redundant(value: ir.Value, dim: Dim) -> bool:
    """Whether a variable or a constant is computed by redundant operations."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name == "arith.constant":
        return False
    return isinstance(dim, int) or any(dims.symbol(n) == dim for n in symbols_of(dim))

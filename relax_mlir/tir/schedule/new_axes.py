"""A block with other axes, in terms of which the old ones are written."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects import dims
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.tir.schedule import edit, tree
from relax_mlir.tir.schedule.edit import Axis
from relax_mlir.tir.schedule.indices import Indices, simplify
from relax_mlir.tir.schedule.state import ScheduleState, limits_at

__all__ = [
    "axis_symbol",
    "axis_symbols",
    "fill_region",
    "simplify_accesses",
    "with_axes",
]


def axis_symbol(number: int) -> str:
    """What stands for an axis of the new block in expressions."""
    return f"relax.axis{number}"


def axis_symbols(block: ir.Operation, indices: Indices) -> dict[str, Dim]:
    """The symbol by number of each axis, for the arguments of both regions."""
    return {
        indices.symbol(argument): dims.symbol(axis_symbol(number))
        for region in block.regions
        for inner in region.blocks
        for number, argument in enumerate(inner.arguments)
    }


def with_axes(
    state: ScheduleState,
    block: ir.Operation,
    axes: Sequence[Axis],
    values: Sequence[Dim],
    old: Sequence[Dim],
    indices: Indices,
    *,
    keep_init: bool = True,
) -> ir.Operation:
    """Give a block other axes; it keeps its name and its annotations.

    Args:
        axes: the new ones.
        values: what they are at a point.
        old: what each old axis is, in the symbols :func:`axis_symbol` of the new ones.
        keep_init: whether it keeps its start value.

    Returns:
        The new block, which stands where the old one stood.
    """
    with edit.point_before(block):
        made = edit.make_block(
            tree.block_name(block),
            axes,
            [indices.emit(v) for v in values],
            indices.emit,
            tree.annotations_of(block),
        )
    for number in (0, 1) if keep_init else (1,):
        for source in block.regions[number].blocks:
            fill_region(source, edit.open_region(made, number), old, indices)
    state.replace(block, made)
    state.erase(block)
    edit.localise(made)
    return made


def fill_region(
    source: ir.Block, target: ir.Block, old: Sequence[Dim], indices: Indices
) -> None:
    """Move what a region of a block does into one with other axes."""
    known: dict[str, Dim] = {
        axis_symbol(n): indices.of(a) for n, a in enumerate(target.arguments)
    }
    end = edit.terminator(target)
    with edit.point_before(end):
        for argument, value in zip(source.arguments, old, strict=True):
            argument.replace_all_uses_with(indices.emit(substitute(value, known)))
    edit.move_body(source, end)


def simplify_accesses(root: ir.Operation) -> None:
    """Simplify the indices of loads and stores by what their variables can be."""
    for op in tree.subtree(root):
        if op.name not in ("memref.load", "memref.store"):
            continue
        indices = Indices()
        first = 1 if op.name == "memref.load" else 2
        limits = limits_at(indices, tree.parent_of(op))
        for number in range(first, len(op.operands)):
            dim = indices.of(op.operands[number])
            short = simplify(dim, limits)
            if short != dim or _is_roundabout(op.operands[number], dim):
                with edit.point_before(op):
                    op.operands[number] = indices.emit(short)


def _is_roundabout(value: ir.Value, dim: Dim) -> bool:
    """Whether a value that is a variable or a number is computed all the same."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name == "arith.constant":
        return False
    return isinstance(dim, int) or any(dims.symbol(n) == dim for n in symbols_of(dim))

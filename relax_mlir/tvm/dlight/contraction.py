"""Matching of contraction blocks (GEMM and GEMV)."""

from __future__ import annotations

from relax_mlir.objects.stmt.statements import Block
from relax_mlir.tvm.dlight.blocks import distinct_region_iter_vars

__all__ = ["contraction_operands"]


def contraction_operands(block: Block) -> tuple[list[int], list[int]] | None:
    """Iteration variables that index each operand of a contraction block.

    The operand indexed by more iteration variables comes first, such as the matrix of a GEMV.

    Returns:
        Positions of the iteration variables per operand, by dimension; None if the block
        does not have one write and two reads with distinct plain indices.
    """
    if len(block.reads) != 2 or len(block.writes) != 1:
        return None
    operands = [distinct_region_iter_vars(block, read) for read in block.reads]
    matched = [axes for axes in operands if axes]
    if len(matched) < 2:
        return None
    larger, smaller = sorted(matched, key=len, reverse=True)
    return larger, smaller

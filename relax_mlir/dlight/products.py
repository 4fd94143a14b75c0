"""Products of matrices and vectors, as rules see them."""

from __future__ import annotations

from relax_mlir.dlight.blocks import plain_axes
from relax_mlir.objects.stmt import Block

__all__ = ["factors"]


def factors(block: Block) -> tuple[list[int], list[int]] | None:
    """The axes of what a block multiplies, the more of them first; None if it does not."""
    if len(block.reads) != 2 or len(block.writes) != 1:
        return None
    found = [plain_axes(block, read) for read in block.reads]
    known = [axes for axes in found if axes]
    if len(known) < 2:
        return None
    first, second = sorted(known, key=len, reverse=True)
    return first, second

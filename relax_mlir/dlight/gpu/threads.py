"""How many threads a schedule asks for."""

from __future__ import annotations

from relax_mlir.objects.prim import PrimExpr
from relax_mlir.relax.target import Target

__all__ = ["max_threads_per_block", "threads_for"]

_MOST = 1024  # where the target does not say


def max_threads_per_block(target: Target) -> int:
    """The most threads that a block of a target may have."""
    names = ("max_threads_per_block", "max_num_threads")
    found = [target.attrs[n] for n in names if n in target.attrs]
    return int(found[0]) if found else _MOST


def threads_for(extent: int | PrimExpr, most: int) -> int:
    """The largest power of two that an extent and ``most`` leave room for.

    Args:
        extent: of a loop; ``most`` if only a run tells.
    """
    if not isinstance(extent, int):
        return most
    return max(1, min(most, 1 << (extent.bit_length() - 1)))

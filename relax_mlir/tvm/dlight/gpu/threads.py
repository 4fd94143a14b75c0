"""Thread block sizes."""

from __future__ import annotations

from relax_mlir.objects.prim import PrimExpr
from relax_mlir.tvm.relax.target import Target

__all__ = ["max_threads_per_block", "thread_count"]

_DEFAULT_LIMIT = 1024  # if the target has no such attribute


def max_threads_per_block(target: Target) -> int:
    """Maximal thread block size of a target."""
    names = ("max_threads_per_block", "max_num_threads")
    limits = [target.attrs[n] for n in names if n in target.attrs]
    return int(limits[0]) if limits else _DEFAULT_LIMIT


def thread_count(extent: int | PrimExpr, limit: int) -> int:
    """The largest power of two that does not exceed a loop extent and ``limit``.

    Args:
        extent: loop extent; for a symbolic one, the result is ``limit``.
        limit: a power of two.
    """
    if not isinstance(extent, int):
        return limit
    return max(1, min(limit, 1 << (extent.bit_length() - 1)))

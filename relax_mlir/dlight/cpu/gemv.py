"""GEMV for CPUs: rows of the matrix on threads."""

from __future__ import annotations

from relax_mlir.dlight.blocks import normalize_prim_func
from relax_mlir.dlight.cpu.reduction import parallel_rows
from relax_mlir.dlight.inlining import try_inline_contiguous_spatial
from relax_mlir.dlight.products import factors
from relax_mlir.dlight.rule import GuardedRule
from relax_mlir.relax.target import Target
from relax_mlir.tir.schedule import Schedule

__all__ = ["GEMV"]


class GEMV(GuardedRule):
    """A sum of products of which one factor knows no spatial axis."""

    for_gpus = False

    def schedule(self, sch: Schedule, target: Target) -> bool:
        """See :class:`GuardedRule`."""
        infos = try_inline_contiguous_spatial(sch, normalize_prim_func(sch))
        if not infos or len(infos) > 2 or not infos[0].is_reduction():
            return False
        found = factors(sch.get(infos[0].block_rv))
        reduced = {n for n, i in enumerate(infos[0].iters) if i.kind == "R"}
        if found is None or set(found[1]) != reduced:
            return False
        parallel_rows(sch, infos)
        return True

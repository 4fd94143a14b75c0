"""Reduction for CPUs: rows on threads, sums in order."""

from __future__ import annotations

from relax_mlir.dlight.blocks import BlockInfo, normalize_prim_func
from relax_mlir.dlight.inlining import try_inline_contiguous_spatial
from relax_mlir.dlight.rule import GuardedRule
from relax_mlir.relax.target import Target
from relax_mlir.tir.schedule import Schedule

__all__ = ["Reduction", "parallel_rows"]


class Reduction(GuardedRule):
    """Blocks with sums, and what is between them: their rows run in parallel."""

    for_gpus = False

    def schedule(self, sch: Schedule, target: Target) -> bool:
        """See :class:`GuardedRule`."""
        infos = try_inline_contiguous_spatial(sch, normalize_prim_func(sch))
        if not infos or not any(i.is_reduction() for i in infos):
            return False
        parallel_rows(sch, infos)
        return True


def parallel_rows(sch: Schedule, infos: list[BlockInfo]) -> None:
    """Run the rows of every block in parallel.

    Raises:
        ScheduleError: a block does not allow it.
    """
    for info in infos:
        spatial, reduced = info.loops("S"), info.loops("R")
        sch.reorder(*spatial, *reduced)
        if spatial:
            sch.parallel(sch.fuse(*spatial) if reduced else spatial[0])
        if reduced:
            sch.decompose_reduction(info.block_rv, reduced[0])

"""Reduction rule for CPUs: rows in parallel, each reduced sequentially."""

from __future__ import annotations

from relax_mlir.tvm.dlight.blocks import BlockInfo, normalize_prim_func
from relax_mlir.tvm.dlight.inlining import try_inline_contiguous_spatial
from relax_mlir.tvm.dlight.rule import GuardedRule
from relax_mlir.tvm.relax.target import Target
from relax_mlir.tvm.tir.schedule import Schedule

__all__ = ["Reduction", "parallelize_rows"]


class Reduction(GuardedRule):
    """Reduction blocks and the injective blocks between them, with parallel rows."""

    for_gpus = False

    def schedule(self, sch: Schedule, target: Target) -> bool:
        """See :class:`GuardedRule`."""
        infos = try_inline_contiguous_spatial(sch, normalize_prim_func(sch))
        if not infos or not any(i.is_reduction() for i in infos):
            return False
        parallelize_rows(sch, infos)
        return True


def parallelize_rows(sch: Schedule, infos: list[BlockInfo]) -> None:
    """Parallelize the spatial loops of every block.

    Raises:
        ScheduleError: a primitive does not apply to a block.
    """
    for info in infos:
        spatial, reduced = info.loops("S"), info.loops("R")
        sch.reorder(*spatial, *reduced)
        if spatial:
            sch.parallel(sch.fuse(*spatial) if reduced else spatial[0])
        if reduced:
            sch.decompose_reduction(info.block_rv, reduced[0])

"""LowBatchGEMV rule: matmul of a matrix with a small batch of vectors."""

from __future__ import annotations

from relax_mlir.objects.prim import PrimExpr
from relax_mlir.tvm.dlight.blocks import normalize_prim_func
from relax_mlir.tvm.dlight.contraction import contraction_operands
from relax_mlir.tvm.dlight.gpu.gemv import schedule_warp_reduction
from relax_mlir.tvm.dlight.inlining import try_inline_contiguous_spatial
from relax_mlir.tvm.dlight.rule import GuardedRule
from relax_mlir.tvm.relax.target import Target
from relax_mlir.tvm.tir.schedule import Schedule

__all__ = ["LowBatchGEMV"]

_MAX_BATCH = 16  # of a static batch size; above it, `Matmul` is faster


class LowBatchGEMV(GuardedRule):
    """:class:`GEMV` on a small batch: each matrix element is read once per bucket.

    Args:
        bucket: vectors that a thread processes at once.
    """

    def __init__(self, bucket: int = 4) -> None:
        self.bucket = bucket

    def schedule(self, sch: Schedule, target: Target) -> bool:
        """See :class:`GuardedRule`."""
        infos = try_inline_contiguous_spatial(sch, normalize_prim_func(sch))
        if not infos or len(infos) > 2 or set(infos[0].dom_kind()) != {"S", "R"}:
            return False
        info, *rest = infos
        operands = contraction_operands(sch.get(info.block_rv))
        if operands is None:
            return False
        for vectors, matrix in (operands, operands[::-1]):
            batch = [i for n, i in enumerate(info.iters) if n not in matrix]
            rows = [n for n in matrix if info.iters[n].kind == "S"]
            last = info.iters[matrix[-1]]
            is_low_batch = len(batch) == 1 and rows and not set(vectors) & set(rows)
            if not is_low_batch or not _may_be_small(batch[0].dom) or last.kind != "R":
                continue
            width = batch[0].dom if isinstance(batch[0].dom, int) else self.bucket
            outer, inner = sch.split(batch[0].loop_rv, [None, min(width, self.bucket)])
            loops = info.loops("R")
            spatial = [info.iters[n].loop_rv for n in rows]
            sch.reorder(outer, *spatial, *loops, inner)
            return schedule_warp_reduction(
                sch,
                info,
                sch.fuse(*spatial),
                sch.fuse(*loops),
                last.dom,
                rest[0] if rest else None,
                outer,
            )
        return False


def _may_be_small(batch_size: int | PrimExpr) -> bool:
    return not isinstance(batch_size, int) or batch_size <= _MAX_BATCH

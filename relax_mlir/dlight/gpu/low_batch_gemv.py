"""LowBatchGEMV: products of a matrix and a few vectors."""

from __future__ import annotations

from relax_mlir.dlight.blocks import normalize_prim_func
from relax_mlir.dlight.gpu.gemv import share_terms
from relax_mlir.dlight.inlining import try_inline_contiguous_spatial
from relax_mlir.dlight.products import factors
from relax_mlir.dlight.rule import GuardedRule
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.relax.target import Target
from relax_mlir.tir.schedule import Schedule

__all__ = ["LowBatchGEMV"]

_MOST_VECTORS = 16  # where their number is known; with more, `Matmul` is faster


class LowBatchGEMV(GuardedRule):
    """:class:`GEMV` of some vectors at once: a thread reads the matrix once for them.

    Args:
        bucket: how many vectors a thread takes at once.
    """

    def __init__(self, bucket: int = 4) -> None:
        self.bucket = bucket

    def schedule(self, sch: Schedule, target: Target) -> bool:
        """See :class:`GuardedRule`."""
        infos = try_inline_contiguous_spatial(sch, normalize_prim_func(sch))
        if not infos or len(infos) > 2 or set(infos[0].dom_kind()) != {"S", "R"}:
            return False
        info, *rest = infos
        found = factors(sch.get(info.block_rv))
        if found is None:
            return False
        for vectors, matrix in (found, found[::-1]):
            batch = [i for n, i in enumerate(info.iters) if n not in matrix]
            sums = [n for n in matrix if info.iters[n].kind == "S"]
            last = info.iters[matrix[-1]]
            is_product = len(batch) == 1 and sums and not set(vectors) & set(sums)
            if not is_product or not _is_few(batch[0].dom) or last.kind != "R":
                continue
            width = batch[0].dom if isinstance(batch[0].dom, int) else self.bucket
            outer, inner = sch.split(batch[0].loop_rv, [None, min(width, self.bucket)])
            loops = info.loops("R")
            spatial = [info.iters[n].loop_rv for n in sums]
            sch.reorder(outer, *spatial, *loops, inner)
            return share_terms(
                sch,
                info,
                sch.fuse(*spatial),
                sch.fuse(*loops),
                last.dom,
                rest[0] if rest else None,
                outer,
            )
        return False


def _is_few(count: int | PrimExpr) -> bool:
    return not isinstance(count, int) or count <= _MOST_VECTORS

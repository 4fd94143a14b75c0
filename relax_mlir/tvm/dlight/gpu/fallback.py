"""Fallback rule: one thread per spatial point of every block."""

from __future__ import annotations

from relax_mlir.tvm.dlight.blocks import normalize_prim_func
from relax_mlir.tvm.dlight.gpu.threads import max_threads_per_block
from relax_mlir.tvm.dlight.inlining import try_inline
from relax_mlir.tvm.dlight.rule import GuardedRule
from relax_mlir.tvm.relax.target import Target
from relax_mlir.tvm.tir.schedule import Schedule

__all__ = ["Fallback"]


class Fallback(GuardedRule):
    """Any PrimFunc of perfect loop nests, with the maximal thread block size."""

    def schedule(self, sch: Schedule, target: Target) -> bool:
        """See :class:`GuardedRule`."""
        normalized = normalize_prim_func(sch)
        if normalized is None:
            return False
        reductions = []
        for info in try_inline(sch, normalized):
            block = info.block_rv
            loops = sch.get_loops(block)
            kinds = info.dom_kind()
            by_kind = {
                kind: [loop for loop, k in zip(loops, kinds, strict=True) if k == kind]
                for kind in "SRO"
            }
            spatial = by_kind["S"] or [sch.add_unit_loop(block)]
            sch.reorder(*spatial, *by_kind["R"], *by_kind["O"])
            threads = max_threads_per_block(target)
            bx, tx = sch.split(sch.fuse(*spatial), [None, threads])
            sch.bind(bx, "blockIdx.x")
            sch.bind(tx, "threadIdx.x")
            if by_kind["R"]:
                reductions.append((block, by_kind["R"][0]))
        for block, loop in reductions:
            sch.decompose_reduction(block, loop)
        return True

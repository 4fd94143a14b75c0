"""GEMV rule for CPUs: rows of the matrix in parallel."""

from __future__ import annotations

from relax_mlir.tvm.dlight.blocks import normalize_prim_func
from relax_mlir.tvm.dlight.contraction import contraction_operands
from relax_mlir.tvm.dlight.cpu.reduction import parallelize_rows
from relax_mlir.tvm.dlight.inlining import try_inline_contiguous_spatial
from relax_mlir.tvm.dlight.rule import GuardedRule
from relax_mlir.tvm.relax.target import Target
from relax_mlir.tvm.tir.schedule import Schedule

__all__ = ["GEMV"]


class GEMV(GuardedRule):
    """Matrix-vector multiply: one operand is indexed by reduction axes only."""

    for_gpus = False

    def schedule(self, sch: Schedule, target: Target) -> bool:
        """See :class:`GuardedRule`."""
        infos = try_inline_contiguous_spatial(sch, normalize_prim_func(sch))
        if not infos or len(infos) > 2 or not infos[0].is_reduction():
            return False
        operands = contraction_operands(sch.get(infos[0].block_rv))
        reduced = {n for n, i in enumerate(infos[0].iters) if i.kind == "R"}
        if operands is None or set(operands[1]) != reduced:
            return False
        parallelize_rows(sch, infos)
        return True

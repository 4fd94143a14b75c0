"""Attention rule: fused matmuls and softmax, one block of queries at a time.

The scores of a block of queries against all keys stay in scratch memory in cache, where
the row-wise statements (a softmax) and the matmul with the values use them. The score
matrix, quadratic in the sequence length, never goes to memory.

Source: Rabe and Staats, Self-attention Does Not Need O(n^2) Memory, 2021, for blocks of
queries. All scores of a block are in cache here, so no online softmax is needed.
"""

from collections.abc import Set as AbstractSet
from dataclasses import replace

from mlir import ir

from relax_mlir.schedules.cpu.amx_gemm import amx_k_step
from relax_mlir.schedules.cpu.attention_loops import AttentionLoops
from relax_mlir.schedules.cpu.dot_product_gemm import vnni_factor
from relax_mlir.schedules.kernel_view import Kernel, point_count
from relax_mlir.schedules.match_attention import (
    AttentionPlan,
    plan_attention,
    with_deferred_scaling,
)
from relax_mlir.schedules.match_contraction import ContractionPlan
from relax_mlir.schedules.rule import CpuRule, NotApplicable

__all__ = ["Attention"]

_MAX_FMAS_PER_SCORE = 512  # with more, unfused kernels hide the traffic of scores


class Attention(CpuRule[AttentionPlan]):
    """Fused attention with the scores of a block of queries in cache; f32 and f64."""

    def plan(self, kernel: Kernel) -> AttentionPlan:
        """Match two matmuls with row-wise statements between them."""
        plan = plan_attention(kernel)
        if plan.extents[-1] == 1:
            raise NotApplicable("it has one query, for which packing keys does not pay")
        plan = _with_batched_heads(with_deferred_scaling(plan))
        matmuls = plan.scores, plan.values
        if any(vnni_factor(p, self.unit) > 1 for p in matmuls) or any(
            amx_k_step(p, self.unit) for p in matmuls
        ):
            raise NotApplicable(
                "its matmuls have low precision, and are faster unfused"
            )
        return plan

    def pays(self, plan: AttentionPlan, constants: AbstractSet[ir.Value]) -> bool:
        """Whether fused attention is faster than separate kernels.

        Args:
            constants: constant buffers, which could be prepacked for separate matmuls.
        """
        scores, values = plan.scores.anchor.extents, plan.values.anchor.extents
        sizes = [scores[axis] for axis in plan.scores.k]
        columns = [values[axis] for axis in plan.values.n]
        if point_count(sizes) + point_count(columns) > _MAX_FMAS_PER_SCORE:
            return False
        return constants.isdisjoint((plan.scores.b.buffer, plan.values.b.buffer))

    def write(self, plan: AttentionPlan) -> None:
        AttentionLoops(plan, self.unit.vector_bits).emit()


def _with_batched_heads(plan: AttentionPlan) -> AttentionPlan:
    """The plan with heads that share keys and values as batch axes of the matmuls."""
    return replace(
        plan, scores=_with_one_m_axis(plan.scores), values=_with_one_m_axis(plan.values)
    )


def _with_one_m_axis(matmul: ContractionPlan) -> ContractionPlan:
    """The matmul with all axes of M but the last as batch axes."""
    *shared, rows = matmul.m
    return replace(matmul, outer=(*matmul.outer, *shared), m=(rows,))

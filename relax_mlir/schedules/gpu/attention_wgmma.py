"""AttentionWgmma rule: warp-specialized flash attention on Hopper with TMA and ``wgmma``."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.gpu.attention import (
    Attention,
    head_dims,
    rank_attention_configurations,
)
from relax_mlir.schedules.gpu.attention_matmuls import FragmentLayout
from relax_mlir.schedules.gpu.attention_softmax import SoftmaxPlan
from relax_mlir.schedules.gpu.attention_tma import AttentionTmaOperands
from relax_mlir.schedules.gpu.attention_wgmma_kernel import (
    AttentionWgmmaConfiguration,
    WarpSpecializedAttention,
)
from relax_mlir.schedules.gpu.pointwise import with_scalar_fallback
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.kernel_view import Kernel
from relax_mlir.schedules.rule import NotApplicable

__all__ = ["AttentionWgmma"]

_HOPPER = 90
_MIN_ROWS = 33  # queries of a head; with fewer, half of a warpgroup's rows are padding
_WARP_ROWS = 16  # rows of a warp in wgmma
_SHARED_BYTES = 226 << 10  # per SM, for tiles; mbarriers take the rest
_OTHER_REGISTERS = 56  # per thread: addresses and row statistics

_CONFIGURATIONS = (
    AttentionWgmmaConfiguration(128, 128, 2),
    AttentionWgmmaConfiguration(128, 64, 2),
    AttentionWgmmaConfiguration(64, 128, 2),
    AttentionWgmmaConfiguration(64, 64, 2),
)


@dataclass(frozen=True)
class AttentionWgmma(GpuRule[SoftmaxPlan]):
    """Flash attention on sm_90: a block per tile of queries, with a TMA producer thread.

    Operands are f16 or bf16; softmax weights are rounded to their type. Base addresses and
    strides must be multiples of 16 bytes, and strides static.
    """

    configuration: AttentionWgmmaConfiguration | None = None

    def plan(self, kernel: Kernel) -> SoftmaxPlan:
        """Matches what :class:`Attention` does, with at least 33 queries per head."""
        if self.gpu.sm != _HOPPER:
            raise NotApplicable("the device is not of compute capability 9.0")
        plan = Attention(self.gpu).plan(kernel)
        scores, rows = plan.attention.scores, plan.attention.extents[-1]
        if isinstance(scores.lhs.element, ir.F32Type):
            raise NotApplicable("its operands are f32")
        if isinstance(rows, int) and rows < _MIN_ROWS:
            raise NotApplicable(f"it has fewer than {_MIN_ROWS} rows")
        if not scores.anchor.starts_from_zero:
            raise NotApplicable("its scores do not start from 0")
        self._fitting(plan)
        return plan

    def pays(self, plan: SoftmaxPlan, constants: AbstractSet[ir.Value]) -> bool:
        """Whether it is faster than separate kernels for the matmuls and the softmax."""
        return True

    def configurations(self, plan: SoftmaxPlan) -> list[AttentionWgmmaConfiguration]:
        """The largest tiles that occupy all SMs first, then the others."""
        return rank_attention_configurations(plan, self._fitting(plan))

    def _fitting(self, plan: SoftmaxPlan) -> list[AttentionWgmmaConfiguration]:
        """Configurations that fit in registers and shared memory.

        Raises:
            NotApplicable: there is none.
        """
        reason = "its K/V tiles do not fit in shared memory"
        found = []
        for config in _CONFIGURATIONS:
            try:
                operands = AttentionTmaOperands.of(plan, config.rows, config.keys)
            except NotApplicable as refusal:
                reason = refusal.reason
                continue
            layout = self._layout(plan, config)
            registers = layout.width // 2 + layout.keys * 3 // 4 + _OTHER_REGISTERS
            # One consumer warpgroup does not saturate an SM: two blocks must be resident.
            max_bytes = _SHARED_BYTES // (2 if config.warpgroups == 1 else 1)
            fits = operands.bytes(config.stages) <= max_bytes
            if fits and registers <= config.max_consumer_registers:
                found.append(config)
        if not found:
            raise NotApplicable(reason)
        return found

    def _layout(
        self, plan: SoftmaxPlan, config: AttentionWgmmaConfiguration
    ) -> FragmentLayout:
        return FragmentLayout(_WARP_ROWS, config.keys, *head_dims(plan))

    def write(self, plan: SoftmaxPlan) -> None:
        config = self.configuration or self.configurations(plan)[0]
        operands = AttentionTmaOperands.of(plan, config.rows, config.keys)
        layout = self._layout(plan, config)

        def write(lanes: int) -> None:
            WarpSpecializedAttention(plan, config, operands, layout, lanes).write()

        with_scalar_fallback(
            lambda: write(FragmentLayout.score_lanes), lambda: write(1)
        )

"""AttentionWgmma: attention on Hopper's tensor cores, which read shared memory themselves."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.gpu.attention import (
    Attention,
    largest_for_all_processors,
    sizes_of_heads,
)
from relax_mlir.schedules.gpu.attention_boxes import Operands
from relax_mlir.schedules.gpu.attention_products import Layout
from relax_mlir.schedules.gpu.attention_softmax import SoftmaxPlan
from relax_mlir.schedules.gpu.attention_warpgroups import (
    AttentionWarpgroups,
    AttentionWgmmaConfiguration,
)
from relax_mlir.schedules.gpu.points import or_one_by_one
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.nest import Kernel
from relax_mlir.schedules.rule import Refusal

__all__ = ["AttentionWgmma"]

_HOPPER = 90
_FEWEST_ROWS = 33  # of a head; fewer leave half of a warpgroup's rows empty
_WARP_ROWS = 16  # of a product, that a warp has
_SHARED_BYTES = 226 << 10  # of a processor's blocks; barriers have the rest
_OTHER_REGISTERS = 56  # of a thread: addresses, and numbers of its rows

_CONFIGURATIONS = (
    AttentionWgmmaConfiguration(128, 128, 2),
    AttentionWgmmaConfiguration(128, 64, 2),
    AttentionWgmmaConfiguration(64, 128, 2),
    AttentionWgmmaConfiguration(64, 64, 2),
)


@dataclass(frozen=True)
class AttentionWgmma(GpuRule[SoftmaxPlan]):
    """A block for some queries of a head, with a thread that copies, on sm_90.

    Factors of f16 or bf16, weights rounded to their type. They begin, and walk, in
    multiples of 16 bytes, by steps that are known.
    """

    configuration: AttentionWgmmaConfiguration | None = None

    def plan(self, kernel: Kernel) -> SoftmaxPlan:
        """What :class:`Attention` takes, of at least 33 queries a head."""
        if self.gpu.sm != _HOPPER:
            raise Refusal("the device is not of compute capability 9.0")
        plan = Attention(self.gpu).plan(kernel)
        scores, rows = plan.attention.scores, plan.attention.extents[-1]
        if isinstance(scores.rows_of.element, ir.F32Type):
            raise Refusal("its factors are of f32")
        if isinstance(rows, int) and rows < _FEWEST_ROWS:
            raise Refusal(f"it has fewer than {_FEWEST_ROWS} rows")
        if not scores.anchor.starts_from_zero:
            raise Refusal("its scores do not begin with 0")
        self._fitting(plan)
        return plan

    def pays(self, plan: SoftmaxPlan, constants: AbstractSet[ir.Value]) -> bool:
        """Whether it is faster than a program for each product, and what is between."""
        return True

    def configurations(self, plan: SoftmaxPlan) -> list[AttentionWgmmaConfiguration]:
        """The largest blocks that give all processors work, then the others."""
        return largest_for_all_processors(plan, self._fitting(plan))

    def _fitting(self, plan: SoftmaxPlan) -> list[AttentionWgmmaConfiguration]:
        """The ways that registers and shared memory are enough for.

        Raises:
            Refusal: there is none.
        """
        reason = "its keys and values do not fit shared memory"
        found = []
        for made in _CONFIGURATIONS:
            try:
                operands = Operands.of(plan, made.rows, made.keys)
            except Refusal as refusal:
                reason = refusal.reason
                continue
            layout = self._layout(plan, made)
            registers = layout.width // 2 + layout.keys * 3 // 4 + _OTHER_REGISTERS
            # A warpgroup alone leaves a processor idle: there are two blocks of such.
            most_bytes = _SHARED_BYTES // (2 if made.warpgroups == 1 else 1)
            fits = operands.bytes(made.stages) <= most_bytes
            if fits and registers <= made.most_registers:
                found.append(made)
        if not found:
            raise Refusal(reason)
        return found

    def _layout(self, plan: SoftmaxPlan, made: AttentionWgmmaConfiguration) -> Layout:
        return Layout(_WARP_ROWS, made.keys, *sizes_of_heads(plan))

    def write(self, plan: SoftmaxPlan) -> None:
        made = self.configuration or self.configurations(plan)[0]
        operands = Operands.of(plan, made.rows, made.keys)
        layout = self._layout(plan, made)

        def write(lanes: int) -> None:
            AttentionWarpgroups(plan, made, operands, layout, lanes).write()

        or_one_by_one(lambda: write(Layout.score_lanes), lambda: write(1))

"""ColumnReduction rule: reductions along strided axes, pooling, depthwise convolutions."""

from dataclasses import replace

from relax_mlir.schedules.gpu.block_reduction_columns import (
    SplitColumnReduction,
    split_count,
)
from relax_mlir.schedules.gpu.pointwise import (
    PointwisePlan,
    plan_pointwise,
    with_scalar_fallback,
    write_pointwise,
)
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.kernel_view import Kernel

__all__ = ["ColumnReduction"]


class ColumnReduction(GpuRule[PointwisePlan]):
    """Reductions along axes other than the contiguous one, with elementwise epilogues.

    The threads of a warp compute adjacent results, so their loads coalesce at each step of
    the reduction: column sums, pooling windows, depthwise convolutions. If there are few
    results, several threads share the reduction of each.
    """

    def plan(self, kernel: Kernel) -> PointwisePlan:
        """Matches statements over one spatial domain, with contiguous results."""
        return plan_pointwise(kernel)

    def write(self, plan: PointwisePlan) -> None:
        if split_count(plan) == 1:
            write_pointwise(plan)
            return
        scalar = replace(plan, lanes=1)
        with_scalar_fallback(
            lambda: SplitColumnReduction(plan, split_count(plan)).write(),
            lambda: SplitColumnReduction(scalar, split_count(scalar)).write(),
        )

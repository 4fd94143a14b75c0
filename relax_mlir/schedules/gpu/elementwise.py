"""Elementwise rule: kernels without reductions, one vector of results per thread."""

from relax_mlir.schedules.gpu.pointwise import (
    PointwisePlan,
    plan_pointwise,
    write_pointwise,
)
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.kernel_view import Kernel
from relax_mlir.schedules.rule import NotApplicable

__all__ = ["Elementwise"]


class Elementwise(GpuRule[PointwisePlan]):
    """Kernels without reductions: each thread computes a vector of at most 16 bytes."""

    def plan(self, kernel: Kernel) -> PointwisePlan:
        """Matches statements over one domain, with contiguous results and no reduction."""
        plan = plan_pointwise(kernel)
        if any(statement.is_reduction for statement in plan.statements):
            raise NotApplicable("it has a reduction")
        return plan

    def write(self, plan: PointwisePlan) -> None:
        write_pointwise(plan)

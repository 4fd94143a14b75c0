"""Elementwise: results that are computed one by one, a few neighbours a thread."""

from relax_mlir.schedules.gpu.points import PointsPlan, plan_points, write_points
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.nest import Kernel
from relax_mlir.schedules.rule import Refusal

__all__ = ["Elementwise"]


class Elementwise(GpuRule[PointsPlan]):
    """Statements without sums: a thread computes a few neighbours, of 16 bytes at most."""

    def plan(self, kernel: Kernel) -> PointsPlan:
        """Statements of one domain, results side by side."""
        plan = plan_points(kernel)
        if any(statement.is_reduction for statement in plan.statements):
            raise Refusal("it has a sum")
        return plan

    def write(self, plan: PointsPlan) -> None:
        write_points(plan)

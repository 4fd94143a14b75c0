"""ColReduction: sums whose terms lie apart, and windows."""

from dataclasses import replace

from relax_mlir.schedules.gpu.points import (
    PointsPlan,
    or_one_by_one,
    plan_points,
    write_points,
)
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.gpu.sliced_sums import SlicedSums, slices_of
from relax_mlir.schedules.nest import Kernel

__all__ = ["ColReduction"]


class ColReduction(GpuRule[PointsPlan]):
    """Sums along axes on which results do not lie side by side, and maps of them.

    Threads of a warp compute neighbouring results, so that they read neighbours at each
    step of the sum: columns of a matrix, pooling windows, depthwise convolutions. Where
    results are few, several threads share the terms of each.
    """

    def plan(self, kernel: Kernel) -> PointsPlan:
        """Statements of one domain, results side by side."""
        return plan_points(kernel)

    def write(self, plan: PointsPlan) -> None:
        if slices_of(plan) == 1:
            write_points(plan)
            return
        scalar = replace(plan, lanes=1)
        or_one_by_one(
            lambda: SlicedSums(plan, slices_of(plan)).write(),
            lambda: SlicedSums(scalar, slices_of(scalar)).write(),
        )

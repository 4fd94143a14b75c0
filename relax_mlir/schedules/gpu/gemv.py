"""Gemv: few rows times a matrix, which is read once: as fast as memory brings it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from relax_mlir.schedules.contraction_plan import plan_contraction
from relax_mlir.schedules.gpu.col_reduction import ColReduction
from relax_mlir.schedules.gpu.launch import WARP
from relax_mlir.schedules.gpu.row_reduction import RowReduction
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.nest import Kernel, point_count
from relax_mlir.schedules.rule import Refusal

__all__ = ["FEWEST_TERMS", "MOST_ROWS", "Gemv"]

MOST_ROWS = 4  # that are worth reading the matrix as often
FEWEST_TERMS = WARP  # of sums along rows of the matrix that threads share


@dataclass(frozen=True)
class GemvPlan:
    """How a product is written.

    Attributes:
        write: as the sum along rows of the matrix, or along its columns, that it is.
    """

    write: Callable[[], None]


class Gemv(GpuRule[GemvPlan]):
    """Products of few rows: sums of the matrix's rows where they lie side by side.

    Else those of its columns, of which threads share the terms. What a thread reads of its
    row it asks for before all else, so that the matrix comes while another kernel goes on.
    """

    def plan(self, kernel: Kernel) -> GemvPlan:
        """A contraction of few rows, and maps of its result."""
        contraction = plan_contraction(kernel)
        extents = contraction.anchor.extents
        rows = [extents[axis] for axis in contraction.m]
        if not all(isinstance(e, int) for e in rows) or point_count(rows) > MOST_ROWS:
            raise Refusal(f"it has more than {MOST_ROWS} rows")
        if contraction.b.stride_of(contraction.k[-1]) != 1:
            across = ColReduction(self.gpu)
            points = across.plan(kernel)
            return GemvPlan(lambda: across.write(points))
        along = RowReduction(self.gpu)
        plan = replace(along.plan(kernel), ahead=(contraction.b.buffer,))
        return GemvPlan(lambda: along.write(plan))

    def write(self, plan: GemvPlan) -> None:
        plan.write()

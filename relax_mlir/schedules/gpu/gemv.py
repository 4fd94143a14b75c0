"""Gemv rule: matmuls with few rows, bound by the bandwidth of reading the matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from relax_mlir.schedules.gpu.column_reduction import ColumnReduction
from relax_mlir.schedules.gpu.launch import WARP_SIZE
from relax_mlir.schedules.gpu.row_reduction import RowReduction
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.kernel_view import Kernel, point_count
from relax_mlir.schedules.match_contraction import plan_contraction
from relax_mlir.schedules.rule import NotApplicable

__all__ = ["MAX_GEMV_ROWS", "MIN_GEMV_K", "Gemv"]

MAX_GEMV_ROWS = 4  # each reads the whole matrix
MIN_GEMV_K = WARP_SIZE  # least K for which the threads of a warp share a dot product


@dataclass(frozen=True)
class GemvPlan:
    """A GEMV.

    Attributes:
        write: emits it as a row reduction or as a column reduction.
    """

    write: Callable[[], None]


class Gemv(GpuRule[GemvPlan]):
    """Matmuls of few rows: a row reduction if the matrix is K-major, else a column reduction.

    The row reduction prefetches the matrix at its start, while the previous kernel still runs
    (programmatic dependent launch).
    """

    def plan(self, kernel: Kernel) -> GemvPlan:
        """Matches a contraction of few rows, with an elementwise epilogue."""
        contraction = plan_contraction(kernel)
        extents = contraction.anchor.extents
        rows = [extents[axis] for axis in contraction.m]
        if (
            not all(isinstance(e, int) for e in rows)
            or point_count(rows) > MAX_GEMV_ROWS
        ):
            raise NotApplicable(f"it has more than {MAX_GEMV_ROWS} rows")
        if contraction.b.stride_of(contraction.k[-1]) != 1:
            across = ColumnReduction(self.gpu)
            points = across.plan(kernel)
            return GemvPlan(lambda: across.write(points))
        along = RowReduction(self.gpu)
        plan = replace(along.plan(kernel), prefetched=(contraction.b.buffer,))
        return GemvPlan(lambda: along.write(plan))

    def write(self, plan: GemvPlan) -> None:
        plan.write()

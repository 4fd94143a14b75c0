"""PerStatement rule: each statement of a kernel is scheduled and launched separately."""

from __future__ import annotations

from dataclasses import replace

from relax_mlir.schedules.gpu.column_reduction import ColumnReduction
from relax_mlir.schedules.gpu.cublaslt import CublasLt
from relax_mlir.schedules.gpu.cudnn import Cudnn
from relax_mlir.schedules.gpu.elementwise import Elementwise
from relax_mlir.schedules.gpu.gemm_mma import GemmMmaSync
from relax_mlir.schedules.gpu.gemm_simt import GemmSimt
from relax_mlir.schedules.gpu.gemv import Gemv
from relax_mlir.schedules.gpu.row_reduction import RowReduction
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.gpu.transpose import Transpose
from relax_mlir.schedules.kernel_view import Kernel
from relax_mlir.schedules.rule import NotApplicable, check_statements
from relax_mlir.schedules.rule_selection import SelectedRule, choose

__all__ = ["PerStatement"]

_RULES = (
    CublasLt,
    Cudnn,
    Gemv,
    GemmMmaSync,
    GemmSimt,
    RowReduction,
    Transpose,
    Elementwise,
    ColumnReduction,
)


class PerStatement(GpuRule[list[SelectedRule]]):
    """Kernels of several statements, unfused: temporaries go through global memory."""

    def plan(self, kernel: Kernel) -> list[SelectedRule]:
        """Matches several statements, each of which some rule schedules separately."""
        check_statements(kernel)
        if len(kernel.statements) == 1:
            raise NotApplicable("it has one statement")
        rules = [rule(self.gpu) for rule in _RULES]
        return [
            choose(replace(kernel, statements=[statement], temporaries=[]), rules)
            for statement in kernel.statements
        ]

    def write(self, plan: list[SelectedRule]) -> None:
        for choice in plan:
            choice.write()

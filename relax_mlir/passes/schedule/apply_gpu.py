"""``schedule-apply-gpu``: launch generation for GPU kernels by schedule rules."""

from dataclasses import dataclass
from typing import Any

from relax_mlir.ir.module import IRModule
from relax_mlir.passes.schedule.rules import (
    check_rule_name,
    erase_statements,
    select_rule,
    unscheduled,
    write_kernel,
)
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.schedules.gpu.attention import Attention
from relax_mlir.schedules.gpu.attention_wgmma import AttentionWgmma
from relax_mlir.schedules.gpu.column_reduction import ColumnReduction
from relax_mlir.schedules.gpu.cublaslt import CublasLt
from relax_mlir.schedules.gpu.cudnn import Cudnn
from relax_mlir.schedules.gpu.elementwise import Elementwise
from relax_mlir.schedules.gpu.fallback import Fallback
from relax_mlir.schedules.gpu.gemm_mma import GemmMmaSync
from relax_mlir.schedules.gpu.gemm_simt import GemmSimt
from relax_mlir.schedules.gpu.gemm_wgmma import GemmWgmma
from relax_mlir.schedules.gpu.gemv import Gemv
from relax_mlir.schedules.gpu.multi_output import MultiOutput
from relax_mlir.schedules.gpu.per_statement import PerStatement
from relax_mlir.schedules.gpu.row_reduction import RowReduction
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.gpu.thread_bound import ThreadBound
from relax_mlir.schedules.gpu.transpose import Transpose
from relax_mlir.schedules.kernel_view import Kernel
from relax_mlir.schedules.rule_selection import SelectedRule
from relax_mlir.schedules.target_features import Gpu

__all__ = ["ApplyGpu"]

# Most specific first; the last matches any kernel.
_RULES: tuple[type[GpuRule[Any]], ...] = (
    ThreadBound,
    AttentionWgmma,
    Attention,
    CublasLt,
    Cudnn,
    Gemv,
    GemmWgmma,
    GemmMmaSync,
    GemmSimt,
    RowReduction,
    Transpose,
    Elementwise,
    ColumnReduction,
    MultiOutput,
    PerStatement,
    Fallback,
)


@dataclass(frozen=True)
class ApplyGpu(Pass):
    """Lower linalg kernels to GPU launches, each by the first schedule rule that matches.

    A kernel with the attribute ``tir.config`` is written by that configuration; the rule
    chooses what it leaves open.

    Args:
        gpu: the target device.
        only: the one rule to use, such as ``Fallback``, regardless of the attribute; it
            must match every kernel.
    """

    gpu: Gpu = Gpu()
    only: str = ""

    def run(self, module: IRModule) -> None:
        check_rule_name(self.only, _RULES)
        for function in unscheduled(module):
            kernel, _ = write_kernel(function, self.choose)
            erase_statements(kernel)

    def choose(self, kernel: Kernel) -> SelectedRule:
        """Writes a kernel by the first matching rule, at the insertion point.

        Raises:
            PassError: the requested rule does not match the kernel, or has no such
                configuration.
        """
        return select_rule(kernel, [rule(self.gpu) for rule in _RULES], self.only)

"""``schedule-apply-gpu``: launch generation for GPU kernels by schedule rules."""

from dataclasses import dataclass
from typing import Any

from relax_mlir.errors import PassError, near_misses
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
from relax_mlir.schedules.gpu.rule import LIBRARY_POLICIES, Gpu, GpuRule
from relax_mlir.schedules.gpu.thread_bound import ThreadBound
from relax_mlir.schedules.gpu.transpose import Transpose
from relax_mlir.schedules.kernel_view import Kernel
from relax_mlir.schedules.rule_selection import SelectedRule

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
        sm: compute capability of the GPU, such as 90.
        tf32: whether f32 operands of matmuls may be rounded to TF32.
        library: whether matmuls use cuBLASLt, and convolutions cuDNN: ``never``,
            ``auto`` (where they are expected to be faster) or ``always`` (where they can).
        only: the one rule to use, such as ``Fallback``, whatever the attribute says; it
            must match every kernel.
    """

    sm: int = 80
    tf32: bool = False
    library: str = "never"
    only: str = ""

    def run(self, module: IRModule) -> None:
        check_rule_name(self.only, _RULES)
        if self.library not in LIBRARY_POLICIES:
            raise PassError(
                f"unknown library policy `{self.library}`: expected one of "
                f"{', '.join(LIBRARY_POLICIES)}."
                f"{near_misses(self.library, LIBRARY_POLICIES)}"
            )
        for function in unscheduled(module):
            kernel, _ = write_kernel(function, self.choose)
            erase_statements(kernel)

    def choose(self, kernel: Kernel) -> SelectedRule:
        """Writes a kernel by the first matching rule, at the insertion point.

        Raises:
            PassError: the requested rule does not match the kernel, or has no such
                configuration.
        """
        gpu = Gpu(self.sm, self.tf32, self.library)
        return select_rule(kernel, [rule(gpu) for rule in _RULES], self.only)

"""``schedule-apply-gpu``: every kernel gets its launches from the first rule that takes it."""

from dataclasses import dataclass
from typing import Any

from relax_mlir.errors import PassError, near_misses
from relax_mlir.module import IRModule
from relax_mlir.passes.schedule.rules import (
    check_rule_name,
    choose_rule,
    erase_statements,
    unscheduled,
    write_kernel,
)
from relax_mlir.rewriting import Pass
from relax_mlir.schedules.choice import Choice
from relax_mlir.schedules.gpu.attention import Attention
from relax_mlir.schedules.gpu.attention_wgmma import AttentionWgmma
from relax_mlir.schedules.gpu.bound import Bound
from relax_mlir.schedules.gpu.col_reduction import ColReduction
from relax_mlir.schedules.gpu.elementwise import Elementwise
from relax_mlir.schedules.gpu.fallback import Fallback
from relax_mlir.schedules.gpu.gemm_mma import GemmMmaSync
from relax_mlir.schedules.gpu.gemm_simt import GemmSimt
from relax_mlir.schedules.gpu.gemm_wgmma import GemmWgmma
from relax_mlir.schedules.gpu.gemv import Gemv
from relax_mlir.schedules.gpu.library import Library
from relax_mlir.schedules.gpu.library_convolution import LibraryConvolution
from relax_mlir.schedules.gpu.parts import Parts
from relax_mlir.schedules.gpu.row_reduction import RowReduction
from relax_mlir.schedules.gpu.rule import LIBRARY_POLICIES, Gpu, GpuRule
from relax_mlir.schedules.gpu.statements import Statements
from relax_mlir.schedules.gpu.transpose import Transpose
from relax_mlir.schedules.nest import Kernel

__all__ = ["ApplyGpu"]

# Most specific first; the last takes anything.
_RULES: tuple[type[GpuRule[Any]], ...] = (
    Bound,
    AttentionWgmma,
    Attention,
    Library,
    LibraryConvolution,
    Gemv,
    GemmWgmma,
    GemmMmaSync,
    GemmSimt,
    RowReduction,
    Transpose,
    Elementwise,
    ColReduction,
    Parts,
    Statements,
    Fallback,
)


@dataclass(frozen=True)
class ApplyGpu(Pass):
    """Turn linalg kernels into launches on a GPU, each by the first rule that takes it.

    A kernel with the attribute ``tir.config`` is written as that says; what it leaves
    open, the rule chooses.

    Args:
        sm: compute capability of the GPU, such as 90.
        tf32: whether factors of products in f32 may be rounded to 11 bits.
        library: whether cuBLASLt computes products, and cuDNN convolutions: ``never``,
            ``auto`` (where they are expected to be faster) or ``always`` (where they can).
        only: the one rule to use, such as ``Fallback``, whatever the attribute says; it
            must take every kernel.
    """

    sm: int = 80
    tf32: bool = False
    library: str = "never"
    only: str = ""

    def run(self, module: IRModule) -> None:
        check_rule_name(self.only, _RULES)
        if self.library not in LIBRARY_POLICIES:
            raise PassError(
                f"unknown policy `{self.library}` of libraries: expected one of "
                f"{', '.join(LIBRARY_POLICIES)}."
                f"{near_misses(self.library, LIBRARY_POLICIES)}"
            )
        for function in unscheduled(module):
            kernel, _ = write_kernel(function, self.choose)
            erase_statements(kernel)

    def choose(self, kernel: Kernel) -> Choice:
        """The rule that writes a kernel, at the insertion point, and how.

        Raises:
            PassError: the rule that is asked for does not take the kernel, or has no such
                configuration.
        """
        gpu = Gpu(self.sm, self.tf32, self.library)
        return choose_rule(kernel, [rule(gpu) for rule in _RULES], self.only)

"""Statements: a launch for each statement of a kernel, by the rule that takes it alone."""

from __future__ import annotations

from dataclasses import replace

from relax_mlir.schedules.choice import Choice, choose
from relax_mlir.schedules.gpu.col_reduction import ColReduction
from relax_mlir.schedules.gpu.elementwise import Elementwise
from relax_mlir.schedules.gpu.gemm_mma import GemmMmaSync
from relax_mlir.schedules.gpu.gemm_simt import GemmSimt
from relax_mlir.schedules.gpu.gemv import Gemv
from relax_mlir.schedules.gpu.library import Library
from relax_mlir.schedules.gpu.library_convolution import LibraryConvolution
from relax_mlir.schedules.gpu.row_reduction import RowReduction
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.gpu.transpose import Transpose
from relax_mlir.schedules.nest import Kernel
from relax_mlir.schedules.rule import Refusal, check_statements

__all__ = ["Statements"]

_RULES = (
    Library,
    LibraryConvolution,
    Gemv,
    GemmMmaSync,
    GemmSimt,
    RowReduction,
    Transpose,
    Elementwise,
    ColReduction,
)


class Statements(GpuRule[list[Choice]]):
    """What lies between the statements goes through the memory of the device."""

    def plan(self, kernel: Kernel) -> list[Choice]:
        """Several statements, of which some rule takes each."""
        check_statements(kernel)
        if len(kernel.statements) == 1:
            raise Refusal("it has one statement")
        rules = [rule(self.gpu) for rule in _RULES]
        return [
            choose(replace(kernel, statements=[statement], temporaries=[]), rules)
            for statement in kernel.statements
        ]

    def write(self, plan: list[Choice]) -> None:
        for choice in plan:
            choice.write()

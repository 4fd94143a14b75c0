"""``schedule-apply``: loop generation for CPU kernels by schedule rules."""

from dataclasses import dataclass
from typing import Any

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations
from relax_mlir.passes.schedule.rules import (
    check_rule_name,
    erase_statements,
    select_rule,
    unscheduled,
    write_kernel,
)
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.schedules.builder import is_parallel_loop
from relax_mlir.schedules.cpu.attention import Attention
from relax_mlir.schedules.cpu.fallback import Fallback
from relax_mlir.schedules.cpu.gemm import Gemm
from relax_mlir.schedules.cpu.pooling import Pooling
from relax_mlir.schedules.cpu.row_reduction import RowWise
from relax_mlir.schedules.cpu.transpose import Transpose
from relax_mlir.schedules.cpu.winograd import Winograd
from relax_mlir.schedules.kernel_view import Kernel
from relax_mlir.schedules.rule import CpuRule
from relax_mlir.schedules.rule_selection import SelectedRule
from relax_mlir.schedules.target_features import VectorUnit

__all__ = ["Apply"]

# Most specific first; the last matches any kernel.
_RULES: tuple[type[CpuRule[Any]], ...] = (
    Winograd,
    Attention,
    Gemm,
    Pooling,
    Transpose,
    RowWise,
    Fallback,
)


@dataclass(frozen=True)
class Apply(Pass):
    """Lower linalg kernels to loops, each by the first schedule rule that matches.

    A kernel with the attribute ``tir.config`` is written by that configuration, such as
    ``"Gemm{rows=6, vectors=4}"``; the rule chooses what it leaves open.

    Args:
        unit: vector features of the CPU.
        only: the one rule to use, such as ``Fallback``, regardless of the attribute; it
            must match every kernel.
    """

    unit: VectorUnit = VectorUnit()
    only: str = ""

    def run(self, module: IRModule) -> None:
        check_rule_name(self.only, _RULES)
        for function in unscheduled(module):
            kernel, choice = write_kernel(function, self.choose)
            _check_loops(kernel, choice.name)
            if not isinstance(choice.rule, Fallback):
                erase_statements(kernel)

    def choose(self, kernel: Kernel) -> SelectedRule:
        """Writes a kernel by the first matching rule, at the insertion point.

        Raises:
            PassError: the requested rule does not match the kernel, or has no such
                configuration.
        """
        return select_rule(kernel, [rule(self.unit) for rule in _RULES], self.only)


def _check_loops(kernel: Kernel, rule: str) -> None:
    """Checks that the kernel has one parallel loop to distribute over threads."""
    loops = [o for o in own_operations(kernel.block) if is_parallel_loop(o)]
    if len(loops) != 1:
        raise PassError(
            f"kernel `{kernel.function.name.value}`: expected one loop over tiles from "
            f"rule `{rule}`, got {len(loops)}. Its `write` must call "
            "`parallel_loop` once, outside of other loops."
        )

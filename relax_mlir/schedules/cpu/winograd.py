"""Winograd rule: 3x3 convolutions by F(4x4, 3x3), blocked for the caches.

A block is a set of tiles. It has three stages: the input transform of all input channels to
scratch; for one group of panels of output channels after the other, 36 GEMMs over the input
channels, with accumulators in registers; and the output transform with the epilogue. The
block size balances cache traffic: each block reads all transformed weights once, and each
group of panels reads the scratch once, from L3 if it exceeds L2.

Tiles with inputs out of the range of the kernel (``winograd_range.py``) are convolved
directly. Scratch then holds their inputs instead of the transformed values.
"""

from __future__ import annotations

from dataclasses import dataclass

from relax_mlir.schedules.cpu.match_winograd import (
    WinogradConfiguration,
    WinogradPlan,
    plan_winograd,
)
from relax_mlir.schedules.cpu.winograd_loops import WinogradLoops
from relax_mlir.schedules.kernel_view import Kernel
from relax_mlir.schedules.rule import CpuRule

__all__ = ["Winograd", "WinogradConfiguration"]


@dataclass(frozen=True)
class Winograd(CpuRule[WinogradPlan]):
    """Winograd F(4x4, 3x3), for convolutions that ``tir-use-winograd`` has marked."""

    configuration: WinogradConfiguration | None = None

    def plan(self, kernel: Kernel) -> WinogradPlan:
        """Match a marked convolution with an epilogue."""
        return plan_winograd(kernel)

    def configurations(self, plan: WinogradPlan) -> list[WinogradConfiguration]:
        """Blocks of whole rows of tiles, or of a part of one row."""
        return plan.configurations(self._lanes)

    def write(self, plan: WinogradPlan) -> None:
        configuration = self.configuration or self.configurations(plan)[0]
        WinogradLoops(plan, self._lanes, configuration).emit()

    @property
    def _lanes(self) -> int:
        return self.unit.vector_bits // 32

"""Winograd: 3x3 convolutions by F(4x4, 3x3), block by block of tiles in cache.

A block is some rows of tiles. Their inputs at the points go to scratch memory for all
input channels; then, for some panels of output channels after the others, come the
products, summed up in registers, and the results, on which the epilogue runs before they
are stored. How many tiles, and how many panels at once, is a matter of what passes through
the caches: the transformed kernel does once for each block, the scratch memory once for
each group of panels if it is too large for the second cache.

Tiles whose inputs are beyond the limits of the kernel are convolved directly
(``winograd_range.py``): the scratch memory holds their inputs in the place of the values at
the points.
"""

from __future__ import annotations

from dataclasses import dataclass

from relax_mlir.schedules.cpu.winograd_loops import WinogradLoops
from relax_mlir.schedules.cpu.winograd_plan import (
    WinogradConfiguration,
    WinogradPlan,
    plan_winograd,
)
from relax_mlir.schedules.nest import Kernel
from relax_mlir.schedules.rule import Rule

__all__ = ["Winograd", "WinogradConfiguration"]


@dataclass(frozen=True)
class Winograd(Rule[WinogradPlan]):
    """Convolutions by F(4x4, 3x3), where ``tir-use-winograd`` has marked them."""

    configuration: WinogradConfiguration | None = None

    def plan(self, kernel: Kernel) -> WinogradPlan:
        """The operands of a marked convolution, and its epilogue."""
        return plan_winograd(kernel)

    def configurations(self, plan: WinogradPlan) -> list[WinogradConfiguration]:
        """Blocks of all tiles, of whole rows of them, or of part of a row."""
        return plan.configurations(self._lanes)

    def write(self, plan: WinogradPlan) -> None:
        made = self.configuration or self.configurations(plan)[0]
        WinogradLoops(plan, self._lanes, made).emit()

    @property
    def _lanes(self) -> int:
        return self.unit.bits // 32

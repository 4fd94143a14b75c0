"""Contraction: sums of products, as register tiles of fused multiply-adds.

Matrix products, batched or not, and convolutions are one shape of program: a sum over
reduce axes of ``a * b``, where the rows of the result come from one operand and its
columns, which lie side by side in memory, from the other. A tile of ``rows x columns``
accumulators stays in registers over the whole sum; the columns' operand is first copied
into a panel where every step of the sum reads consecutive vectors. That copy is also what
makes a convolution a matrix product: the panel holds the windows of its pixels.

Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, ACM
TOMS 34(3), 2008.
"""

from dataclasses import dataclass

from relax_mlir.schedules.contraction_plan import Plan, plan_contraction
from relax_mlir.schedules.cpu.amx_contraction import AmxContractionLoops, step_of_tiles
from relax_mlir.schedules.cpu.contraction_loops import BLOCKS_KB, ContractionLoops
from relax_mlir.schedules.cpu.contraction_tile import ContractionConfiguration
from relax_mlir.schedules.cpu.dot_contraction import DotContractionLoops, terms_of_dot
from relax_mlir.schedules.nest import Kernel
from relax_mlir.schedules.rule import Refusal, Rule

__all__ = ["Contraction"]

_TILES_A_BLOCK = 4  # that are tried before a block of another size is


@dataclass(frozen=True)
class Contraction(Rule[Plan]):
    """Register tiles of multiply-adds over packed columns; f32, f64, integers in i32.

    Products of bytes are summed by four, of bf16 by two, or in tiles, where the machine
    can.
    """

    configuration: ContractionConfiguration | None = None

    def plan(self, kernel: Kernel) -> Plan:
        """One contraction, and maps of its result."""
        plan = plan_contraction(kernel)
        is_fitting = plan.group in (1, terms_of_dot(plan, self.unit))
        if not is_fitting and not step_of_tiles(plan, self.unit):
            raise Refusal(
                f"its weight is packed for sums of {plan.group} products a lane"
            )
        return plan

    def configurations(self, plan: Plan) -> list[ContractionConfiguration]:
        """Tiles that registers hold the sums of, and blocks of several sizes.

        Where the columns are stored in blocks, tiles are as wide as those.
        """
        loops = self._loops(plan)
        tiles = [loops.tile, *loops.other_tiles(self.unit.bits)]
        blocks_kb = BLOCKS_KB if loops.is_blocked else BLOCKS_KB[:1]
        ranked = [
            (rank + _TILES_A_BLOCK * place, tile, block_kb)
            for rank, tile in enumerate(tiles)
            for place, block_kb in enumerate(blocks_kb)
        ]
        ranked.sort(key=lambda found: found[0])
        return [
            ContractionConfiguration(tile.rows, tile.vectors, block_kb)
            for _, tile, block_kb in ranked
        ]

    def write(self, plan: Plan) -> None:
        self._loops(plan).emit()

    def _loops(self, plan: Plan) -> ContractionLoops:
        step = step_of_tiles(plan, self.unit)
        if step:
            return AmxContractionLoops(plan, step, self.configuration)
        has_dots = terms_of_dot(plan, self.unit) > 1
        loops = DotContractionLoops if has_dots else ContractionLoops
        return loops(plan, self.unit.bits, self.configuration)

"""GEMM rule: matmuls and convolutions as register-tiled micro-kernels over packed panels.

Matmuls, batched or not, and convolutions are contractions ``C[m, n] = sum_k A * B`` whose
axes N are contiguous in the result. The micro-kernel keeps an MR x NR register tile of
accumulators over the whole K loop. The RHS is first packed into NR-wide panels, where each
k is a row of consecutive vectors. For a convolution the packing is an im2col: the panel
holds the windows of the image.

Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, ACM
TOMS 34(3), 2008.
"""

from dataclasses import dataclass

from relax_mlir.schedules.cpu.amx_gemm import AmxGemmLoops, amx_k_step
from relax_mlir.schedules.cpu.dot_product_gemm import DotProductGemmLoops, vnni_factor
from relax_mlir.schedules.cpu.gemm_loops import BLOCKS_KB, GemmLoops
from relax_mlir.schedules.cpu.gemm_tile import GemmConfiguration
from relax_mlir.schedules.kernel_view import Kernel
from relax_mlir.schedules.match_contraction import ContractionPlan, plan_contraction
from relax_mlir.schedules.rule import CpuRule, NotApplicable

__all__ = ["Gemm"]

_TILES_PER_BLOCK = 4  # register tiles that rank before the next size of row blocks


@dataclass(frozen=True)
class Gemm(CpuRule[ContractionPlan]):
    """Register-tiled GEMM with packed panels, accumulated in f32, f64 or i32.

    Uses VNNI for bytes, bf16 dot products, or AMX tiles, where the CPU has them.
    """

    configuration: GemmConfiguration | None = None

    def plan(self, kernel: Kernel) -> ContractionPlan:
        """Match a contraction with an epilogue."""
        plan = plan_contraction(kernel)
        is_fitting = plan.vnni_factor in (1, vnni_factor(plan, self.unit))
        if not is_fitting and not amx_k_step(plan, self.unit):
            raise NotApplicable(
                f"its weight is packed with a VNNI factor of {plan.vnni_factor}"
            )
        return plan

    def configurations(self, plan: ContractionPlan) -> list[GemmConfiguration]:
        """Register tiles, by several sizes of the row blocks.

        For a prepacked RHS, tiles are as wide as its panels.
        """
        loops = self._loops(plan)
        tiles = [loops.tile, *loops.other_tiles(self.unit.vector_bits)]
        blocks_kb = BLOCKS_KB if loops.is_blocked else BLOCKS_KB[:1]
        ranked = [
            (tile_rank + _TILES_PER_BLOCK * block_rank, tile, block_kb)
            for tile_rank, tile in enumerate(tiles)
            for block_rank, block_kb in enumerate(blocks_kb)
        ]
        ranked.sort(key=lambda candidate: candidate[0])
        return [
            GemmConfiguration(tile.rows, tile.vectors, block_kb)
            for _, tile, block_kb in ranked
        ]

    def write(self, plan: ContractionPlan) -> None:
        self._loops(plan).emit()

    def _loops(self, plan: ContractionPlan) -> GemmLoops:
        step = amx_k_step(plan, self.unit)
        if step:
            return AmxGemmLoops(plan, step, self.configuration)
        has_dots = vnni_factor(plan, self.unit) > 1
        loops = DotProductGemmLoops if has_dots else GemmLoops
        return loops(plan, self.unit.vector_bits, self.configuration)

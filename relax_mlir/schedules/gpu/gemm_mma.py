"""GemmMmaSync rule: GEMM on tensor cores by ``mma.sync``, with a tile per warp.

Tiles in shared memory keep the layout of the operand, K-major or MN-major: ``ldmatrix``
transposes fragments of MN-major tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    div,
    index,
    multiply,
    op,
    rem,
    vector_type,
)
from relax_mlir.schedules.gpu.gemm_block import GemmBlock
from relax_mlir.schedules.gpu.gemm_kernel import (
    Tiling,
    TilingConfiguration,
    check_operand_types,
    plan_gemm,
    rank_gemm_configurations,
)
from relax_mlir.schedules.gpu.gemm_tile import TiledOperand
from relax_mlir.schedules.gpu.launch import WARP_SIZE
from relax_mlir.schedules.gpu.mma import (
    MMA_M,
    MMA_N,
    HalfFragments,
    SharedStage,
    Tf32Fragments,
)
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.kernel_view import Kernel, point_count
from relax_mlir.schedules.match_contraction import ContractionPlan
from relax_mlir.schedules.rule import NotApplicable

__all__ = ["GemmMmaSync"]

_LANES = 2  # adjacent accumulators of a thread
_MIN_EXTENT = 8  # of M, N and K; below it most of a fragment is padding


@dataclass(frozen=True)
class GemmMmaConfiguration(TilingConfiguration):
    """Tile sizes of a GEMM by ``mma.sync``.

    Attributes:
        rows, columns: of a block tile; depth: of a K tile.
        warp_rows, warp_columns: of a warp tile.
    """

    rule = "GemmMmaSync"
    rows: int
    columns: int
    depth: int
    warp_rows: int
    warp_columns: int

    @property
    def tiling(self) -> Tiling:
        warps = self.rows // self.warp_rows * (self.columns // self.warp_columns)
        threads = WARP_SIZE * warps
        return Tiling(self.rows, self.columns, self.depth, threads, self.split_k)


_CONFIGURATIONS = (
    GemmMmaConfiguration(128, 128, 32, 64, 32),
    GemmMmaConfiguration(64, 64, 32, 32, 32),
    GemmMmaConfiguration(32, 64, 32, 16, 32),
)


@dataclass(frozen=True)
class GemmMmaSync(GpuRule[ContractionPlan]):
    """Contractions of f16 or bf16 with f32 accumulation, on tensor cores.

    Also of f32, rounded to TF32 (11 significant bits), if that is allowed.
    """

    configuration: GemmMmaConfiguration | None = None

    def plan(self, kernel: Kernel) -> ContractionPlan:
        """Matches a contraction with an elementwise epilogue."""
        plan = plan_gemm(kernel)
        check_operand_types(plan, ["f16", "bf16", *(["f32"] if self.gpu.tf32 else [])])
        extents = plan.anchor.extents
        for axes, what in ((plan.m, "M"), (plan.n, "N"), (plan.k, "K")):
            if point_count([extents[axis] for axis in axes]) < _MIN_EXTENT:
                raise NotApplicable(f"its {what} is small")
        return plan

    def configurations(self, plan: ContractionPlan) -> list[GemmMmaConfiguration]:
        """The largest tiles that occupy all SMs first, then the others."""
        # K tiles of equal bytes, so that register staging has the same cost.
        ratio = plan.lhs.element.width // 16
        known = [replace(c, depth=c.depth // ratio) for c in _CONFIGURATIONS]
        return rank_gemm_configurations(plan, known)

    def write(self, plan: ContractionPlan) -> None:
        _GemmMmaBlock(plan, self.configuration or self.configurations(plan)[0]).write()


class _GemmMmaBlock(GemmBlock):
    """Emitter of a thread block whose warps have a tile of fragments each."""

    allows_async_copy = True

    def __init__(self, plan: ContractionPlan, config: GemmMmaConfiguration) -> None:
        super().__init__(plan, config.tiling, _LANES)
        self._config = config
        element = plan.lhs.element
        is_wide = isinstance(element, ir.F32Type)
        self._fragments = Tf32Fragments() if is_wide else HalfFragments(element)
        self._down = config.warp_rows // MMA_M
        self._across = config.warp_columns // MMA_N

    @property
    def element(self) -> ir.Type:
        return self.plan.lhs.element

    def tile_shape(self, operand: TiledOperand) -> list[int]:
        if operand.is_k_major:
            return [operand.size, operand.depth + self._fragments.pad]
        return [operand.depth, operand.size + self._fragments.transposed_pad]

    def tile_indices(
        self, operand: TiledOperand, stage: IndexLike, point: IndexLike, step: IndexLike
    ) -> list[ir.Value]:
        inner = (point, step) if operand.is_k_major else (step, point)
        return [index(stage), *map(index, inner)]

    def initial_accumulators(self) -> list[ir.Value]:
        start = op("arith.constant", self.plan.element, value=self.plan.anchor.start)
        return [start] * (4 * self._down * self._across)

    def _warp_position(
        self, thread: ir.Value
    ) -> tuple[IndexLike, IndexLike, IndexLike]:
        """Origin of the warp tile, and the lane id."""
        warp, config = div(thread, WARP_SIZE), self._config
        warps_across = config.columns // config.warp_columns
        row = multiply(div(warp, warps_across), config.warp_rows)
        return (
            row,
            multiply(rem(warp, warps_across), config.warp_columns),
            rem(thread, WARP_SIZE),
        )

    def multiply(
        self,
        operands: Sequence[TiledOperand],
        buffers: Sequence[ir.Value],
        stage: IndexLike,
        accumulators: list[ir.Value],
        thread: ir.Value,
    ) -> list[ir.Value]:
        row, column, lane = self._warp_position(thread)
        lhs, rhs = (
            SharedStage(memory, stage, not operand.is_k_major)
            for memory, operand in zip(buffers, operands, strict=True)
        )
        fragments = self._fragments
        for k in range(0, self._config.depth, fragments.mma_k):
            rows = [
                fragments.load_a(lhs, lane, add(row, n * MMA_M), k)
                for n in range(self._down)
            ]
            columns = [
                fragment
                for n in range(0, self._across, 2)
                for fragment in fragments.load_b(rhs, lane, add(column, n * MMA_N), k)
            ]
            following: list[ir.Value] = []
            for r in rows:
                for c in columns:
                    first = len(following)
                    following += fragments.mma(r, c, accumulators[first : first + 4])
            accumulators = following
        return accumulators

    def results(
        self, accumulators: Sequence[ir.Value], thread: ir.Value
    ) -> list[tuple[IndexLike, list[tuple[IndexLike, ir.Value]]]]:
        row, column, lane = self._warp_position(thread)
        row = add(row, div(lane, 4))
        column = add(column, multiply(rem(lane, 4), _LANES))
        type_ = vector_type(_LANES, self.plan.element)
        found = []
        for y in range(self._down):
            for lower in range(2):
                vectors = []
                for x in range(self._across):
                    first = 4 * (y * self._across + x) + 2 * lower
                    pair = op(
                        "vector.from_elements", type_, *accumulators[first : first + 2]
                    )
                    vectors.append((add(column, x * MMA_N), pair))
                found.append((add(row, y * MMA_M + lower * 8), vectors))
        return found

"""GemmSimt rule: GEMM on CUDA cores, with a register tile of FMAs per thread.

Source: V. Volkov and J. Demmel, Benchmarking GPUs to Tune Dense Linear Algebra, SC 2008.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    broadcast,
    div,
    index,
    multiply,
    multiply_add,
    op,
    rem,
    vector_type,
)
from relax_mlir.schedules.gpu.gemm_block import GemmBlock
from relax_mlir.schedules.gpu.gemm_kernel import (
    Tiling,
    TilingConfiguration,
    plan_gemm,
    rank_gemm_configurations,
)
from relax_mlir.schedules.gpu.gemm_tile import TiledOperand
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.kernel_view import Kernel
from relax_mlir.schedules.match_contraction import ContractionPlan

__all__ = ["GemmSimt"]

_LANES = 4  # adjacent accumulators of a thread
_PAD = 4  # elements of padding per row of shared memory, against bank conflicts


@dataclass(frozen=True)
class GemmSimtConfiguration(TilingConfiguration):
    """Tile sizes of a SIMT GEMM.

    Attributes:
        rows, columns: of a block tile; depth: of a K tile.
        thread_rows, thread_columns: of a thread tile.
    """

    rule = "GemmSimt"
    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int

    @property
    def tiling(self) -> Tiling:
        across = self.columns // self.thread_columns
        threads = self.rows // self.thread_rows * across
        return Tiling(self.rows, self.columns, self.depth, threads, self.split_k)


_CONFIGURATIONS = (
    GemmSimtConfiguration(128, 128, 8, 8, 8),
    GemmSimtConfiguration(64, 64, 16, 4, 4),
    GemmSimtConfiguration(32, 32, 16, 4, 4),
)


@dataclass(frozen=True)
class GemmSimt(GpuRule[ContractionPlan]):
    """Contractions in f32, f64 or i32 on CUDA cores."""

    configuration: GemmSimtConfiguration | None = None

    def plan(self, kernel: Kernel) -> ContractionPlan:
        """Matches a contraction with an elementwise epilogue."""
        return plan_gemm(kernel)

    def configurations(self, plan: ContractionPlan) -> list[GemmSimtConfiguration]:
        """The largest tiles that occupy all SMs first, then the others."""
        return rank_gemm_configurations(plan, _CONFIGURATIONS)

    def write(self, plan: ContractionPlan) -> None:
        _GemmSimtBlock(plan, self.configuration or self.configurations(plan)[0]).write()


class _GemmSimtBlock(GemmBlock):
    """Emitter of a thread block whose threads have tiles of interleaved 4x4 groups.

    The groups of a thread are spread over the block tile, so that adjacent threads read
    adjacent vectors of shared memory.
    """

    def __init__(self, plan: ContractionPlan, config: GemmSimtConfiguration) -> None:
        super().__init__(plan, config.tiling, _LANES)
        self._config = config

    @property
    def element(self) -> ir.Type:
        return self.plan.element

    def tile_shape(self, operand: TiledOperand) -> list[int]:
        return [operand.depth, operand.size + _PAD]

    def tile_indices(
        self, operand: TiledOperand, stage: IndexLike, point: IndexLike, step: IndexLike
    ) -> list[ir.Value]:
        return [index(stage), index(step), index(point)]

    def store_shared(
        self,
        operand: TiledOperand,
        value: ir.Value,
        memory: ir.Value,
        stage: IndexLike,
        point: IndexLike,
        step: IndexLike,
    ) -> None:
        if not (isinstance(value.type, ir.VectorType) and operand.is_k_major):
            super().store_shared(operand, value, memory, stage, point, step)
            return
        for n in range(value.type.shape[0]):
            where = ir.DenseI64ArrayAttr.get([n])
            one = op("vector.extract", self.element, value, static_position=where)
            super().store_shared(operand, one, memory, stage, point, add(step, n))

    def initial_accumulators(self) -> list[ir.Value]:
        start = op("arith.constant", self.element, value=self.plan.anchor.start)
        count = self._config.thread_rows * self._config.thread_columns // _LANES
        return [broadcast(start, _LANES)] * count

    def _thread_position(self, thread: ir.Value) -> tuple[IndexLike, IndexLike]:
        """Row and column of a thread in the grid of thread tiles."""
        across = self._config.columns // self._config.thread_columns
        return div(thread, across), rem(thread, across)

    def _groups(self, position: IndexLike, size: int, extent: int) -> list[IndexLike]:
        """Offsets in the block tile of a thread's groups of four."""
        groups = extent // _LANES
        apart = size // groups
        return [add(multiply(position, _LANES), n * apart) for n in range(groups)]

    def multiply(
        self,
        operands: Sequence[TiledOperand],
        buffers: Sequence[ir.Value],
        stage: IndexLike,
        accumulators: list[ir.Value],
        thread: ir.Value,
    ) -> list[ir.Value]:
        rows, columns = buffers
        config, (y, x) = self._config, self._thread_position(thread)
        type_ = vector_type(_LANES, self.element)

        def load(memory: ir.Value, k: int, offset: IndexLike) -> ir.Value:
            return op(
                "vector.load",
                type_,
                memory,
                index(stage),
                index(k),
                index(offset),
            )

        for k in range(config.depth):
            lhs = []
            for offset in self._groups(y, config.rows, config.thread_rows):
                found = load(rows, k, offset)
                for lane in range(_LANES):
                    where = ir.DenseI64ArrayAttr.get([lane])
                    lhs.append(
                        op("vector.extract", self.element, found, static_position=where)
                    )
            across = [
                load(columns, k, offset)
                for offset in self._groups(x, config.columns, config.thread_columns)
            ]
            totals = iter(accumulators)
            accumulators = [
                multiply_add(broadcast(a, _LANES), column, next(totals))
                for a in lhs
                for column in across
            ]
        return accumulators

    def results(
        self, accumulators: Sequence[ir.Value], thread: ir.Value
    ) -> list[tuple[IndexLike, list[tuple[IndexLike, ir.Value]]]]:
        config, (y, x) = self._config, self._thread_position(thread)
        totals = iter(accumulators)
        columns = self._groups(x, config.columns, config.thread_columns)
        return [
            (add(group, lane), [(column, next(totals)) for column in columns])
            for group in self._groups(y, config.rows, config.thread_rows)
            for lane in range(_LANES)
        ]

"""Flash attention with ``mma.sync`` or FMAs: a block per query tile, a loop over K/V tiles.

Scores stay in registers. The online softmax keeps the running maximum and sum of each row;
when the maximum grows, the sum and the output accumulators are rescaled.

Source: Dao, FlashAttention-2: Faster Attention with Better Parallelism and Work
Partitioning, 2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    ceil_div,
    for_loop,
    multiply,
    op,
    rem,
)
from relax_mlir.schedules.contraction_axes import merge_axes
from relax_mlir.schedules.flat_buffers import FlatAccess
from relax_mlir.schedules.gpu.attention_epilogue import AttentionEpilogue
from relax_mlir.schedules.gpu.attention_fragments import (
    AttentionThread,
    QueryTile,
    launch_query_tiles,
    visible_keys,
)
from relax_mlir.schedules.gpu.attention_matmuls import WarpMatmuls
from relax_mlir.schedules.gpu.attention_shared_memory import SharedTile, rebase_to_head
from relax_mlir.schedules.gpu.attention_softmax import SoftmaxPlan
from relax_mlir.schedules.gpu.gemm_tile import GemmDim, TiledOperand
from relax_mlir.schedules.gpu.launch import WARP_SIZE, barrier, if_less
from relax_mlir.schedules.gpu.online_softmax import SoftmaxState
from relax_mlir.schedules.kernel_view import Access
from relax_mlir.schedules.match_contraction import ContractionOperand, ContractionPlan

__all__ = ["AttentionKernel"]

_STAGES = 2  # K/V tiles: double buffering with cp.async


class AttentionKernel:
    """Emitter of flash attention.

    Args:
        plan: the attention; rows: queries of a block.
        matmuls: matmuls of the warps; element: operand type.
        lanes: vector width of score modifiers: that of the fragment, or 1.
    """

    def __init__(
        self,
        plan: SoftmaxPlan,
        rows: int,
        matmuls: WarpMatmuls,
        element: ir.Type,
        lanes: int,
    ) -> None:
        self._plan, self._size, self._matmuls = plan, rows, matmuls
        self._element, self._lanes = element, lanes
        self._threads = rows // matmuls.warp_rows * WARP_SIZE

    def write(self) -> None:
        """Emits the launch."""
        launch_query_tiles(self._plan, self._size, self._threads, self._write_block)

    def _write_block(self, rows: QueryTile, thread: ir.Value) -> None:
        """Emits the code of a thread for a tile of queries."""
        self._rows, self._thread = rows, thread
        matmuls = self._matmuls
        self._softmax = AttentionThread(self._plan, matmuls, rows, thread, self._lanes)
        self._allocate_tiles(rows.of_scores, rows.of_values)
        matmuls.allocate(self._size)
        results = AttentionEpilogue(
            self._plan, rows.heads, rows.of_values, matmuls.value_lanes
        )
        self._softmax.write_epilogue(
            results, self._main_loop(rows.of_scores, rows.of_values)
        )

    def _allocate_tiles(
        self, of_scores: Mapping[int, IndexLike], of_values: Mapping[int, IndexLike]
    ) -> None:
        """Allocates the tiles of queries, keys and values in shared memory."""
        attention, matmuls = self._plan.attention, self._matmuls
        sources = (
            attention.scores.lhs,
            attention.scores.rhs,
            attention.values.rhs,
        )
        flats = [FlatAccess.of(operand.access) for operand in sources]
        heads = (of_scores, of_scores, of_values)
        rebased = [
            rebase_to_head(flat, head) for flat, head in zip(flats, heads, strict=True)
        ]
        operands = self._operands(sources, rebased)
        # cp.async cannot transpose.
        self._uses_async_copy = all(
            o.supports_async_copy and is_transposed != o.is_k_major
            for o, is_transposed in zip(
                operands, self._transposed_flags(operands), strict=True
            )
        )
        if not self._uses_async_copy:
            operands = self._operands(sources, flats)
        stages = _STAGES if self._uses_async_copy else 1
        self._tiles = [
            SharedTile.of(o, count, matmuls.pad, is_transposed=is_transposed)
            for o, count, is_transposed in zip(
                operands,
                (1, stages, stages),
                self._transposed_flags(operands),
                strict=True,
            )
        ]

    def _transposed_flags(self, operands: Sequence[TiledOperand]) -> list[bool]:
        """Whether the tiles of queries, keys and values are transposed (MN-major)."""
        *of_scores, values = operands
        is_transposed = self._matmuls.is_transposed
        found = [is_transposed(operand, is_for_scores=True) for operand in of_scores]
        return [*found, is_transposed(values, is_for_scores=False)]

    def _operands(
        self, sources: Sequence[ContractionOperand], flats: Sequence[FlatAccess]
    ) -> list[TiledOperand]:
        """Queries, keys and values as tiled operands."""
        attention, matmuls = self._plan.attention, self._matmuls
        scores, values = attention.scores, attention.values
        depth = _side(scores, scores.k, (scores.a, scores.b))
        keys = _side(values, values.k)
        sides = (
            (_side(scores, scores.m[-1:]), depth, self._size, matmuls.depth),
            (_side(scores, scores.n), depth, matmuls.keys, matmuls.depth),
            (_side(values, values.n, (values.b,)), keys, matmuls.width, matmuls.keys),
        )
        return [
            TiledOperand(
                operand, flat, side, along, size, steps, self._element, self._threads
            )
            for operand, flat, (side, along, size, steps) in zip(
                sources, flats, sides, strict=True
            )
        ]

    def _main_loop(
        self, of_scores: Mapping[int, IndexLike], of_values: Mapping[int, IndexLike]
    ) -> SoftmaxState:
        """Emits the loop over the K/V tiles; returns the final softmax state.

        Args:
            of_scores, of_values: the head's indices, by the axes of each matmul.
        """
        queries, keys, values = self._tiles
        thread, size = self._thread, self._matmuls.keys

        def copy(tile: IndexLike) -> None:
            stage, first = rem(tile, _STAGES), multiply(tile, size)
            keys.copy_async(of_scores, first, 0, thread, stage)
            values.copy_async(of_values, 0, first, thread, stage)
            op("nvvm.cp.async.commit.group", None)

        def async_step(tile: ir.Value, *before: ir.Value) -> list[ir.Value]:
            # The copies of this tile have completed, and all threads are done with the other.
            _wait_for_copies()
            barrier()
            copy(add(tile, 1))
            return self._kv_step(
                tile, rem(tile, _STAGES), start.from_values(before)
            ).values

        def staged_step(tile: ir.Value, *before: ir.Value) -> list[ir.Value]:
            first = multiply(tile, size)
            barrier()
            keys.store(of_scores, first, 0, thread)
            values.store(of_values, 0, first, thread)
            barrier()
            return self._kv_step(tile, 0, start.from_values(before)).values

        if self._uses_async_copy:
            queries.copy_async(of_scores, self._rows.first, 0, thread, 0)
            if_less(0, self._plan.attention.keys, lambda: copy(0))
        else:
            queries.store(of_scores, self._rows.first, 0, thread)
        start = self._softmax.initial_state()
        step = async_step if self._uses_async_copy else staged_step
        visible = visible_keys(self._plan, self._rows.first, self._size - 1)
        count = ceil_div(visible, size)
        return start.from_values(for_loop(0, count, 1, step, start.values))

    def _kv_step(
        self, tile: IndexLike, stage: IndexLike, before: SoftmaxState
    ) -> SoftmaxState:
        """Emits the step of a K/V tile: scores, softmax, accumulation."""
        queries, keys, values = self._tiles
        matmuls, start = self._matmuls, self._plan.attention.scores.anchor.start
        assert start is not None  # the accumulator starts from a constant
        scores = matmuls.scores(queries.at(0), keys.at(stage), self._thread, start)
        modified = self._softmax.apply_modifiers(scores, multiply(tile, matmuls.keys))
        found = self._softmax.softmax_step(modified, before)
        after, at = found.next_state(before.accumulators), values.at(stage)
        accumulators = matmuls.accumulate_values(
            found.weights, at, after.accumulators, self._thread
        )
        return replace(after, accumulators=accumulators)


def _side(
    plan: ContractionPlan, axes: Sequence[int], accesses: Sequence[Access] | None = None
) -> GemmDim:
    """Axes of a matmul as a GEMM dimension, fused where all accesses allow it."""
    return GemmDim(merge_axes(axes, plan.anchor.extents, accesses or ()))


def _wait_for_copies() -> None:
    """Waits for all ``cp.async`` groups of the thread."""
    none = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 0)
    op("nvvm.cp.async.wait.group", None, n=none)

"""Warp-specialized flash attention on Hopper: a TMA producer thread, wgmma consumers.

A block has a tile of queries of a head. The producer loads it, and then K/V tiles into a
pipeline. Each consumer warpgroup has 64 rows: QK^T reads both operands from shared memory, PV
reads the weights from registers. The PV matmul of a tile overlaps with the softmax of the next
one; ping-pong scheduling overlaps the softmax of a warpgroup with the matmuls of the other.

Source: Shah, Bikshandi, Zhang, Thakkar, Ramani and Dao, FlashAttention-3: Fast and Accurate
Attention with Asynchrony and Low-precision, 2024.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    ceil_div,
    div,
    for_loop,
    maximum,
    multiply,
    op,
    rem,
)
from relax_mlir.schedules.configuration import Configuration
from relax_mlir.schedules.gpu.async_pipeline import PipelineState
from relax_mlir.schedules.gpu.attention_epilogue import AttentionEpilogue
from relax_mlir.schedules.gpu.attention_fragments import (
    AttentionThread,
    QueryTile,
    launch_query_tiles,
    visible_keys,
)
from relax_mlir.schedules.gpu.attention_matmuls import (
    FragmentLayout,
    RowFragment,
    split_rows,
)
from relax_mlir.schedules.gpu.attention_softmax import SoftmaxPlan
from relax_mlir.schedules.gpu.attention_tma import AttentionTmaOperands, TmaPipeline
from relax_mlir.schedules.gpu.launch import WARP_SIZE, barrier, if_less, warp_uniform
from relax_mlir.schedules.gpu.mma import HalfFragments, pack_word
from relax_mlir.schedules.gpu.online_softmax import SoftmaxState
from relax_mlir.schedules.gpu.tma_tiles import SWIZZLE_BYTES
from relax_mlir.schedules.gpu.wgmma import (
    WARPGROUP,
    WGMMA_M,
    OrderedWarpgroups,
    WgmmaAccumulator,
    set_max_registers,
)

__all__ = ["AttentionWgmmaConfiguration", "WarpSpecializedAttention"]

# Per thread of the producer, and of two consumer warpgroups, as published.
_PRODUCER_REGISTERS, _CONSUMER_REGISTERS = 24, 240


@dataclass(frozen=True)
class AttentionWgmmaConfiguration(Configuration):
    """Tile sizes and pipeline depth of flash attention on Hopper.

    Attributes:
        rows: queries of a block tile; keys: of a K/V tile.
        stages: of the pipelines of keys and of values.
    """

    rule = "AttentionWgmma"
    rows: int
    keys: int
    stages: int

    @property
    def warpgroups(self) -> int:
        """Number of consumer warpgroups."""
        return self.rows // WGMMA_M

    @property
    def threads(self) -> int:
        """Threads of a block; the producer is a warp, or a warpgroup for ``setmaxnreg``."""
        return self.warpgroups * WARPGROUP + (
            WARPGROUP if self.reallocates_registers else WARP_SIZE
        )

    @property
    def reallocates_registers(self) -> bool:
        """Whether registers move from the producer to the consumers."""
        return self.warpgroups > 1

    @property
    def max_consumer_registers(self) -> int:
        """Registers of a consumer thread."""
        return _CONSUMER_REGISTERS if self.reallocates_registers else 255


@dataclass(frozen=True)
class _Carried:
    """Loop-carried state of a consumer warpgroup.

    Attributes:
        keys, values: states of the pipelines.
        state: of the online softmax.
        weights: of the previous tile, whose PV is pending, as A fragments.
    """

    keys: PipelineState
    values: PipelineState
    state: SoftmaxState
    weights: Sequence[ir.Value]

    @property
    def flat(self) -> list[ir.Value]:
        """The loop-carried values."""
        return [
            *self.keys.loop_values,
            *self.values.loop_values,
            *self.state.values,
            *self.weights,
        ]

    def from_values(self, flat: Sequence[ir.Value]) -> _Carried:
        """The state of the same structure with the given loop-carried values."""
        end = 4 + len(self.state.values)
        state = self.state.from_values(flat[4:end])
        return _Carried(
            PipelineState(*flat[:2]), PipelineState(*flat[2:4]), state, flat[end:]
        )


@dataclass(frozen=True)
class _Pipelines:
    """The pipelines of a block: one query tile, and stages of keys and of values."""

    queries: TmaPipeline
    keys: TmaPipeline
    values: TmaPipeline

    @staticmethod
    def create(operands: AttentionTmaOperands, stages: int) -> _Pipelines:
        """Allocates the pipelines, at the top of a launch."""
        return _Pipelines(
            TmaPipeline.create(operands.queries, 1, is_refilled=False),
            TmaPipeline.create(operands.keys, stages),
            TmaPipeline.create(operands.values, stages),
        )


class WarpSpecializedAttention:
    """Emitter of warp-specialized flash attention.

    Args:
        plan: the attention; operands: TMA tiles for ``config``.
        layout: of the fragments of a warpgroup.
        lanes: vector width of score modifiers: that of the fragment, or 1.
    """

    def __init__(
        self,
        plan: SoftmaxPlan,
        config: AttentionWgmmaConfiguration,
        operands: AttentionTmaOperands,
        layout: FragmentLayout,
        lanes: int,
    ) -> None:
        self._plan, self._config, self._operands = plan, config, operands
        self._layout, self._lanes = layout, lanes

    def write(self) -> None:
        """Emits the launch."""
        operands = self._operands
        whole = operands.queries, operands.keys, operands.values
        tensor_maps = [tiles.tma_operand.create_tensor_map() for tiles in whole]

        def block(rows: QueryTile, thread: ir.Value) -> None:
            self._write_block(tensor_maps, rows, thread)

        launch_query_tiles(self._plan, self._config.rows, self._config.threads, block)

    def _write_block(
        self, tensor_maps: Sequence[ir.Value], rows: QueryTile, thread: ir.Value
    ) -> None:
        plan, config, layout = self._plan, self._config, self._layout
        pipelines = _Pipelines.create(self._operands, config.stages)
        results = AttentionEpilogue(
            plan, rows.heads, rows.of_values, layout.value_lanes
        )

        def start() -> None:
            for pipeline in (pipelines.queries, pipelines.keys, pipelines.values):
                pipeline.init_barriers(config.warpgroups)
            op("nvvm.fence.mbarrier.init", None)

        if_less(thread, 1, start)
        barrier()
        tiles = ceil_div(visible_keys(plan, rows.first, config.rows - 1), config.keys)
        group = warp_uniform(div(thread, WARPGROUP))

        def produce() -> None:
            self._set_registers(is_increase=False)
            some = partial(self._produce, tensor_maps, pipelines, rows, tiles)
            last = config.warpgroups * WARPGROUP
            if_less(thread, last + 1, lambda: self._if_any(tiles, some))

        def consume() -> None:
            self._set_registers(is_increase=True)
            mine = replace(rows, first=add(rows.first, multiply(group, WGMMA_M)))
            within = rem(thread, WARPGROUP)
            softmax = AttentionThread(plan, layout, mine, within, self._lanes)
            warpgroup = _Warpgroup(config, pipelines, layout, softmax, group, within)
            self._if_any(
                tiles,
                lambda: softmax.write_epilogue(results, warpgroup.main_loop(tiles)),
                lambda: softmax.write_epilogue(results, softmax.initial_state()),
            )

        if_less(group, config.warpgroups, consume, produce)

    def _set_registers(self, *, is_increase: bool) -> None:
        """Moves registers from the producer to several consumer warpgroups (``setmaxnreg``)."""
        if self._config.reallocates_registers:
            count = _CONSUMER_REGISTERS if is_increase else _PRODUCER_REGISTERS
            set_max_registers(count, is_increase=is_increase)

    def _if_any(
        self,
        tiles: IndexLike,
        then: Callable[[], None],
        otherwise: Callable[[], None] | None = None,
    ) -> None:
        """Emits ``then`` if any key is visible to the block, else ``otherwise``."""
        keys, causal_mask = self._plan.attention.keys, self._plan.causal_mask
        if isinstance(keys, int) and (causal_mask is None or causal_mask.diagonal >= 0):
            then()
        else:
            if_less(0, tiles, then, otherwise)

    def _produce(
        self,
        tensor_maps: Sequence[ir.Value],
        pipelines: _Pipelines,
        rows: QueryTile,
        tiles: IndexLike,
    ) -> None:
        """Emits the loop of the producer thread."""
        of_queries, of_keys, of_values = tensor_maps
        scores, values = self._plan.attention.scores, self._plan.attention.values
        first, start = PipelineState.initial(), dict.fromkeys((*scores.k, *values.n), 0)
        point = {**start, **rows.of_scores, scores.m[-1]: rows.first}
        pipelines.queries.producer_load(of_queries, point, first)

        def tile(number: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            pipeline_state, key = (
                PipelineState(*carried),
                multiply(number, self._config.keys),
            )
            at = {**start, **rows.of_scores, scores.n[0]: key}
            pipelines.keys.producer_load(of_keys, at, pipeline_state)
            at = {**start, **rows.of_values, values.k[0]: key}
            pipelines.values.producer_load(of_values, at, pipeline_state)
            return pipeline_state.next_stage(self._config.stages).loop_values

        for_loop(0, tiles, 1, tile, first.loop_values)


class _Warpgroup:
    """Emitter of a consumer warpgroup.

    Args:
        softmax: softmax of the thread's rows; number: of the warpgroup; thread: id in it.
    """

    def __init__(
        self,
        config: AttentionWgmmaConfiguration,
        pipelines: _Pipelines,
        layout: FragmentLayout,
        softmax: AttentionThread,
        number: IndexLike,
        thread: IndexLike,
    ) -> None:
        self._config, self._pipelines, self._layout = config, pipelines, layout
        self._softmax, self._thread = softmax, thread
        self._score_wgmma, self._value_wgmma = (
            WgmmaAccumulator(layout.keys),
            WgmmaAccumulator(layout.width),
        )
        self._rotation = OrderedWarpgroups(number, config.warpgroups)
        queries, keys, values = (
            pipeline.tiles.descriptor(pipeline.memory)
            for pipeline in (pipelines.queries, pipelines.keys, pipelines.values)
        )
        self._query_descriptor = queries.offset_by(
            multiply(number, WGMMA_M * SWIZZLE_BYTES)
        )
        self._key_descriptor, self._value_descriptor = keys, values

    def main_loop(self, tiles: IndexLike) -> SoftmaxState:
        """Emits the loop over the K/V tiles; returns the final softmax state."""
        softmax, size = self._softmax, self._config.keys
        self._pipelines.queries.consumer_wait(PipelineState.initial())
        self._rotation.start()
        carried = self._prologue()

        def following(
            modify: Callable[[RowFragment, IndexLike], RowFragment],
        ) -> Callable[..., Any]:
            def step(tile: ir.Value, *flat: ir.Value) -> list[ir.Value]:
                first = multiply(tile, size)
                return self._step(
                    carried.from_values(flat), lambda scores: modify(scores, first)
                ).flat

            return step

        whole = maximum(softmax.full_tiles, 1)
        flat = for_loop(
            1, whole, 1, following(softmax.apply_modifiers_full), carried.flat
        )
        flat = for_loop(
            whole, tiles, 1, following(softmax.apply_modifiers_masked), flat
        )
        carried = carried.from_values(flat)
        self._pipelines.values.consumer_wait(carried.values)
        self._score_wgmma.fence()
        accumulators = self._issue_values(carried)
        self._score_wgmma.wait(0)
        self._rotation.finish()
        return replace(carried.state, accumulators=self._by_row(accumulators))

    def _prologue(self) -> _Carried:
        """Emits QK^T and the softmax of the first tile (pipeline prologue)."""
        pipeline_state, start, keys = (
            PipelineState.initial(),
            self._softmax.initial_state(),
            self._pipelines.keys,
        )
        keys.consumer_wait(pipeline_state)
        self._score_wgmma.fence()
        accumulators = self._issue_scores(pipeline_state)
        self._score_wgmma.wait(0)
        keys.consumer_release(pipeline_state, self._thread)
        modified = self._softmax.apply_modifiers(
            self._by_row(self._score_wgmma.elements(accumulators)), 0
        )
        found = self._softmax.softmax_step(modified, start)
        state = SoftmaxState(found.row_max, found.row_sum, start.accumulators)
        following = pipeline_state.next_stage(self._config.stages)
        return _Carried(
            following, pipeline_state, state, self._pack_weights(found.weights)
        )

    def _step(
        self, before: _Carried, modify: Callable[[RowFragment], RowFragment]
    ) -> _Carried:
        """Emits QK^T and the softmax of a tile, overlapped with PV of the previous one."""
        pipelines, stages = self._pipelines, self._config.stages
        pipelines.keys.consumer_wait(before.keys)
        self._rotation.wait_turn()
        self._score_wgmma.fence()
        scores = self._issue_scores(before.keys)
        pipelines.values.consumer_wait(before.values)
        accumulators = self._issue_values(before)
        self._rotation.signal_next()
        self._score_wgmma.wait(1)
        pipelines.keys.consumer_release(before.keys, self._thread)
        found = self._softmax.softmax_step(
            modify(self._by_row(self._score_wgmma.elements(scores))), before.state
        )
        self._score_wgmma.wait(0)
        pipelines.values.consumer_release(before.values, self._thread)
        return _Carried(
            before.keys.next_stage(stages),
            before.values.next_stage(stages),
            found.next_state(self._by_row(accumulators)),
            self._pack_weights(found.weights),
        )

    def _issue_scores(self, pipeline_state: PipelineState) -> ir.Value:
        """Issues QK^T of a key tile."""
        queries, keys = self._pipelines.queries.tiles, self._pipelines.keys.tiles
        tile = self._key_descriptor.offset_by(
            multiply(pipeline_state.stage, keys.bytes)
        )
        accumulators = None
        for number in range(self._layout.depth // tile.mma_k):
            rows = queries.operand_at(self._query_descriptor, number)
            accumulators = self._score_wgmma.mma(
                rows, keys.operand_at(tile, number), accumulators
            )
        assert accumulators is not None  # the head dimension is not 0
        self._score_wgmma.commit()
        return accumulators

    def _issue_values(self, carried: _Carried) -> list[ir.Value]:
        """Issues PV of the previous tile."""
        tiles, pipeline_state = self._pipelines.values.tiles, carried.values
        tile = self._value_descriptor.offset_by(
            multiply(pipeline_state.stage, tiles.bytes)
        )
        groups = self._layout.from_rows(carried.state.accumulators)
        accumulators = [number for group in groups for number in group]
        for number in range(self._layout.keys // tile.mma_k):
            weights = carried.weights[4 * number : 4 * number + 4]
            columns = tiles.operand_at(tile, number)
            added = self._value_wgmma.mma_from_registers(weights, columns, accumulators)
            accumulators = self._value_wgmma.elements(added)
        self._value_wgmma.commit()
        return accumulators

    def _by_row(self, numbers: Sequence[ir.Value]) -> RowFragment:
        """Arranges accumulators by row of the thread."""
        return self._layout.by_row(split_rows(numbers, len(numbers) // 4))

    def _pack_weights(self, weights: RowFragment) -> list[ir.Value]:
        """Packs weights into A fragments: four i32 per 16 keys."""
        fragments = HalfFragments(
            self._pipelines.keys.tiles.tma_operand.operand.element
        )
        upper, lower = weights
        pairs = list(zip(upper, lower, strict=True))
        return [
            pack_word(register)
            for n in range(0, len(pairs), 2)
            for register in fragments.a_from_accumulators(pairs[n : n + 2])
        ]

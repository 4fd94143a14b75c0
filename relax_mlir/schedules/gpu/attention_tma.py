"""TMA tiles of queries, keys and values, and their producer/consumer pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.builder import IndexLike, add, multiply, product, static_size
from relax_mlir.schedules.contraction_axes import Axis, mergeable_groups
from relax_mlir.schedules.gpu.async_pipeline import Mbarriers, PipelineState
from relax_mlir.schedules.gpu.attention_softmax import SoftmaxPlan
from relax_mlir.schedules.gpu.launch import if_less
from relax_mlir.schedules.gpu.tma_tiles import (
    SWIZZLE_BYTES,
    TmaOperand,
    plan_tma_operand,
    window_axes,
)
from relax_mlir.schedules.gpu.wgmma import MatrixDescriptor
from relax_mlir.schedules.kernel_view import Access
from relax_mlir.schedules.match_contraction import ContractionOperand, ContractionPlan
from relax_mlir.schedules.rule import NotApplicable

__all__ = ["AttentionTmaOperands", "TmaPipeline", "TmaTiles"]


@dataclass(frozen=True)
class TmaTiles:
    """An operand in tiles of several 128-byte K slices.

    Attributes:
        tma_operand: TMA operand of a slice; slices: of a tile; k_axis: the K axis.
    """

    tma_operand: TmaOperand
    slices: int
    k_axis: int

    @property
    def slice_k(self) -> int:
        """K of a slice: 128 bytes of elements."""
        return SWIZZLE_BYTES * 8 // self.tma_operand.operand.element.width

    @property
    def bytes(self) -> int:
        """Size of a tile in shared memory."""
        return self.slices * self.tma_operand.stage_bytes

    @property
    def transaction_bytes(self) -> int:
        """Transaction bytes of the copies of a tile."""
        return self.slices * self.tma_operand.transaction_bytes

    def descriptor(self, memory: ir.Value) -> MatrixDescriptor:
        """The ``wgmma`` descriptor of the first slice in shared memory."""
        is_k_major = self.tma_operand.is_k_major
        element = str(self.tma_operand.operand.element)
        return MatrixDescriptor.of_buffer(
            memory, element, self.slice_k, is_k_major=is_k_major
        )

    def operand_at(self, tile: MatrixDescriptor, number: int) -> MatrixDescriptor:
        """The descriptor of a tile's operand of instruction ``number`` along K."""
        slice_, within = divmod(number, self.slice_k // tile.mma_k)
        return tile.offset_by(slice_ * self.tma_operand.stage_bytes).advance_k(within)


@dataclass(frozen=True)
class TmaPipeline:
    """Multistage TMA pipeline of tiles in shared memory.

    Attributes:
        full: mbarriers of loaded stages; empty: of consumed ones, None if never refilled.
        stages: number of tiles.
    """

    tiles: TmaTiles
    memory: ir.Value
    full: Mbarriers
    empty: Mbarriers | None
    stages: int

    @staticmethod
    def create(
        tiles: TmaTiles, stages: int, *, is_refilled: bool = True
    ) -> TmaPipeline:
        """Allocates the stages and their mbarriers, at the top of a launch."""
        memory = tiles.tma_operand.alloc(stages * tiles.slices)
        full, empty = Mbarriers.create(stages), None
        if is_refilled:
            empty = Mbarriers.create(stages)
        return TmaPipeline(tiles, memory, full, empty, stages)

    def init_barriers(self, readers: int) -> None:
        """Emits the initialization of the mbarriers, by one thread.

        Args:
            readers: number of consumer warpgroups.
        """
        for number in range(self.stages):
            self.full.init(number, 1)
            if self.empty is not None:
                self.empty.init(number, readers)

    def producer_load(
        self, descriptor: ir.Value, point: Mapping[int, IndexLike], state: PipelineState
    ) -> None:
        """Emits the TMA copies of a tile, by one thread, once its stage is empty.

        Args:
            point: origin of the tile.
        """
        if self.empty is not None:
            self.empty.wait(state.stage, state.previous_parity())
        tiles = self.tiles
        self.full.arrive_expect_tx(state.stage, tiles.transaction_bytes)
        begin, first = multiply(state.stage, tiles.slices), point[tiles.k_axis]
        for number in range(tiles.slices):
            at = {**point, tiles.k_axis: add(first, number * tiles.slice_k)}
            place = add(begin, number)
            tiles.tma_operand.load(
                descriptor, at, self.memory, place, self.full, state.stage
            )

    def consumer_wait(self, state: PipelineState) -> None:
        """Emits the wait for the tile of the current stage."""
        self.full.wait(state.stage, state.parity)

    def consumer_release(self, state: PipelineState, thread: IndexLike) -> None:
        """Emits the release of a stage by a warpgroup, by its first thread."""
        empty = self.empty
        assert empty is not None
        if_less(thread, 1, lambda: empty.arrive(state.stage))


_COLUMNS = 16  # granularity of the padded columns of values


@dataclass(frozen=True)
class AttentionTmaOperands:
    """Queries, keys and values as TMA tiles."""

    queries: TmaTiles
    keys: TmaTiles
    values: TmaTiles

    def bytes(self, stages: int) -> int:
        """Shared memory of a query tile and ``stages`` K/V tiles."""
        return self.queries.bytes + stages * (self.keys.bytes + self.values.bytes)

    @staticmethod
    def of(plan: SoftmaxPlan, rows: int, keys: int) -> AttentionTmaOperands:
        """Plans the tiles for a tile size of queries and of keys.

        Raises:
            NotApplicable: TMA cannot read an operand.
        """
        scores, values = plan.attention.scores, plan.attention.values
        (key,), (value,) = scores.n, values.k
        depth = _fused_axis(
            scores, scores.k, (scores.a, scores.b), "K axes of its scores"
        )
        columns = _fused_axis(values, values.n, (values.b,), "columns of its values")
        _check_ends(plan, depth, keys)
        of_scores = [*_outer_axes(scores), Axis(key, plan.attention.keys), depth]
        of_values = [*_outer_axes(values), columns, Axis(value, plan.attention.keys)]
        row, width = scores.m[-1], static_size(columns.extent)
        padded = -(-width // _COLUMNS) * _COLUMNS
        return AttentionTmaOperands(
            _tiles(scores.lhs, of_scores, {row: rows}, rows, depth.extent),
            _tiles(scores.rhs, of_scores, {key: keys}, keys, depth.extent),
            _tiles(values.rhs, of_values, {columns.number: width}, padded, keys),
        )


def _outer_axes(matmul: ContractionPlan) -> list[Axis]:
    """The batch and M axes of a matmul."""
    extents = matmul.anchor.extents
    return [Axis(n, extents[n]) for n in (*matmul.outer, *matmul.m)]


def _fused_axis(
    plan: ContractionPlan, axes: Sequence[int], accesses: Sequence[Access], what: str
) -> Axis:
    """Fuses axes of a matmul into one.

    Args:
        accesses: in which they must be fusible; what: name of the axes in messages.

    Raises:
        NotApplicable: they are not fusible.
    """
    extents = plan.anchor.extents
    apart = window_axes(plan.lhs) | window_axes(plan.rhs)
    group, *rest = mergeable_groups(axes, extents, accesses, apart)
    if rest:
        raise NotApplicable(f"the {what} do not fuse into one axis")
    return Axis(group[-1], product([extents[n] for n in group]))


def _check_ends(plan: SoftmaxPlan, depth: Axis, keys: int) -> None:
    """Checks that partial tiles end at the end of the tensor, where TMA fills zeros."""
    scores, values = plan.attention.scores, plan.attention.values
    slice_k = SWIZZLE_BYTES * 8 // scores.lhs.element.width
    for operand in (scores.lhs, scores.rhs):
        if static_size(depth.extent) % slice_k and depth.number in window_axes(operand):
            raise NotApplicable("a K tile crosses the end of a K axis")
    extent, (value,) = plan.attention.keys, values.k
    is_even = isinstance(extent, int) and extent % keys == 0
    if not is_even and value in window_axes(values.rhs):
        raise NotApplicable("its values extend past the last key")


def _tiles(
    operand: ContractionOperand,
    axes: Sequence[Axis],
    tile: Mapping[int, int],
    padded: int,
    steps: IndexLike,
) -> TmaTiles:
    """Plans the tiles of an operand.

    Args:
        axes: of the matmul, K last.
        tile: rows or columns of a tile, by axis; padded: their number, padded.
        steps: K of a tile.
    """
    last, slice_k = axes[-1].number, SWIZZLE_BYTES * 8 // operand.element.width
    tma_operand = plan_tma_operand(
        operand, axes, tile, last, -(-padded // slice_k) * slice_k
    )
    return TmaTiles(tma_operand, -(-static_size(steps) // slice_k), last)

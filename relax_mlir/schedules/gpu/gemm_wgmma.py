"""GemmWgmma rule: persistent, warp-specialized GEMM on Hopper with TMA and ``wgmma``.

A producer thread loads K tiles of both operands into a multistage pipeline by TMA; consumer
warpgroups multiply them, 64 rows of the tile each. Full and empty mbarriers synchronize both
sides. Blocks are persistent: each computes several output tiles, and the loads of the next
one overlap with the epilogue.

Source: NVIDIA, CUTLASS, "Efficient GEMM in CUDA": warp-specialized persistent kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    div,
    for_loop,
    minimum,
    multiply,
    op,
    product,
    rem,
    static_size,
    subtract,
    unflatten,
)
from relax_mlir.schedules.contraction_axes import Axis, mergeable_groups
from relax_mlir.schedules.gpu.async_pipeline import Mbarriers, PipelineState
from relax_mlir.schedules.gpu.epilogue_store import (
    EPILOGUE_COLUMNS,
    EPILOGUE_ROWS,
    EpilogueTiles,
    store_width,
)
from relax_mlir.schedules.gpu.gemm_kernel import (
    GemmKernel,
    Tiling,
    TilingConfiguration,
    check_operand_types,
    plan_gemm,
    rank_gemm_configurations,
    row_accesses,
)
from relax_mlir.schedules.gpu.gemm_tile import GemmDim
from relax_mlir.schedules.gpu.launch import (
    SM_COUNT,
    WARP_SIZE,
    barrier,
    if_less,
    launch,
    sync_warp,
    wait_for_previous_grid,
    warp_uniform,
)
from relax_mlir.schedules.gpu.row_tiles import RowTile, choose_row_tile
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.gpu.split_k import SPLIT
from relax_mlir.schedules.gpu.tma_tiles import (
    SWIZZLE_BYTES,
    TmaOperand,
    plan_tma_operand,
    window_axes,
)
from relax_mlir.schedules.gpu.wgmma import (
    WARPGROUP,
    WGMMA_M,
    MatrixDescriptor,
    WgmmaAccumulator,
    set_max_registers,
)
from relax_mlir.schedules.kernel_view import Access, Kernel, point_count
from relax_mlir.schedules.match_contraction import ContractionPlan
from relax_mlir.schedules.rule import NotApplicable

__all__ = ["GemmWgmma"]

_BAND = 8  # rows of tiles in a band of the threadblock swizzle
_MIN_EXTENT = 33  # of M and N; below it half of a tile is empty
_HOPPER = 90
_MN_MAJOR_BITS = 16  # width of the types whose operands may be MN-major
_KINDS = {"f32": "tf32", "f8E4M3FN": "e4m3"}  # PTX names of operand types
_MAX_SHARING_BLOCKS = 8  # blocks that prefetch the same columns
_PREFETCHED_TILES = 16  # K tiles
_REALLOCATING = 2  # consumer warpgroups, which get registers of the producer
_PRODUCER_REGISTERS, _CONSUMER_REGISTERS = 40, 232  # per thread then


@dataclass(frozen=True)
class GemmWgmmaConfiguration(TilingConfiguration):
    """Tile sizes and pipeline depth of a GEMM by ``wgmma``.

    Attributes:
        rows, columns: of a tile; depth: of a K tile.
        stages: of the pipeline.
        blocks: size of the persistent grid.
    """

    rule = "GemmWgmma"
    rows: int
    columns: int
    depth: int
    stages: int
    blocks: int = SM_COUNT

    @property
    def warpgroups(self) -> int:
        """Number of consumer warpgroups."""
        return self.rows // WGMMA_M

    @property
    def tiling(self) -> Tiling:
        threads = WARPGROUP * (1 + self.warpgroups)
        return Tiling(self.rows, self.columns, self.depth, threads, self.split_k)


_CONFIGURATIONS = (
    GemmWgmmaConfiguration(128, 256, 64, 4),
    GemmWgmmaConfiguration(128, 128, 64, 6),
    GemmWgmmaConfiguration(64, 128, 64, 6),
    GemmWgmmaConfiguration(64, 64, 64, 8),
)


@dataclass(frozen=True)
class GemmWgmma(GpuRule[ContractionPlan]):
    """Contractions of f16, bf16 or f8E4M3FN with f32 accumulation, on Hopper's tensor cores.

    Also of f32, truncated to TF32 (11 significant bits), if that is allowed. Base addresses
    and strides of operands must be multiples of 16 bytes, for TMA.
    """

    configuration: GemmWgmmaConfiguration | None = None

    def plan(self, kernel: Kernel) -> ContractionPlan:
        """Matches a contraction with an elementwise epilogue."""
        if self.gpu.sm != _HOPPER:
            raise NotApplicable("the device is not of compute capability 9.0")
        plan = plan_gemm(kernel)
        wide = ["f32"] if self.gpu.tf32 else []
        check_operand_types(plan, ["f16", "bf16", "f8E4M3FN", *wide])
        extents = plan.anchor.extents
        for axes, what in ((plan.m, "rows"), (plan.n, "columns")):
            if point_count([extents[axis] for axis in axes]) < _MIN_EXTENT:
                raise NotApplicable(f"it has fewer than {_MIN_EXTENT} {what}")
        if not all(isinstance(extents[axis], int) for axis in plan.k):
            raise NotApplicable("its K is dynamic")
        _Operands.of(plan, WGMMA_M, WGMMA_M, _static_extent)
        return plan

    def configurations(self, plan: ContractionPlan) -> list[GemmWgmmaConfiguration]:
        """The largest tiles that occupy all SMs first, then the others."""
        wide = SWIZZLE_BYTES * 8 // plan.lhs.element.width
        return rank_gemm_configurations(
            plan, [replace(c, depth=wide) for c in _CONFIGURATIONS]
        )

    def write(self, plan: ContractionPlan) -> None:
        config = self.configuration or self.configurations(plan)[0]
        _GemmWgmmaKernel(plan, config).write()


class _GemmWgmmaKernel(GemmKernel):
    """Emitter of the kernel: warpgroup 0 is the producer, the others have 64 rows each."""

    def __init__(self, plan: ContractionPlan, config: GemmWgmmaConfiguration) -> None:
        super().__init__(plan, config.tiling, store_width(plan, config.split_k))
        self._config = config
        operands = _Operands.of(plan, config.rows, config.columns)
        self._operands, self._row_tile = (
            (operands.rows, operands.columns),
            operands.row_tile,
        )
        self._k = operands.k_dim
        element = str(plan.lhs.element)
        self._kind = _KINDS.get(element, element)
        self._wgmma = WgmmaAccumulator(config.columns)

    @property
    def tiles(self) -> list[IndexLike]:
        *outer, across, _ = super().tiles
        return [*outer, across, self._row_tile.count]

    @property
    def _row_axes(self) -> Sequence[Axis]:
        return self._row_tile.axes

    def _write_tiles(self) -> None:
        """Emits a launch of persistent blocks, each with several tiles."""
        tensor_maps = [operand.create_tensor_map() for operand in self._operands]
        tiles = product([self.tiling.split_k, *self.tiles])
        blocks = minimum(tiles, self._config.blocks)

        def thread(block: ir.Value, number: ir.Value) -> None:
            tile_loop = _TileLoop(block, tiles, blocks)
            self._write_block(tensor_maps, tile_loop, number)

        launch(blocks, self.tiling.threads, thread)

    def _write_block(
        self, tensor_maps: Sequence[ir.Value], tile_loop: _TileLoop, thread: ir.Value
    ) -> None:
        config = self._config
        pipeline = _Pipeline(
            [operand.alloc(config.stages) for operand in self._operands],
            Mbarriers.create(config.stages),
            Mbarriers.create(config.stages),
        )
        warps = config.warpgroups * WARPGROUP // WARP_SIZE
        epilogue_tiles = EpilogueTiles.create(warps, self.plan.element)

        def start() -> None:
            for number in range(config.stages):
                pipeline.full.init(number, 1)
                pipeline.empty.init(number, config.warpgroups)
            op("nvvm.fence.mbarrier.init", None)

            self._prefetch_columns(tensor_maps, tile_loop)

        if_less(thread, 1, start)
        wait_for_previous_grid()
        barrier()
        group = warp_uniform(div(thread, WARPGROUP))

        def produce() -> None:
            self._set_registers(is_increase=False)
            if_less(thread, 1, lambda: self._produce(tensor_maps, tile_loop, pipeline))

        def consume() -> None:
            self._set_registers(is_increase=True)
            own = subtract(thread, WARPGROUP)
            self._consume(tile_loop, pipeline, subtract(group, 1), own, epilogue_tiles)

        if_less(group, 1, produce, consume)

    def _prefetch_columns(
        self, tensor_maps: Sequence[ir.Value], tile_loop: _TileLoop
    ) -> None:
        """Prefetches the right operand (usually weights) to L2, if few blocks share it."""
        down = self._row_tile.count
        if not isinstance(down, int) or down > _MAX_SHARING_BLOCKS:
            return
        first = self._tile(tile_loop.first)
        begin, k_tiles = self._k_range(first)

        def step(k: ir.Value) -> tuple[()]:
            first_k = multiply(add(begin, k), self._config.depth)
            point = {**first, **self._k.delinearize(first_k)}
            self._operands[1].prefetch(tensor_maps[1], point)
            return ()

        for_loop(0, minimum(k_tiles, _PREFETCHED_TILES), 1, step)

    def _set_registers(self, *, is_increase: bool) -> None:
        """Moves registers from the producer to two consumer warpgroups (``setmaxnreg``)."""
        if self._config.warpgroups == _REALLOCATING:
            count = _CONSUMER_REGISTERS if is_increase else _PRODUCER_REGISTERS
            set_max_registers(count, is_increase=is_increase)

    def _tile(self, number: ir.Value) -> dict[int, IndexLike]:
        """Origin of a tile along all axes but K.

        Tiles are rasterized in bands of rows (threadblock swizzle), so that concurrent blocks
        share operand tiles in L2.
        """
        *outer, across, down = self.tiles
        in_all = [self.tiling.split_k, *outer, multiply(across, down)]
        split, *where, place = unflatten(number, in_all)
        points = {a.number: p for a, p in zip(self._batch, where, strict=True)}
        points[SPLIT] = split
        in_band = multiply(across, _BAND)
        first = multiply(div(place, in_band), _BAND)
        inside = rem(place, in_band)
        height = minimum(subtract(down, first), _BAND)
        if isinstance(down, int) and down % _BAND == 0:
            height = _BAND
        row, column = add(first, rem(inside, height)), div(inside, height)
        points[self.plan.n[-1]] = multiply(column, self._config.columns)
        return {**points, **self._row_tile.origin(row)}

    def _produce(
        self, tensor_maps: Sequence[ir.Value], tile_loop: _TileLoop, pipeline: _Pipeline
    ) -> None:
        """Emits the loop of the producer thread."""
        config = self._config
        bytes_ = sum(operand.transaction_bytes for operand in self._operands)

        def tile(number: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            first = self._tile(number)
            begin, k_tiles = self._k_range(first)

            def step(k: ir.Value, *carried: ir.Value) -> list[ir.Value]:
                state = PipelineState(*carried)
                pipeline.empty.wait(state.stage, state.previous_parity())
                pipeline.full.arrive_expect_tx(state.stage, bytes_)
                first_k = multiply(add(begin, k), config.depth)
                point = {**first, **self._k.delinearize(first_k)}
                for operand, tensor_map, buffer in zip(
                    self._operands, tensor_maps, pipeline.buffers, strict=True
                ):
                    operand.load(tensor_map, point, buffer, state.stage, pipeline.full)
                return state.next_stage(config.stages).loop_values

            return for_loop(0, k_tiles, 1, step, carried)

        tile_loop.write(tile, PipelineState.initial().loop_values)

    def _consume(
        self,
        tile_loop: _TileLoop,
        pipeline: _Pipeline,
        group: IndexLike,
        thread: IndexLike,
        epilogue_tiles: EpilogueTiles,
    ) -> None:
        """Emits the loop of a consumer warpgroup.

        Args:
            group: number of the warpgroup; thread: id among the consumer threads.
        """
        config, wgmma = self._config, self._wgmma
        rows, columns = (
            MatrixDescriptor.of_buffer(
                buffer, self._kind, config.depth, is_k_major=operand.is_k_major
            )
            for operand, buffer in zip(self._operands, pipeline.buffers, strict=True)
        )
        rows = rows.offset_by(multiply(group, WGMMA_M * SWIZZLE_BYTES))
        lane = rem(thread, WARPGROUP)

        def release(state: PipelineState) -> None:
            if_less(lane, 1, lambda: pipeline.empty.arrive(state.stage))

        def step(k: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            *values, accumulators = carried
            state = PipelineState(*values)
            pipeline.full.wait(state.stage, state.parity)
            down, across = (
                matrix.offset_by(multiply(state.stage, operand.stage_bytes))
                for matrix, operand in zip((rows, columns), self._operands, strict=True)
            )
            wgmma.fence()
            for number in range(config.depth // rows.mma_k):
                accumulators = wgmma.mma(
                    down.advance_k(number), across.advance_k(number), accumulators
                )
            wgmma.commit()
            # The wgmma group of the previous stage has completed.
            wgmma.wait(1)
            if_less(0, k, lambda: release(state.previous_stage(config.stages)))
            return [*state.next_stage(config.stages).loop_values, accumulators]

        def tile(number: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            zeros = wgmma.zeros()
            _, k_tiles = self._k_range(self._tile(number))
            *values, accumulators = for_loop(0, k_tiles, 1, step, [*carried, zeros])
            wgmma.wait(0)
            release(PipelineState(*values).previous_stage(config.stages))
            self._write_epilogue(
                number, wgmma.elements(accumulators), thread, epilogue_tiles
            )
            return values

        tile_loop.write(tile, PipelineState.initial().loop_values)

    def _write_epilogue(
        self,
        number: ir.Value,
        accumulators: Sequence[ir.Value],
        thread: IndexLike,
        epilogue_tiles: EpilogueTiles,
    ) -> None:
        """Emits the epilogue of a thread's accumulators.

        They are rearranged through shared memory, so that the stores coalesce.
        """
        first, column_axis = self._tile(number), self.plan.n[-1]
        warp, lane = div(thread, WARP_SIZE), rem(thread, WARP_SIZE)
        first_row = multiply(warp, EPILOGUE_ROWS)
        # Accumulators of a thread.
        per_tile = EPILOGUE_ROWS * EPILOGUE_COLUMNS // WARP_SIZE
        for tile in range(self._config.columns // EPILOGUE_COLUMNS):
            own = accumulators[tile * per_tile : (tile + 1) * per_tile]
            sync_warp()
            epilogue_tiles.write(warp, lane, own)
            sync_warp()
            begin = add(first[column_axis], tile * EPILOGUE_COLUMNS)

            def write_rows(
                step: ir.Value, *_: ir.Value, begin: IndexLike = begin
            ) -> list[ir.Value]:
                place, column, value = epilogue_tiles.read(
                    warp, lane, step, self._lanes
                )

                def write(row: Mapping[int, IndexLike]) -> None:
                    at = {**first, **row}
                    self._write_vector(at, add(begin, column), value)

                self._row_tile.for_point(add(first_row, place), first, write)
                return []

            for_loop(0, per_tile // self._lanes, 1, write_rows)


def _static_extent(extents: Sequence[IndexLike]) -> IndexLike:
    """The extent of fused axes, without emitting code: any dynamic extent stands for it."""
    unknown = [extent for extent in extents if not isinstance(extent, int)]
    return unknown[0] if unknown else product(extents)


@dataclass(frozen=True)
class _Operands:
    """Both operands of a contraction as TMA operands."""

    rows: TmaOperand
    columns: TmaOperand
    row_tile: RowTile
    k_dim: GemmDim

    @staticmethod
    def of(
        plan: ContractionPlan,
        rows: int,
        columns: int,
        extent_of: Callable[[Sequence[IndexLike]], IndexLike] = product,
    ) -> _Operands:
        """Plans the TMA boxes of both operands for a tile size.

        Args:
            extent_of: extent of fused axes.

        Raises:
            NotApplicable: TMA cannot read an operand.
        """
        extents = plan.anchor.extents
        apart = window_axes(plan.lhs) | window_axes(plan.rhs)

        def axes_of(numbers: Sequence[int], accesses: Sequence[Access]) -> list[Axis]:
            fused = mergeable_groups(numbers, extents, accesses, apart)
            return [Axis(g[-1], extent_of([extents[n] for n in g])) for g in fused]

        down = axes_of(plan.m, row_accesses(plan))
        across = axes_of(plan.n, [plan.b])
        k_axes = axes_of(plan.k, [plan.a, plan.b])
        if len(across) > 1:
            raise NotApplicable("its N does not fuse into one axis")
        wide = SWIZZLE_BYTES * 8 // plan.lhs.element.width
        *_, last = k_axes
        is_fused = len(k_axes) == 1 and last.number not in apart
        if static_size(last.extent) % wide and not is_fused:
            raise NotApplicable("a K tile crosses the end of a K axis")
        tile = choose_row_tile(down, rows)
        axes = [*(Axis(n, extents[n]) for n in plan.outer), *down, *across, *k_axes]
        column_tile = {across[0].number: columns}
        tma_operands = [
            plan_tma_operand(operand, axes, tile, last.number, places)
            for operand, tile, places in (
                (plan.lhs, tile.box_by_axis, rows),
                (plan.rhs, column_tile, columns),
            )
        ]
        for tma_operand in tma_operands:
            operand = tma_operand.operand
            if operand.element.width != _MN_MAJOR_BITS and not tma_operand.is_k_major:
                raise NotApplicable(f"an operand of {operand.element} is not K-major")
        return _Operands(*tma_operands, tile, GemmDim(k_axes))


@dataclass(frozen=True)
class _Pipeline:
    """The pipeline: stages of both operands, with full and empty mbarriers."""

    buffers: Sequence[ir.Value]
    full: Mbarriers
    empty: Mbarriers


@dataclass(frozen=True)
class _TileLoop:
    """The tiles of a persistent block: a strided range."""

    first: ir.Value
    end: IndexLike
    step: IndexLike

    def write(
        self,
        body: Callable[..., Sequence[ir.Value]],
        carried: Sequence[ir.Value],
    ) -> None:
        """Emits the loop over the tiles: ``body(tile, *carried)``."""
        for_loop(self.first, self.end, self.step, body, carried)

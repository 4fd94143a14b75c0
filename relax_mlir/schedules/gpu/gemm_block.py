"""GEMM kernels with a thread block per output tile, whose threads load the operands.

Tiles of both operands go through shared memory, a K tile at a time, software-pipelined: the
next K tile is loaded while the current one is multiplied. Operands are read by their access
maps, so that convolutions are implicit GEMMs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    for_loop,
    multiply,
    op,
    product,
    rem,
    unflatten,
)
from relax_mlir.schedules.flat_buffers import FlatAccess
from relax_mlir.schedules.gpu.gemm_kernel import GemmKernel
from relax_mlir.schedules.gpu.gemm_tile import TiledOperand
from relax_mlir.schedules.gpu.launch import (
    alloc_shared,
    barrier,
    if_less,
    launch,
)
from relax_mlir.schedules.gpu.split_k import SPLIT

__all__ = ["GemmBlock"]

_STAGES = 4  # of the cp.async pipeline
_FULL_ACCUMULATORS = 64  # per thread; with other values they fit in 128 registers,
_RESIDENT_THREADS = 512  # per SM, at 128 registers per thread
_WORD_BITS = 32


class GemmBlock(GemmKernel):
    """Emitter of a GEMM whose threads load the operands themselves.

    Args:
        plan: the contraction; tiling: tile sizes.
        lanes: adjacent columns of an accumulator vector of a thread.
    """

    # Subclass interface.

    # Whether cp.async can write tiles: their layout keeps 16-byte vectors.
    allows_async_copy = False

    @property
    @abstractmethod
    def element(self) -> ir.Type:
        """Element type of the tiles in shared memory."""

    @abstractmethod
    def tile_shape(self, operand: TiledOperand) -> list[int]:
        """Shape of an operand's K tile in shared memory."""

    @abstractmethod
    def tile_indices(
        self, operand: TiledOperand, stage: IndexLike, point: IndexLike, step: IndexLike
    ) -> list[ir.Value]:
        """Indices of an element in shared memory.

        Args:
            stage: pipeline stage.
            point: row or column in the tile; step: k in the K tile.
        """

    def store_shared(
        self,
        operand: TiledOperand,
        value: ir.Value,
        memory: ir.Value,
        stage: IndexLike,
        point: IndexLike,
        step: IndexLike,
    ) -> None:
        """Emits the store of an element or vector to shared memory."""
        is_vector = isinstance(value.type, ir.VectorType)
        name = "vector.store" if is_vector else "memref.store"
        op(name, None, value, memory, *self.tile_indices(operand, stage, point, step))

    @abstractmethod
    def initial_accumulators(self) -> list[ir.Value]:
        """Initial accumulators of a thread."""

    @abstractmethod
    def multiply(
        self,
        operands: Sequence[TiledOperand],
        buffers: Sequence[ir.Value],
        stage: IndexLike,
        accumulators: list[ir.Value],
        thread: ir.Value,
    ) -> list[ir.Value]:
        """Emits the multiply-adds of a K tile; returns the accumulators."""

    @abstractmethod
    def results(
        self, accumulators: Sequence[ir.Value], thread: ir.Value
    ) -> list[tuple[IndexLike, list[tuple[IndexLike, ir.Value]]]]:
        """The accumulators by row of the tile: pairs of a column and a vector."""

    def _write_tiles(self) -> None:
        """Emits a launch with a block per tile; adjacent blocks share columns."""
        tiling, tiles = self.tiling, [self.tiling.split_k, *self.tiles]

        def thread(block: ir.Value, number: ir.Value) -> None:
            split, *where, column, row = unflatten(block, tiles)
            points = {a.number: p for a, p in zip(self._batch, where, strict=True)}
            points[SPLIT] = split
            firsts = multiply(row, tiling.rows), multiply(column, tiling.columns)
            self._write_epilogue(
                points, firsts, number, self._main_loop(points, firsts, number)
            )

        # Fewer accumulators need far fewer registers, and those of f64 more.
        is_full = tiling.rows * tiling.columns == _FULL_ACCUMULATORS * tiling.threads
        is_full = is_full and self.plan.element.width <= _WORD_BITS
        min_blocks_per_sm = _RESIDENT_THREADS // tiling.threads if is_full else 1
        launch(product(tiles), tiling.threads, thread, min_blocks_per_sm)

    def _main_loop(
        self,
        outer: Mapping[int, IndexLike],
        firsts: tuple[IndexLike, IndexLike],
        thread: ir.Value,
    ) -> list[ir.Value]:
        """Emits the main loop; returns the accumulators of a thread.

        Args:
            firsts: first row and first column of the tile.
        """
        tiling = self.tiling
        sides = (
            (self.plan.lhs, self._rows, tiling.rows),
            (self.plan.rhs, self._columns, tiling.columns),
        )
        operands = [
            TiledOperand(
                operand,
                FlatAccess.of(operand.access),
                side,
                self._k,
                size,
                tiling.depth,
                self.element,
                tiling.threads,
            )
            for operand, side, size in sides
        ]
        uses_async_copy = self.allows_async_copy and all(
            o.supports_async_copy for o in operands
        )
        write = self._async_copy_loop if uses_async_copy else self._register_staged_loop
        return write(operands, outer, firsts, thread)

    def _alloc_buffers(
        self, operands: Sequence[TiledOperand], count: int
    ) -> list[ir.Value]:
        shapes = [[count, *self.tile_shape(o)] for o in operands]
        return [alloc_shared(shape, self.element) for shape in shapes]

    def _register_staged_loop(
        self,
        operands: Sequence[TiledOperand],
        outer: Mapping[int, IndexLike],
        firsts: tuple[IndexLike, IndexLike],
        thread: ir.Value,
    ) -> list[ir.Value]:
        """Main loop with register staging: double-buffered shared memory."""
        buffers = self._alloc_buffers(operands, 2)
        begin, k_tiles = self._k_range(outer)

        def load_tile(number: IndexLike) -> list[list[ir.Value]]:
            step = multiply(add(begin, number), self.tiling.depth)
            return [
                o.load(outer, first, step, thread)
                for o, first in zip(operands, firsts, strict=True)
            ]

        def write(vectors: Sequence[Sequence[ir.Value]], stage: IndexLike) -> None:
            for operand, found, memory in zip(operands, vectors, buffers, strict=True):
                for value, (point, step) in operand.positioned(found, thread):
                    self.store_shared(operand, value, memory, stage, point, step)

        def step(number: ir.Value, *before: ir.Value) -> list[ir.Value]:
            following = load_tile(add(number, 1))
            stage = rem(number, 2)
            after = self.multiply(operands, buffers, stage, list(before), thread)
            write(following, rem(add(number, 1), 2))
            barrier()
            return after

        write(load_tile(0), 0)
        barrier()
        return for_loop(0, k_tiles, 1, step, self.initial_accumulators())

    def _async_copy_loop(
        self,
        operands: Sequence[TiledOperand],
        outer: Mapping[int, IndexLike],
        firsts: tuple[IndexLike, IndexLike],
        thread: ir.Value,
    ) -> list[ir.Value]:
        """Main loop with a multistage ``cp.async`` pipeline."""
        buffers = self._alloc_buffers(operands, _STAGES)
        begin, k_tiles = self._k_range(outer)

        def copy(number: IndexLike) -> None:
            stage = rem(number, _STAGES)
            for operand, first, memory in zip(operands, firsts, buffers, strict=True):

                def shared_indices(
                    point: IndexLike, step: IndexLike, operand: TiledOperand = operand
                ) -> list[ir.Value]:
                    return self.tile_indices(operand, stage, point, step)

                step = multiply(add(begin, number), self.tiling.depth)
                operand.copy_async(outer, first, step, thread, shared_indices, memory)
            op("nvvm.cp.async.commit.group", None)

        def step(number: ir.Value, *before: ir.Value) -> list[ir.Value]:
            # The copies of this stage have completed, and after the barrier those of all
            # threads.
            i32 = ir.IntegerType.get_signless(32)
            op("nvvm.cp.async.wait.group", None, n=ir.IntegerAttr.get(i32, _STAGES - 2))
            barrier()
            copy(add(number, _STAGES - 1))
            stage = rem(number, _STAGES)
            return self.multiply(operands, buffers, stage, list(before), thread)

        for number in range(_STAGES - 1):
            copy(number)
        return for_loop(0, k_tiles, 1, step, self.initial_accumulators())

    def _write_epilogue(
        self,
        outer: Mapping[int, IndexLike],
        firsts: tuple[IndexLike, IndexLike],
        thread: ir.Value,
        accumulators: Sequence[ir.Value],
    ) -> None:
        """Emits the epilogue of a thread's accumulators."""
        first_row, first_column = firsts
        for row_in_tile, found in self.results(accumulators, thread):
            row = add(first_row, row_in_tile)

            def write_row(
                row: IndexLike = row,
                found: Sequence[tuple[IndexLike, ir.Value]] = found,
            ) -> None:
                at = {**outer, **self._rows.delinearize(row)}
                for column, value in found:
                    self._write_vector(at, add(first_column, column), value)

            if_less(row, self._rows.extent, write_row)

"""Primitives for compute locations, cache stages and reductions."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir.errors import ScheduleError
from relax_mlir.objects.stmt.buffer import Buffer
from relax_mlir.tvm.tir.schedule import (
    accesses,
    cache,
    compute_at,
    copy_at,
    decompose,
    inline,
    rfactor,
    rolling,
    tree,
)
from relax_mlir.tvm.tir.schedule.base import ScheduleBase, primitive
from relax_mlir.tvm.tir.schedule.random_variables import BlockRV, LoopRV

__all__ = ["DataMovement"]


class DataMovement(ScheduleBase):
    """Primitives that move computation and create buffers."""

    def buffer_index_of(
        self, block: ir.Operation, buffer: int | str | Buffer, *, is_write: bool
    ) -> int:
        """The index of a buffer among the read or write regions of a block.

        Raises:
            ScheduleError: the block does not access a buffer of this name.
        """
        if not isinstance(buffer, (str, Buffer)):
            return self.int_value(buffer)
        name = buffer if isinstance(buffer, str) else buffer.name
        find = accesses.buffers_written if is_write else accesses.buffers_read
        found = [accesses.buffer_name(b) for b in find(block)]
        if found.count(name) != 1:
            verb = "writes" if is_write else "reads"
            raise ScheduleError(
                f"{tree.describe(block)} {verb} no buffer `{name}`: expected one of "
                f"{', '.join(f'`{n}`' for n in found)}"
            )
        return found.index(name)

    @primitive
    def compute_inline(self, block: BlockRV | str) -> None:
        """Inline a block into its consumers and remove it.

        It must be a complete block of one store indexed by its iter vars, and not an output block.
        """
        block = self.resolve_block(block)
        inline.compute_inline(self.state, self.block_op(block))
        self.record("ComputeInline", [block])

    @primitive
    def reverse_compute_inline(self, block: BlockRV | str) -> None:
        """Inline a block into its only producer and remove it.

        It must be a complete block of one store that reads every element of the producer's result
        exactly once.
        """
        block = self.resolve_block(block)
        inline.reverse_compute_inline(self.state, self.block_op(block))
        self.record("ReverseComputeInline", [block])

    @primitive
    def compute_at(
        self,
        block: BlockRV | str,
        loop: LoopRV,
        preserve_unit_loops: bool = False,
        index: int = -1,
    ) -> None:
        """Move a producer block under a loop, computing the region its consumers there need.

        Args:
            block: a complete or reduction block; all its consumers are under the loop.
            loop: a loop of the same scope, or a result of :meth:`sample_compute_location`.
            preserve_unit_loops: whether to keep loops of extent 1.
            index: the statement of the loop to insert before; -1 for the last possible position,
                -2 for the first.
        """
        self._move(block, loop, preserve_unit_loops, index, is_reverse=False)

    @primitive
    def reverse_compute_at(
        self,
        block: BlockRV | str,
        loop: LoopRV,
        preserve_unit_loops: bool = False,
        index: int = -1,
    ) -> None:
        """Move a consumer block under a loop, consuming the region its producers there compute.

        Args:
            block: a complete or reduction block; all its producers are under the loop.
            loop: a loop of the same scope, or a result of :meth:`sample_compute_location`.
            preserve_unit_loops: whether to keep loops of extent 1.
            index: the statement of the loop to insert before; -1 for the last possible position,
                -2 for the first.
        """
        self._move(block, loop, preserve_unit_loops, index, is_reverse=True)

    def _move(
        self,
        block: BlockRV | str,
        loop: LoopRV,
        preserve_unit_loops: bool,
        index: int,
        *,
        is_reverse: bool,
    ) -> None:
        block = self.resolve_block(block)
        op, sentinel = self.block_op(block), self.sentinel(loop)
        if sentinel is None:
            compute_at.compute_at(
                self.state,
                op,
                self.loop_op(loop),
                is_reverse=is_reverse,
                preserve_unit_loops=preserve_unit_loops,
                index=index,
            )
        elif sentinel == -2:
            inline_block = (
                inline.reverse_compute_inline if is_reverse else inline.compute_inline
            )
            inline_block(self.state, op)
        kind = "ReverseComputeAt" if is_reverse else "ComputeAt"
        self.record(kind, [block, loop], [int(preserve_unit_loops), index])

    # cache stages

    @primitive
    def cache_read(
        self,
        block: BlockRV | str,
        read_buffer_index: int | str | Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[BlockRV | str] | None = None,
    ) -> BlockRV:
        """Create a block that reads a buffer into a cache, and redirect consumers to the cache.

        Args:
            block: a consumer of the buffer.
            read_buffer_index: the index of the buffer in the block's read regions, or its name.
            storage_scope: the storage scope of the cache.
            consumer_blocks: the blocks redirected; by default, all consumers in the scope.

        Returns:
            The cache stage.
        """
        block, others = self._resolve_blocks(block, consumer_blocks)
        op = self.block_op(block)
        number = self.buffer_index_of(op, read_buffer_index, is_write=False)
        consumers = list(map(self.block_op, others))
        made = self.new_block(
            cache.cache_read(self.state, op, number, storage_scope, consumers)
        )
        self.record("CacheRead", [block, others], [number, storage_scope], [made])
        return made

    @primitive
    def cache_write(
        self,
        block: BlockRV | str,
        write_buffer_index: int | str | Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[BlockRV | str] | None = None,
    ) -> BlockRV:
        """Redirect a producer to a cache, and create a block that writes the cache back.

        Args:
            block: the only producer of the buffer.
            write_buffer_index: the index of the buffer in the block's write regions, or its name.
            storage_scope: the storage scope of the cache.
            consumer_blocks: consumers that are redirected to the cache, too.

        Returns:
            The cache stage.
        """
        block, others = self._resolve_blocks(block, consumer_blocks)
        op = self.block_op(block)
        number = self.buffer_index_of(op, write_buffer_index, is_write=True)
        consumers = list(map(self.block_op, others))
        made = self.new_block(
            cache.cache_write(self.state, op, number, storage_scope, consumers)
        )
        self.record("CacheWrite", [block, others], [number, storage_scope], [made])
        return made

    def _resolve_blocks(
        self, block: BlockRV | str, others: Sequence[BlockRV | str] | None
    ) -> tuple[BlockRV, list[BlockRV]]:
        listed = () if others is None else others
        found = [self.resolve_block(other) for other in listed]
        return self.resolve_block(block), found

    @primitive
    def cache_inplace(
        self,
        block: BlockRV | str,
        read_buffer_index: int | str | Buffer,
        storage_scope: str,
    ) -> list[BlockRV]:
        """Cache a buffer that a block updates in place: copy in before, copy out after.

        Returns:
            The block that copies in, and the one that copies out.
        """
        block = self.resolve_block(block)
        op = self.block_op(block)
        number = self.buffer_index_of(op, read_buffer_index, is_write=False)
        found = cache.cache_inplace(self.state, op, number, storage_scope)
        made = list(map(self.new_block, found))
        self.record("CacheInplace", [block], [number, storage_scope], made)
        return made

    @primitive
    def read_at(
        self,
        loop: LoopRV,
        block: BlockRV | str,
        read_buffer_index: int | str | Buffer,
        storage_scope: str,
    ) -> BlockRV:
        """Copy the region read under a loop into a cache in each iteration, in one block.

        Args:
            loop: a loop under which the buffer is not written after it is read.
            block: a consumer of the buffer.
            read_buffer_index: the index of the buffer in the block's read regions, or its name.
            storage_scope: the storage scope of the cache; it holds the union of the regions of
                all threads that share it.

        Returns:
            The copying block, annotated with ``auto_copy``.
        """
        return self._copy_at(
            loop, block, read_buffer_index, storage_scope, is_read=True
        )

    @primitive
    def write_at(
        self,
        loop: LoopRV,
        block: BlockRV | str,
        write_buffer_index: int | str | Buffer,
        storage_scope: str,
    ) -> BlockRV:
        """Redirect writes under a loop to a cache, copied back in one block after them.

        Args:
            loop: a loop that contains all blocks that write the buffer.
            block: one of them.
            write_buffer_index: the index of the buffer in the block's write regions, or its name.
            storage_scope: the storage scope of the cache.

        Returns:
            The copying block, annotated with ``auto_copy``.
        """
        return self._copy_at(
            loop, block, write_buffer_index, storage_scope, is_read=False
        )

    def _copy_at(
        self,
        loop: LoopRV,
        block: BlockRV | str,
        buffer: int | str | Buffer,
        memory: str,
        *,
        is_read: bool,
    ) -> BlockRV:
        block = self.resolve_block(block)
        op = self.block_op(block)
        number = self.buffer_index_of(op, buffer, is_write=not is_read)
        made = self.new_block(
            copy_at.copy_at(
                self.state, self.loop_op(loop), op, number, memory, is_read=is_read
            )
        )
        kind = "ReadAt" if is_read else "WriteAt"
        self.record(kind, [loop, block], [number, memory], [made])
        return made

    @primitive
    def rolling_buffer(
        self, block: BlockRV | str, write_buffer_index: int | str
    ) -> None:
        """Shrink a buffer to a circular buffer that holds the region of one loop iteration.

        Where tiles of the producer overlap, elements of the previous tile are reused instead of
        recomputed.

        Args:
            block: the only producer of the buffer, computed at a loop of its consumers.
            write_buffer_index: the index of the buffer in the block's write regions, or its name.
        """
        block = self.resolve_block(block)
        op = self.block_op(block)
        number = self.buffer_index_of(op, write_buffer_index, is_write=True)
        rolling.rolling_buffer(self.state, op, number)
        self.record("RollingBuffer", [block], [number])

    # reductions

    @primitive
    def decompose_reduction(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Split a reduction block into an init block before a loop and an update block.

        Args:
            block: a reduction block.
            loop: a loop around it, and around all its reduce loops.

        Returns:
            The init block.
        """
        block = self.resolve_block(block)
        made = self.new_block(
            decompose.decompose_reduction(
                self.state, self.block_op(block), self.loop_op(loop)
            )
        )
        self.record("DecomposeReduction", [block, loop], [], [made])
        return made

    @primitive
    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        """Factorise a reduction over a loop into partial reductions.

        Args:
            loop: a loop of a reduce iter var.
            factor_axis: the position of the new dimension in the buffer of partial results.

        Returns:
            The rfactor block, which computes the partial results; the old block combines them.
        """
        op = self.loop_op(loop)
        made = self.new_block(rfactor.rfactor(self.state, op, int(factor_axis)))
        self.record("RFactor", [loop], [int(factor_axis)], [made])
        return made

"""Primitives that move blocks and make buffers."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir.errors import ScheduleError
from relax_mlir.objects.buffer import Buffer
from relax_mlir.tir.schedule import (
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
from relax_mlir.tir.schedule.base import ScheduleBase, primitive
from relax_mlir.tir.schedule.random_variables import BlockRV, LoopRV

__all__ = ["DataMovement"]


class DataMovement(ScheduleBase):
    """What moves blocks and makes buffers."""

    def buffer_number(
        self, block: ir.Operation, buffer: int | str | Buffer, *, is_write: bool
    ) -> int:
        """The number of a buffer among those that a block reads or writes.

        Raises:
            ScheduleError: it does not touch a buffer with this name.
        """
        if not isinstance(buffer, (str, Buffer)):
            return self.number(buffer)
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
        """Compute a block where its result is read, and take it away.

        It is a complete block of one store whose indices are its axes, and not the output
        of its scope.
        """
        block = self.block_of(block)
        inline.compute_inline(self.state, self.block_op(block))
        self.record("ComputeInline", [block])

    @primitive
    def reverse_compute_inline(self, block: BlockRV | str) -> None:
        """Put a block into its only producer, and take it away.

        It is a complete block of one store, which reads all of the producer's result,
        each element once.
        """
        block = self.block_of(block)
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
        """Move a producer under a loop, to compute what its consumers there need.

        Args:
            block: a complete or reduction block; all its consumers are under the loop.
            loop: of the same scope, or what :meth:`sample_compute_location` gave.
            preserve_unit_loops: whether to keep loops of one step.
            index: which statement of the loop to come before; -1 for the last place that
                is possible, -2 for the first.
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
        """Move a consumer under a loop, to take what its producers there make.

        Args:
            block: a complete or reduction block; all its producers are under the loop.
            loop: of the same scope, or what :meth:`sample_compute_location` gave.
            preserve_unit_loops: whether to keep loops of one step.
            index: which statement of the loop to come before; -1 for the last place that
                is possible, -2 for the first.
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
        block = self.block_of(block)
        op, mark = self.block_op(block), self.mark(loop)
        if mark is None:
            compute_at.compute_at(
                self.state,
                op,
                self.loop_op(loop),
                is_reverse=is_reverse,
                preserve_unit_loops=preserve_unit_loops,
                index=index,
            )
        elif mark == -2:
            change = (
                inline.reverse_compute_inline if is_reverse else inline.compute_inline
            )
            change(self.state, op)
        kind = "ReverseComputeAt" if is_reverse else "ComputeAt"
        self.record(kind, [block, loop], [int(preserve_unit_loops), index])

    # caches

    @primitive
    def cache_read(
        self,
        block: BlockRV | str,
        read_buffer_index: int | str | Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[BlockRV | str] | None = None,
    ) -> BlockRV:
        """Copy a buffer that a block reads, and let blocks read the copy.

        Args:
            block: a block that reads it.
            read_buffer_index: which, by its number among those that the block reads, or
                by its name.
            storage_scope: the memory of the copy.
            consumer_blocks: who reads the copy; all readers of the scope if left out.

        Returns:
            The block that copies.
        """
        block, others = self._normalised(block, consumer_blocks)
        op = self.block_op(block)
        number = self.buffer_number(op, read_buffer_index, is_write=False)
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
        """Let a block write another buffer, which is copied to the one it wrote.

        Args:
            block: the only block that writes it.
            write_buffer_index: which, by its number among those that the block writes, or
                by its name.
            storage_scope: the memory of the new buffer.
            consumer_blocks: readers that read the new buffer too.

        Returns:
            The block that copies.
        """
        block, others = self._normalised(block, consumer_blocks)
        op = self.block_op(block)
        number = self.buffer_number(op, write_buffer_index, is_write=True)
        consumers = list(map(self.block_op, others))
        made = self.new_block(
            cache.cache_write(self.state, op, number, storage_scope, consumers)
        )
        self.record("CacheWrite", [block, others], [number, storage_scope], [made])
        return made

    def _normalised(
        self, block: BlockRV | str, others: Sequence[BlockRV | str] | None
    ) -> tuple[BlockRV, list[BlockRV]]:
        listed = () if others is None else others
        found = [self.block_of(other) for other in listed]
        return self.block_of(block), found

    @primitive
    def cache_inplace(
        self,
        block: BlockRV | str,
        read_buffer_index: int | str | Buffer,
        storage_scope: str,
    ) -> list[BlockRV]:
        """Copy a buffer that a block changes to another one before, and back after.

        Returns:
            The block that copies there, and the one that copies back.
        """
        block = self.block_of(block)
        op = self.block_op(block)
        number = self.buffer_number(op, read_buffer_index, is_write=False)
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
        """Copy at each step of a loop what is read under it, in one block.

        Args:
            loop: nothing under it writes the buffer after it is read.
            block: a block that reads it.
            read_buffer_index: which, by its number among those that the block reads, or
                by its name.
            storage_scope: the memory of the copy; threads that share it are served at once.

        Returns:
            The block that copies. It is annotated with ``auto_copy``.
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
        """Let all under a loop write another buffer, copied back in one block at its end.

        Args:
            loop: all blocks that write the buffer stand under it.
            block: one of them.
            write_buffer_index: which, by its number among those that the block writes, or
                by its name.
            storage_scope: the memory of the other buffer.

        Returns:
            The block that copies back. It is annotated with ``auto_copy``.
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
        block = self.block_of(block)
        op = self.block_op(block)
        number = self.buffer_number(op, buffer, is_write=not is_read)
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
        """Keep of a buffer only what one step of a loop needs, in a ring.

        Where tiles of what a block makes overlap, elements of the tile before are kept
        instead of being made again.

        Args:
            block: the only block that writes the buffer, computed at a loop of its readers.
            write_buffer_index: which, by its number among those that the block writes, or
                by its name.
        """
        block = self.block_of(block)
        op = self.block_op(block)
        number = self.buffer_number(op, write_buffer_index, is_write=True)
        rolling.rolling_buffer(self.state, op, number)
        self.record("RollingBuffer", [block], [number])

    # reductions

    @primitive
    def decompose_reduction(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Give the start value of a reduction a block of its own before a loop.

        Args:
            block: a reduction block.
            loop: around it, and around all loops of its reduce axes.

        Returns:
            The block of the start value.
        """
        block = self.block_of(block)
        made = self.new_block(
            decompose.decompose_reduction(
                self.state, self.block_op(block), self.loop_op(loop)
            )
        )
        self.record("DecomposeReduction", [block, loop], [], [made])
        return made

    @primitive
    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        """Keep a partial result for each step of a loop of a reduction.

        Args:
            loop: a loop of a reduce axis.
            factor_axis: where the dimension for the loop stands in the partial result.

        Returns:
            The block of the partial results; the old block combines them.
        """
        op = self.loop_op(loop)
        made = self.new_block(rfactor.rfactor(self.state, op, int(factor_axis)))
        self.record("RFactor", [loop], [int(factor_axis)], [made])
        return made

"""Primitives that recognise what a block computes, and compute it in another way."""

from __future__ import annotations

from collections.abc import Sequence

from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import (
    einsum_padding,
    reduction_epilogue,
    separate_padding,
)
from relax_mlir.tir.schedule.base import ScheduleBase, primitive
from relax_mlir.tir.schedule.random_variables import BlockRV, ExprRV, LoopRV

__all__ = ["BlockRewrites"]


class BlockRewrites(ScheduleBase):
    """What rewrites blocks of a known form."""

    @primitive
    def fuse_reduction_epilogue(
        self, reduction_block: BlockRV | str, epilogue_block: BlockRV | str
    ) -> None:
        """Apply what follows a sum while it goes on, and take the block away.

        A bias becomes the start value, which changes no result. A maximum with 0 and
        limits are applied at every step instead of once: that is another function, which
        whoever calls this asks for.

        Args:
            reduction_block: a reduction block that sums up.
            epilogue_block: the only block that reads its result; it adds a bias, adds one
                and takes the maximum with 0, or keeps the result between two limits.
        """
        reduction, epilogue = map(self.block_of, (reduction_block, epilogue_block))
        reduction_epilogue.fuse_reduction_epilogue(
            self.state, self.block_op(reduction), self.block_op(epilogue)
        )
        self.record("FuseReductionEpilogue", [reduction, epilogue])

    @primitive
    def decompose_padding(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Write what a buffer is padded with first, and what is padded after that.

        Args:
            block: a complete block of one store, of an element where a condition on its
                axes holds, and of a number elsewhere.
            loop: around it; the number is stored in loops before it.

        Returns:
            The block that stores the number.
        """
        block = self.block_of(block)
        made = self.new_block(
            separate_padding.decompose_padding(
                self.state, self.block_op(block), self.loop_op(loop)
            )
        )
        self.record("DecomposePadding", [block, loop], [], [made])
        return made

    def can_decompose_padding(self, block: BlockRV | str, loop: LoopRV) -> bool:
        """Whether :meth:`decompose_padding` would accept a block and a loop."""
        op = self.block_op(self.block_of(block))
        try:
            separate_padding.check(op, self.loop_op(loop))
        except ScheduleError:
            return False
        return True

    @primitive
    def pad_einsum(self, block: BlockRV | str, padding: Sequence[int | ExprRV]) -> None:
        """Pad the axes of a sum of products to multiples of numbers.

        What it reads is copied to larger buffers, filled up with 0, and what belongs to
        its result is copied from a larger one.

        Args:
            block: its axes are loops, and its indices axes.
            padding: of what each axis becomes a multiple.
        """
        block = self.block_of(block)
        numbers = list(map(self.number, padding))
        einsum_padding.pad_einsum(self.state, self.block_op(block), numbers)
        self.record("PadEinsum", [block], [numbers])

"""Primitives for recognised computations: reduction epilogues, padding, einsums."""

from __future__ import annotations

from collections.abc import Sequence

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.tir.schedule import (
    einsum_padding,
    reduction_epilogue,
    separate_padding,
)
from relax_mlir.tvm.tir.schedule.base import ScheduleBase, primitive
from relax_mlir.tvm.tir.schedule.random_variables import BlockRV, ExprRV, LoopRV

__all__ = ["BlockRewrites"]


class BlockRewrites(ScheduleBase):
    """Primitives that rewrite blocks of a recognised form."""

    @primitive
    def fuse_reduction_epilogue(
        self, reduction_block: BlockRV | str, epilogue_block: BlockRV | str
    ) -> None:
        """Fuse an epilogue into its reduction block and remove the epilogue block.

        A bias becomes the initial value, which changes no result. A ReLU or a clip is applied at
        every update instead of once, which computes another function: the caller's choice.

        Args:
            reduction_block: an additive reduction block.
            epilogue_block: its only consumer: a bias add, a bias add with ReLU, or a clip.
        """
        reduction, epilogue = map(self.resolve_block, (reduction_block, epilogue_block))
        reduction_epilogue.fuse_reduction_epilogue(
            self.state, self.block_op(reduction), self.block_op(epilogue)
        )
        self.record("FuseReductionEpilogue", [reduction, epilogue])

    @primitive
    def decompose_padding(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Decompose a padding block into a fill of the padding value and a copy.

        Args:
            block: a complete block of one store, which selects by a condition on its iter vars
                between a loaded element and a constant.
            loop: a loop around it, before which the fill is placed.

        Returns:
            The block that fills.
        """
        block = self.resolve_block(block)
        made = self.new_block(
            separate_padding.decompose_padding(
                self.state, self.block_op(block), self.loop_op(loop)
            )
        )
        self.record("DecomposePadding", [block, loop], [], [made])
        return made

    def can_decompose_padding(self, block: BlockRV | str, loop: LoopRV) -> bool:
        """Whether :meth:`decompose_padding` accepts a block and a loop."""
        op = self.block_op(self.resolve_block(block))
        try:
            separate_padding.check_decompose_padding(op, self.loop_op(loop))
        except ScheduleError:
            return False
        return True

    @primitive
    def pad_einsum(self, block: BlockRV | str, padding: Sequence[int | ExprRV]) -> None:
        """Pad the iter domain of an einsum to multiples of given numbers.

        Its inputs are copied to zero-padded buffers, and the valid region of its padded output is
        copied back.

        Args:
            block: an einsum whose bindings are loops, and whose indices are iter vars.
            padding: the number of which each extent becomes a multiple.
        """
        block = self.resolve_block(block)
        multiples = list(map(self.int_value, padding))
        einsum_padding.pad_einsum(self.state, self.block_op(block), multiples)
        self.record("PadEinsum", [block], [multiples])

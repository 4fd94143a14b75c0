"""Primitives that make blocks of blocks."""

from __future__ import annotations

from collections.abc import Sequence

from relax_mlir.tir.schedule import blockize, tensorize
from relax_mlir.tir.schedule.base import primitive
from relax_mlir.tir.schedule.data_movement import DataMovement
from relax_mlir.tir.schedule.random_variables import BlockRV, LoopRV
from relax_mlir.tir.schedule.tensor_intrin import TensorIntrin

__all__ = ["TensorBlocks"]


class TensorBlocks(DataMovement):
    """What makes blocks of blocks."""

    @primitive
    def blockize(
        self, target: LoopRV | Sequence[BlockRV], preserve_unit_iters: bool = True
    ) -> BlockRV:
        """Make one block of all that a loop, or several blocks, do.

        Args:
            target: a loop that holds one block, or blocks without start values that stand
                one after the other.
            preserve_unit_iters: whether bindings go on mentioning loops of one step.

        Returns:
            The new block, around the loop or the blocks.
        """
        if isinstance(target, LoopRV):
            loop = self.loop_op(target)
            with self.state.change(loop) as indices:
                made = blockize.blockize_loop(
                    self.state,
                    loop,
                    indices,
                    preserve_unit_iters=preserve_unit_iters,
                )
        else:
            made = blockize.blockize_blocks(
                self.state,
                list(map(self.block_op, target)),
                preserve_unit_iters=preserve_unit_iters,
            )
        given = self.new_block(made)
        self.record("Blockize", [target], [bool(preserve_unit_iters)], [given])
        return given

    @primitive
    def tensorize(
        self,
        block_or_loop: BlockRV | LoopRV | str,
        tensor_intrin: str,
        preserve_unit_iters: bool = True,
    ) -> None:
        """Let an intrinsic do what a block, or all below a loop, does.

        Args:
            block_or_loop: what does just what the intrinsic describes, on boxes of its
                buffers.
            tensor_intrin: the name by which it is registered.
            preserve_unit_iters: whether bindings go on mentioning loops of one step.
        """
        if isinstance(block_or_loop, str):
            block_or_loop = self.block_of(block_or_loop)
        intrin = TensorIntrin.get(tensor_intrin)
        assert intrin is not None
        target = self.statement_op(block_or_loop)
        with self.state.change(target) as indices:
            if isinstance(block_or_loop, LoopRV):
                target = blockize.blockize_loop(
                    self.state,
                    target,
                    indices,
                    preserve_unit_iters=preserve_unit_iters,
                )
            tensorize.tensorize(self.state, target, intrin)
        self.record(
            "Tensorize", [block_or_loop], [tensor_intrin, bool(preserve_unit_iters)]
        )

"""Blockization and tensorization primitives."""

from __future__ import annotations

from collections.abc import Sequence

from relax_mlir.tvm.tir.schedule import blockize, tensorize
from relax_mlir.tvm.tir.schedule.base import primitive
from relax_mlir.tvm.tir.schedule.data_movement import DataMovement
from relax_mlir.tvm.tir.schedule.random_variables import BlockRV, LoopRV
from relax_mlir.tvm.tir.schedule.tensor_intrin import TensorIntrin

__all__ = ["TensorBlocks"]


class TensorBlocks(DataMovement):
    """Primitives that create nested blocks."""

    @primitive
    def blockize(
        self, target: LoopRV | Sequence[BlockRV], preserve_unit_iters: bool = True
    ) -> BlockRV:
        """Turn a loop nest, or sibling blocks, into one block.

        Args:
            target: a loop that contains one block, or consecutive blocks without init blocks.
            preserve_unit_iters: whether bindings keep loops of extent 1.

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
        """Replace the computation of a block, or a loop nest, by a tensor intrinsic.

        Args:
            block_or_loop: a computation that matches the description of the intrinsic on
                sub-regions of its buffers.
            tensor_intrin: the name of a registered intrinsic.
            preserve_unit_iters: whether bindings keep loops of extent 1.
        """
        if isinstance(block_or_loop, str):
            block_or_loop = self.resolve_block(block_or_loop)
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

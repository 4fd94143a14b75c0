"""The schedule: primitives that transform the loops and blocks of PrimFuncs.

Each primitive checks its legality conditions, raises an error that names the condition that
fails, and then leaves the module unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.errors import ScheduleError
from relax_mlir.objects import prim
from relax_mlir.tvm.tir.schedule import accesses, annotations, legality, loops
from relax_mlir.tvm.tir.schedule.base import primitive
from relax_mlir.tvm.tir.schedule.block_rewrites import BlockRewrites
from relax_mlir.tvm.tir.schedule.layouts import Layouts
from relax_mlir.tvm.tir.schedule.random_variables import BlockRV, ExprRV, LoopRV
from relax_mlir.tvm.tir.schedule.sampling import Sampling

__all__ = ["Schedule"]


class Schedule(Layouts, BlockRewrites, Sampling):
    """A module under transformation by primitives.

    Args:
        mod: a module, or a PrimFunc, which is then named ``main``.
        seed: the random seed; -1 or None for any.
        debug_mask: accepted for compatibility: all checks always run.
        error_render_level: the detail of errors: ``detail``, ``fast`` or ``none``.
        enable_check: accepted for compatibility.
    """

    @primitive
    def get_producers(self, block: BlockRV | str) -> list[BlockRV]:
        """The producers of a block in its scope."""
        block = self.resolve_block(block)
        op = self.block_op(block)
        legality.check_not_root(op, "get_producers")
        found = accesses.producers_of(op)
        made = list(map(self.new_block, found))
        self.record("GetProducers", [block], [], made)
        return made

    @primitive
    def get_consumers(self, block: BlockRV | str) -> list[BlockRV]:
        """The consumers of a block in its scope."""
        block = self.resolve_block(block)
        op = self.block_op(block)
        legality.check_not_root(op, "get_consumers")
        found = accesses.consumers_of(op)
        made = list(map(self.new_block, found))
        self.record("GetConsumers", [block], [], made)
        return made

    @primitive
    def get_output_blocks(self, scope_block: BlockRV | str) -> list[BlockRV]:
        """The output blocks in a scope, at any depth."""
        scope_block = self.resolve_block(scope_block)
        found = accesses.output_blocks(self.block_op(scope_block))
        made = list(map(self.new_block, found))
        self.record("GetOutputBlocks", [scope_block], [], made)
        return made

    # loops

    @primitive
    def split(
        self,
        loop: LoopRV,
        factors: Sequence[int | ExprRV | None],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """Split a loop into a nest of loops.

        Args:
            loop: a loop from 0 without annotations and thread binding.
            factors: the extents of the new loops, outermost first; one may be None, and is then
                inferred from the others, rounded up.
            preserve_unit_iters: whether bindings keep loops of extent 1.
            disable_predication: whether to assume that the factors divide the extent, so that no
                predicate is needed.

        Returns:
            The new loops, outermost first.
        """
        sizes = [None if f is None else self.size(f) for f in factors]
        made = loops.split(
            self.state,
            self.loop_op(loop),
            sizes,
            preserve_unit_iters=preserve_unit_iters,
            disable_predication=disable_predication,
        )
        given = list(map(self.new_loop, made))
        flags = [bool(preserve_unit_iters), bool(disable_predication)]
        self.record("Split", [loop, *factors], flags, given)
        return given

    @primitive
    def fuse(self, *args: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """Fuse a perfect loop nest into one loop."""
        listed = _flat(args)
        if not listed:
            raise ScheduleError("fuse: expected at least one loop, got none")
        made = self.new_loop(
            loops.fuse(
                self.state,
                list(map(self.loop_op, listed)),
                preserve_unit_iters=preserve_unit_iters,
            )
        )
        self.record("Fuse", listed, [int(preserve_unit_iters)], [made])
        return made

    @primitive
    def merge(self, *args: LoopRV) -> LoopRV:
        """Fuse sibling loop nests: the bodies of several loops into one.

        Args:
            args: loops at the same depth of perfect nests with equal extents.
        """
        listed = _flat(args)
        if len(listed) < 2:
            raise ScheduleError(
                f"merge: expected at least two loops, got {len(listed)}"
            )
        made = self.new_loop(loops.merge(self.state, list(map(self.loop_op, listed))))
        self.record("Merge", listed, [], [made])
        return made

    @primitive
    def loop_partition(
        self,
        loop: LoopRV,
        factors: Sequence[int | ExprRV | None],
        preserve_unit_iters: bool = True,
    ) -> list[LoopRV]:
        """Partition a loop into consecutive loops.

        Args:
            loop: a loop from 0 without annotations and thread binding.
            factors: the extents of the parts; one may be None, and the rest becomes the last part.
            preserve_unit_iters: accepted for compatibility.
        """
        sizes = [None if f is None else self.int_value(f) for f in factors]
        made = loops.partition(self.state, self.loop_op(loop), sizes)
        given = list(map(self.new_loop, made))
        self.record("LoopPartition", [loop, *factors], [preserve_unit_iters], given)
        return given

    @primitive
    def reorder(self, *args: LoopRV) -> None:
        """Reorder loops of a nest; loops not given stay at their positions."""
        listed = _flat(args)
        loops.reorder(self.state, list(map(self.loop_op, listed)))
        self.record("Reorder", listed)

    @primitive
    def reorder_block_iter_var(
        self, block: BlockRV | str, new_order: Sequence[int]
    ) -> None:
        """Permute the iter vars of a block, given by their old positions."""
        block = self.resolve_block(block)
        order = list(map(self.int_value, new_order))
        annotations.reorder_block_iter_var(self.state, self.block_op(block), order)
        self.record("ReorderBlockIterVar", [block, order])

    @primitive
    def add_unit_loop(self, block_or_loop: BlockRV | LoopRV) -> LoopRV:
        """Add a loop of extent 1 around a block or a loop."""
        made = self.new_loop(
            loops.add_unit_loop(self.state, self.statement_op(block_or_loop))
        )
        self.record("AddUnitLoop", [block_or_loop], [], [made])
        return made

    @primitive
    def tile(
        self,
        block: BlockRV | str,
        x: LoopRV,
        y: LoopRV,
        x_factor: int,
        y_factor: int,
    ) -> list[LoopRV]:
        """Tile two loops: split both and interchange the inner two loops."""
        with self.transaction(self.loop_op(x)):
            x_outer, x_inner = self.split(x, [None, x_factor])
            y_outer, y_inner = self.split(y, [None, y_factor])
            self.reorder(x_outer, y_outer, x_inner, y_inner)
        return [x_outer, y_outer, x_inner, y_inner]

    # loop kinds

    @primitive
    def parallel(self, loop: LoopRV) -> None:
        """Mark a loop as parallel."""
        annotations.set_loop_kind(self.state, self.loop_op(loop), "parallel")
        self.record("Parallel", [loop])

    @primitive
    def vectorize(self, loop: LoopRV) -> None:
        """Mark a loop as vectorized."""
        annotations.set_loop_kind(self.state, self.loop_op(loop), "vectorized")
        self.record("Vectorize", [loop])

    @primitive
    def unroll(self, loop: LoopRV) -> None:
        """Mark a loop as unrolled."""
        annotations.set_loop_kind(self.state, self.loop_op(loop), "unrolled")
        self.record("Unroll", [loop])

    @primitive
    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Bind a loop to a thread axis such as ``threadIdx.x``."""
        annotations.set_loop_kind(
            self.state, self.loop_op(loop), "thread_binding", str(thread_axis)
        )
        self.record("Bind", [loop], [thread_axis])

    # annotations

    @primitive
    def annotate(
        self, block_or_loop: BlockRV | LoopRV, ann_key: str, ann_val: Any
    ) -> None:
        """Annotate a block or a loop.

        Args:
            block_or_loop: the block or the loop.
            ann_key: the key.
            ann_val: a number, a string, a random variable, or a list or dictionary of those.
        """
        target = self.statement_op(block_or_loop)
        annotations.annotate(self.state, target, ann_key, self._plain(ann_val))
        self.record("Annotate", [block_or_loop, ann_val], [ann_key])

    def _plain(self, value: Any) -> Any:
        """An annotation with sampled values substituted."""
        if isinstance(value, (list, tuple)):
            return [self._plain(v) for v in value]
        if isinstance(value, dict):
            return {k: self._plain(v) for k, v in value.items()}
        return self._values.get(value, value) if _is_sampled(value) else value

    @primitive
    def unannotate(self, block_or_loop: BlockRV | LoopRV, ann_key: str) -> None:
        """Remove an annotation of a block or a loop."""
        annotations.unannotate(self.state, self.statement_op(block_or_loop), ann_key)
        self.record("Unannotate", [block_or_loop], [ann_key])

    @primitive
    def storage_align(
        self,
        block: BlockRV | str,
        buffer_index: int,
        axis: int,
        factor: int,
        offset: int,
    ) -> None:
        """Request that the stride of an axis of a buffer is ``offset`` modulo ``factor``."""
        block = self.resolve_block(block)
        annotations.storage_align(
            self.state, self.block_op(block), buffer_index, axis, factor, offset
        )
        self.record("StorageAlign", [block], [buffer_index, axis, factor, offset])

    @primitive
    def set_scope(
        self, block: BlockRV | str, buffer_index: int | str, storage_scope: str
    ) -> None:
        """Set the storage scope of a buffer that a block writes."""
        block = self.resolve_block(block)
        op = self.block_op(block)
        number = self.buffer_index_of(op, buffer_index, is_write=True)
        annotations.set_scope(self.state, op, number, storage_scope)
        self.record("SetScope", [block], [number, storage_scope])

    def enter_postproc(self) -> None:
        """Mark the start of post-processing, which replays may skip."""
        self.record("EnterPostproc", [])


def _flat(args: Sequence[Any]) -> list[Any]:
    """Loops given as arguments or as one list."""
    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        return list(args[0])
    return list(args)


def _is_sampled(value: object) -> bool:
    return isinstance(value, prim.Var)

"""The schedule: primitives that rewrite loops and blocks of tensor programs.

Each checks that it keeps what the program computes, says which condition fails where it
would not, and then has changed nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.errors import ScheduleError
from relax_mlir.objects import prim
from relax_mlir.tir.schedule import accesses, annotations, legality, loops
from relax_mlir.tir.schedule.base import primitive
from relax_mlir.tir.schedule.block_rewrites import BlockRewrites
from relax_mlir.tir.schedule.layouts import Layouts
from relax_mlir.tir.schedule.random_variables import BlockRV, ExprRV, LoopRV
from relax_mlir.tir.schedule.sampling import Sampling

__all__ = ["Schedule"]


class Schedule(Layouts, BlockRewrites, Sampling):
    """A module that is being scheduled.

    Args:
        mod: a module, or one program, which is then called ``main``.
        seed: of the random numbers; -1 or None for any.
        debug_mask: accepted for compatibility: everything is always checked.
        error_render_level: how much errors say: ``detail``, ``fast`` or ``none``.
        enable_check: accepted for compatibility.
    """

    @primitive
    def get_producers(self, block: BlockRV | str) -> list[BlockRV]:
        """The blocks of the same scope that write what a block reads."""
        block = self.block_of(block)
        op = self.block_op(block)
        legality.check_not_root(op, "get_producers")
        found = accesses.producers_of(op)
        made = list(map(self.new_block, found))
        self.record("GetProducers", [block], [], made)
        return made

    @primitive
    def get_consumers(self, block: BlockRV | str) -> list[BlockRV]:
        """The blocks of the same scope that read what a block writes."""
        block = self.block_of(block)
        op = self.block_op(block)
        legality.check_not_root(op, "get_consumers")
        found = accesses.consumers_of(op)
        made = list(map(self.new_block, found))
        self.record("GetConsumers", [block], [], made)
        return made

    @primitive
    def get_output_blocks(self, scope_block: BlockRV | str) -> list[BlockRV]:
        """The blocks in a scope, at any depth, that write what their own scopes show."""
        scope_block = self.block_of(scope_block)
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
        """Split a loop into nested loops.

        Args:
            loop: it begins at 0 and has neither annotations nor a thread.
            factors: the extents of the new loops, outermost first; one may be None, and
                is then what the others leave, rounded up.
            preserve_unit_iters: whether bindings go on mentioning loops of one step.
            disable_predication: whether the factors are known to fit, so that no point
                has to be left out.

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
        """Fuse loops, each of which is all of the body of the one before, into one."""
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
        """Put the bodies of loops into one loop, one after the other.

        Args:
            args: loops in as many loops of their own, each of which has as many steps as
                those of the others and holds nothing else.
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
        """Cut a loop into loops one after the other.

        Args:
            loop: it begins at 0 and has neither annotations nor a thread.
            factors: the extents of the parts; one may be None, and what is left over is
                a part at the end.
            preserve_unit_iters: whether bindings go on mentioning loops of one step.
        """
        sizes = [None if f is None else self.number(f) for f in factors]
        made = loops.partition(self.state, self.loop_op(loop), sizes)
        given = list(map(self.new_loop, made))
        self.record("LoopPartition", [loop, *factors], [preserve_unit_iters], given)
        return given

    @primitive
    def reorder(self, *args: LoopRV) -> None:
        """Put loops of one nest into the given order; the others stay where they are."""
        listed = _flat(args)
        loops.reorder(self.state, list(map(self.loop_op, listed)))
        self.record("Reorder", listed)

    @primitive
    def reorder_block_iter_var(
        self, block: BlockRV | str, new_order: Sequence[int]
    ) -> None:
        """Put the axes of a block into another order, given by their old numbers."""
        block = self.block_of(block)
        order = list(map(self.number, new_order))
        annotations.reorder_block_iter_var(self.state, self.block_op(block), order)
        self.record("ReorderBlockIterVar", [block, order])

    @primitive
    def add_unit_loop(self, block_or_loop: BlockRV | LoopRV) -> LoopRV:
        """Put a loop of one step around a block or a loop."""
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
        """Split two loops and put both outer ones around both inner ones."""
        with self.all_or_nothing(self.loop_op(x)):
            x_outer, x_inner = self.split(x, [None, x_factor])
            y_outer, y_inner = self.split(y, [None, y_factor])
            self.reorder(x_outer, y_outer, x_inner, y_inner)
        return [x_outer, y_outer, x_inner, y_inner]

    # how loops run

    @primitive
    def parallel(self, loop: LoopRV) -> None:
        """Run the steps of a loop in parallel."""
        annotations.set_loop_kind(self.state, self.loop_op(loop), "parallel")
        self.record("Parallel", [loop])

    @primitive
    def vectorize(self, loop: LoopRV) -> None:
        """Run the steps of a loop as one vector."""
        annotations.set_loop_kind(self.state, self.loop_op(loop), "vectorized")
        self.record("Vectorize", [loop])

    @primitive
    def unroll(self, loop: LoopRV) -> None:
        """Write the steps of a loop one after the other."""
        annotations.set_loop_kind(self.state, self.loop_op(loop), "unrolled")
        self.record("Unroll", [loop])

    @primitive
    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Let each thread of an axis, such as ``threadIdx.x``, run one step."""
        annotations.set_loop_kind(
            self.state, self.loop_op(loop), "thread_binding", str(thread_axis)
        )
        self.record("Bind", [loop], [thread_axis])

    # annotations

    @primitive
    def annotate(
        self, block_or_loop: BlockRV | LoopRV, ann_key: str, ann_val: Any
    ) -> None:
        """Say something of a block or a loop.

        Args:
            block_or_loop: of which.
            ann_key: what it is called.
            ann_val: a number, a string, a variable, or a list or dictionary of those.
        """
        target = self.statement_op(block_or_loop)
        annotations.annotate(self.state, target, ann_key, self._plain(ann_val))
        self.record("Annotate", [block_or_loop, ann_val], [ann_key])

    def _plain(self, value: Any) -> Any:
        """An annotation with numbers in place of what was sampled."""
        if isinstance(value, (list, tuple)):
            return [self._plain(v) for v in value]
        if isinstance(value, dict):
            return {k: self._plain(v) for k, v in value.items()}
        return self._values.get(value, value) if _is_sampled(value) else value

    @primitive
    def unannotate(self, block_or_loop: BlockRV | LoopRV, ann_key: str) -> None:
        """Take back what was said of a block or a loop."""
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
        """Ask that the stride of an axis of a buffer is ``offset`` modulo ``factor``."""
        block = self.block_of(block)
        annotations.storage_align(
            self.state, self.block_op(block), buffer_index, axis, factor, offset
        )
        self.record("StorageAlign", [block], [buffer_index, axis, factor, offset])

    @primitive
    def set_scope(
        self, block: BlockRV | str, buffer_index: int | str, storage_scope: str
    ) -> None:
        """Move a buffer that a block writes to another memory."""
        block = self.block_of(block)
        op = self.block_op(block)
        number = self.buffer_number(op, buffer_index, is_write=True)
        annotations.set_scope(self.state, op, number, storage_scope)
        self.record("SetScope", [block], [number, storage_scope])

    def enter_postproc(self) -> None:
        """Say that what follows is post-processing, which replays may leave out."""
        self.record("EnterPostproc", [])


def _flat(args: Sequence[Any]) -> list[Any]:
    """Loops, also where they come as one list."""
    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        return list(args[0])
    return list(args)


def _is_sampled(value: object) -> bool:
    return isinstance(value, prim.Var)

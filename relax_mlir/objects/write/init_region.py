"""Makes buffers of a block available in its init region, a sibling of the body region."""

from __future__ import annotations

from mlir import ir

from relax_mlir.dialects.tir import AllocBufferOp, attribute_names
from relax_mlir.ir.traversal import walk

__all__ = ["make_visible"]


def make_visible(init: ir.Block, block: ir.Operation, name: str) -> None:
    """Replaces the values of the body that ``init`` uses by values that dominate it.

    TVMScript declares the buffers of a block once, for init and body. In MLIR these are sibling
    regions: a use across them is invalid, and cloning such a module leaves references into
    the original, whose destruction then aborts the process. A view of a buffer is created
    again in ``init``; an allocation is moved before the block.

    Args:
        init: the block of the init region.
        block: the ``tir.block`` operation.
        name: the name of the block, for error messages.

    Raises:
        ValueError: ``init`` uses another value that the body defines.
    """
    _InitRegion(init, block, name).run()


class _InitRegion:
    def __init__(self, init: ir.Block, block: ir.Operation, name: str) -> None:
        self._init, self._block, self._name = init, block, name
        self._body = block.regions[1].blocks[0]
        self._begin = ir.InsertionPoint.at_block_begin(init)
        self._visible: dict[ir.Value, ir.Value] = dict(
            zip(self._body.arguments, init.arguments, strict=True)
        )

    def run(self) -> None:
        for op in list(walk(self._init)):
            self._update_operands(op.operation)

    def _update_operands(self, op: ir.Operation) -> None:
        for number, operand in enumerate(op.operands):
            visible = self._made_visible(operand)
            if visible != operand:
                op.operands[number] = visible

    def _made_visible(self, value: ir.Value) -> ir.Value:
        """A value that dominates the init region; ``value`` itself if it does."""
        if value in self._visible:
            return self._visible[value]
        if isinstance(value.owner, ir.Block):
            return value
        owner = value.owner.operation
        if owner.block != self._body:
            return value
        if isinstance(owner.opview, AllocBufferOp):
            self._move_out(owner)
            return value
        is_view = (
            owner.name == "memref.subview" and attribute_names.MATCH in owner.attributes
        )
        if not is_view and not owner.name.startswith("arith."):
            raise ValueError(
                f"`T.init` of block `{self._name}`: uses a result of `{owner.name}` that "
                "the body defines: expected buffers and axes of the block, or values from "
                "outside. Hint: compute it in `T.init`"
            )
        operands = [self._made_visible(v) for v in owner.operands]
        with self._begin:
            copy = owner.clone().operation
        for number, operand in enumerate(operands):
            copy.operands[number] = operand
        if is_view:
            copy.attributes[attribute_names.IMPLICIT] = ir.UnitAttr.get()
        self._visible[value] = copy.results[0]
        return self._visible[value]

    def _move_out(self, op: ir.Operation) -> None:
        """Moves an operation of the body and its size operands before the block.

        Raises:
            ValueError: a size depends on an axis of the block.
        """
        for operand in op.operands:
            owner = operand.owner
            if operand in self._visible:
                raise ValueError(
                    f"`T.init` of block `{self._name}`: uses a buffer whose size depends on "
                    "an axis of the block: expected a size from outside"
                )
            is_block = isinstance(owner, ir.Block)
            if not is_block and owner.operation.block == self._body:
                self._move_out(owner.operation)
        op.move_before(self._block)

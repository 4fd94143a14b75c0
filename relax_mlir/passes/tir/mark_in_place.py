"""``tir-mark-in-place``: arguments that the result of a program may overwrite."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.index_maps import constant_of, determine_axes
from relax_mlir.dialects.tir import BlockOp, attribute_names
from relax_mlir.ir.module import IRModule
from relax_mlir.passes.tir.loop_nests import is_scheduled
from relax_mlir.rewrite.patterns import Pass

__all__ = ["MarkInPlace"]


@dataclass(frozen=True)
class MarkInPlace(Pass):
    """Mark arguments that the result of a program may overwrite (``tir.in_place``).

    An element of such an argument is read only by the statement that writes the same element of
    the result: a residual added after a convolution, or the operand of an elementwise program.
    Considers programs with one result that are not scheduled yet.
    """

    def run(self, module: IRModule) -> None:
        for function in module.func_ops():
            numbers = _overwritable(function)
            if numbers:
                attr = ir.DenseI64ArrayAttr.get(numbers)
                function.attributes[attribute_names.IN_PLACE] = attr


def _overwritable(program: func.FuncOp) -> list[int]:
    """The numbers of the arguments that the result may overwrite."""
    outputs = program.attributes.get("tir.num_outputs")
    if outputs is None or outputs.value != 1 or is_scheduled(program):
        return []
    arguments = list(program.entry_block.arguments)
    buffers = [a for a in arguments if isinstance(a.type, ir.MemRefType)]
    *inputs, result = buffers
    uses = [use.owner for use in result.uses]
    if len(uses) != 1 or uses[0].name != "memref.store":
        return []
    (store,) = uses
    block = _block_of(store)
    where = list(store.operands)[2:]
    if block is None or not _is_injective(block, where):
        return []
    return [
        arguments.index(buffer)
        for buffer in inputs
        if buffer.type == result.type and _is_read_at(buffer, block, where)
    ]


def _block_of(operation: ir.Operation) -> BlockOp | None:
    """The innermost block around an operation."""
    parent = operation.parent
    while parent is not None and not isinstance(parent.opview, BlockOp | func.FuncOp):
        parent = parent.opview.operation.parent
    return parent.opview if parent and isinstance(parent.opview, BlockOp) else None


def _is_injective(block: BlockOp, where: Sequence[ir.Value]) -> bool:
    """Whether the iterations of a block write distinct elements."""
    axes = block.body.blocks[0].arguments
    extents = dict(zip(axes, block.static_extents, strict=True))
    return set(block.kinds.value) <= {"S"} and determine_axes(where, extents)


def _is_read_at(buffer: ir.Value, block: BlockOp, where: Sequence[ir.Value]) -> bool:
    """Whether a buffer is read only in this block, at these indices."""
    loads = [use.owner for use in buffer.uses]
    return bool(loads) and all(
        load.name == "memref.load"
        and _block_of(load) == block
        and all(map(_are_same, list(load.operands)[1:], where))
        for load in loads
    )


def _are_same(left: ir.Value, right: ir.Value) -> bool:
    known = constant_of(left)
    return left == right or (known is not None and known == constant_of(right))

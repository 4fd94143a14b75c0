"""``tir-mark-in-place``: which arguments the result of a program may take the place of."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.tir import BlockOp, marks
from relax_mlir.indexing import constant_of
from relax_mlir.module import IRModule
from relax_mlir.passes.tir.nests import is_scheduled
from relax_mlir.rewriting import Pass

__all__ = ["MarkInPlace"]


@dataclass(frozen=True)
class MarkInPlace(Pass):
    """Mark programs whose result may be written over an argument (``tir.in_place``).

    An element of such an argument is read only by the statement that writes the result,
    for the same element of it: the residual that is added after a convolution, the one
    number that a map is of. Only programs with one result are looked at, of which a
    schedule rule writes the loops.
    """

    def run(self, module: IRModule) -> None:
        for function in module.func_ops():
            numbers = _overwritable(function)
            if numbers:
                attr = ir.DenseI64ArrayAttr.get(numbers)
                function.attributes[marks.IN_PLACE] = attr


def _overwritable(program: func.FuncOp) -> list[int]:
    """The numbers of the arguments that the result may take the place of."""
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
    if block is None or not _is_each_point_once(block, where):
        return []
    return [
        arguments.index(buffer)
        for buffer in inputs
        if buffer.type == result.type and _is_read_at(buffer, block, where)
    ]


def _block_of(operation: ir.Operation) -> BlockOp | None:
    """The block that an operation stands in, at whatever depth."""
    parent = operation.parent
    while parent is not None and not isinstance(parent.opview, BlockOp | func.FuncOp):
        parent = parent.opview.operation.parent
    return parent.opview if parent and isinstance(parent.opview, BlockOp) else None


def _is_each_point_once(block: BlockOp, where: Sequence[ir.Value]) -> bool:
    """Whether no two points of a block's grid are the same place of a buffer."""
    axes = block.body.blocks[0].arguments
    extents = list(block.static_extents)
    return set(block.kinds.value) <= {"S"} and all(
        extent == 1 or axis in where for axis, extent in zip(axes, extents, strict=True)
    )


def _is_read_at(buffer: ir.Value, block: BlockOp, where: Sequence[ir.Value]) -> bool:
    """Whether a buffer is only read, in this block, at this place."""
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

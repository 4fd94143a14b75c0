"""Which tensor programs are convolutions, read from their blocks."""

from __future__ import annotations

from collections.abc import Mapping

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.convolution_shapes import ConvolutionShape
from relax_mlir.dialects.tir import BlockOp, marks
from relax_mlir.indexing import Linear, linear_in
from relax_mlir.kinds import contraction_of
from relax_mlir.rewriting import walk
from relax_mlir.schedules.convolution_plan import Operand, read_convolution
from relax_mlir.schedules.rule import Refusal
from relax_mlir.traversal import named, own_operations

__all__ = ["convolution_of"]


def convolution_of(function: func.FuncOp) -> tuple[int, ConvolutionShape, str] | None:
    """What the one contraction of a program convolves; None of others and open sizes.

    Returns:
        How many pictures, what is computed of each, and the element type of the factors.
    """
    found = contraction_of(function)
    if found is None:
        return None
    block, reads = found
    (store,) = named(block.body.blocks[0], "memref.store")
    axes = {axis: n for n, axis in enumerate(block.body.blocks[0].arguments)}
    pads = _pads(function)
    first, second, result = (
        _operand(buffer, indices, axes, pads)
        for buffer, *indices in (
            *(list(read.operands) for read in reads),
            list(store.operands)[1:],
        )
    )
    if first is None or second is None or result is None:
        return None
    extents = list(ir.DenseI64ArrayAttr(block.static_extents))
    try:
        made = read_convolution(block.kinds.value, extents, (first, second), result)
    except Refusal:
        return None
    element = str(ir.MemRefType(reads[0].operands[0].type).element_type)
    return 1 if made.batch is None else extents[made.batch], made.shape, element


def _pads(function: func.FuncOp) -> dict[ir.Value, tuple[ir.Value, list[int]]]:
    """What a program pads: the source of each buffer, and what it puts before."""
    found: dict[ir.Value, tuple[ir.Value, list[int]]] = {}
    for block in own_operations(function.entry_block):
        if isinstance(block, BlockOp) and marks.PAD in block.attributes:
            named = {o.operation.name: o for o in walk(block)}
            source, target = named["memref.load"], named["memref.store"]
            before = list(ir.DenseI64ArrayAttr(block.attributes[marks.PAD]))
            found[target.operands[1]] = source.operands[0], before
    return found


def _operand(
    buffer: ir.Value,
    indices: list[ir.Value],
    axes: Mapping[ir.Value, int],
    pads: Mapping[ir.Value, tuple[ir.Value, list[int]]],
) -> Operand | None:
    """An operand where it lies in memory; None if its indices are not linear."""
    source, before = pads.get(buffer, (buffer, [0] * len(indices)))
    forms = [linear_in(index, axes) for index in indices]
    known = [
        form.plus(Linear({}, -count))
        for form, count in zip(forms, before, strict=True)
        if form is not None
    ]
    is_linear = len(known) == len(forms)
    return Operand(known, ir.MemRefType(source.type).shape) if is_linear else None

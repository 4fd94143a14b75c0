"""Matching of TIR programs that are convolutions."""

from __future__ import annotations

from collections.abc import Mapping

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.contraction import contraction_of
from relax_mlir.analysis.index_maps import affine_form
from relax_mlir.dialects.tir import BlockOp, attribute_names
from relax_mlir.ir.traversal import operations_named, own_operations, walk
from relax_mlir.schedules.match_convolution import ConvolutionOperand, match_convolution
from relax_mlir.schedules.rule import NotApplicable
from relax_mlir.symbolic.convolution_shapes import ConvolutionShape

__all__ = ["convolution_of"]


def convolution_of(function: func.FuncOp) -> tuple[int, ConvolutionShape, str] | None:
    """Match the only contraction of a program as a convolution of static sizes.

    Returns:
        The number of images, the convolution of one image, and the element type of the
        operands; None for other programs.
    """
    contraction = contraction_of(function)
    if contraction is None:
        return None
    block, reads = contraction
    (store,) = operations_named(block.body.blocks[0], "memref.store")
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
        match = match_convolution(block.kinds.value, extents, (first, second), result)
    except NotApplicable:
        return None
    element = str(ir.MemRefType(reads[0].operands[0].type).element_type)
    images = 1 if match.batch is None else extents[match.batch]
    return images, match.shape, element


def _pads(function: func.FuncOp) -> dict[ir.Value, tuple[ir.Value, list[int]]]:
    """The source and the leading padding of each padded buffer of a program."""
    pads: dict[ir.Value, tuple[ir.Value, list[int]]] = {}
    for block in own_operations(function.entry_block):
        if isinstance(block, BlockOp) and attribute_names.PAD in block.attributes:
            operations_named = {o.operation.name: o for o in walk(block)}
            source, target = (
                operations_named["memref.load"],
                operations_named["memref.store"],
            )
            before = list(ir.DenseI64ArrayAttr(block.attributes[attribute_names.PAD]))
            pads[target.operands[1]] = source.operands[0], before
    return pads


def _operand(
    buffer: ir.Value,
    indices: list[ir.Value],
    axes: Mapping[ir.Value, int],
    pads: Mapping[ir.Value, tuple[ir.Value, list[int]]],
) -> ConvolutionOperand | None:
    """An operand before padding; None if its index maps are not linear."""
    source, before = pads.get(buffer, (buffer, [0] * len(indices)))
    forms = [affine_form(index, axes) for index in indices]
    known = [
        form.shifted(-count)
        for form, count in zip(forms, before, strict=True)
        if form is not None
    ]
    is_linear = len(known) == len(forms)
    return (
        ConvolutionOperand(known, ir.MemRefType(source.type).shape)
        if is_linear
        else None
    )

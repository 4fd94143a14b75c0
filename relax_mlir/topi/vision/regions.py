"""Regions of pictures in one size, by the programs of the operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.dialects.relax.regions import VisionRoiAlignOp, VisionRoiPoolOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import OperatorError
from relax_mlir.module import IRModule
from relax_mlir.objects.prim import IntImm, PrimExpr
from relax_mlir.passes.relax.legalize import emit_program
from relax_mlir.te import Tensor, extern_primfunc

__all__ = ["roi_align", "roi_pool"]


def roi_align(
    data: Tensor,
    rois: Tensor,
    pooled_size: int | Sequence[int],
    spatial_scale: float,
    mode: str = "avg",
    sample_ratio: int = -1,
    aligned: bool = False,
    layout: str = "NCHW",
) -> Tensor:
    """Regions in one size, from points that lie between pixels.

    Args:
        data: the pictures.
        rois: [regions, 5]: the number of a picture, left, top, right and bottom.
        pooled_size: height and width of the result.
        spatial_scale: what the coordinates are multiplied by.
        mode: ``avg`` or ``max`` of the points of an element.
        sample_ratio: points per row of an element; -1 for as many as pixels.
        aligned: whether regions may be smaller than a pixel.
        layout: NCHW or NHWC.

    Raises:
        ValueError: another layout or mode, or operands that do not fit.

    Source: He et al., Mask R-CNN, 2017.
    """
    return _computed(
        VisionRoiAlignOp,
        data,
        rois,
        tag=f"pool,roi_align_{layout.lower()}",
        pooled_size=pooled_size,
        spatial_scale=float(spatial_scale),
        mode=mode,
        sample_ratio=sample_ratio,
        aligned=aligned,
        layout=layout,
    )


def roi_pool(
    data: Tensor,
    rois: Tensor,
    pooled_size: int | Sequence[int],
    spatial_scale: float,
    layout: str = "NCHW",
) -> Tensor:
    """Regions in one size: the largest pixel of every part, 0 if it has none.

    Args:
        data: the pictures.
        rois: [regions, 5]: the number of a picture, left, top, right and bottom.
        pooled_size: height and width of the result.
        spatial_scale: what the coordinates are multiplied by.
        layout: NCHW.

    Raises:
        ValueError: another layout, or operands that do not fit.

    Source: Girshick, Fast R-CNN, 2015.
    """
    return _computed(
        VisionRoiPoolOp,
        data,
        rois,
        tag="pool,roi_pool_nchw",
        pooled_size=pooled_size,
        spatial_scale=float(spatial_scale),
        layout=layout,
    )


def _computed(
    op: type[RelaxOperation],
    *inputs: Tensor,
    tag: str,
    **attrs: Any,  # Any: as many types as attributes
) -> Tensor:
    """What the program of an operator computes of tensors."""
    known: dict[str, PrimExpr] = {}
    name = op.program_name()
    module = IRModule.empty()
    with module.context, ir.Location.unknown(), ir.InsertionPoint(module.mlir.body):
        types = [_type(tensor, known) for tensor in inputs]
        holder = func.FuncOp("holder", ir.FunctionType.get(types, []))
        try:
            with ir.InsertionPoint(holder.add_entry_block()):
                made = op(*holder.arguments, **op.normalize_arguments(**attrs))
        except ValueError as error:
            raise OperatorError(f"{name}: {error}") from error
        _, sizes = emit_program(made, name)
    program = module[name]
    if sizes:
        pairs = zip(program.size_vars(), sizes, strict=True)
        program = program.with_sizes({var: known[str(size)] for var, size in pairs})
    return extern_primfunc(inputs, program, name=name, tag=tag)


def _type(tensor: Tensor, known: dict[str, PrimExpr]) -> ir.Type:
    """The type of a tensor; every size that is no number gets a name in ``known``."""
    shape: list[Dim] = []
    for size in tensor.shape:
        if isinstance(size, IntImm):
            shape.append(size.value)
        else:
            name = f"n{len(known)}"
            known[name] = size
            shape.append(shapes.symbol(name))
    return tensors.tensor_type(shape, dtypes.dtype(tensor.dtype))

"""RoI pooling and RoI align, by the PrimFuncs of the Relax operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.dialects.relax.roi import VisionRoiAlignOp, VisionRoiPoolOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import OperatorError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.prim import IntImm, PrimExpr
from relax_mlir.passes.relax.legalize import emit_program
from relax_mlir.tvm.te import Tensor, extern_primfunc

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
    """RoI align: pools regions to a fixed size from bilinearly interpolated samples.

    Args:
        data: the images.
        rois: [regions, 5]: batch index, left, top, right and bottom.
        pooled_size: output height and width.
        spatial_scale: scale factor of the coordinates.
        mode: ``avg`` or ``max`` over the samples of a bin.
        sample_ratio: samples per bin and axis; -1 for one per pixel.
        aligned: whether regions may be smaller than a pixel; if not, they are enlarged.
        layout: NCHW or NHWC.

    Raises:
        ValueError: unknown layout or mode, or invalid operands.

    Source: He et al., Mask R-CNN, 2017.
    """
    return _apply_operator(
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
    """RoI pooling: max-pools regions to a fixed size; empty bins are 0.

    Args:
        data: the images.
        rois: [regions, 5]: batch index, left, top, right and bottom.
        pooled_size: output height and width.
        spatial_scale: scale factor of the coordinates.
        layout: NCHW.

    Raises:
        ValueError: unknown layout, or invalid operands.

    Source: Girshick, Fast R-CNN, 2015.
    """
    return _apply_operator(
        VisionRoiPoolOp,
        data,
        rois,
        tag="pool,roi_pool_nchw",
        pooled_size=pooled_size,
        spatial_scale=float(spatial_scale),
        layout=layout,
    )


def _apply_operator(
    op: type[RelaxOperation],
    *inputs: Tensor,
    tag: str,
    **attrs: Any,  # Any: attributes have different types
) -> Tensor:
    """Apply the PrimFunc of a Relax operator to tensors."""
    size_of_symbol: dict[str, PrimExpr] = {}
    name = op.program_name()
    module = IRModule.empty()
    with module.context, ir.Location.unknown(), ir.InsertionPoint(module.mlir.body):
        types = [_mlir_type(tensor, size_of_symbol) for tensor in inputs]
        holder = func.FuncOp("holder", ir.FunctionType.get(types, []))
        try:
            with ir.InsertionPoint(holder.add_entry_block()):
                built = op(*holder.arguments, **op.normalize_arguments(**attrs))
        except ValueError as error:
            raise OperatorError(f"{name}: {error}") from error
        _, sizes = emit_program(built, name)
    prim_func = module[name]
    if sizes:
        pairs = zip(prim_func.size_vars(), sizes, strict=True)
        prim_func = prim_func.with_sizes(
            {var: size_of_symbol[str(size)] for var, size in pairs}
        )
    return extern_primfunc(inputs, prim_func, name=name, tag=tag)


def _mlir_type(tensor: Tensor, size_of_symbol: dict[str, PrimExpr]) -> ir.Type:
    """MLIR type of a tensor; symbolic sizes get fresh names, recorded in ``size_of_symbol``."""
    shape: list[Dim] = []
    for size in tensor.shape:
        if isinstance(size, IntImm):
            shape.append(size.value)
        else:
            name = f"n{len(size_of_symbol)}"
            size_of_symbol[name] = size
            shape.append(shapes.symbol(name))
    return tensors.tensor_type(shape, dtypes.dtype(tensor.dtype))

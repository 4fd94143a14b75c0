"""RoI pooling and RoI align, by the PrimFuncs of the Relax operators."""

from __future__ import annotations

from collections.abc import Sequence

from relax_mlir.dialects.relax.roi import VisionRoiAlignOp, VisionRoiPoolOp
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.operators import apply_operator

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
    return apply_operator(
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
    return apply_operator(
        VisionRoiPoolOp,
        data,
        rois,
        tag="pool,roi_pool_nchw",
        pooled_size=pooled_size,
        spatial_scale=float(spatial_scale),
        layout=layout,
    )

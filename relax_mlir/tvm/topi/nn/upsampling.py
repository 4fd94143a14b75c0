"""Upsampling of images and volumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import intrinsics
from relax_mlir.objects.prim.terms import PrimExprLike, PrimExprLikes
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.image.resize import resize2d, resize3d
from relax_mlir.tvm.topi.sizes import simplified

__all__ = ["upsampling", "upsampling3d"]


def _scaled(sizes: Sequence[PrimExprLike], scales: Sequence[Any]) -> tuple[Any, ...]:
    """Sizes times scale factors, rounded."""
    if len(sizes) != len(scales):
        raise ValueError(f"upsampling: expected {len(scales)} sizes, got {list(sizes)}")
    return tuple(
        simplified(prim.cast(size.dtype, intrinsics.round(size * prim.convert(scale))))
        for size, scale in zip(sizes, scales, strict=True)
    )


def upsampling(
    data: Tensor,
    scale_h: PrimExprLikes,
    scale_w: PrimExprLikes,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    output_shape: Sequence[PrimExprLike] | None = None,
) -> Tensor:
    """Upsample images by scale factors.

    Raises:
        ValueError: the layout is neither ``NCHW`` nor ``NHWC``.
    """
    if not layout.startswith("NCHW") and layout != "NHWC":
        raise ValueError(f"upsampling: expected layout NCHW or NHWC, got {layout}")
    first = 1 if layout == "NHWC" else 2
    sizes = data.shape[first : first + 2]
    if output_shape:
        target = tuple(output_shape[first : first + 2])
    else:
        target = _scaled(sizes, (scale_h, scale_w))
    return resize2d(
        data,
        [0.0] * 4,
        target,
        layout=layout,
        method=method.removeprefix("bi"),
        coordinate_transformation_mode="align_corners"
        if align_corners
        else "asymmetric",
        output_shape=output_shape,
    )


def upsampling3d(
    data: Tensor,
    scale_d: PrimExprLikes,
    scale_h: PrimExprLikes,
    scale_w: PrimExprLikes,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
    output_shape: Sequence[PrimExprLike] | None = None,
) -> Tensor:
    """Upsample volumes by scale factors.

    Raises:
        ValueError: the layout is neither ``NCDHW`` nor ``NDHWC``.
    """
    if layout not in ("NCDHW", "NDHWC"):
        raise ValueError(f"upsampling3d: expected layout NCDHW or NDHWC, got {layout}")
    first = 1 if layout == "NDHWC" else 2
    sizes = data.shape[first : first + 3]
    if output_shape:
        target = tuple(output_shape[first : first + 3])
    else:
        target = _scaled(sizes, (scale_d, scale_h, scale_w))
    return resize3d(
        data,
        [0.0] * 6,
        target,
        layout=layout,
        method=method.removeprefix("tri"),
        coordinate_transformation_mode=coordinate_transformation_mode,
    )

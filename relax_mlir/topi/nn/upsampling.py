"""Images made larger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.objects import functions, prim
from relax_mlir.objects.prim.terms import Term, Terms
from relax_mlir.te import Tensor
from relax_mlir.topi.image.resize import resize2d, resize3d
from relax_mlir.topi.sizes import plain

__all__ = ["upsampling", "upsampling3d"]


def _scaled(sizes: Sequence[Term], scales: Sequence[Any]) -> tuple[Any, ...]:
    """Sizes times factors, rounded."""
    if len(sizes) != len(scales):
        raise ValueError(f"upsampling: expected {len(scales)} sizes, got {list(sizes)}")
    return tuple(
        plain(prim.cast(size.dtype, functions.round(size * prim.convert(scale))))
        for size, scale in zip(sizes, scales, strict=True)
    )


def upsampling(
    data: Tensor,
    scale_h: Terms,
    scale_w: Terms,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    output_shape: Sequence[Term] | None = None,
) -> Tensor:
    """Images larger by a factor.

    Raises:
        ValueError: the layout is neither ``NCHW`` nor ``NHWC``.
    """
    if not layout.startswith("NCHW") and layout != "NHWC":
        raise ValueError(f"upsampling: expected layout NCHW or NHWC, got {layout}")
    first = 1 if layout == "NHWC" else 2
    sizes = data.shape[first : first + 2]
    if output_shape:
        wanted = tuple(output_shape[first : first + 2])
    else:
        wanted = _scaled(sizes, (scale_h, scale_w))
    return resize2d(
        data,
        [0.0] * 4,
        wanted,
        layout=layout,
        method=method.removeprefix("bi"),
        coordinate_transformation_mode="align_corners"
        if align_corners
        else "asymmetric",
        output_shape=output_shape,
    )


def upsampling3d(
    data: Tensor,
    scale_d: Terms,
    scale_h: Terms,
    scale_w: Terms,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
    output_shape: Sequence[Term] | None = None,
) -> Tensor:
    """Volumes larger by a factor.

    Raises:
        ValueError: the layout is neither ``NCDHW`` nor ``NDHWC``.
    """
    if layout not in ("NCDHW", "NDHWC"):
        raise ValueError(f"upsampling3d: expected layout NCDHW or NDHWC, got {layout}")
    first = 1 if layout == "NDHWC" else 2
    sizes = data.shape[first : first + 3]
    if output_shape:
        wanted = tuple(output_shape[first : first + 3])
    else:
        wanted = _scaled(sizes, (scale_d, scale_h, scale_w))
    return resize3d(
        data,
        [0.0] * 6,
        wanted,
        layout=layout,
        method=method.removeprefix("tri"),
        coordinate_transformation_mode=coordinate_transformation_mode,
    )

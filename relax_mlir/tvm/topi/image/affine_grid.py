"""Affine sampling grids (spatial transformers)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.objects.prim import const
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor

__all__ = ["affine_grid"]

_GAP = 1e-7  # keeps rounding from moving the last point past the border


def affine_grid(
    data: Tensor, target_shape: Sequence[int], align_corners: bool = True
) -> Tensor:
    """Sampling grid of an image or volume: normalized coordinates under an affine map.

    Args:
        data: affine matrices, [batch, 2, 3]; [batch, 3, 4] for volumes.
        target_shape: height and width, or depth, height and width.
        align_corners: whether -1 and 1 are the centers of the outermost pixels (a single
            pixel is then at 1), or their outer edges.

    Raises:
        ValueError: there are not 2 or 3 positive sizes.

    Source: Jaderberg et al., Spatial Transformer Networks, 2015.
    """
    rank = len(target_shape)
    if rank not in (2, 3) or min(target_shape) < 1:
        raise ValueError(
            f"affine_grid: expected 2 or 3 positive sizes, got {list(target_shape)}"
        )
    axes = [_axis(size, align_corners) for size in target_shape]

    def element(n: Any, row: Any, *point: Any) -> Any:
        value = data(n, row, rank)
        for i, (start, step) in enumerate(axes):
            coordinate = const(start, data.dtype) + point[i] * const(step, data.dtype)
            value = value + data(n, row, rank - 1 - i) * coordinate
        return value

    return te.compute((data.shape[0], rank, *target_shape), element, tag="affine_grid")


def _axis(size: int, align_corners: bool) -> tuple[float, float]:
    """Coordinate of the first pixel along an axis, and the step to the next."""
    if not align_corners:
        return -1.0 + 1.0 / size, 2.0 / size
    return (-1.0, (2.0 - _GAP) / (size - 1)) if size > 1 else (1.0, 0.0)

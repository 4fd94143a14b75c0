"""Where an affine map takes the points of a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir import te
from relax_mlir.objects.prim import const
from relax_mlir.te import Tensor

__all__ = ["affine_grid"]

_GAP = 1e-7  # keeps the last point from coming to lie beyond the border


def affine_grid(
    data: Tensor, target_shape: Sequence[int], align_corners: bool = True
) -> Tensor:
    """The points of a picture or volume, from -1 to 1, after an affine map.

    Args:
        data: [batch, 2, 3], or [batch, 3, 4] for volumes.
        target_shape: height and width, or depth, height and width.
        align_corners: whether -1 and 1 are the middles of the outermost pixels; a single
            pixel is at 1.

    Raises:
        ValueError: another number of sizes.
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
            place = const(start, data.dtype) + point[i] * const(step, data.dtype)
            value = value + data(n, row, rank - 1 - i) * place
        return value

    return te.compute((data.shape[0], rank, *target_shape), element, tag="affine_grid")


def _axis(size: int, align_corners: bool) -> tuple[float, float]:
    """Where the first pixel along an axis is, and how far it is to the next."""
    if not align_corners:
        return -1.0 + 1.0 / size, 2.0 / size
    return (-1.0, (2.0 - _GAP) / (size - 1)) if size > 1 else (1.0, 0.0)

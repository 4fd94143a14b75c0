"""Operators on images."""

from relax_mlir.topi.image.resize import resize1d, resize2d, resize3d

__all__ = ["resize1d", "resize2d", "resize3d"]

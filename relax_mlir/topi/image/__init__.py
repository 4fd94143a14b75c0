"""Operators on images."""

from relax_mlir.argument_types import check_exports
from relax_mlir.topi.image.affine_grid import affine_grid
from relax_mlir.topi.image.resize import resize1d, resize2d, resize3d

__all__ = ["affine_grid", "resize1d", "resize2d", "resize3d"]

check_exports(globals())

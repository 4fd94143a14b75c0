"""Image operators: resizing and affine sampling grids."""

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.topi.image.affine_grid import affine_grid
from relax_mlir.tvm.topi.image.resize import resize1d, resize2d, resize3d

__all__ = ["affine_grid", "resize1d", "resize2d", "resize3d"]

check_exports(globals())

"""External libraries and utilities: ``tvm.contrib``."""

from relax_mlir.tvm.contrib import cblas, utils

__all__ = ["cblas", "utils"]

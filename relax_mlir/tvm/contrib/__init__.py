"""What programs use beside the compiler: ``tvm.contrib``."""

from relax_mlir.tvm.contrib import utils

__all__ = ["utils"]

"""Matrix products that a library computes: ``tvm.contrib.cblas``."""

from relax_mlir.argument_types import check_exports
from relax_mlir.te.libraries import batch_matmul, matmul

__all__ = ["batch_matmul", "matmul"]

check_exports(globals())

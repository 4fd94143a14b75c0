"""Matrix multiplications by an external library: ``tvm.contrib.cblas``."""

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.te.libraries import batch_matmul, matmul

__all__ = ["batch_matmul", "matmul"]

check_exports(globals())

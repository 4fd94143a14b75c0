"""Schedule rules for CPUs: ``tvm.dlight.cpu``."""

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.dlight.cpu.gemv import GEMV
from relax_mlir.tvm.dlight.cpu.reduction import Reduction

__all__ = ["GEMV", "Reduction"]

check_exports(globals())

"""Pass infrastructure: ``tvm.transform``."""

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.ir.transform import (
    Pass,
    PassContext,
    PrintIR,
    Sequential,
    module_pass,
)

__all__ = ["Pass", "PassContext", "PrintIR", "Sequential", "module_pass"]

check_exports(globals())

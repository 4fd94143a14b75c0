"""Pass infrastructure: ``tvm.ir.transform``."""

from relax_mlir.pipeline import ModulePass, Sequential, module_pass
from relax_mlir.pipeline import PrintIRPass as PrintIR
from relax_mlir.rewrite.pass_context import PassContext, PassInfo
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.support.argument_types import check_exports

__all__ = [
    "ModulePass",
    "Pass",
    "PassContext",
    "PassInfo",
    "PrintIR",
    "Sequential",
    "module_pass",
]

check_exports(globals())

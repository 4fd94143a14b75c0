"""Passes: ``tvm.ir.transform``."""

from relax_mlir.argument_types import check_exports
from relax_mlir.pass_context import PassContext, PassInfo
from relax_mlir.pipeline import ModulePass, Sequential, module_pass
from relax_mlir.pipeline import PrintIRPass as PrintIR
from relax_mlir.rewriting import Pass

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

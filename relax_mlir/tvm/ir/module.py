"""IR modules: ``tvm.ir.module``."""

from relax_mlir.ir.module import IRModule

__all__ = ["IRModule"]

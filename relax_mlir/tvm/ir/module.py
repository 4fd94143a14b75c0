"""Modules: ``tvm.ir.module``."""

from relax_mlir.module import IRModule

__all__ = ["IRModule"]

"""Targets: ``tvm.target``."""

from relax_mlir.relax.target import Target

__all__ = ["Target"]

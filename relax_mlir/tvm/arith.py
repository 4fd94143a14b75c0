"""Reasoning about scalars: ``tvm.arith``."""

from relax_mlir.objects.analyzer import Analyzer, ConstIntBound

__all__ = ["Analyzer", "ConstIntBound"]

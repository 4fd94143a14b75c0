"""Integer arithmetic analysis: ``tvm.arith``."""

from relax_mlir.objects.prim.analyzer import Analyzer, ConstIntBound

__all__ = ["Analyzer", "ConstIntBound"]

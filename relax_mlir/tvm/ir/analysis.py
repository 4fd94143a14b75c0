"""Questions about modules: ``tvm.ir.analysis``."""

from relax_mlir.relax.analysis.call_map import collect_call_map

__all__ = ["collect_call_map"]

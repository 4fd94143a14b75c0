"""Module analyses: ``tvm.ir.analysis``."""

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.relax.analysis.call_map import collect_call_map

__all__ = ["collect_call_map"]

check_exports(globals())

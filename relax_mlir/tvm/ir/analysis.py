"""Questions about modules: ``tvm.ir.analysis``."""

from relax_mlir.argument_types import check_exports
from relax_mlir.relax.analysis.call_map import collect_call_map

__all__ = ["collect_call_map"]

check_exports(globals())

"""Targets: ``tvm.target``."""

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.relax.target import Target

__all__ = ["Target"]

check_exports(globals())

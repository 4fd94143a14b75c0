"""Targets: ``tvm.target``."""

from relax_mlir.argument_types import check_exports
from relax_mlir.relax.target import Target

__all__ = ["Target"]

check_exports(globals())

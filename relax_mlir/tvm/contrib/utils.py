"""Folders that vanish again: ``tvm.contrib.utils``."""

from relax_mlir.argument_types import check_exports
from relax_mlir.files import TempDirectory

tempdir = TempDirectory

__all__ = ["TempDirectory", "tempdir"]

check_exports(globals())

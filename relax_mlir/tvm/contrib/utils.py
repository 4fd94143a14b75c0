"""Temporary directories: ``tvm.contrib.utils``."""

from relax_mlir.support.argument_types import check_exports
from relax_mlir.support.files import TempDirectory

tempdir = TempDirectory

__all__ = ["TempDirectory", "tempdir"]

check_exports(globals())

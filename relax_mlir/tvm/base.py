"""The error that all others are: ``tvm.base``."""

from relax_mlir.argument_types import check_exports
from relax_mlir.errors import RelaxError as TVMError

__all__ = ["TVMError"]

check_exports(globals())

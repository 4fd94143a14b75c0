"""The base class of all errors: ``tvm.base``."""

from relax_mlir.errors import RelaxError as TVMError
from relax_mlir.support.argument_types import check_exports

__all__ = ["TVMError"]

check_exports(globals())

"""Errors: ``tvm.error``."""

from relax_mlir.errors import IRError as InternalError
from relax_mlir.errors import RelaxError as TVMError
from relax_mlir.errors import ScriptError as DiagnosticError
from relax_mlir.errors import UnsupportedError as OpNotImplemented

__all__ = ["DiagnosticError", "InternalError", "OpNotImplemented", "TVMError"]

"""Pass instruments: ``tvm.instrument``."""

from relax_mlir.tvm.ir.instrument import *  # noqa: F403  it has __all__
from relax_mlir.tvm.ir.instrument import __all__ as __all__

"""Front ends, by the names that TVM has for them."""

from relax_mlir.relax.frontend import nn

__all__ = ["nn"]

"""Front ends, by the names that TVM has for them; ``torch`` is loaded when it is imported."""

from relax_mlir.argument_types import check_exports
from relax_mlir.relax.frontend import nn
from relax_mlir.relax.frontend.params import detach_params

__all__ = ["detach_params", "nn"]

check_exports(globals())

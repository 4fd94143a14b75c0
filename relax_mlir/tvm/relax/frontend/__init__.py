"""The ``tvm.relax.frontend`` API; ``torch`` and ``onnx`` are imported explicitly."""

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.relax.frontend import nn
from relax_mlir.tvm.relax.frontend.params import detach_params

__all__ = ["detach_params", "nn"]

check_exports(globals())

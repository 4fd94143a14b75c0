"""TVM's names for what is here: ``import relax_mlir as tvm`` runs programs written for it.

Nothing is implemented in this package; its modules give our own objects under the names
that TVM 0.9 to 0.27 uses. They can be imported from ``relax_mlir`` itself as well
(``from relax_mlir.ir import assert_structural_equal``).
"""

from relax_mlir import IRModule, compile
from relax_mlir.errors import RelaxError as TVMError
from relax_mlir.relax.vm import build
from relax_mlir.runtime.ndarray import cpu, cuda, device
from relax_mlir.runtime.ndarray import cuda as gpu
from relax_mlir.runtime.registry import (
    get_global_func,
    register_func,
)
from relax_mlir.runtime.registry import register_func as register_global_func
from relax_mlir.tvm import error, ir, nd, target, transform
from relax_mlir.tvm.target import Target

__all__ = [
    "IRModule",
    "TVMError",
    "Target",
    "build",
    "compile",
    "cpu",
    "cuda",
    "device",
    "error",
    "get_global_func",
    "gpu",
    "ir",
    "nd",
    "register_func",
    "register_global_func",
    "target",
    "transform",
]

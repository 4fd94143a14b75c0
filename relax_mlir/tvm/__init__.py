"""TVM's names for what is here: ``import relax_mlir as tvm`` runs programs written for it.

Nothing is implemented in this package; its modules give our own objects under the names
that TVM 0.9 to 0.27 uses. They can be imported from ``relax_mlir`` itself as well
(``from relax_mlir.ir import assert_structural_equal``).
"""

from tvm_ffi import dtype as DataType  # noqa: N812  TVM's name

from relax_mlir import IRModule, compile
from relax_mlir.argument_types import check_exports
from relax_mlir.errors import RelaxError as TVMError
from relax_mlir.objects.prim import const
from relax_mlir.relax.vm import build_any as build
from relax_mlir.runtime.ndarray import cpu, cuda, device
from relax_mlir.runtime.ndarray import cuda as gpu
from relax_mlir.runtime.registry import (
    get_global_func,
    register_func,
)
from relax_mlir.runtime.registry import register_func as register_global_func
from relax_mlir.tvm import base, error, ffi, ir, nd, target, transform
from relax_mlir.tvm.target import Target

__all__ = [
    "DataType",
    "IRModule",
    "TVMError",
    "Target",
    "base",
    "build",
    "compile",
    "const",
    "cpu",
    "cuda",
    "device",
    "error",
    "ffi",
    "get_global_func",
    "gpu",
    "ir",
    "nd",
    "register_func",
    "register_global_func",
    "target",
    "transform",
]

check_exports(globals())

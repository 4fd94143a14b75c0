"""The packed-function registry and structural comparison: ``tvm.ffi``."""

from tvm_ffi import Shape, dtype

from relax_mlir.objects.compare.structural_equal import (
    structural_equal,
    structural_hash,
)
from relax_mlir.runtime.registry import get_global_func, register_func
from relax_mlir.support.argument_types import check_exports

register_global_func = register_func  # TVM's newer name

__all__ = [
    "Shape",
    "dtype",
    "get_global_func",
    "register_func",
    "register_global_func",
    "structural_equal",
    "structural_hash",
]

check_exports(globals())

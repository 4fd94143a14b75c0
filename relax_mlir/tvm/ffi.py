"""Functions by name: ``tvm.ffi``."""

from tvm_ffi import dtype

from relax_mlir.runtime.registry import get_global_func, register_func

register_global_func = register_func  # TVM's newer name

__all__ = ["dtype", "get_global_func", "register_func", "register_global_func"]

"""Host interpreter: runs the parts of a module that are not compiled to machine code."""

from relax_mlir.support.ffi import import_tvm_ffi

import_tvm_ffi()

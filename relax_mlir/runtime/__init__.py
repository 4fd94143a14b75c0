"""Runtime of compiled models: arrays, executables, devices, file formats."""

from relax_mlir.support.torch_free_import import import_tvm_ffi

import_tvm_ffi()

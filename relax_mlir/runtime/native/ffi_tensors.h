// Tensors and types of tvm-ffi.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_FFI_TENSORS_H_
#define RELAX_MLIR_RUNTIME_NATIVE_FFI_TENSORS_H_

#include <tvm/ffi/container/tensor.h>

#include <string>

#include "tensors.h"

namespace relax_mlir {

// A type by numpy's name, which is tvm-ffi's except for complex types, which it lacks.
DLDataType ParseDataType(const std::string& name);

// An uninitialised C-contiguous CPU tensor, 64-byte aligned.
tvm::ffi::Tensor AllocateTensor(tvm::ffi::ShapeView shape, DLDataType dtype);

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_FFI_TENSORS_H_

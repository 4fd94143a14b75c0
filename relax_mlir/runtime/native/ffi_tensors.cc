#include "ffi_tensors.h"

#include <tvm/ffi/dtype.h>

#include <cstdlib>

namespace relax_mlir {
namespace {

// The allocator of outputs, with tvm-ffi's interface.
struct Allocator {
  void AllocData(DLTensor* tensor) {
    tensor->data = AllocateAligned(ElementCount(*tensor) * ItemBytes(tensor->dtype)).release();
  }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};

}  // namespace

DLDataType ParseDataType(const std::string& name) {
  if (name == "complex64") return {kDLComplex, 64, 1};
  if (name == "complex128") return {kDLComplex, 128, 1};
  return tvm::ffi::StringToDLDataType(name);
}

tvm::ffi::Tensor AllocateTensor(tvm::ffi::ShapeView shape, DLDataType dtype) {
  return tvm::ffi::Tensor::FromNDAlloc(Allocator(), shape, dtype, DLDevice{kDLCPU, 0});
}

}  // namespace relax_mlir

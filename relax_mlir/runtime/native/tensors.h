// Layout and memory of DLPack tensors.
//
// Strides are in elements. Types narrower than a byte take one byte per element, as in ml_dtypes
// and in MLIR's memrefs.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_TENSORS_H_
#define RELAX_MLIR_RUNTIME_NATIVE_TENSORS_H_

#include <dlpack/dlpack.h>
#include <stdint.h>
#include <tvm/ffi/container/tensor.h>

#include <memory>
#include <string>

namespace relax_mlir {

// Of arenas, outputs and temporaries.
constexpr int64_t kAlignment = 64;

struct FreeDeleter {
  void operator()(void* data) const;
};
using AlignedMemory = std::unique_ptr<void, FreeDeleter>;

// At least one byte, so never NULL. Throws std::bad_alloc.
AlignedMemory AllocateAligned(int64_t bytes);

// Types by numpy's names, which are tvm-ffi's but for the complex ones that it lacks.
DLDataType ParseDataType(const std::string& name);
std::string DataTypeName(DLDataType dtype);

inline int64_t ItemBytes(DLDataType dtype) { return (dtype.bits * dtype.lanes + 7) / 8; }

inline char* Data(const DLTensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

inline int64_t ElementCount(const DLTensor& tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor.ndim; ++i) count *= tensor.shape[i];
  return count;
}

// Row-major without gaps; true of empty tensors.
bool IsContiguous(const DLTensor& tensor);

// Compiled code loads and stores whole elements and needs no more alignment than that.
bool IsElementAligned(const DLTensor& tensor);

// Copies between a row-major buffer and a tensor of any strides.
void CopyToContiguous(const DLTensor& tensor, void* contiguous);
void CopyFromContiguous(const void* contiguous, const DLTensor& tensor);

// Whether the smallest byte ranges that hold the tensors meet.
bool RangesMeet(const DLTensor& lhs, const DLTensor& rhs);

// Whether a byte belongs to an element of both; exact for all strides.
bool Overlaps(const DLTensor& lhs, const DLTensor& rhs);

// Whether two elements of the tensor share a byte (a broadcast view does).
bool OverlapsItself(const DLTensor& tensor);

// A row-major CPU tensor, 64-byte aligned, not initialized.
tvm::ffi::Tensor AllocateTensor(tvm::ffi::ShapeView shape, DLDataType dtype);

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_TENSORS_H_

// Layout and memory of DLPack tensors.
//
// Strides are in elements. Types narrower than a byte take one byte per element, as in ml_dtypes
// and in MLIR's memrefs.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_TENSORS_H_
#define RELAX_MLIR_RUNTIME_NATIVE_TENSORS_H_

#include <dlpack/dlpack.h>
#include <stdint.h>

#include <memory>
#include <string>

namespace relax_mlir {

// Alignment of arenas, outputs and temporaries, in bytes.
constexpr int64_t kAlignment = 64;

struct FreeDeleter {
  void operator()(void* data) const;
};
using AlignedMemory = std::unique_ptr<void, FreeDeleter>;

// Allocates at least one byte, so never returns NULL. Throws std::bad_alloc.
AlignedMemory AllocateAligned(int64_t bytes);

// The name of a type, which is numpy's.
std::string DataTypeName(DLDataType dtype);

// A shape as `[2, 3]`.
std::string ShapeText(const DLTensor& tensor);

inline int64_t ItemBytes(DLDataType dtype) { return (dtype.bits * dtype.lanes + 7) / 8; }

inline char* Data(const DLTensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

inline int64_t ElementCount(const DLTensor& tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor.ndim; ++i) count *= tensor.shape[i];
  return count;
}

// Whether a tensor is C-contiguous; true for empty tensors.
bool IsContiguous(const DLTensor& tensor);

// Whether the data is aligned to the element size, which is all that compiled code needs.
bool IsElementAligned(const DLTensor& tensor);

// Packs a strided tensor into a contiguous buffer, and unpacks it.
void CopyToContiguous(const DLTensor& tensor, void* contiguous);
void CopyFromContiguous(const void* contiguous, const DLTensor& tensor);

// Whether the enclosing byte ranges of the tensors overlap.
bool RangesMeet(const DLTensor& lhs, const DLTensor& rhs);

// Whether a byte belongs to an element of both; exact for all strides.
bool Overlaps(const DLTensor& lhs, const DLTensor& rhs);

// Whether two elements of the tensor share a byte (a broadcast view does).
bool OverlapsItself(const DLTensor& tensor);

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_TENSORS_H_

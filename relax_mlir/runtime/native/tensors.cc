#include "tensors.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

namespace relax_mlir {
namespace {

int64_t Stride(const DLTensor& tensor, int axis) {
  if (tensor.strides != nullptr) return tensor.strides[axis];
  int64_t stride = 1;
  for (int i = tensor.ndim - 1; i > axis; --i) stride *= tensor.shape[i];
  return stride;
}

struct Axis {
  int64_t size;
  int64_t stride;  // bytes
};

// The axes, outermost first, without those of size 1, and with contiguous ones merged.
std::vector<Axis> Axes(const DLTensor& tensor) {
  const int64_t item = ItemBytes(tensor.dtype);
  std::vector<Axis> axes;
  for (int i = 0; i < tensor.ndim; ++i) {
    const Axis axis{tensor.shape[i], Stride(tensor, i) * item};
    if (axis.size == 1) continue;
    if (!axes.empty() && axes.back().stride == axis.size * axis.stride) {
      axes.back() = {axes.back().size * axis.size, axis.stride};
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

// Calls visit(pointer, innermost axis) for every innermost row, in row-major order.
template <typename Visit>
void ForEachRow(const DLTensor& tensor, const Visit& visit) {
  if (ElementCount(tensor) == 0) return;
  std::vector<Axis> axes = Axes(tensor);
  Axis inner{1, ItemBytes(tensor.dtype)};
  if (!axes.empty()) {
    inner = axes.back();
    axes.pop_back();
  }
  std::vector<int64_t> index(axes.size(), 0);
  char* row = Data(tensor);
  while (true) {
    visit(row, inner);
    size_t axis = axes.size();
    while (axis > 0 && index[axis - 1] == axes[axis - 1].size - 1) {
      --axis;
      row -= index[axis] * axes[axis].stride;
      index[axis] = 0;
    }
    if (axis == 0) return;
    ++index[axis - 1];
    row += axes[axis - 1].stride;
  }
}

// memcpy with a constant size compiles to one move, for any alignment.
template <int64_t kItem>
void CopyItems(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * to_stride, from + i * from_stride, kItem);
}

void CopyRow(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t count,
             int64_t item) {
  if (to_stride == item && from_stride == item) {
    std::memcpy(to, from, static_cast<size_t>(count * item));
    return;
  }
  switch (item) {
    case 1: return CopyItems<1>(to, to_stride, from, from_stride, count);
    case 2: return CopyItems<2>(to, to_stride, from, from_stride, count);
    case 4: return CopyItems<4>(to, to_stride, from, from_stride, count);
    case 8: return CopyItems<8>(to, to_stride, from, from_stride, count);
    default: break;
  }
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<size_t>(item));
  }
}

// The byte range [first, second) of a nonempty tensor.
std::pair<char*, char*> Range(const DLTensor& tensor) {
  char* first = Data(tensor);
  char* last = first;
  const int64_t item = ItemBytes(tensor.dtype);
  for (int i = 0; i < tensor.ndim; ++i) {
    const int64_t reach = (tensor.shape[i] - 1) * Stride(tensor, i) * item;
    (reach < 0 ? first : last) += reach;
  }
  return {first, last + item};
}

// Marks every byte of `tensor` in `marks`, a bitmap of the memory from `start` on. True if one was
// marked before.
bool Mark(const DLTensor& tensor, const char* start, std::vector<bool>* marks) {
  const int64_t item = ItemBytes(tensor.dtype);
  bool found = false;
  ForEachRow(tensor, [&](const char* row, Axis axis) {
    for (int64_t i = 0; i < axis.size; ++i) {
      for (int64_t byte = 0; byte < item; ++byte) {
        const auto at = static_cast<size_t>(row + i * axis.stride + byte - start);
        found = found || (*marks)[at];
        (*marks)[at] = true;
      }
    }
  });
  return found;
}

// The name of a kind of type; those of fixed size have the size in it.
const char* KindName(uint8_t code) {
  switch (code) {
    case kDLInt: return "int";
    case kDLUInt: return "uint";
    case kDLFloat: return "float";
    case kDLOpaqueHandle: return "handle";
    case kDLBfloat: return "bfloat";
    case kDLComplex: return "complex";
    case kDLBool: return "bool";
    case kDLFloat8_e3m4: return "float8_e3m4";
    case kDLFloat8_e4m3: return "float8_e4m3";
    case kDLFloat8_e4m3b11fnuz: return "float8_e4m3b11fnuz";
    case kDLFloat8_e4m3fn: return "float8_e4m3fn";
    case kDLFloat8_e4m3fnuz: return "float8_e4m3fnuz";
    case kDLFloat8_e5m2: return "float8_e5m2";
    case kDLFloat8_e5m2fnuz: return "float8_e5m2fnuz";
    case kDLFloat8_e8m0fnu: return "float8_e8m0fnu";
    case kDLFloat6_e2m3fn: return "float6_e2m3fn";
    case kDLFloat6_e3m2fn: return "float6_e3m2fn";
    case kDLFloat4_e2m1fn: return "float4_e2m1fn";
    default: return "unknown";
  }
}

}  // namespace

std::string DataTypeName(DLDataType dtype) {
  std::string name = KindName(dtype.code);
  const bool has_size = dtype.code > kDLComplex;  // in its name, or it is always the same
  if (!has_size) name += std::to_string(dtype.bits);
  if (dtype.lanes != 1) name += "x" + std::to_string(dtype.lanes);
  return name;
}

void FreeDeleter::operator()(void* data) const { std::free(data); }

AlignedMemory AllocateAligned(int64_t bytes) {
  const int64_t rounded = (std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  void* data = std::aligned_alloc(kAlignment, static_cast<size_t>(rounded));
  if (data == nullptr) throw std::bad_alloc();
  return AlignedMemory(data);
}

std::string ShapeText(const DLTensor& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.ndim; ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(tensor.shape[i]);
  }
  return text + "]";
}

bool IsContiguous(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t expected = 1;
  bool dense = true;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) dense = false;
    expected *= tensor.shape[i];
  }
  return dense;
}

bool IsElementAligned(const DLTensor& tensor) {
  const bool is_complex = tensor.dtype.code == kDLComplex;
  const int64_t alignment = ItemBytes(tensor.dtype) / (is_complex ? 2 : 1);
  return reinterpret_cast<uintptr_t>(Data(tensor)) % static_cast<uintptr_t>(alignment) == 0 ||
         ElementCount(tensor) == 0;
}

void CopyToContiguous(const DLTensor& tensor, void* contiguous) {
  char* to = static_cast<char*>(contiguous);
  const int64_t item = ItemBytes(tensor.dtype);
  ForEachRow(tensor, [&](const char* row, Axis axis) {
    CopyRow(to, item, row, axis.stride, axis.size, item);
    to += axis.size * item;
  });
}

void CopyFromContiguous(const void* contiguous, const DLTensor& tensor) {
  const char* from = static_cast<const char*>(contiguous);
  const int64_t item = ItemBytes(tensor.dtype);
  ForEachRow(tensor, [&](char* row, Axis axis) {
    CopyRow(row, axis.stride, from, item, axis.size, item);
    from += axis.size * item;
  });
}

bool RangesMeet(const DLTensor& lhs, const DLTensor& rhs) {
  if (ElementCount(lhs) == 0 || ElementCount(rhs) == 0) return false;
  const auto [lhs_first, lhs_last] = Range(lhs);
  const auto [rhs_first, rhs_last] = Range(rhs);
  return lhs_first < rhs_last && rhs_first < lhs_last;
}

bool Overlaps(const DLTensor& lhs, const DLTensor& rhs) {
  if (!RangesMeet(lhs, rhs)) return false;
  if (IsContiguous(lhs) && IsContiguous(rhs)) return true;
  // Interleaved views of one array, such as its even and its odd columns.
  const char* first = std::min(Range(lhs).first, Range(rhs).first);
  const char* last = std::max(Range(lhs).second, Range(rhs).second);
  std::vector<bool> marks(static_cast<size_t>(last - first));
  Mark(lhs, first, &marks);
  return Mark(rhs, first, &marks);
}

bool OverlapsItself(const DLTensor& tensor) {
  if (IsContiguous(tensor)) return false;
  // Fast path: the stride of every axis is at least the extent of the inner ones.
  std::vector<Axis> axes = Axes(tensor);
  for (Axis& axis : axes) axis.stride = std::abs(axis.stride);
  std::sort(axes.begin(), axes.end(), [](Axis a, Axis b) { return a.stride < b.stride; });
  int64_t reach = ItemBytes(tensor.dtype);
  bool nested = true;
  for (const Axis& axis : axes) {
    nested = nested && axis.stride >= reach;
    reach += (axis.size - 1) * axis.stride;
  }
  if (nested) return false;
  const auto [first, last] = Range(tensor);
  std::vector<bool> marks(static_cast<size_t>(last - first));
  return Mark(tensor, first, &marks);
}

}  // namespace relax_mlir

// Sorting along an axis.
//
// Sorts the keys of elements.h, for all element types. Sorts are stable, also in descending order.
// Source: ONNX TopK-11 (ties go to the lower index).
#include <algorithm>
#include <cstring>
#include <vector>

#include "builtins.h"
#include "elements.h"
#include "failure.h"
#include "interrupts.h"
#include "running_call.h"

namespace relax_mlir {
namespace {

int64_t Integer(const DLTensor& tensor) {
  const Element element(tensor.dtype);
  const bool is_integer = tensor.dtype.code == kDLInt || tensor.dtype.code == kDLUInt;
  if (ElementCount(tensor) != 1 || !(is_integer || tensor.dtype.code == kDLBool)) {
    RELAX_FAIL(TypeError) << "attribute: expected one integer, got a tensor of "
                          << ElementCount(tensor) << " elements of type "
                          << DataTypeName(tensor.dtype);
  }
  const uint64_t value = element.Read(Data(tensor));
  if (tensor.dtype.code != kDLInt) return static_cast<int64_t>(value);
  return static_cast<int64_t>(element.Key(value) ^ (uint64_t{1} << 63));
}

// A 1-D slice of a tensor along an axis.
struct Line {
  char* start = nullptr;
  int64_t stride = 0;  // bytes

  char* At(int64_t i) const { return start + i * stride; }
};

// Lines are numbered in row-major order of the other axes.
Line LineOf(const DLTensor& tensor, int axis, int64_t number) {
  const int64_t item = ItemBytes(tensor.dtype);
  char* start = Data(tensor);
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (i == axis) continue;
    start += number % tensor.shape[i] * ElementStride(tensor, i) * item;
    number /= tensor.shape[i];
  }
  return {start, ElementStride(tensor, axis) * item};
}

struct Entry {
  uint64_t key;
  int64_t index;

  bool operator<(const Entry& other) const {
    return key != other.key ? key < other.key : index < other.index;
  }
};

void CheckShape(const char* function, const char* what, const DLTensor& got, const DLTensor& x,
                int axis, int64_t length) {
  bool fits = got.ndim == x.ndim;
  for (int i = 0; fits && i < x.ndim; ++i) {
    fits = got.shape[i] == (i == axis ? length : x.shape[i]);
  }
  if (fits) return;
  RELAX_FAIL(ValueError) << function << ": " << what << ": expected the shape of the input with "
                         << length << " at axis " << axis << ", got " << ShapeText(got);
}

void CheckIndices(const char* function, const DLTensor& indices) {
  const DLDataType dtype = indices.dtype;
  if (dtype.code == kDLInt && (dtype.bits == 32 || dtype.bits == 64)) return;
  RELAX_FAIL(TypeError) << function << ": indices: expected int64 or int32, got "
                        << DataTypeName(dtype);
}

// Writes the first `length` sorted values of every line, and their indices. Either output may be
// null.
void SortLines(const char* function, const DLTensor& x, int64_t axis_number, bool descending,
               const DLTensor* values, const DLTensor* indices) {
  const RunningCall running;
  const Element element(x.dtype);
  if (x.dtype.code == kDLComplex || x.dtype.lanes != 1 || x.dtype.bits > 64) {
    RELAX_FAIL(TypeError) << function << ": cannot compare elements of type "
                          << DataTypeName(x.dtype);
  }
  const int axis = static_cast<int>(axis_number < 0 ? axis_number + x.ndim : axis_number);
  if (axis < 0 || axis >= x.ndim) {
    RELAX_FAIL(ValueError) << function << ": axis " << axis_number << ": expected one of "
                           << x.ndim << " dimensions";
  }
  const DLTensor& any_output = values != nullptr ? *values : *indices;
  const int64_t size = x.shape[axis];
  const int64_t length = any_output.ndim == x.ndim ? any_output.shape[axis] : size;
  if (length > size) {
    RELAX_FAIL(ValueError) << function << ": expected at most " << size << " values along axis "
                           << axis << ", got " << length;
  }
  if (values != nullptr) CheckShape(function, "values", *values, x, axis, length);
  if (indices != nullptr) CheckShape(function, "indices", *indices, x, axis, length);
  if (indices != nullptr) CheckIndices(function, *indices);
  if (values != nullptr && ItemBytes(values->dtype) != ItemBytes(x.dtype)) {
    RELAX_FAIL(TypeError) << function << ": values: expected type " << DataTypeName(x.dtype)
                          << ", got " << DataTypeName(values->dtype);
  }
  if (ElementCount(any_output) == 0) return;

  const auto item = static_cast<size_t>(ItemBytes(x.dtype));
  std::vector<Entry> entries(static_cast<size_t>(size));
  std::vector<char> copies(item * static_cast<size_t>(size));  // values may be the input
  const auto end = entries.begin() + length;
  const size_t index_bytes =
      indices != nullptr ? static_cast<size_t>(ItemBytes(indices->dtype)) : 0;
  for (int64_t line = 0; line < ElementCount(x) / size; ++line) {
    ThrowIfInterrupted();
    const Line from = LineOf(x, axis, line);
    const Line to_values = values != nullptr ? LineOf(*values, axis, line) : Line{};
    const Line to_indices = indices != nullptr ? LineOf(*indices, axis, line) : Line{};
    for (int64_t i = 0; i < size; ++i) {
      const auto at = static_cast<size_t>(i);
      std::memcpy(&copies[at * item], from.At(i), item);
      const uint64_t key = element.Key(element.Read(&copies[at * item]));
      entries[at] = {descending ? ~key : key, i};
    }
    if (length < size) std::nth_element(entries.begin(), end, entries.end());
    std::sort(entries.begin(), end);
    for (int64_t i = 0; values != nullptr && i < length; ++i) {
      const auto index = static_cast<size_t>(entries[static_cast<size_t>(i)].index);
      std::memcpy(to_values.At(i), &copies[index * item], item);
    }
    for (int64_t i = 0; indices != nullptr && i < length; ++i) {
      const int64_t index = entries[static_cast<size_t>(i)].index;
      std::memcpy(to_indices.At(i), &index, index_bytes);  // little-endian
    }
  }
}

}  // namespace

void Sort(DLTensor* const* arguments) {
  const auto [x, axis, descending, values] = Tensors<4>(arguments);
  SortLines("sort", *x, Integer(*axis), Integer(*descending) != 0, values, nullptr);
}

void Argsort(DLTensor* const* arguments) {
  const auto [x, axis, descending, indices] = Tensors<4>(arguments);
  SortLines("argsort", *x, Integer(*axis), Integer(*descending) != 0, nullptr, indices);
}

// k is the size of the outputs along the axis. The values are sorted, which sorted=0 allows.
void TopK(DLTensor* const* arguments) {
  const auto [x, axis, largest, values, indices] = Tensors<5>(arguments);
  SortLines("topk", *x, Integer(*axis), Integer(*largest) != 0, values, indices);
}

}  // namespace relax_mlir

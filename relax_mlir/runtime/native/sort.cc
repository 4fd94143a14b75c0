// Sorting along an axis: the global functions relax_mlir.sort, argsort, topk and nonzero.
//
// Sorts the keys of elements.h, for all element types. Sorts are stable, also in descending order.
// Source: ONNX TopK-11 (ties go to the lower index) and NonZero-13.
//
// Attributes are integers, or one-element tensors of integer or bool in calls of compiled code.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "elements.h"
#include "errors.h"
#include "ffi_tensors.h"
#include "interrupts.h"
#include "running_call.h"

namespace relax_mlir {
namespace {

namespace ffi = tvm::ffi;

int64_t ReadInteger(const DLTensor& tensor) {
  const Element element(tensor.dtype);
  const bool is_integer = tensor.dtype.code == kDLInt || tensor.dtype.code == kDLUInt;
  if (ElementCount(tensor) != 1 || !(is_integer || tensor.dtype.code == kDLBool)) {
    RELAX_THROW(TypeError) << "attribute: expected one integer, got a tensor of "
                           << ElementCount(tensor) << " elements of type "
                           << DataTypeName(tensor.dtype);
  }
  const uint64_t value = element.Read(Data(tensor));
  if (tensor.dtype.code != kDLInt) return static_cast<int64_t>(value);
  return static_cast<int64_t>(element.Key(value) ^ (uint64_t{1} << 63));
}

// An attribute: an integer, or a one-element tensor.
int64_t Integer(const ffi::AnyView& value) {
  if (const auto tensor = value.try_cast<DLTensor*>()) return ReadInteger(**tensor);
  return value.cast<int64_t>();
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
  RELAX_THROW(ValueError) << function << ": " << what << ": expected the shape of the input with "
                          << length << " at axis " << axis << ", got "
                          << ffi::Shape(got.shape, got.shape + got.ndim);
}

void CheckIndices(const char* function, const DLTensor& indices) {
  const DLDataType dtype = indices.dtype;
  if (dtype.code == kDLInt && (dtype.bits == 32 || dtype.bits == 64)) return;
  RELAX_THROW(TypeError) << function << ": indices: expected int64 or int32, got "
                         << DataTypeName(dtype);
}

// Writes the first `length` sorted values of every line, and their indices. Either output may be
// null.
void SortLines(const char* function, const DLTensor& x, int64_t axis_number, bool descending,
               const DLTensor* values, const DLTensor* indices) {
  const RunningCall running;
  const Element element(x.dtype);
  if (x.dtype.code == kDLComplex || x.dtype.lanes != 1 || x.dtype.bits > 64) {
    FailType(function, x.dtype);
  }
  const int axis = static_cast<int>(axis_number < 0 ? axis_number + x.ndim : axis_number);
  if (axis < 0 || axis >= x.ndim) {
    RELAX_THROW(ValueError) << function << ": axis " << axis_number << ": expected one of "
                            << x.ndim << " dimensions";
  }
  const DLTensor& any_output = values != nullptr ? *values : *indices;
  const int64_t size = x.shape[axis];
  const int64_t length = any_output.ndim == x.ndim ? any_output.shape[axis] : size;
  if (length > size) {
    RELAX_THROW(ValueError) << function << ": expected at most " << size << " values along axis "
                            << axis << ", got " << length;
  }
  if (values != nullptr) CheckShape(function, "values", *values, x, axis, length);
  if (indices != nullptr) CheckShape(function, "indices", *indices, x, axis, length);
  if (indices != nullptr) CheckIndices(function, *indices);
  if (values != nullptr && ItemBytes(values->dtype) != ItemBytes(x.dtype)) {
    RELAX_THROW(TypeError) << function << ": values: expected type " << DataTypeName(x.dtype)
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

void Sort(DLTensor* x, const ffi::AnyView& axis, const ffi::AnyView& descending, DLTensor* values) {
  SortLines("sort", *x, Integer(axis), Integer(descending) != 0, values, nullptr);
}

void Argsort(DLTensor* x, const ffi::AnyView& axis, const ffi::AnyView& descending,
             DLTensor* indices) {
  SortLines("argsort", *x, Integer(axis), Integer(descending) != 0, nullptr, indices);
}

// k is the size of the outputs along the axis. The values are sorted, which sorted=0 allows.
void TopK(DLTensor* x, const ffi::AnyView& axis, const ffi::AnyView& largest, DLTensor* values,
          DLTensor* indices) {
  SortLines("topk", *x, Integer(axis), Integer(largest) != 0, values, indices);
}

// Indices of the non-zero elements, int64 [rank, count] in row-major order; [0, count] for scalars.
ffi::Tensor Nonzero(DLTensor* tensor) {
  const RunningCall running;
  const DLTensor& x = *tensor;
  DLDataType part = x.dtype;
  const int parts = part.code == kDLComplex ? 2 : 1;
  if (parts == 2) part = {kDLFloat, static_cast<uint8_t>(part.bits / 2), 1};
  const Element element(part);
  const int64_t item = ItemBytes(part);
  const int64_t count = ElementCount(x);

  std::vector<int64_t> found;  // ndim numbers for each element
  std::vector<int64_t> index(static_cast<size_t>(x.ndim), 0);
  int64_t found_count = 0;
  for (int64_t n = 0; n < count; ++n) {
    const char* at = Data(x);
    for (int i = 0; i < x.ndim; ++i) {
      at += index[static_cast<size_t>(i)] * ElementStride(x, i) * item * parts;
    }
    bool nonzero = element.IsNonzero(element.Read(at));
    if (parts == 2) nonzero = nonzero || element.IsNonzero(element.Read(at + item));
    if (nonzero) {
      found.insert(found.end(), index.begin(), index.end());
      ++found_count;
    }
    for (int i = x.ndim - 1; i >= 0; --i) {
      if (++index[static_cast<size_t>(i)] < x.shape[i]) break;
      index[static_cast<size_t>(i)] = 0;
    }
  }
  const int64_t shape[] = {x.ndim, found_count};
  ffi::Tensor result = AllocateTensor(ffi::ShapeView(shape, 2), DLDataType{kDLInt, 64, 1});
  auto* out = static_cast<int64_t*>(result.data_ptr());
  for (int64_t i = 0; i < x.ndim; ++i) {
    for (int64_t n = 0; n < found_count; ++n) {
      out[i * found_count + n] = found[static_cast<size_t>(n * x.ndim + i)];
    }
  }
  return result;
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("relax_mlir.sort", Sort)
      .def("relax_mlir.argsort", Argsort)
      .def("relax_mlir.topk", TopK)
      .def("relax_mlir.nonzero", Nonzero);
}

}  // namespace
}  // namespace relax_mlir

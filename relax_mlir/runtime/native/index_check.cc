// Bounds checks of indices.
#include <stdint.h>

#include <string>
#include <type_traits>
#include <vector>

#include "builtins.h"
#include "failure.h"
#include "tensors.h"

namespace relax_mlir {
namespace {

// Bits of the first bound, which mark the others as absent.
constexpr int64_t kNoLeast = 1;
constexpr int64_t kNoIgnored = 2;

// The valid indices. The limit of index i is number i modulo the number of limits.
struct Allowed {
  std::vector<int64_t> limits;
  int64_t missing;
  int64_t least;
  int64_t ignored;

  int64_t Least(int64_t limit) const { return (missing & kNoLeast) != 0 ? -limit : least; }

  template <typename T>
  bool Allows(T index, int64_t limit) const {
    if constexpr (std::is_unsigned_v<T>) {
      if (index > static_cast<uint64_t>(INT64_MAX)) return false;
    }
    const auto value = static_cast<int64_t>(index);
    if (value >= Least(limit) && value < limit) return true;
    return (missing & kNoIgnored) == 0 && value == ignored;
  }
};

std::vector<int64_t> Integers(const DLTensor& tensor, const char* what) {
  if (tensor.dtype.code != kDLInt || tensor.dtype.bits != 64) {
    RELAX_FAIL(TypeError) << "check_indices: " << what << ": expected int64, got "
                          << DataTypeName(tensor.dtype);
  }
  std::vector<int64_t> values(static_cast<size_t>(ElementCount(tensor)));
  CopyToContiguous(tensor, values.data());
  return values;
}

std::string Text(const DLTensor& tensor) {
  std::string text(static_cast<size_t>(ElementCount(tensor)), '\0');
  CopyToContiguous(tensor, text.data());
  return text;
}

template <typename T>
[[noreturn]] void Fail(T index, int64_t number, const DLTensor& indices, const Allowed& allowed,
                       int64_t limit, const DLTensor& message) {
  std::vector<int64_t> position(static_cast<size_t>(indices.ndim));
  for (int i = indices.ndim - 1; i >= 0; --i) {
    position[static_cast<size_t>(i)] = number % indices.shape[i];
    number /= indices.shape[i];
  }
  std::string place;
  for (const int64_t axis : position) place += (place.empty() ? "" : ", ") + std::to_string(axis);
  const int64_t least = allowed.Least(limit);
  const std::string expected =
      least < limit ? std::to_string(least) + " to " + std::to_string(limit - 1) : "none";
  RELAX_FAIL(IndexOutOfRangeError)
      << Text(message) << ": index out of range at [" << place << "]: expected " << expected
      << ", got " << std::to_string(index);
}

template <typename T>
void Check(const DLTensor& indices, const Allowed& allowed, const DLTensor& message) {
  const auto* data = reinterpret_cast<const T*>(Data(indices));
  const auto period = static_cast<int64_t>(allowed.limits.size());
  const int64_t count = ElementCount(indices);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t limit = allowed.limits[static_cast<size_t>(period == 1 ? 0 : i % period)];
    if (!allowed.Allows(data[i], limit)) Fail(data[i], i, indices, allowed, limit, message);
  }
}

void CheckOfType(const DLTensor& indices, const Allowed& allowed, const DLTensor& message) {
  const bool is_signed = indices.dtype.code == kDLInt;
  if (is_signed || indices.dtype.code == kDLUInt) {
    switch (indices.dtype.bits) {
      case 8:
        return is_signed ? Check<int8_t>(indices, allowed, message)
                         : Check<uint8_t>(indices, allowed, message);
      case 16:
        return is_signed ? Check<int16_t>(indices, allowed, message)
                         : Check<uint16_t>(indices, allowed, message);
      case 32:
        return is_signed ? Check<int32_t>(indices, allowed, message)
                         : Check<uint32_t>(indices, allowed, message);
      case 64:
        return is_signed ? Check<int64_t>(indices, allowed, message)
                         : Check<uint64_t>(indices, allowed, message);
      default: break;
    }
  }
  RELAX_FAIL(TypeError) << "check_indices: expected integers of 8 to 64 bits, got "
                        << DataTypeName(indices.dtype);
}

}  // namespace

// Copies `indices` to `y` if all are valid, else throws an error that begins with `message`.
//
// `limits` holds exclusive upper bounds: one, or one per component along the last axis. `bounds`
// holds the absence bits (kNoLeast: negative indices count from the end; kNoIgnored), the least
// index, and an index that is always valid.
void CheckIndices(DLTensor* const* arguments) {
  const auto [indices, limits, bounds, message, y] = Tensors<5>(arguments);
  const std::vector<int64_t> options = Integers(*bounds, "bounds");
  Allowed allowed{Integers(*limits, "limits"), 0, 0, 0};
  const auto period = static_cast<int64_t>(allowed.limits.size());
  const bool fits = period == 1 || (indices->ndim > 0 && period > 0 &&
                                    indices->shape[indices->ndim - 1] == period);
  if (options.size() != 3 || !fits || !IsContiguous(*indices)) {
    RELAX_FAIL(ValueError) << "check_indices: expected row-major indices, 3 bounds, and one limit "
                           << "or one for each component, got " << options.size() << " and "
                           << period;
  }
  allowed.missing = options[0];
  allowed.least = options[1];
  allowed.ignored = options[2];
  CheckOfType(*indices, allowed, *message);
  CopyFromContiguous(Data(*indices), *y);
}

}  // namespace relax_mlir

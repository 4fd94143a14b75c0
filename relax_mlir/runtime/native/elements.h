// Order-preserving keys of elements of any type.
//
// Elements map to 64-bit keys whose unsigned order is that of the elements. NaN is the greatest
// value and -0 equals +0, as in numpy.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_ELEMENTS_H_
#define RELAX_MLIR_RUNTIME_NATIVE_ELEMENTS_H_

#include <dlpack/dlpack.h>
#include <stdint.h>

#include <cstring>
#include <limits>

#include "tensors.h"

namespace relax_mlir {

// Encoding of an element type: its width, and the fields of a float.
struct Element {
  DLDataType dtype;
  int bits;           // width of the element
  int mantissa_bits;  // of floats
  bool has_infinity;  // the largest exponent encodes infinity and NaN
  bool has_negative_zero;

  explicit Element(DLDataType type)
      : dtype(type),
        bits(type.bits),
        mantissa_bits(0),
        has_infinity(true),
        has_negative_zero(true) {
    switch (type.code) {
      case kDLFloat: mantissa_bits = bits == 16 ? 10 : bits == 32 ? 23 : 52; break;
      case kDLBfloat: mantissa_bits = 7; break;
      case kDLFloat8_e5m2: mantissa_bits = 2; break;
      case kDLFloat8_e4m3: mantissa_bits = 3; break;
      case kDLFloat8_e3m4: mantissa_bits = 4; break;
      case kDLFloat8_e4m3fn:
      case kDLFloat6_e2m3fn:
      case kDLFloat6_e3m2fn:
      case kDLFloat4_e2m1fn: has_infinity = false; break;
      case kDLFloat8_e4m3fnuz:
      case kDLFloat8_e5m2fnuz:
      case kDLFloat8_e4m3b11fnuz: has_infinity = has_negative_zero = false; break;
      default: break;
    }
  }

  bool IsFloat() const {
    return dtype.code == kDLFloat || dtype.code == kDLBfloat ||
           (dtype.code >= kDLFloat8_e3m4 && dtype.code != kDLFloat8_e8m0fnu);
  }

  uint64_t Mask() const { return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }
  uint64_t Sign() const { return uint64_t{1} << (bits - 1); }

  // Little-endian, as all machines here are.
  uint64_t Read(const char* from) const {
    uint64_t value = 0;
    std::memcpy(&value, from, static_cast<size_t>(ItemBytes(dtype)));
    return value & Mask();
  }

  bool IsNan(uint64_t value) const {
    if (dtype.code == kDLFloat8_e8m0fnu) return value == 0xff;
    if (!has_negative_zero) return value == Sign();  // the encoding of -0 is NaN
    const uint64_t magnitude = value & ~Sign();
    if (dtype.code == kDLFloat8_e4m3fn) return magnitude == 0x7f;
    if (!has_infinity) return false;
    const uint64_t infinity = (Mask() >> 1) & ~((uint64_t{1} << mantissa_bits) - 1);
    return magnitude > infinity;
  }

  uint64_t Key(uint64_t value) const {
    if (dtype.code == kDLInt) {
      const int unused = 64 - bits;
      const auto extended = static_cast<uint64_t>(static_cast<int64_t>(value << unused) >> unused);
      return extended ^ (uint64_t{1} << 63);
    }
    if (dtype.code == kDLBool) return value != 0;
    if (dtype.code == kDLFloat8_e8m0fnu) return value;  // unsigned, NaN is the greatest encoding
    if (!IsFloat()) return value;
    if (IsNan(value)) return std::numeric_limits<uint64_t>::max();
    if ((value & ~Sign()) == 0) return Sign();  // both zeros
    return (value & Sign()) != 0 ? ~value & Mask() : value | Sign();
  }

  bool IsNonzero(uint64_t value) const {
    if (dtype.code == kDLFloat8_e8m0fnu) return true;  // a power of two
    if (!IsFloat() || !has_negative_zero) return value != 0;
    return (value & ~Sign()) != 0;
  }
};

inline int64_t ElementStride(const DLTensor& tensor, int axis) {
  if (tensor.strides != nullptr) return tensor.strides[axis];
  int64_t stride = 1;
  for (int i = tensor.ndim - 1; i > axis; --i) stride *= tensor.shape[i];
  return stride;
}

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_ELEMENTS_H_

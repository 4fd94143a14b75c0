// Compiler runtime functions for conversions of 16-bit floats, which LLVM calls for processors
// without such instructions. libgcc has the bfloat16 ones since GCC 13, and the float16 ones since
// GCC 12; definitions of the process take precedence.
//
// A 16-bit float is passed like a float, in the low half of a vector register. Rounds to nearest,
// ties to even. Source: compiler-rt, lib/builtins/fp_trunc_impl.inc.
#include <stdint.h>

#include <cstring>

#include "abi.h"

namespace {

// Has the calling convention of both 16-bit floats on x86-64 and AArch64.
using Half = _Float16;

Half FromBits(uint32_t bits) {
  const auto narrow = static_cast<uint16_t>(bits);
  Half value;
  std::memcpy(&value, &narrow, sizeof(value));
  return value;
}

// Rounds a double, of which floats are a subset, to a 16-bit float with kMantissaBits.
template <int kMantissaBits>
Half Truncate(double value) {
  constexpr int kExponentBits = 15 - kMantissaBits;
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  constexpr uint32_t kInfinity = ((1u << kExponentBits) - 1) << kMantissaBits;
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const auto sign = static_cast<uint32_t>(bits >> 63) << 15;
  const auto exponent = static_cast<int>(bits >> 52 & 0x7ff);
  uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  if (exponent == 0x7ff) {
    if (mantissa == 0) return FromBits(sign | kInfinity);
    const auto payload = static_cast<uint32_t>(mantissa >> (52 - kMantissaBits));
    return FromBits(sign | kInfinity | 1u << (kMantissaBits - 1) | payload);
  }
  int target = exponent - 1023 + kBias;  // the biased exponent of the result
  if (target > (1 << kExponentBits) - 2) return FromBits(sign | kInfinity);
  int dropped = 52 - kMantissaBits;
  if (exponent != 0) mantissa |= uint64_t{1} << 52;
  if (target <= 0) {  // subnormal: the exponent is 0 and the leading bit explicit
    dropped += 1 - target;
    target = 0;
    if (dropped > 54) return FromBits(sign);
  } else {
    mantissa &= (uint64_t{1} << 52) - 1;
  }
  const uint64_t half = uint64_t{1} << (dropped - 1);
  const uint64_t rest = mantissa & (2 * half - 1);
  auto result =
      static_cast<uint32_t>(mantissa >> dropped) + (static_cast<uint32_t>(target) << kMantissaBits);
  if (rest > half || (rest == half && (result & 1) != 0)) ++result;  // may carry to infinity
  return FromBits(sign | result);
}

}  // namespace

RELAX_RT2_EXPORT Half __truncsfbf2(float value) { return Truncate<7>(value); }
RELAX_RT2_EXPORT Half __truncdfbf2(double value) { return Truncate<7>(value); }
RELAX_RT2_EXPORT Half __truncsfhf2(float value) { return Truncate<10>(value); }
RELAX_RT2_EXPORT Half __truncdfhf2(double value) { return Truncate<10>(value); }

RELAX_RT2_EXPORT float __extendhfsf2(Half value) {
  uint16_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t sign = static_cast<uint32_t>(bits >> 15) << 31;
  const uint32_t exponent = bits >> 10 & 0x1f;
  const uint32_t mantissa = bits & 0x3ff;
  float magnitude;
  if (exponent == 0) {  // a multiple of 2^-24
    magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  } else {
    const uint32_t wide = exponent == 0x1f ? 0xff : exponent + (127 - 15);
    const uint32_t quiet = exponent == 0x1f && mantissa != 0 ? 1u << 22 : 0;
    const uint32_t whole = wide << 23 | mantissa << 13 | quiet;
    std::memcpy(&magnitude, &whole, sizeof(magnitude));
  }
  uint32_t result;
  std::memcpy(&result, &magnitude, sizeof(result));
  result |= sign;
  float signed_value;
  std::memcpy(&signed_value, &result, sizeof(signed_value));
  return signed_value;
}

// Compared with the widening conversions, which are exact and simple.
#include <cmath>
#include <cstring>
#include <limits>

#include "abi.h"
#include "check.h"

RELAX_RT2_EXPORT _Float16 __truncsfbf2(float);
RELAX_RT2_EXPORT _Float16 __truncdfbf2(double);
RELAX_RT2_EXPORT _Float16 __truncsfhf2(float);
RELAX_RT2_EXPORT _Float16 __truncdfhf2(double);
RELAX_RT2_EXPORT float __extendhfsf2(_Float16);

uint32_t Bits(_Float16 value) {
  uint16_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

double FromBfloat(uint32_t bits) {
  bits <<= 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

double FromHalf(uint32_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = static_cast<int>(bits >> 10 & 0x1f);
  const int mantissa = static_cast<int>(bits & 0x3ff);
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

// Every value of the narrow type, and the points between it and the next.
template <typename Widen, typename Narrow>
void CheckRounding(const Widen& widen, const Narrow& narrow, uint32_t infinity) {
  for (uint32_t bits = 0; bits < infinity; ++bits) {
    const double value = widen(bits);
    const double next = bits + 1 == infinity ? 2 * value - widen(bits - 1) : widen(bits + 1);
    const double middle = (value + next) / 2;  // exact in double
    const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    CHECK_EQUAL(narrow(value), bits);
    CHECK_EQUAL(narrow(-value), bits | 0x8000);
    CHECK_EQUAL(narrow(middle), even);
    CHECK_EQUAL(narrow(std::nextafter(middle, 0)), bits);
    CHECK_EQUAL(narrow(std::nextafter(middle, INFINITY)), bits + 1);
  }
  CHECK_EQUAL(narrow(INFINITY), infinity);
  CHECK_EQUAL(narrow(std::numeric_limits<double>::max()), infinity);
  CHECK_EQUAL(narrow(-std::numeric_limits<double>::denorm_min()), 0x8000u);
  CHECK(std::isnan(widen(narrow(NAN))), "NaN stays NaN");
}

int main() {
  const auto narrow_bfloat = [](double v) { return Bits(__truncdfbf2(v)); };
  const auto narrow_half = [](double v) { return Bits(__truncdfhf2(v)); };
  CheckRounding(FromBfloat, narrow_bfloat, 0x7f80);
  CheckRounding(FromHalf, narrow_half, 0x7c00);

  CHECK_EQUAL(Bits(__truncsfbf2(1.2345f)), narrow_bfloat(1.2345f));
  CHECK_EQUAL(Bits(__truncsfhf2(1.2345f)), narrow_half(1.2345f));

  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto narrow = static_cast<uint16_t>(bits);
    _Float16 half;
    std::memcpy(&half, &narrow, sizeof(half));
    const float got = __extendhfsf2(half);
    const double wanted = FromHalf(bits);
    CHECK((got == wanted && std::signbit(got) == std::signbit(wanted)) ||
              (std::isnan(got) && std::isnan(wanted)),
          "bits " << bits << ": got " << got << ", expected " << wanted);
  }
}

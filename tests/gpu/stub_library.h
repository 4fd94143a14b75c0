// What stubs of NVIDIA's libraries share: the driver's stub behind them, and numbers.
//
// Who includes it says before which numbers the library has for types (kF32, kF64, kF16,
// kBf16), and for the error of a call without a context (kNotInitialized).
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Of the stub driver.
int stub_enter(const char* name);
int stub_has_context(void);
int stub_put(void* stream, void (*work)(void*), const void* data, size_t bytes);
void stub_touch(uint64_t address);

#define ENTER(name)                           \
  do {                                        \
    int injected = stub_enter(name);          \
    if (injected) return injected;            \
    if (!stub_has_context()) return kNotInitialized; \
  } while (0)

// Numbers

static int item_bytes(int type) {
  switch (type) {
    case kF32: return 4;
    case kF64: return 8;
    case kF16: case kBf16: return 2;
    default: return 0;
  }
}

static double half(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                 : exponent     ? ldexp(fraction + 1024, exponent - 25)
                                : ldexp(fraction, -24);
  return bits >> 15 ? -value : value;
}

static uint16_t to_half(float value) {
  uint16_t sign = signbit(value) ? 0x8000 : 0;
  float size = fabsf(value);
  if (isnan(value)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  int exponent = size < 6.103515625e-05f ? -14 : ilogbf(size);
  double steps = nearbyint(ldexp(size, 10 - exponent));  // to even
  return sign + (uint16_t)(steps + (size < 6.103515625e-05f ? 0 : (exponent + 14) * 1024));
}

static double load(const char* from, int type, int64_t place) {
  uint32_t bits;
  float value;
  switch (type) {
    case kF64: return ((const double*)from)[place];
    case kF16: return half(((const uint16_t*)from)[place]);
    case kBf16:
      bits = (uint32_t)((const uint16_t*)from)[place] << 16;
      memcpy(&value, &bits, 4);
      return value;
    default: return ((const float*)from)[place];
  }
}

static void store(char* to, int type, int64_t place, double value) {
  float number = (float)value;
  uint32_t bits;
  switch (type) {
    case kF64: ((double*)to)[place] = value; return;
    case kF16: ((uint16_t*)to)[place] = to_half(number); return;
    case kBf16:
      memcpy(&bits, &number, 4);
      ((uint16_t*)to)[place] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
      return;
    default: ((float*)to)[place] = number;
  }
}

// To 11 bits, as TF32 is.
static double rounded(double value) {
  float number = (float)value;
  uint32_t bits;
  memcpy(&bits, &number, 4);
  bits = (bits + 0x1000) & ~0x1fffu;
  memcpy(&number, &bits, 4);
  return number;
}

// Instruction set extensions of this machine, by LLVM's names.
//
// Sources: Intel, Software Developer's Manual, volume 2, CPUID, and volume 1, chapter 13 (state
// that the system saves); AMD, Architecture Programmer's Manual, volume 3, appendix E; Linux,
// Documentation/arch/arm64/elf_hwcaps.rst. The names, and which saved state each feature needs,
// are those of LLVM's getHostCPUFeatures (llvm/lib/TargetParser/Host.cpp).
#include <string>

#include "abi.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace relax_mlir {
namespace {

class FeatureList {
 public:
  void Add(const std::string& name, bool is_usable) {
    text_ += (text_.empty() ? "" : ",") + std::string(is_usable ? "+" : "-") + name;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

#if defined(__x86_64__)

enum Register { kEax, kEbx, kEcx, kEdx };

// The state that the system has to save for a feature.
enum State { kNone, kAvx, kAvx512, kAmx, kApx };

struct Feature {
  const char* name;
  unsigned leaf;
  unsigned subleaf;
  Register where;
  int bit;
  State state;
};

// Without instructions that no kernel has: of systems, caches and cryptography.
constexpr Feature kFeatures[] = {
    {"64bit", 0x80000001, 0, kEdx, 29, kNone},
    {"adx", 7, 0, kEbx, 19, kNone},
    {"amx-avx512", 0x1e, 1, kEax, 7, kAmx},
    {"amx-bf16", 7, 0, kEdx, 22, kAmx},
    {"amx-complex", 7, 1, kEdx, 8, kAmx},
    {"amx-fp16", 7, 1, kEax, 21, kAmx},
    {"amx-fp8", 0x1e, 1, kEax, 4, kAmx},
    {"amx-int8", 7, 0, kEdx, 25, kAmx},
    {"amx-movrs", 0x1e, 1, kEax, 8, kAmx},
    {"amx-tf32", 0x1e, 1, kEax, 6, kAmx},
    {"amx-tile", 7, 0, kEdx, 24, kAmx},
    {"avx", 1, 0, kEcx, 28, kAvx},
    {"avx2", 7, 0, kEbx, 5, kAvx},
    {"avx512bf16", 7, 1, kEax, 5, kAvx512},
    {"avx512bitalg", 7, 0, kEcx, 12, kAvx512},
    {"avx512bw", 7, 0, kEbx, 30, kAvx512},
    {"avx512cd", 7, 0, kEbx, 28, kAvx512},
    {"avx512dq", 7, 0, kEbx, 17, kAvx512},
    {"avx512f", 7, 0, kEbx, 16, kAvx512},
    {"avx512fp16", 7, 0, kEdx, 23, kAvx512},
    {"avx512ifma", 7, 0, kEbx, 21, kAvx512},
    {"avx512vbmi", 7, 0, kEcx, 1, kAvx512},
    {"avx512vbmi2", 7, 0, kEcx, 6, kAvx512},
    {"avx512vl", 7, 0, kEbx, 31, kAvx512},
    {"avx512vnni", 7, 0, kEcx, 11, kAvx512},
    {"avx512vp2intersect", 7, 0, kEdx, 8, kAvx512},
    {"avx512vpopcntdq", 7, 0, kEcx, 14, kAvx512},
    {"avxifma", 7, 1, kEax, 23, kAvx},
    {"avxneconvert", 7, 1, kEdx, 5, kAvx},
    {"avxvnni", 7, 1, kEax, 4, kAvx},
    {"avxvnniint16", 7, 1, kEdx, 10, kAvx},
    {"avxvnniint8", 7, 1, kEdx, 4, kAvx},
    {"bmi", 7, 0, kEbx, 3, kNone},
    {"bmi2", 7, 0, kEbx, 8, kNone},
    {"ccmp", 7, 1, kEdx, 21, kApx},
    {"cf", 7, 1, kEdx, 21, kApx},
    {"cmov", 1, 0, kEdx, 15, kNone},
    {"cmpccxadd", 7, 1, kEax, 7, kNone},
    {"crc32", 1, 0, kEcx, 20, kNone},
    {"cx16", 1, 0, kEcx, 13, kNone},
    {"cx8", 1, 0, kEdx, 8, kNone},
    {"egpr", 7, 1, kEdx, 21, kApx},
    {"f16c", 1, 0, kEcx, 29, kAvx},
    {"fma", 1, 0, kEcx, 12, kAvx},
    {"fma4", 0x80000001, 0, kEcx, 16, kAvx},
    {"gfni", 7, 0, kEcx, 8, kNone},
    {"lzcnt", 0x80000001, 0, kEcx, 5, kNone},
    {"mmx", 1, 0, kEdx, 23, kNone},
    {"movbe", 1, 0, kEcx, 22, kNone},
    {"movdir64b", 7, 0, kEcx, 28, kNone},
    {"movdiri", 7, 0, kEcx, 27, kNone},
    {"movrs", 7, 1, kEax, 31, kNone},
    {"ndd", 7, 1, kEdx, 21, kApx},
    {"nf", 7, 1, kEdx, 21, kApx},
    {"popcnt", 1, 0, kEcx, 23, kNone},
    {"ppx", 7, 1, kEdx, 21, kApx},
    {"push2pop2", 7, 1, kEdx, 21, kApx},
    {"raoint", 7, 1, kEax, 3, kNone},
    {"sahf", 0x80000001, 0, kEcx, 0, kNone},
    {"sse", 1, 0, kEdx, 25, kNone},
    {"sse2", 1, 0, kEdx, 26, kNone},
    {"sse3", 1, 0, kEcx, 0, kNone},
    {"sse4.1", 1, 0, kEcx, 19, kNone},
    {"sse4.2", 1, 0, kEcx, 20, kNone},
    {"sse4a", 0x80000001, 0, kEcx, 6, kNone},
    {"ssse3", 1, 0, kEcx, 9, kNone},
    {"tbm", 0x80000001, 0, kEcx, 21, kNone},
    {"xop", 0x80000001, 0, kEcx, 11, kAvx},
    {"zu", 7, 1, kEdx, 21, kApx},
};

// AVX10 has a version instead of a bit per feature.
constexpr Feature kAvx10 = {"avx10", 7, 1, kEdx, 19, kAvx512};
constexpr int kAvx10Versions = 2;  // that LLVM names

// The components of the state that the system saves (register XCR0); 0 if it saves none.
uint64_t SavedState() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kSaves = 1u << 27;  // OSXSAVE
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & kSaves)) return 0;
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

bool IsSaved(State state, uint64_t saved) {
  constexpr uint64_t kNeeded[] = {
      0,                    // kNone
      0x6,                  // kAvx: SSE and AVX
      0xe6,                 // kAvx512: also masks, and the upper halves and registers
      1u << 17 | 1u << 18,  // kAmx: tile configuration and data
      1u << 19,             // kApx
  };
  return (saved & kNeeded[state]) == kNeeded[state];
}

bool IsReported(const Feature& feature) {
  unsigned registers[4] = {};
  const bool is_known =
      __get_cpuid_count(feature.leaf, feature.subleaf, &registers[kEax], &registers[kEbx],
                        &registers[kEcx], &registers[kEdx]) != 0;
  return is_known && (registers[feature.where] >> feature.bit & 1u) != 0;
}

int Avx10Version(uint64_t saved) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool has_it = IsReported(kAvx10) && IsSaved(kAvx10.state, saved) &&
                      __get_cpuid_count(0x24, 0, &a, &b, &c, &d);
  return has_it ? static_cast<int>(b & 0xff) : 0;
}

std::string CpuFeatures() {
  const uint64_t saved = SavedState();
  FeatureList features;
  for (const Feature& feature : kFeatures) {
    features.Add(feature.name, IsReported(feature) && IsSaved(feature.state, saved));
  }
  const int avx10 = Avx10Version(saved);
  for (int version = 1; version <= kAvx10Versions; ++version) {
    features.Add("avx10." + std::to_string(version), version <= avx10);
  }
  return features.text();
}

#elif defined(__aarch64__) && defined(__linux__)

struct Feature {
  const char* name;
  unsigned long capability;  // of AT_HWCAP or AT_HWCAP2
  bool is_second;
};

constexpr Feature kFeatures[] = {
    {"fp-armv8", 1ul << 0, false}, {"neon", 1ul << 1, false},     {"crc", 1ul << 7, false},
    {"lse", 1ul << 8, false},      {"fullfp16", 1ul << 10, false}, {"rdm", 1ul << 12, false},
    {"jsconv", 1ul << 13, false},  {"complxnum", 1ul << 14, false}, {"rcpc", 1ul << 15, false},
    {"dotprod", 1ul << 20, false}, {"sve", 1ul << 22, false},      {"fp16fml", 1ul << 23, false},
    {"sve2", 1ul << 1, true},      {"i8mm", 1ul << 13, true},      {"bf16", 1ul << 14, true},
};

std::string CpuFeatures() {
  const unsigned long first = getauxval(AT_HWCAP);
  const unsigned long second = getauxval(AT_HWCAP2);
  FeatureList features;
  for (const Feature& feature : kFeatures) {
    features.Add(feature.name, ((feature.is_second ? second : first) & feature.capability) != 0);
  }
  return features.text();
}

#else

std::string CpuFeatures() { return ""; }

#endif

}  // namespace
}  // namespace relax_mlir

const char* relax_rt2_cpu_features(void) {
  static const std::string features = relax_mlir::CpuFeatures();
  return features.c_str();
}

#include <cstring>
#include <set>
#include <sstream>
#include <string>

#include "abi.h"
#include "check.h"

int main() {
  const char* text = relax_rt2_cpu_features();
  CHECK(text == relax_rt2_cpu_features(), "one text for the process");
  std::istringstream features(text);
  std::set<std::string> names;
  for (std::string feature; std::getline(features, feature, ',');) {
    CHECK(feature.size() > 1 && (feature[0] == '+' || feature[0] == '-'), feature);
    CHECK(names.insert(feature.substr(1)).second, feature << " twice");
  }
#if defined(__x86_64__)
  const std::string all = std::string(",") + text + ",";
  CHECK(all.find(",+sse2,") != std::string::npos, all);  // part of x86-64
  CHECK_EQUAL(all.find(",+avx2,") != std::string::npos, __builtin_cpu_supports("avx2") != 0);
  CHECK_EQUAL(all.find(",+avx512f,") != std::string::npos, __builtin_cpu_supports("avx512f") != 0);
#endif
}

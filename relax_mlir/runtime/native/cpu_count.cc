#include "cpu_count.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "abi.h"

#ifdef __linux__
#include <sched.h>
#include <unistd.h>
#endif

namespace relax_mlir {
namespace {

std::string ReadText(const std::string& path) {
  std::string text;
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return text;
  std::array<char, 4096> part;
  while (const size_t count = std::fread(part.data(), 1, part.size(), file)) {
    text.append(part.data(), count);
  }
  std::fclose(file);
  return text;
}

// The number at the beginning of a text, which is moved past it; 0 if there is none.
double ReadNumber(const char** text) {
  char* end = nullptr;
  const double number = std::strtod(*text, &end);
  *text = end;
  return number;
}

// The quota of one cgroup directory, 0 if there is none.
int DirectoryQuota(const std::string& directory, bool v2) {
  double quota = 0;
  double period = 0;
  if (v2) {
    const std::string text = ReadText(directory + "/cpu.max");  // "max 100000" has no limit
    const char* at = text.c_str();
    quota = ReadNumber(&at);
    period = ReadNumber(&at);
  } else {
    const std::string limit = ReadText(directory + "/cpu.cfs_quota_us");  // -1: no limit
    const std::string length = ReadText(directory + "/cpu.cfs_period_us");
    const char* at = limit.c_str();
    quota = ReadNumber(&at);
    at = length.c_str();
    period = ReadNumber(&at);
  }
  if (quota <= 0 || period <= 0) return 0;
  return std::max(1, static_cast<int>((quota + period - 1) / period));
}

int AffinityCount() {
#ifdef __linux__
  cpu_set_t set;  // the call fails on machines with more than 1024 CPUs
  // Affinity of the initial thread: the current one may be pinned to one CPU.
  if (sched_getaffinity(getpid(), sizeof(set), &set) == 0) return CPU_COUNT(&set);
#endif
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

int CgroupCpuQuota(const std::string& groups, const std::string& root) {
  int tightest = 0;
  for (size_t begin = 0; begin < groups.size();) {  // "0::/a/b" or "4:cpu,cpuacct:/a/b"
    const size_t end = std::min(groups.find('\n', begin), groups.size());
    const std::string line = groups.substr(begin, end - begin);
    begin = end + 1;
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool v2 = controllers == ",,";
    if (!v2 && controllers.find(",cpu,") == std::string::npos) continue;
    std::string path = line.substr(second + 1);
    while (true) {
      // Inside a container the path may be that of the host; the root is then the group itself.
      const int quota = DirectoryQuota(root + (v2 ? "" : "/cpu") + path, v2);
      if (quota > 0) tightest = tightest == 0 ? quota : std::min(tightest, quota);
      if (path.empty()) break;
      path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
    }
  }
  return tightest;
}

int CpuCount() {
  const int affinity = std::max(1, AffinityCount());
  const int quota = CgroupCpuQuota(ReadText("/proc/self/cgroup"), "/sys/fs/cgroup");
  return quota > 0 ? std::min(affinity, quota) : affinity;
}

}  // namespace relax_mlir

int32_t relax_rt2_cpu_count(void) {
  try {
    return relax_mlir::CpuCount();
  } catch (...) {  // out of memory
    return 1;
  }
}

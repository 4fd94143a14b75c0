#include "cpu_count.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "abi.h"

#ifdef __linux__
#include <sched.h>
#include <unistd.h>
#endif

namespace relax_mlir {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The quota of one cgroup directory, 0 if there is none.
int DirectoryQuota(const std::string& directory, bool v2) {
  double quota = 0;
  double period = 0;
  if (v2) {
    std::istringstream text(ReadText(directory + "/cpu.max"));  // "max 100000" has no number
    text >> quota >> period;
  } else {
    std::istringstream(ReadText(directory + "/cpu.cfs_quota_us")) >> quota;  // -1: no limit
    std::istringstream(ReadText(directory + "/cpu.cfs_period_us")) >> period;
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
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {  // "0::/a/b" or "4:cpu,cpuacct:/a/b"
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

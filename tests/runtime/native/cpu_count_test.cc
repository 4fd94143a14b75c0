#include "cpu_count.h"

#include <filesystem>
#include <fstream>

#include "abi.h"
#include "check.h"

namespace fs = std::filesystem;

void Write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

int main() {
  char pattern[] = "/tmp/cpu_count_test.XXXXXX";
  const fs::path root = mkdtemp(pattern);
  const auto quota = [&](const std::string& groups) {
    return relax_mlir::CgroupCpuQuota(groups, root.string());
  };

  CHECK_EQUAL(quota("0::/none\n"), 0);

  Write(root / "a/cpu.max", "150000 100000\n");
  Write(root / "a/b/cpu.max", "max 100000\n");
  CHECK_EQUAL(quota("0::/a/b\n"), 2);  // the parent's, rounded up

  Write(root / "a/b/cpu.max", "20000 100000\n");
  CHECK_EQUAL(quota("0::/a/b\n"), 1);

  Write(root / "cpu.max", "300000 100000\n");  // as seen inside a container
  CHECK_EQUAL(quota("0::/somewhere/on/the/host\n"), 3);

  Write(root / "cpu/v1/cpu.cfs_quota_us", "400000\n");
  Write(root / "cpu/v1/cpu.cfs_period_us", "100000\n");
  Write(root / "cpu/free/cpu.cfs_quota_us", "-1\n");
  Write(root / "cpu/free/cpu.cfs_period_us", "100000\n");
  CHECK_EQUAL(quota("5:memory:/v1\n4:cpu,cpuacct:/v1\n"), 4);
  CHECK_EQUAL(quota("4:cpuacct,cpu:/free\n"), 0);
  CHECK_EQUAL(quota("nonsense\n\n::\n"), 3);  // the last is the root of v2

  CHECK(relax_mlir::CpuCount() >= 1, "some processor runs this");
  CHECK_EQUAL(relax_rt2_cpu_count(), relax_mlir::CpuCount());
  fs::remove_all(root);
}

// Number of CPUs available to this process.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_CPU_COUNT_H_
#define RELAX_MLIR_RUNTIME_NATIVE_CPU_COUNT_H_

#include <string>

namespace relax_mlir {

// The cgroup quota in CPUs, rounded up; 0 if there is no quota.
//
// `groups` is the text of /proc/self/cgroup, `root` the mount point of the cgroup file systems.
// Source: Linux cgroup-v2 (cpu.max) and cgroup-v1 (cpu.cfs_quota_us); the tightest ancestor wins.
int CgroupCpuQuota(const std::string& groups, const std::string& root);

// At least 1.
int CpuCount();

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_CPU_COUNT_H_

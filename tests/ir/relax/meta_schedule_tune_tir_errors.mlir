// RUN: relax-opt %s -p relax-meta-schedule-tune-tir --expect-error | filecheck %s

// Pipeline text has no directory to write to.
// CHECK: error: {{.*}}`MetaScheduleTuneTIR`: expected `work_dir` and `max_trials_global`
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}

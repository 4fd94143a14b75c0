// RUN: relax-opt %s -p relax-meta-schedule-apply-database --expect-error | filecheck %s

// Pipeline text has no directory to read from.
// CHECK: error: {{.*}}`MetaScheduleApplyDatabase`: expected `work_dir`
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}

// RUN: relax-opt %s -p relax-meta-schedule-apply-database --expect-error | filecheck %s

// A pipeline's text has no folder to read from.
// CHECK: error: {{.*}}`MetaScheduleApplyDatabase`: expected `work_dir`
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}
